// Package recordtest has records for tests, and what every line of one keeps to.
package recordtest

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/treadlight/crawl/internal/document/jsontext"
	"github.com/treadlight/crawl/record"
)

// Full is a record with every field set.
func Full() *record.Record {
	return &record.Record{
		URL: "https://example.com/a?b=c", Kind: "page", Method: "POST", ID: "0123", Status: 200, Depth: 2, Referrer: "https://example.com/",
		FetchedAt: time.Date(2026, 11, 20, 16, 39, 1, 234e6, time.UTC), Attempt: 1, RedirectTo: "https://example.com/z",
		ContentType: "text/html", Charset: "utf-8", IgnoredCodings: "none", Bytes: 12345, WireBytes: 2345, Truncated: true, Digest: "sha256:00ff", SimHash: "00000000000000ff", Duplicate: "near", DuplicateOf: "http://a.test/", Change: "changed",
		Title: `Tee & "Kaffee" <b>`, Lang: "de",
		Meta:       record.Meta{Description: "d", Robots: "r", Generator: "g", Canonical: "https://example.com/c", OGTitle: "ot", OGType: "oy", OGImage: "oi"},
		Sitemap:    &record.Sitemap{Format: "urlset", URLs: 3, Sitemaps: 1, Extras: 2, Dropped: 4, Problems: 5, Problem: "line 7: x", LastModified: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
		Directives: []string{"noindex", "max-snippet:20"}, Next: "https://example.com/n", Prev: "https://example.com/p",
		Alternates:    []record.Alternate{{Href: "https://example.com/de", HrefLang: "de", Type: "text/html"}, {Href: "https://example.com/x"}},
		NofollowLinks: []string{"https://example.com/1"},
		Links:         []string{"https://example.com/1", `https://example.com/?\`}, Resources: []string{"https://example.com/i.png"}, Text: "a\nb\tc",
		Fields: record.Named{{Name: "f", Values: []string{"1"}, Number: true}}, FieldsError: "fe", Properties: record.Named{{Name: "og:a", Values: []string{"b", "c"}, List: true}},
		JSONLD: []json.RawMessage{json.RawMessage(`{"@type":"Article"}`)}, InvalidJSONLD: 2, MainText: "main", Markdown: "# Main\n",
		Body: "<p>\x00ü\u2028", BodyBase64: []byte("\xff\x00body"),
		Rendered:   &record.Rendered{Why: "app_root", Requests: 3, Refused: 1, Screenshot: "a.png", PDF: "a.pdf"},
		Timings:    record.Timings{Queue: 1500 * time.Microsecond, PermitWait: 1, DNS: time.Microsecond, Connect: 20 * time.Millisecond, TLS: 3 * time.Second, FirstByte: 10100 * time.Microsecond, Total: -1},
		RemoteAddr: "[::1]:443", Proto: "HTTP/1.1", Error: &record.Error{Class: "decode", Message: "gzip: invalid header"},
	}
}

// Fuzzed makes a record of what a fuzzer chose.
func Fuzzed(a, b, c string, n int64, flags uint8) *record.Record {
	r := &record.Record{
		URL: a, Kind: b, Status: int(n % 600), Depth: int(n), Referrer: c, FetchedAt: time.UnixMilli(n % 4e12).UTC(), Attempt: int(flags),
		RedirectTo: b, ContentType: c, Charset: a, IgnoredCodings: c, Bytes: n, WireBytes: -n, Truncated: flags&1 != 0, Digest: b, Change: c, Title: a + c, Lang: b,
		Text: c + b + a, RemoteAddr: b, Proto: c, Timings: record.Timings{Queue: time.Duration(n), TLS: time.Duration(n / 3), Total: -time.Duration(n)},
	}
	r.Timings.Queue %= 1e15 // float64 holds microseconds of 285 years, and no more
	r.Timings.TLS %= 1e15
	r.Timings.Total %= 1e15
	if flags&2 != 0 {
		r.Body, r.BodyBase64 = b, []byte(a+c)
		r.Meta, r.Links = record.Meta{Description: a, OGTitle: c, Robots: b}, []string{a, b, c}
	}
	if flags&8 != 0 {
		r.Directives, r.NofollowLinks, r.Next, r.Prev = []string{a, c}, []string{b}, c, a
		r.Alternates = []record.Alternate{{Href: a, HrefLang: b, Type: c}, {Href: b}}
	}
	if flags&4 != 0 {
		r.Error, r.Resources = &record.Error{Class: a, Message: c}, []string{c}
	}
	return r
}

// Seeds adds what a fuzzer begins with.
func Seeds(f *testing.F) {
	f.Add("https://example.com/", "page", "=cmd|' /C calc'!A0", int64(1234567890123), uint8(7))
	f.Add("\xff\x00\u2028\u009b", "a\"b\\c\n", "ü,\r\n\t", int64(-5), uint8(2))
	f.Add("", " ", ",", int64(0), uint8(0))
}

// CheckLine fails if a line is none, or holds what a terminal would obey.
func CheckLine(t *testing.T, line []byte) {
	t.Helper()
	if !utf8.Valid(line) || bytes.Count(line, []byte("\n")) != 1 || line[len(line)-1] != '\n' {
		t.Fatalf("%q is not one line of UTF-8", line)
	}
	for _, r := range string(line[:len(line)-1]) {
		if r < ' ' || r == 0x7f || jsontext.IsUnsafe(r) {
			t.Fatalf("%q holds %U", line, r)
		}
	}
}
