package warc

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/conformance"
	"github.com/treadlight/crawl/record"
)

func member(text string) []byte {
	var b bytes.Buffer
	gz := gzip.NewWriter(&b)
	_, _ = gz.Write([]byte(text))
	_ = gz.Close()
	return b.Bytes()
}

func readAll(archive []byte) (n int, err error) {
	r := NewReader(bytes.NewReader(archive))
	for {
		if _, err := r.Next(); err != nil {
			return n, err
		}
		n++
	}
}

const smallest = "WARC/1.1\r\nWARC-Type: resource\r\nWARC-Record-ID: <urn:x:1>\r\nWARC-Date: 2026-11-22T12:00:00Z\r\nContent-Length: 2\r\n\r\nab\r\n\r\n"

func TestReaderIsStrict(t *testing.T) {
	n, err := readAll(append(member(smallest), member(smallest)...))
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, 2, n)
	for _, tc := range []struct{ old, with, want string }{
		{"WARC/1.1", "WARC/1.0", `record at 0: it begins with "WARC/1.0", not with WARC/1.1`},
		{"WARC/1.1\r\n", "WARC/1.1\n", `does not end in CR LF`},
		{"WARC-Type: resource\r\n", "", "it has no WARC-Type"},
		{"WARC-Date: ", "WARC-Date:", "is no field"},
		{"WARC-Date", "WARC Date", "is no field"},
		{"Length: 2", "Length: +2", `Content-Length "+2" is no length`},
		{"Length: 2", "Length: 02", `Content-Length "02" is no length`},
		{"Length: 2", "Length: 9223372036854775808", `is no length`},
		{"Length: 2", "Length: 1", `"b\r\n\r\n" stands behind its block, not two empty lines`},
		{"Length: 2", "Length: 6", `"" stands behind its block`},
		{"Length: 2", "Length: 7", io.ErrUnexpectedEOF.Error()},
		{"ab\r\n\r\n", "ab\r\n\r\n\r\n", "stands behind its block"},
		{"Content-Length", "WARC-Block-Digest: sha1:AAAA\r\nContent-Length", "its block has the digest sha1:"},
		{"WARC-Date", strings.Repeat("X: "+strings.Repeat("x", 1<<20)+"\r\n", 9) + "WARC-Date", "its header is too long"},
		{smallest, "", io.ErrUnexpectedEOF.Error()},
	} {
		require.Contains(t, smallest, tc.old)
		_, err := readAll(member(strings.Replace(smallest, tc.old, tc.with, 1)))
		require.ErrorContains(t, err, tc.want, "%q for %q", tc.with, tc.old)
	}
	for _, neither := range []string{"PK\x03\x04 and more", string(member(smallest)) + smallest} {
		_, err = readAll([]byte(neither))
		require.ErrorIs(t, err, gzip.ErrHeader)
	}
}

// An archive that is not compressed is read as strictly.
func TestReaderOfPlainRecords(t *testing.T) {
	n, err := readAll([]byte(smallest + smallest))
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, 2, n)
	for _, tc := range []struct {
		archive, want string
		begun         int
	}{
		{smallest + "WARC/1.0\r\n", `it begins with "WARC/1.0", not with WARC/1.1`, 1},
		{smallest + string(member(smallest)), "not with WARC/1.1", 1},
		{strings.Replace(smallest, "Length: 2", "Length: 1", 1), `"b\r\n\r" stands behind its block`, 1},
		{smallest + smallest[:1], io.ErrUnexpectedEOF.Error(), 1},
		{smallest + smallest[:len(smallest)-1], `"\r\n\r" stands behind its block`, 2},
	} {
		n, err := readAll([]byte(tc.archive))
		require.ErrorContains(t, err, tc.want)
		require.Equal(t, tc.begun, n, tc.want)
	}
}

// A file that was cut anywhere but between two records says so, and the records before the cut are there.
func TestReaderOfHalfAFile(t *testing.T) {
	one := member(smallest)
	archive := append(append([]byte{}, one...), one...)
	for n := range archive {
		count, err := readAll(archive[:n])
		if n%len(one) == 0 {
			require.ErrorIs(t, err, io.EOF)
		} else {
			require.ErrorIs(t, err, io.ErrUnexpectedEOF, "of %d bytes", n)
		}
		require.GreaterOrEqual(t, count, n/len(one))
	}
}

func TestFieldsOf(t *testing.T) {
	fields := must(FieldsOf(strings.NewReader("a: b\r\nc: d: e\r\n")))
	require.Equal(t, []Field{{"a", "b"}, {"c", "d: e"}}, fields)
	for text, want := range map[string]string{"a: b\r\nc": "unexpected EOF", "a\r\n": "is no field", "a: b\n": "CR LF"} {
		_, err := FieldsOf(strings.NewReader(text))
		require.ErrorContains(t, err, want, "%q", text)
	}
}

// FuzzReader: whatever a file holds, reading it ends, in an error or at its end, and what is read lies within it.
func FuzzReader(f *testing.F) {
	f.Add(member(smallest))
	f.Add(append(member(smallest), member(smallest)[:40]...))
	f.Add([]byte{0x1f, 0x8b})
	f.Fuzz(func(t *testing.T, archive []byte) {
		for _, text := range [][]byte{archive, member(string(archive))} {
			r := NewReader(bytes.NewReader(text))
			for {
				rec, err := r.Next()
				if err != nil {
					if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && r.Offset() != int64(len(text)) {
						t.Fatalf("the end is told of at %d of %d bytes", r.Offset(), len(text))
					}
					break
				}
				if rec.Offset < 0 || rec.Offset >= int64(len(text)) {
					t.Fatalf("a record at %d of %d bytes", rec.Offset, len(text))
				}
			}
		}
	})
}

// FuzzExchange: whatever was exchanged, it is read back as it was.
func FuzzExchange(f *testing.F) {
	f.Add("https://example.com/", "https://example.com/from", []byte("GET / HTTP/1.1\r\n\r\n"), []byte("HTTP/1.1 200 OK\r\n\r\nbody"), 4, 200)
	f.Add("x\r\ny", "\r\n\r\n", []byte("\r\n\r\n"), []byte("WARC/1.1\r\n\r\n"), 0, 304)
	f.Add("", "", []byte(nil), []byte("\n"), -1, 0)
	f.Fuzz(func(t *testing.T, url, via string, request, response []byte, payload, status int) {
		payload = min(max(payload, 0), len(response))
		rec := &record.Record{
			URL: url, Referrer: via, Kind: "page", Status: status, Depth: payload, FetchedAt: noon, Links: []string{url, via},
			Exchange: &record.Exchange{Request: request, Response: response, Payload: response[len(response)-payload:]},
		}
		known := must(newMemory(2))
		// Files are left out: a disk syncs a hundred times a second at best.
		w := &Writer{now: &file{name: "f"}, known: known}
		if len(response) == 0 {
			require.NoError(t, w.Write(rec))
			require.Zero(t, w.pending)
			return
		}
		require.NoError(t, w.exchange(rec))
		require.NoError(t, w.exchange(rec))
		all := recordsIn(t, &w.buf, "the exchange, twice")
		each := len(all) / 2
		for i, answer := range []readRecord{all[0], all[each]} {
			want := string(response)
			if answer.Get("WARC-Type") == typeRevisit {
				require.True(t, i == 1 || status == 304)
				want = want[:headerLength(response)]
			}
			require.Equal(t, want, answer.block)
			require.Equal(t, oneLine(url), answer.Get("WARC-Target-URI"))
		}
		if len(request) > 0 {
			require.Equal(t, string(request), all[1].block)
		}
		last := all[len(all)-1]
		fields := must(FieldsOf(strings.NewReader(last.block)))
		require.Equal(t, Field{"outlink", oneLine(via + " L")}, fields[len(fields)-1])
		require.Len(t, w.lines, 2)
		for _, l := range w.lines {
			require.Equal(t, 1, strings.Count(l, "\n"))
		}
	})
}

// readers is where `make readers` has put the archive reader of another house, from here.
const readers = "../../../../bin/readers/node_modules/warcio"

// requireWarcio is where that is. Without it the test is skipped, or fails in CI.
func requireWarcio(t *testing.T) (dir string) {
	t.Helper()
	dir = must(filepath.Abs(readers))
	_, err := os.Stat(dir)
	if err == nil {
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
func difficult() []*record.Record {
	binary := make([]byte, 100_000)
	for i := range binary {
		binary[i] = byte(i * i >> 5)
	}
	cut := answered("https://example.com/cut", "the beginning")
	cut.Exchange.Truncated = "length"
	robots := answered("https://example.com/robots.txt", "User-agent: *\nDisallow:\n")
	robots.Kind = "robots"
	gz := string(member("<p>compressed</p>"))
	return []*record.Record{
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

// What we write, the reader of another house reads, in a directory or a single file, compressed or not: the same
// records, headers and payloads; and the index that it makes of them is ours.
func TestWarcioReadsIt(t *testing.T) {
	warcio := requireWarcio(t)
	info := []Field{{"software", "Treadlight"}}
	_, archive, index := inArchive(t, Config{Info: info}, difficult()...)
	readByWarcio(t, warcio, archive)
	require.Equal(t, indexByWarcio(t, warcio, archive), indexed(t, index, true))
	for _, name := range []string{"named.warc", "named.warc.gz"} {
		path := filepath.Join(t.TempDir(), name)
		w := open(t, path, Config{Single: true, Info: info})
		writeAll(t, w, difficult()...)
		require.NoError(t, w.Close())
		readByWarcio(t, warcio, path)
		indexByWarcio(t, warcio, path)
	}
}

// readByWarcio has it read an archive of what is difficult, as we do.
func readByWarcio(t *testing.T, warcio, path string) {
	t.Helper()
	ours := requireRecords(t, path)

	script := must(filepath.Abs("testdata/read.mjs"))
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
	theirs := indexed(t, string(node(t, filepath.Join(warcio, "dist", "cli.js"), "cdx-index", path)), true)
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
		writeAll(t, w, numbered(i))
	}
	require.NoError(t, w.Flush())
	require.NoError(t, w.abandon())
	out, err := exec.CommandContext(t.Context(), "sh", "-c", "gzip -t < "+w.now.path(dir)).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// golden is what warcio and cdxj-indexer have made of the archive that archived writes.
const golden = "../../../../testdata/conformance/warc/index.cdxj"

// archived writes an archive of difficult exchanges, at URLs whose keys are difficult too.
func archived(t *testing.T) (archive, index string) {
	t.Helper()
	records := difficult()
	for i, uri := range []string{
		"https://www2.example.com/a//b/", "https://example.com/c%2Fd", "https://example.com/?b=%26a=1",
		"https://example.com/?b=1&PHPSESSID=0123456789abcdef0123456789abcdef", "https://user@example.com:8443/x",
		"https://[2001:db8::1]:8443/x", "http://127.0.0.1:8080/%7Euser/Ä?q=ü", "http://xn--bcher-kva.example/?A=1&a-b=2&a",
	} {
		records = append(records, answered(uri, fmt.Sprint("page ", i)))
	}
	_, archive, index = inArchive(t, Config{Info: []Field{{"software", "Treadlight"}}}, records...)
	return archive, index
}

// indexed are the entries of an index by key and time. Their lengths and offsets are left out if whole is false: they
// change with the identifiers of records.
func indexed(t *testing.T, text string, whole bool) map[string]entry {
	t.Helper()
	all := map[string]entry{}
	for l := range strings.Lines(text) {
		key, _, _ := strings.Cut(l, "{")
		e := parseLine(t, l)
		e.Digest = strings.TrimPrefix(e.Digest, "sha1:") // pywb itself writes it without
		if !whole {
			e.Length, e.Offset, e.Filename = "", "", ""
		}
		require.NotContains(t, all, key)
		all[key] = e
	}
	return all
}

// wrongDigests splits the lines of read.py: the URLs of records whose digest is wrong to warcio, and the index.
func wrongDigests(text string) (wrong []string, index string) {
	for l := range strings.Lines(text) {
		if uri, ok := strings.CutPrefix(l, "bad "); ok {
			wrong = append(wrong, strings.TrimSpace(uri))
		} else {
			index += l
		}
	}
	return wrong, index
}

// chunkedOnly are the records that warcio finds wrong: it digests the chunks as well, where WARC/1.1 has the payload
// without its transfer coding.
var chunkedOnly = []string{"http://a.test:8080/chunked"}

// Our index is the one that pywb's indexer makes, and the digests are right to warcio.
func TestIndexConforms(t *testing.T) {
	text := must(os.ReadFile(golden))
	wrong, theirs := wrongDigests(string(text))
	_, mine := archived(t)
	want, got := indexed(t, theirs, false), indexed(t, mine, false)
	require.Equal(t, want, got)
	require.Equal(t, chunkedOnly, wrong)
	conformance.Report(t, "warc", conformance.Result{
		Cases: 2 * len(want), Passed: 2*len(want) - len(wrong),
		Differs: map[string]int{"warcio takes the framing of chunks for a part of the payload, and its digest for wrong; WARC/1.1 has the payload without a transfer coding": len(wrong)},
	})
}

// Where Python has warcio and cdxj-indexer, they read what we write, and say what they have said.
func TestPythonReadsIt(t *testing.T) {
	if err := exec.CommandContext(t.Context(), "python3", "-c", "import warcio, cdxj_indexer").Run(); err != nil {
		t.Skipf("NOT RUN: Python has no warcio and cdxj_indexer: `pip install warcio cdxj-indexer` installs them")
	}
	path, mine := archived(t)
	script := must(filepath.Abs("testdata/read.py"))
	out, err := exec.CommandContext(t.Context(), "python3", "-W", "ignore", script, path).Output()
	require.NoError(t, err)
	wrong, theirs := wrongDigests(string(out))
	require.Equal(t, indexed(t, theirs, true), indexed(t, mine, true))
	require.Equal(t, chunkedOnly, wrong)
	if os.Getenv("UPDATE") != "" {
		require.NoError(t, os.WriteFile(golden, out, 0o600))
	}
	kept := must(os.ReadFile(golden))
	_, before := wrongDigests(string(kept))
	require.Equal(t, indexed(t, before, false), indexed(t, theirs, false))
}
