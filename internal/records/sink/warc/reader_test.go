package warc

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/records/sink"
)

// member is text as a gzip member.
func member(text string) []byte {
	var b bytes.Buffer
	gz := gzip.NewWriter(&b)
	_, _ = gz.Write([]byte(text))
	_ = gz.Close()
	return b.Bytes()
}

// readAll reads an archive to its end.
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

// A file that was cut anywhere but between two records says so, and the records before the
// cut are there.
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
	fields, err := FieldsOf(strings.NewReader("a: b\r\nc: d: e\r\n"))
	require.NoError(t, err)
	require.Equal(t, []Field{{"a", "b"}, {"c", "d: e"}}, fields)
	for text, want := range map[string]string{"a: b\r\nc": "unexpected EOF", "a\r\n": "is no field", "a: b\n": "CR LF"} {
		_, err = FieldsOf(strings.NewReader(text))
		require.ErrorContains(t, err, want, "%q", text)
	}
}

// FuzzReader: whatever a file holds, reading it ends, in an error or at its end, and what
// is read lies within it.
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
		rec := &sink.Record{
			URL: url, Referrer: via, Kind: "page", Status: status, Depth: payload, FetchedAt: noon, Links: []string{url, via},
			Exchange: &fetch.Capture{Request: request, Response: response, Payload: response[len(response)-payload:]},
		}
		known, err := newMemory(2)
		require.NoError(t, err)
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
		fields, err := FieldsOf(strings.NewReader(last.block))
		require.NoError(t, err)
		require.Equal(t, Field{"outlink", oneLine(via + " L")}, fields[len(fields)-1])
		require.Len(t, w.lines, 2)
		for _, l := range w.lines {
			require.Equal(t, 1, strings.Count(l, "\n"))
		}
	})
}
