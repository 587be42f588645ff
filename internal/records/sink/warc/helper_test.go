package warc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/records/sink"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 11, 22, 12, 0, 0, 5e6, time.UTC)

// answered is the record of a page with that body, of a server that says little.
func answered(url, body string) *sink.Record {
	return exchanged(url, 200, fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: %d\r\n\r\n", len(body)), body, body)
}

// exchanged is the record of an exchange: an answer with that header, its body as it was
// framed, and without framing.
func exchanged(url string, status int, head, framed, payload string) *sink.Record {
	_, path, _ := strings.Cut(url, "://")
	host, path, _ := strings.Cut(path, "/")
	return &sink.Record{
		URL: url, Kind: "page", Status: status, FetchedAt: noon, Proto: "HTTP/1.1", RemoteAddr: "[::ffff:192.0.2.1]:443",
		Depth: 2, Referrer: "https://example.com/", Timings: sink.Timings{Total: 1500 * time.Millisecond},
		Links: []string{"https://example.com/a"}, Resources: []string{"https://example.com/i.png"},
		Exchange: &fetch.Capture{
			Request:  []byte("GET /" + path + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n"),
			Response: []byte(head + framed), Payload: []byte(payload),
		},
	}
}

// readRecord is a record with its block.
type readRecord struct {
	*Record
	block string
	end   int64
}

// requireRecords reads a whole archive.
func requireRecords(t *testing.T, path string) (all []readRecord) {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	return recordsIn(t, f, path)
}

// recordsIn reads a whole archive that is called name.
func recordsIn(t *testing.T, archive io.Reader, name string) (all []readRecord) {
	t.Helper()
	r := NewReader(archive)
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err, name)
		block, err := io.ReadAll(rec.Block)
		require.NoError(t, err)
		require.NoError(t, r.Finish(), name)
		all = append(all, readRecord{rec, string(block), r.Offset()})
	}
}

// open opens a directory and closes it with the test, if that is not done before.
func open(t *testing.T, dir string, cfg Config) *Writer {
	t.Helper()
	if cfg.Clock == nil {
		cfg.Clock = frozen{}
	}
	w, err := Open(dir, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.Close() })
	return w
}

// names is what a directory has.
func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// kinds is the types of records, by their first letters, with those of the answers large.
func kinds(all []readRecord) string {
	short := map[string]string{"warcinfo": "i", "response": "R", "revisit": "V", "request": "q", "metadata": "m"}
	var b strings.Builder
	for _, r := range all {
		b.WriteString(short[r.Get("WARC-Type")])
	}
	return b.String()
}

// answersIn is the URLs of the answers in all files of a directory, in the order in which
// they were written, and checks that every complete file is what its index says.
func answersIn(t *testing.T, dir string) (urls []string) {
	t.Helper()
	files, err := list(dir, DefaultPrefix)
	require.NoError(t, err)
	for _, f := range files {
		var lines bytes.Buffer
		for _, r := range requireRecords(t, f.path(dir)) {
			if kind := r.Get("WARC-Type"); kind == typeResponse || kind == typeRevisit {
				urls = append(urls, r.Get("WARC-Target-URI"))
				fmt.Fprintf(&lines, "%d %d\n", r.Offset, r.end-r.Offset)
			}
		}
		if !f.open {
			require.ElementsMatch(t, strings.Fields(lines.String()), offsetsIn(t, f.index(dir)), f.name)
		}
	}
	return urls
}

// offsetsIn is the offset and length of each line of an index, which must be sorted.
func offsetsIn(t *testing.T, path string) (all []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	before := ""
	for l := range strings.Lines(string(text)) {
		require.LessOrEqual(t, before, l, "not sorted")
		before = l
		e := parseLine(t, l)
		require.Equal(t, strings.TrimSuffix(filepath.Base(path), IndexEnding)+ending, e.Filename)
		all = append(all, e.Offset, e.Length)
	}
	return all
}
