package warc

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/conformance"
)

// The cases are in testdata/conformance/surt.
func TestSurt(t *testing.T) {
	text, err := os.ReadFile("../../../../testdata/conformance/surt/cases.txt")
	require.NoError(t, err)
	passed, all := 0, 0
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		uri, want, ok := strings.Cut(line, "\t")
		require.True(t, ok, line)
		if all++; surt(uri) == want {
			passed++
		} else {
			t.Errorf("surt(%q) = %q, want %q", uri, surt(uri), want)
		}
	}
	if !t.Failed() {
		conformance.Report(t, "surt", conformance.Result{Cases: all, Passed: passed})
	}
}

// URLs that are not of the web are their own keys, and a key is one word.
func TestSurtOfOthers(t *testing.T) {
	for in, want := range map[string]string{
		"dns:example.com": "dns:example.com", "": "", "urn:x y": "urn:x%20y", "http://a.test/\xff ü": "test,a)/%ff%20%c3%bc",
	} {
		require.Equal(t, want, surt(in))
	}
}

func TestStatusAndMime(t *testing.T) {
	for _, tc := range []struct{ head, status, mime string }{
		{"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n", "200", "text/html"},
		{"HTTP/1.0 404\ncontent-type:text/plain\n\n", "404", "text/plain"},
		{"HTTP/1.1 204 No Content\r\n\r\n", "204", ""},
		{"HTTP/1.1 2000 x\r\nContent-Type\r\n\r\n", "", ""},
		{"garbage", "", ""},
		{"", "", ""},
	} {
		status, mime := statusAndMime([]byte(tc.head))
		require.Equal(t, tc.status, status, tc.head)
		require.Equal(t, tc.mime, mime, tc.head)
	}
}

func TestHeadOf(t *testing.T) {
	for head, body := range map[string]string{
		"HTTP/1.1 200 OK\r\nA: b\r\n\r\n": "\r\n\r\nbody",
		"HTTP/1.1 200 OK\nA: b\n\n":       "\n\n",
		"HTTP/1.1 200 OK\r\n\r\n":         "",
		"HTTP/1.1 200 OK\r\nA: b":         "",
		"":                                "",
	} {
		require.Equal(t, len(head), headerLength([]byte(head+body)), "%q", head)
		require.Equal(t, head, string(readHead(strings.NewReader(head+body))), "%q", head)
	}
}

// What a stranger calls a media type stays one text of a line.
func TestLineIsOne(t *testing.T) {
	l := line(typeResponse, "http://a.test/\"\\", "2026-11-22T12:00:00Z", "", []byte("HTTP/1.1 200 OK\r\nContent-Type: \"\xff\u2028\r x\r\n\r\n"), 1, 2, "f")
	require.Equal(t, 1, strings.Count(l, "\n"))
	require.Equal(t, "http://a.test/\"\\", parseLine(t, l).URL)
	require.True(t, strings.HasPrefix(l, `test,a)/"\ 20261122120000 {"url":`), l)
}

func TestNames(t *testing.T) {
	require.Equal(t, "p-20261122120000-00007.warc.gz", nameOf("p", "", 7, noon))
	require.Equal(t, "p-20261122120000-123456-b-cher.warc.gz", nameOf("p", "bücher", 123456, noon))
	require.Equal(t, "p-20261122120000-00001.warc.gz", nameOf("p", "../-", 1, noon))
	require.Equal(t, strings.Repeat("x", 64), hostPart(strings.Repeat("x", 300)))
}
