package cli

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func compressed(text string) string {
	var b bytes.Buffer
	gz := gzip.NewWriter(&b)
	_, _ = gz.Write([]byte(text))
	_ = gz.Close()
	return b.String()
}

func TestKindOf(t *testing.T) {
	long := strings.Repeat("x", 64<<10)
	for _, tc := range []struct{ head, want string }{
		{`{"url":"http://a.test/","kind":"page","depth":0,"fetched_at":"2026-01-02T03:04:05Z"}` + "\n", "records"},
		{`{"url":"http://a.test/","kind":"page","depth":0,"fetched_at":"2026-01-02T03:04:05Z","text":"` + long, "records"},
		{"url,kind,status,depth\nhttp://a.test/,page,200,0\n", "--format csv"},
		{`{"time":"2026-01-02T03:04:05.000Z","elapsed_seconds":1}`, "crawl stats"},
		{`{"time":"2026-01-02T03:04:05.000Z","host":"a.test","cause":"refused"}`, "output.events"},
		{`{"url":"http://b.test/","reason":"other_host","detail":"host b.test is not a seed host","referrer":"http://a.test/"}`, "output.skipped"},
		{`{"url":"http://b.test/","kind":"page","depth":0,"fetched_at":"2026-01-02T03:04:05Z","fields":{"reason":"x","detail":"y"}}`, "records"},
		{"\nhttps://a.test/\nhttps://b.test/\n", "--input-file"},
		{`{"a":1}`, "another kind"},
		{`{`, "another kind"},
		{"\x1f\x8b\x08", "gzip"},
		{compressed("hello, world"), "gzip"},
		{compressed("WARC/1.1\r\nWARC-Type: warcinfo\r\n"), "WARC"},
		{"WARC/1.0\r\nWARC-Type: warcinfo\r\n", "WARC"},
		{`com,example)/ 20261122120000 {"url":"https://example.com/"}`, "index"},
		{"\x7fELF\x00", "no text"},
		{"SQLite format 3\x00", "database"},
		{"", ""},
		{"concurrency: 5\n", ""},
		{"hello", ""},
	} {
		got := kindOf([]byte(tc.head))
		if tc.want == "" {
			require.Empty(t, got, tc.head)
		} else {
			require.Contains(t, got, tc.want, tc.head[:min(40, len(tc.head))])
		}
	}
}
