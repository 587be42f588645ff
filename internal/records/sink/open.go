package sink

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
)

// Stdout is the path that stands for standard output.
const Stdout = "-"

// Open opens the file at path for records, and creates it with mode 0644 if it is not
// there. [Stdout], "-", is standard output. A file that holds something is refused
// unless cfg says otherwise. Pipes and devices are written to as they are; only from
// regular files can a partial record be taken back.
func Open(path string, cfg Config) (*Writer, error) {
	w, err := New(os.Stdout, cfg)
	if err != nil {
		return nil, err
	}
	w.path, w.earlier = path, cfg.Records
	if path == Stdout {
		return w, nil
	}
	// Appending, not writing at an offset: two crawls by mistake on one file then
	// interleave whole lines and overwrite nothing.
	flags := os.O_RDWR | os.O_CREATE | os.O_APPEND
	if cfg.Existing == Resume && cfg.Position > 0 {
		flags &^= os.O_CREATE // an empty file in its place would be taken for what is left of it
	}
	f, err := os.OpenFile(path, flags, 0o644)
	if os.IsNotExist(err) && flags&os.O_CREATE == 0 {
		return nil, fmt.Errorf("%s is not there, but the crawl to resume had written %d bytes to it: %s", path, cfg.Position, mend)
	}
	if os.IsPermission(err) { // a pipe or a device may be for writing only
		var second error
		if f, second = os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0); second == nil {
			err = nil // else the first says why: a file that cannot be made is not there either
		}
	}
	if err != nil {
		return nil, err // names the operation and the path
	}
	if err := w.attach(f, cfg); err != nil {
		_ = f.Close() // nothing has been written
		return nil, err
	}
	return w, nil
}

// attach makes f the destination, in the state that cfg asks for.
func (w *Writer) attach(f *os.File, cfg Config) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	w.file, w.out = f, f
	// A pipe has no size to go back to, and a device none that means anything.
	if !info.Mode().IsRegular() {
		return nil
	}
	w.truncate = f.Truncate
	if err := sameHeader(f, info.Size(), cfg); err != nil {
		return err
	}
	if w.start, err = prepare(f, info.Size(), cfg); err != nil {
		return err
	}
	if w.start > 0 {
		w.buf = nil // the header line is there already
	}
	return nil
}

// sameHeader refuses to write behind lines that have other columns.
func sameHeader(f *os.File, size int64, cfg Config) error {
	goesOn := cfg.Existing == Append && size > 0 || cfg.Existing == Resume && cfg.Position > 0
	spec := cfg.Format.Spec()
	if spec.Separator == 0 || !goesOn || size < cfg.Position {
		return nil // or prepare has more to say
	}
	header := table{spec.Separator, cfg.Fields}.header()
	first := make([]byte, len(header))
	var from io.Reader = io.NewSectionReader(f, 0, size)
	if cfg.Gzip {
		z, err := gzip.NewReader(from)
		if err != nil {
			return fmt.Errorf("read the header of %s: %w", f.Name(), err)
		}
		from = z
	}
	if _, err := io.ReadFull(from, first); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("read the header of %s: %w", f.Name(), err)
	}
	if !bytes.Equal(first, header) {
		return fmt.Errorf("%s has other columns than its next lines would have: give the same --field as before, "+
			"or go on with the program that began it; 'crawl --overwrite' begins anew", f.Name())
	}
	return nil
}

// prepare brings a regular file of that size to where writing begins, which it
// returns.
func prepare(f *os.File, size int64, cfg Config) (start int64, err error) {
	switch cfg.Existing {
	case Overwrite:
		return 0, f.Truncate(0)
	case Resume:
		if size < cfg.Position {
			return 0, fmt.Errorf("%s has %d bytes, but the crawl to resume had written %d: %s", f.Name(), size, cfg.Position, mend)
		}
		whole := true
		if !cfg.Gzip {
			if whole, err = endsLine(f, cfg.Position); err != nil {
				return 0, err
			}
		}
		if !whole {
			return 0, fmt.Errorf("%s was changed, no record ends at byte %d where the crawl to resume had written to: %s", f.Name(), cfg.Position, mend)
		}
		return cfg.Position, f.Truncate(cfg.Position)
	case Append:
		if cfg.Gzip {
			return size, nil
		}
		return size, checkLastLine(f, size)
	}
	if size > 0 {
		return 0, fmt.Errorf("%s exists and is not empty: add --overwrite to replace it, or choose another file", f.Name())
	}
	return 0, nil
}

// mend is what helps when the file of a crawl is not as that left it.
const mend = "put the file back as it was, or begin the crawl anew with --overwrite, without 'resume'"

// checkLastLine refuses to write behind half a line, which would spoil a record of
// ours as well.
func checkLastLine(f *os.File, size int64) error {
	whole, err := endsLine(f, size)
	if err == nil && !whole {
		err = fmt.Errorf("%s does not end in a whole line: complete or remove its last line, or add --overwrite to replace the file", f.Name())
	}
	return err
}

// endsLine reports whether a line ends at that size, as does nothing.
func endsLine(f *os.File, size int64) (bool, error) {
	if size == 0 {
		return true, nil
	}
	var last [1]byte
	if _, err := f.ReadAt(last[:], size-1); err != nil && err != io.EOF {
		return false, fmt.Errorf("read the end of %s: %w", f.Name(), err)
	}
	return last[0] == '\n', nil
}
