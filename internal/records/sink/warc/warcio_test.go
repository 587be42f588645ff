package warc

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/records/sink"
)

// readers is where `make readers` has put the archive reader of another house, from here.
const readers = "../../../../bin/readers/node_modules/warcio"

// requireWarcio is where that is. Without it the test is skipped, or fails in CI.
func requireWarcio(t *testing.T) (dir string) {
	t.Helper()
	dir, err := filepath.Abs(readers)
	require.NoError(t, err)
	if _, err = os.Stat(dir); err == nil {
		_, err = exec.LookPath("node")
	}
	switch {
	case err == nil:
	case os.Getenv("CI") != "":
		t.Fatalf("warcio: %v: `make readers` installs it", err)
	default:
		t.Skipf("NOT RUN: warcio: %v: `make readers` installs it", err)
	}
	return dir
}

// node runs a script and returns what it prints.
func node(t *testing.T, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "node", args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	require.NoError(t, err, "%s", errs.String())
	require.Empty(t, errs.String(), "it warns")
	return out
}

// difficult is exchanges with what archives have trouble with.
func difficult() []*sink.Record {
	binary := make([]byte, 100_000)
	for i := range binary {
		binary[i] = byte(i * i >> 5)
	}
	cut := answered("https://example.com/cut", "the beginning")
	cut.Exchange.Truncated = "length"
	robots := answered("https://example.com/robots.txt", "User-agent: *\nDisallow:\n")
	robots.Kind = "robots"
	gz := string(member("<p>compressed</p>"))
	return []*sink.Record{
		robots,
		answered("https://www.example.com/Page?b=2&a=1", "<p>hello</p>"),
		answered("https://example.com/again", "<p>hello</p>"),
		exchanged("http://a.test:8080/chunked", 200, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n",
			"5\r\nhello\r\n7;x=y\r\n, world\r\n0\r\n\r\n", "hello, world"),
		exchanged("http://a.test/gzip", 200, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\n\r\n", gz, gz),
		exchanged("http://a.test/binary", 200, "HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n\r\n", string(binary), string(binary)),
		exchanged("http://a.test/warc", 200, "HTTP/1.1 200 OK\r\nContent-Type: application/warc\r\n\r\n", smallest+smallest, smallest+smallest),
		exchanged("http://a.test/old", 404, "HTTP/1.0 404 \r\nContent-Type: text/html\r\n\r\n", "none", "none"),
		exchanged("http://a.test/moved", 301, "HTTP/1.1 301 Moved Permanently\r\nLocation: /b\r\nContent-Length: 0\r\n\r\n", "", ""),
		exchanged("http://a.test/same", 304, "HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\n\r\n", "", ""),
		answered("http://a.test/empty", ""),
		cut,
	}
}

// What we write, the reader of another house reads: the same records, headers and payloads;
// and the index that it makes of them is ours.
func TestWarcioReadsIt(t *testing.T) {
	warcio := requireWarcio(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "treadlight-20261122120000-00001.warc.gz")
	writeDifficult(t, dir, Config{})
	readByWarcio(t, warcio, path)
	theirs := indexByWarcio(t, warcio, path)
	mine, err := os.ReadFile(filepath.Join(dir, "treadlight-20261122120000-00001.cdxj"))
	require.NoError(t, err)
	for l := range strings.Lines(string(mine)) {
		e := parseLine(t, l)
		key, _, _ := strings.Cut(l, "{")
		require.Equal(t, theirs[key], e, key)
		delete(theirs, key)
	}
	require.Empty(t, theirs)
}

// And a single file, compressed or not.
func TestWarcioReadsASingleFile(t *testing.T) {
	warcio := requireWarcio(t)
	for _, name := range []string{"named.warc", "named.warc.gz"} {
		path := filepath.Join(t.TempDir(), name)
		writeDifficult(t, path, Config{Single: true})
		readByWarcio(t, warcio, path)
		indexByWarcio(t, warcio, path)
	}
}

// writeDifficult archives what is difficult.
func writeDifficult(t *testing.T, path string, cfg Config) {
	t.Helper()
	cfg.Info = []Field{{"software", "Treadlight"}}
	w := open(t, path, cfg)
	for _, r := range difficult() {
		require.NoError(t, w.Write(r))
	}
	require.NoError(t, w.Close())
}

// readByWarcio has it read an archive of what is difficult, as we do.
func readByWarcio(t *testing.T, warcio, path string) {
	t.Helper()
	ours := requireRecords(t, path)

	script, err := filepath.Abs("testdata/read.mjs")
	require.NoError(t, err)
	lines := bufio.NewScanner(bytes.NewReader(node(t, script, filepath.Join(warcio, "dist", "index.js"), path)))
	n := 0
	for ; lines.Scan(); n++ {
		var got struct {
			Fields  map[string]string
			Offset  int64
			Status  int
			Payload string // its digest
			Size    int
			HTTP    map[string]string
		}
		require.NoError(t, json.Unmarshal(lines.Bytes(), &got), "%s", lines.Text())
		want := ours[n]
		require.Equal(t, want.Offset, got.Offset)
		require.Len(t, got.Fields, len(want.Fields))
		for _, f := range want.Fields {
			require.Equal(t, f.Value, got.Fields[strings.ToLower(f.Name)], f.Name)
		}
		// It digests what is behind the header as it stands there, chunks and all.
		if digest := want.Get("WARC-Payload-Digest"); want.Get("WARC-Type") == typeResponse && got.HTTP["transfer-encoding"] == "" {
			require.Equal(t, digest, "sha1:"+got.Payload, want.Get("WARC-Target-URI"))
		}
		if want.Get("WARC-Type") == typeResponse {
			require.Equal(t, len(want.block)-headerLength([]byte(want.block)), got.Size)
		}
	}
	require.Len(t, ours, n)
	require.Equal(t, 1+3*len(difficult()), n)
}

// indexByWarcio is its index of an archive of what is difficult, by key and time.
func indexByWarcio(t *testing.T, warcio, path string) map[string]entry {
	t.Helper()
	theirs := map[string]entry{}
	index := node(t, filepath.Join(warcio, "dist", "cli.js"), "cdx-index", path)
	for l := range strings.Lines(string(index)) {
		e := parseLine(t, l)
		key, _, _ := strings.Cut(l, "{")
		theirs[key] = e
	}
	require.Len(t, theirs, len(difficult()))
	return theirs
}

// `gzip -t` takes complete files, and those that a kill has left as far as they go.
func TestGzipReadsIt(t *testing.T) {
	if _, err := exec.LookPath("gzip"); err != nil {
		t.Skip("NOT RUN: there is no gzip here")
	}
	dir := t.TempDir()
	w := open(t, dir, Config{})
	for i := range 20 {
		require.NoError(t, w.Write(answered(fmt.Sprint("http://a.test/", i), fmt.Sprint(i))))
	}
	require.NoError(t, w.Flush())
	require.NoError(t, w.abandon())
	out, err := exec.CommandContext(t.Context(), "sh", "-c", "gzip -t < "+w.now.path(dir)).CombinedOutput()
	require.NoError(t, err, "%s", out)
}
