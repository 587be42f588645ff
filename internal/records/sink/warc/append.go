package warc

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
)

// goOn goes on where a process has ended that told nobody how far it was.
func (w *Writer) goOn(files []*file) (err error) {
	if w.cfg.Position, w.cut, err = w.wholeEnd(files); err != nil {
		return err
	}
	return w.resume(files)
}

// Cut is how many bytes Append has cut off: an exchange that a crash had left in part.
func (w *Writer) Cut() int64 { return w.cut }

// wholeEnd is the position behind the last whole exchange of the series, and how many bytes
// of its file stand behind it. Only the last files may be anything but whole, and a file of
// which not even the first record is has nothing to lose.
func (w *Writer) wholeEnd(files []*file) (position, behind int64, err error) {
	for _, f := range slices.Backward(files) {
		info, err := os.Stat(f.path(w.dir))
		if err != nil {
			return 0, 0, err
		}
		start, err := startOf(f.path(w.dir))
		switch {
		case err != nil && f.open && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)):
			behind += info.Size()
			continue
		case err != nil:
			return 0, 0, fmt.Errorf("%s cannot be gone on behind (%w): put it back as it was, or choose another directory", f.path(w.dir), err)
		case !f.open:
			return start + info.Size(), behind, nil
		}
		end, err := lastExchange(f.path(w.dir))
		if err != nil {
			return 0, 0, err
		}
		return start + end, behind + info.Size() - end, nil
	}
	return 0, behind, nil
}

// lastExchange is where the last whole exchange of a file ends, or its warcinfo: the
// metadata are the last record of each.
func lastExchange(path string) (end int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }() // it was only read
	for r := NewReader(f); ; {
		rec, err := r.Next()
		if err == nil {
			err = r.Finish()
		}
		if disk, ok := errors.AsType[*fs.PathError](err); ok {
			return 0, disk
		}
		if err != nil { // the end, or what a crash has left there
			return end, nil
		}
		if kind := rec.Get("WARC-Type"); kind == typeMetadata || kind == typeInfo {
			end = r.Offset()
		}
	}
}
