package warc

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha1" //nolint:gosec // see record.go
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
)

const (
	// seriesOffset is the field of a warcinfo that contains the number of bytes of the series before its file. It
	// serves to find the file of a position, even if earlier files are gone.
	seriesOffset = "series-offset"
	// advice says what to do when archives are not as a crawl left them.
	advice = "put the files back as they were, or begin the crawl anew with --overwrite, without 'resume'"
	// maxIndexLine is the longest line of an index that is read, in bytes. URLs are much shorter.
	maxIndexLine = 1 << 20
)

// Cut returns how many bytes Append has cut off: an exchange that a crash had left incomplete.
func (w *Writer) Cut() int64 { return w.cut }

// reading calls read with a Reader of a file, from that offset on.
func reading(path string, offset int64, read func(r *Reader) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return err
	}
	return read(NewReader(f))
}

// endOfLastExchange returns the position behind the last whole exchange of the series, and how many bytes follow it.
// Only the last files may be incomplete; those without a whole record have nothing to lose.
func (w *Writer) endOfLastExchange(files []*file) (position, behind int64, err error) {
	for _, f := range slices.Backward(files) {
		path := f.path(w.dir)
		info, err := os.Stat(path)
		if err != nil {
			return 0, 0, err
		}
		start, err := startOf(path)
		switch {
		case err != nil && f.open && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)):
			behind += info.Size()
			continue
		case err != nil:
			return 0, 0, fmt.Errorf("%s cannot be gone on behind (%w): put it back as it was, or choose another directory", path, err)
		case !f.open:
			return start + info.Size(), behind, nil
		}
		end, err := lastExchange(path)
		return start + end, behind + info.Size() - end, err
	}
	return 0, behind, nil
}

// lastExchange returns where the last whole exchange of a file ends, or its warcinfo if there is none. An exchange ends
// with its metadata record.
func lastExchange(path string) (end int64, err error) {
	err = reading(path, 0, func(r *Reader) error {
		for {
			rec, err := r.Next()
			if err == nil {
				err = r.Finish()
			}
			if disk, ok := errors.AsType[*fs.PathError](err); ok {
				return disk
			}
			if err != nil { // the end, or the rest that a crash has left
				return nil //nolint:nilerr // what is whole counts
			}
			if kind := rec.Get("WARC-Type"); kind == typeMetadata || kind == typeInfo {
				end = r.Offset()
			}
		}
	})
	return end, err
}

// resume truncates the series to the position: it cuts the file that contains the position and removes those behind. It
// changes nothing before it is certain that this is possible.
func (w *Writer) resume(files []*file) error {
	if w.cfg.Position == 0 {
		return w.removeFiles(files)
	}
	at, start := w.covering(files)
	if at < 0 && w.cfg.Single {
		return fmt.Errorf("%s is not the archive to whose byte %d the crawl to resume had written: %s", w.path, w.cfg.Position, advice)
	}
	if at < 0 {
		return fmt.Errorf("no file in %s begins before byte %d of the archives, to which the crawl to resume had written: %s", w.dir, w.cfg.Position, advice)
	}
	f := files[at]
	path := f.path(w.dir)
	w.start, w.size, w.now = start, w.cfg.Position-start, f
	w.rememberEarlier(files[:at])
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.Size() < w.size {
		return fmt.Errorf("%s has %d bytes, but the crawl to resume had written %d: %s", path, info.Size(), w.size, advice)
	}
	if err := w.scan(path); err != nil {
		return fmt.Errorf("%s was changed, or no record ends at byte %d where the crawl to resume had written to (%w): %s", path, w.size, err, advice)
	}
	if err := w.removeFiles(files[at+1:]); err != nil {
		return err
	}
	w.serial = f.serial
	if !f.open && info.Size() == w.size { // the file is complete and ends at the position
		w.start, w.size, w.now, w.lines = w.cfg.Position, 0, nil, nil
		w.serial++
		return nil
	}
	return w.reopen(f)
}

// covering returns the index of the last file that begins before the position, and where that file begins; -1 if there
// is none. It skips files whose first record is not whole, since these begin behind the position.
func (w *Writer) covering(files []*file) (at int, start int64) {
	for i, f := range slices.Backward(files) {
		if begin, err := startOf(f.path(w.dir)); err == nil && begin < w.cfg.Position {
			return i, begin
		}
	}
	return -1, 0
}

// startOf returns how many bytes of the series precede a file.
func startOf(path string) (start int64, err error) {
	err = reading(path, 0, func(r *Reader) error {
		rec, err := r.Next()
		if err != nil {
			return err
		}
		fields, err := FieldsOf(rec.Block)
		if err != nil {
			return err
		}
		info := Record{Fields: fields}
		text := info.Get(seriesOffset)
		if text == "" {
			return errors.New("its first record is not of a series")
		}
		start, err = strconv.ParseInt(text, 10, 64)
		return err
	})
	return start, err
}

// scan reads the file up to w.size, where a record must end, and restores what the Writer knows about it: the lines of
// its index, the ID of its warcinfo, and its payloads.
func (w *Writer) scan(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	r := NewReader(io.LimitReader(f, w.size))
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch kind := rec.Get("WARC-Type"); kind {
		case typeInfo:
			w.info = rec.Get("WARC-Record-ID")
		case typeResponse, typeRevisit:
			head := readHead(rec.Block)
			if err := r.Finish(); err != nil {
				return err
			}
			payload := rec.Get("WARC-Payload-Digest")
			if !w.cfg.Single {
				w.lines = append(w.lines, line(kind, rec.Get("WARC-Target-URI"), rec.Get("WARC-Date"), payload, head, rec.Offset, r.Offset()-rec.Offset, w.now.name))
			}
			if digest, ok := readDigest(payload); ok {
				if o, ok := originalOf(rec, digest); ok { // remember its payload
					w.known.add(digest, o)
				}
			}
		}
	}
}

func readHead(block io.Reader) (head []byte) {
	text := bufio.NewReader(io.LimitReader(block, maxHeader))
	for {
		l, err := text.ReadBytes('\n')
		head = append(head, l...)
		if err != nil || len(bytes.TrimRight(l, "\r\n")) == 0 {
			return head // Finish returns what is wrong with the record
		}
	}
}

// reopen continues a file that ends at w.size, or cuts it there. If the file was complete, it loses first its index and
// then its final name.
func (w *Writer) reopen(f *file) error {
	if !f.open {
		if err := os.Remove(f.index(w.dir)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		from := f.path(w.dir)
		f.open = true
		if err := os.Rename(from, f.path(w.dir)); err != nil {
			return err
		}
	}
	out, err := os.OpenFile(f.path(w.dir), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	err = out.Truncate(w.size)
	if err == nil && w.cfg.Credentials { // earlier runs may have left credentials out
		err = out.Chmod(w.mode())
	}
	if err != nil {
		return errors.Join(err, out.Close())
	}
	w.attach(f, out)
	return nil
}

// A resumed crawl knows earlier payloads from the indexes, which contain their digest and place. Date and ID are read
// from the record when a revisit needs them. Payloads without a file or an index are stored again.

type place struct {
	path   string
	offset int64
}

// pointer is what an index says about a response.
type pointer struct {
	digest [sha1.Size]byte
	uri    string
	place
}

// rememberEarlier adds the payloads of complete files to memory: the latest ones, as many as fit.
func (w *Writer) rememberEarlier(files []*file) {
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

// pointers returns the last responses of a complete file, at most most of them, in their order.
func (w *Writer) pointers(f *file, most int) (all []*pointer) {
	in, err := os.Open(f.index(w.dir))
	if err != nil {
		return nil
	}
	defer func() { _ = in.Close() }() // it was only read
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxIndexLine)
	for lines.Scan() {
		text := lines.Bytes()
		var e entry
		if json.Unmarshal(text[max(bytes.IndexByte(text, '{'), 0):], &e) != nil || e.Mime == revisitMime || e.Filename != f.name {
			continue
		}
		p := &pointer{uri: e.URL, place: place{path: f.path(w.dir)}}
		var ok bool
		if p.digest, ok = readDigest("sha1:" + e.Digest); !ok {
			continue
		}
		if p.offset, err = strconv.ParseInt(e.Offset, 10, 64); err == nil {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b *pointer) int { return cmp.Compare(a.offset, b.offset) })
	return slices.Clone(all[max(0, len(all)-most):])
}

// readDigest parses a digest as archives write it. It reports false if the digest is invalid or is that of an empty
// payload.
func readDigest(text string) (digest [sha1.Size]byte, ok bool) {
	text, ok = strings.CutPrefix(text, "sha1:")
	raw, err := base32.StdEncoding.DecodeString(text)
	if nothing := sum(); !ok || err != nil || len(raw) != len(nothing) || bytes.Equal(raw, nothing[:]) {
		return digest, false
	}
	return [sha1.Size]byte(raw), true
}

// read reads what the record at a place says about itself. It reports false unless there is still a response with the
// whole payload.
func (p *place) read(digest [sha1.Size]byte) (o original, ok bool) {
	_ = reading(p.path, p.offset, func(r *Reader) error { // if this fails, the payload is stored once more
		rec, err := r.Next()
		if err == nil {
			o, ok = originalOf(rec, digest)
		}
		return err
	})
	return o, ok
}

// originalOf returns what revisits say about a response. It reports false unless the record is a response with the
// whole payload.
func originalOf(rec *Record, digest [sha1.Size]byte) (o original, ok bool) {
	if rec.Get("WARC-Type") != typeResponse || rec.Get("WARC-Truncated") != "" || rec.Get("WARC-Payload-Digest") != digestText(digest) {
		return o, false
	}
	return original{uri: rec.Get("WARC-Target-URI"), date: rec.Get("WARC-Date"), id: rec.Get("WARC-Record-ID")}, true
}
