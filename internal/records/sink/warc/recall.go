package warc

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha1" //nolint:gosec // see record.go
	"encoding/base32"
	"encoding/json"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

// A crawl that goes on knows the payloads of its earlier files by their indexes. Those have no
// more than digest and place of each response; date and ID, which a revisit must have as they
// are, are read from the record itself once there is a revisit to it. A file that has been moved
// away, or has lost its index, is as if it had never been: its payloads are stored once more.

// place is where the record of a response begins.
type place struct {
	path   string
	offset int64
}

// maxIndexLine is the longest line of an index that is read. URLs are much shorter.
const maxIndexLine = 1 << 20

// recallEarlier knows the payloads of complete files again, of the latest as many as may be
// remembered.
func (w *Writer) recallEarlier(files []*file) {
	var known [][]*pointer
	for left := w.cfg.Remember; left > 0 && len(files) > 0; files = files[:len(files)-1] {
		some := w.pointers(files[len(files)-1], left)
		known = append(known, some)
		left -= len(some)
	}
	for _, some := range slices.Backward(known) {
		for _, p := range some {
			w.known.add(p.digest, original{uri: p.uri, at: &p.place})
		}
	}
}

// pointer is what an index knows of a response.
type pointer struct {
	digest [sha1.Size]byte
	uri    string
	place
}

// pointers are the last responses of a complete file, at most so many, in their order.
func (w *Writer) pointers(f *file, most int) (all []*pointer) {
	in, err := os.Open(f.index(w.dir))
	if err != nil {
		return nil
	}
	defer func() { _ = in.Close() }() // it was only read
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxIndexLine)
	for lines.Scan() {
		_, text, ok := bytes.Cut(lines.Bytes(), []byte{'{'})
		var e entry
		if !ok || json.Unmarshal(append([]byte{'{'}, text...), &e) != nil || e.Mime == revisitMime || e.Filename != f.name {
			continue
		}
		p := &pointer{uri: e.URL, place: place{path: f.path(w.dir)}}
		if p.offset, err = strconv.ParseInt(e.Offset, 10, 64); err != nil || !readDigest(e.Digest, &p.digest) {
			continue
		}
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *pointer) int { return cmp.Compare(a.offset, b.offset) })
	return slices.Clone(all[max(0, len(all)-most):])
}

// readDigest reads a digest as archives have it, and reports whether it is one of something.
func readDigest(text string, digest *[sha1.Size]byte) bool {
	raw, err := base32.StdEncoding.DecodeString(text)
	nothing := sum()
	if err != nil || len(raw) != len(nothing) || string(raw) == string(nothing[:]) {
		return false
	}
	copy(digest[:], raw)
	return true
}

// read is what the record at a place says of itself, if it is there still and is a response
// with all of that payload.
func (p *place) read(digest [sha1.Size]byte) (o original, ok bool) {
	f, err := os.Open(p.path)
	if err != nil {
		return o, false
	}
	defer func() { _ = f.Close() }() // it was only read
	if _, err := f.Seek(p.offset, io.SeekStart); err != nil {
		return o, false
	}
	rec, err := NewReader(f).Next()
	if err != nil {
		return o, false
	}
	return originalOf(rec, digest)
}

// originalOf is what revisits say of a response, if it is one that has all of that payload.
func originalOf(rec *Record, digest [sha1.Size]byte) (o original, ok bool) {
	if rec.Get("WARC-Type") != typeResponse || rec.Get("WARC-Truncated") != "" ||
		rec.Get("WARC-Payload-Digest") != digestText(digest) {
		return o, false
	}
	return original{uri: rec.Get("WARC-Target-URI"), date: rec.Get("WARC-Date"), id: rec.Get("WARC-Record-ID")}, true
}

// recall knows the payload of a response again, as the run did that wrote it.
func (w *Writer) recall(rec *Record) {
	var digest [sha1.Size]byte
	text, ok := strings.CutPrefix(rec.Get("WARC-Payload-Digest"), "sha1:")
	if !ok || !readDigest(text, &digest) {
		return
	}
	if o, ok := originalOf(rec, digest); ok {
		w.known.add(digest, o)
	}
}
