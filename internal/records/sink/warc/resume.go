package warc

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

// seriesOffset is the field of a warcinfo that has the bytes of the series before its file.
// By it the file that a position lies in is found, whatever became of those before.
const seriesOffset = "series-offset"

// about is what the warcinfo of the file that begins says.
func (w *Writer) about() []Field {
	fields := append([]Field(nil), w.cfg.Info...)
	return append(fields,
		Field{"format", "WARC File Format 1.1"},
		Field{"conformsTo", "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/"},
		Field{seriesOffset, strconv.FormatInt(w.start+w.size, 10)})
}

// mend is what helps when archives are not as a crawl left them.
const mend = "put the files back as they were, or begin the crawl anew with --overwrite, without 'resume'"

// resume brings the series back to the position: the file that it lies in ends there, and
// those behind are gone. Nothing is changed before it is known that this can be done.
func (w *Writer) resume(files []*file) error {
	if w.cfg.Position == 0 {
		return w.drop(files)
	}
	at, start := w.covering(files)
	if at < 0 && w.cfg.Single {
		return fmt.Errorf("%s is not the archive to whose byte %d the crawl to resume had written: %s", w.path, w.cfg.Position, mend)
	}
	if at < 0 {
		return fmt.Errorf("no file in %s begins before byte %d of the archives, to which the crawl to resume had written: %s", w.dir, w.cfg.Position, mend)
	}
	f := files[at]
	w.start, w.size = start, w.cfg.Position-start
	w.now = f
	w.recallEarlier(files[:at])
	info, err := os.Stat(f.path(w.dir))
	if err != nil {
		return err
	}
	if info.Size() < w.size {
		return fmt.Errorf("%s has %d bytes, but the crawl to resume had written %d: %s", f.path(w.dir), info.Size(), w.size, mend)
	}
	if err := w.scan(f.path(w.dir)); err != nil {
		return fmt.Errorf("%s was changed, or no record ends at byte %d where the crawl to resume had written to (%w): %s",
			f.path(w.dir), w.size, err, mend)
	}
	if err := w.drop(files[at+1:]); err != nil {
		return err
	}
	w.serial = f.serial
	if !f.open && info.Size() == w.size { // it is complete, and that is all there is
		w.start, w.size, w.now, w.lines = w.cfg.Position, 0, nil, nil
		w.serial++
		return nil
	}
	return w.reopen(f)
}

// covering is the last file that begins before the position, and where it begins; -1 if
// there is none. A file of which not even the first record is whole begins behind it.
func (w *Writer) covering(files []*file) (at int, start int64) {
	for i, f := range slices.Backward(files) {
		if begin, err := startOf(f.path(w.dir)); err == nil && begin < w.cfg.Position {
			return i, begin
		}
	}
	return -1, 0
}

// startOf reads how many bytes of the series are before the file.
func startOf(path string) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }() // it was only read
	r := NewReader(f)
	rec, err := r.Next()
	if err != nil {
		return 0, err
	}
	fields, err := FieldsOf(rec.Block)
	if err != nil {
		return 0, err
	}
	for _, f := range fields {
		if f.Name == seriesOffset {
			return strconv.ParseInt(f.Value, 10, 64)
		}
	}
	return 0, errors.New("its first record is not of a series")
}

// scan reads the file up to w.size, where a record must end, and has what the Writer knows
// of it: the lines of its index, the ID of its warcinfo, and its payloads.
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
			if !w.cfg.Single {
				w.lines = append(w.lines, line(kind, rec.Get("WARC-Target-URI"), rec.Get("WARC-Date"), rec.Get("WARC-Payload-Digest"),
					head, rec.Offset, r.Offset()-rec.Offset, w.now.name))
			}
			w.recall(rec)
		}
	}
}

// readHead reads the header of an HTTP message.
func readHead(block io.Reader) (head []byte) {
	text := bufio.NewReader(io.LimitReader(block, maxHeader))
	for {
		l, err := text.ReadBytes('\n')
		head = append(head, l...)
		if err != nil || len(strings.TrimRight(string(l), "\r\n")) == 0 {
			return head // what is wrong with the record, Finish tells
		}
	}
}

// reopen goes on with a file that ends where it should, or cuts it there. One that was
// complete is so no longer, and loses its index first.
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
	if err := out.Truncate(w.size); err != nil {
		return errors.Join(err, out.Close())
	}
	if w.cfg.Credentials { // they may be new to it
		if err := out.Chmod(w.mode()); err != nil {
			return errors.Join(err, out.Close())
		}
	}
	lines := w.lines
	w.attach(f, out)
	w.lines = lines
	return nil
}
