// Package sink writes what a crawl finds: one [Record] per URL, as JSON lines, CSV or a plain list of URLs.
//
// [Open] opens a file or standard output, [New] takes any writer, and [Formats] is what there is to choose from. Both
// give a [*Writer], which is the [Sink] of this package. Records are buffered: they reach the file when 64 KiB have
// gathered, at Flush and at Close.
//
// # The invariant
//
// A file holds whole lines. Only whole lines are handed to it, in one call per flush; should the system take only
// part of them, a regular file is cut back to the last whole record. The error says how many records are in the file,
// and every later call returns it again: after a gap nothing more is written. What has been flushed survives the end
// of the process, however it ends; after Close it survives the machine's.
//
// # The fields
//
// The tags of [Record] are the schema of a JSON line: url, kind, depth, fetched_at, attempt, bytes and wire_bytes are
// always there, the rest is left out when empty. Times are RFC 3339 in UTC with milliseconds; durations are
// milliseconds with up to three decimals. Whatever a server sent, a line is valid UTF-8, and valid JSON without raw
// control, line or direction characters, so it can be shown on a terminal.
//
// A table (CSV) holds the scalar fields under a header line, and the user's fields behind them. A text that a
// spreadsheet would take for a formula begins with an apostrophe there. The list of URLs has the pages that were
// fetched with success.
//
// A Writer must not be used by two goroutines at once. It does not rotate.
package sink

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/treadlight/crawl/record"
)

var _ record.Durable = (*Writer)(nil)

// Existing says what to do with a file that is there already and not empty.
type Existing uint8

// The ways with existing files.
const (
	Refuse    Existing = iota // fail, and leave it alone
	Append                    // write behind what it holds: of archives alone
	Overwrite                 // empty it first
	Resume                    // cut it back to Config.Position, then write behind that
)

// Config is how a destination is opened.
type Config struct {
	// Format is one of the formats. Empty is JSONL.
	Format Format
	// Existing is what to do with a file that is not empty. Zero refuses it.
	Existing Existing
	// Position is where Resume goes on, in bytes: what Writer.Position returned when the state to resume from was
	// saved. Zero is the beginning of the file.
	Position int64
	// Records is how many records are before Position. It is only passed on, to Mark.
	Records int64
	// Fields are the names of Record.Fields that CSV has columns for, in their order. The other formats have them all
	// in any case.
	Fields []string
	// Gzip compresses: each flush is a member of the file, so that it can be cut off there.
	Gzip bool

	columns []string // of a table of items; nil: those of records
}

func (c Config) header() []byte {
	spec := c.Format.Spec()
	switch t := (table{spec.Separator, c.Fields}); {
	case spec.Separator == 0:
		return nil
	case c.columns != nil:
		return t.names(c.columns)
	default:
		return t.header()
	}
}

const (
	// flushSize is the text that gathers before it is written. Beyond 64 KiB a system call costs nothing compared
	// with what it copies.
	flushSize = 64 << 10
	// maxKept is the buffer that survives a flush; a record with the text of a large page may have made it larger.
	maxKept = 1 << 20
)

var errClosed = errors.New("sink is closed")

// WriteError says that a destination takes no more, and what it holds.
type WriteError struct {
	Path    string // as it was opened; "-" is standard output; empty for a plain writer
	Records int64  // whole records written by this Writer
	Bytes   int64  // the size of what they take, with the header line
	Err     error  // the system's word
}

func (e *WriteError) Error() string {
	reason := e.Err.Error()
	if errors.Is(e.Err, syscall.EPIPE) {
		reason = "its reader has closed it (broken pipe)"
	}
	name := cmp.Or(e.Path, "records")
	if name == Stdout {
		name = "standard output"
	}
	return fmt.Sprintf("write %s: %s; %d whole records (%d bytes) were written before", name, reason, e.Records, e.Bytes)
}

func (e *WriteError) Unwrap() error { return e.Err }

// Writer is the sink of the formats that have a line for each record.
type Writer struct {
	append   func(dst []byte, r *record.Record) []byte // nothing appended: not for this format
	out      io.Writer
	truncate func(size int64) error // nil if what has been written cannot be taken back
	file     *os.File               // nil unless Open made it
	path     string
	format   Format
	gzip     bool
	earlier  int64 // records that were there

	buf     []byte
	pending int64 // records in buf
	records int64 // records in the destination
	start   int64 // where in the destination we began
	bytes   int64 // what we wrote since
	err     error // once set, for good
}

// New is the writer of cfg.Format to w. With [Resume] and a Position it goes on with what was written there, wherever
// that is now: the header line is not repeated.
func New(w io.Writer, cfg Config) (*Writer, error) {
	spec := cfg.Format.Spec()
	made := &Writer{append: spec.encode, out: w, format: spec.Format, gzip: cfg.Gzip}
	switch {
	case spec.Format == WARC:
		return nil, errors.New("format warc: archives need a directory, and are opened by package warc")
	case spec.encode == nil && spec.Separator == 0:
		var names []string
		for _, s := range formats {
			if s.Lines() {
				names = append(names, string(s.Format))
			}
		}
		return nil, fmt.Errorf("format %q: use %s", cfg.Format, ListOf(names, " or "))
	case spec.Separator != 0:
		t := table{spec.Separator, cfg.Fields}
		if made.append = t.append; cfg.Existing != Resume || cfg.Position == 0 {
			made.buf = cfg.header()
		}
	}
	return made, nil
}

// Write takes r. It fails if this or an earlier write did.
func (w *Writer) Write(r *record.Record) error {
	if w.err != nil {
		return w.err
	}
	before := len(w.buf)
	w.buf = w.append(w.buf, r)
	if len(w.buf) > before {
		w.pending++
	}
	if len(w.buf) < flushSize {
		return nil
	}
	return w.Flush()
}

// WriteLine takes a line as it is, which ends itself, in place of a record.
func (w *Writer) WriteLine(line []byte) error {
	if w.err != nil {
		return w.err
	}
	w.buf = append(w.buf, line...)
	if w.pending++; len(w.buf) < flushSize {
		return nil
	}
	return w.Flush()
}

// Flush hands what is buffered to the system, in one piece.
func (w *Writer) Flush() error {
	if w.err != nil || len(w.buf) == 0 {
		return w.err
	}
	// One call, so that other writers to the same file or pipe see whole lines.
	data := w.buf
	if w.gzip {
		data = compressed(w.buf)
	}
	n, err := w.out.Write(data)
	if err == nil && n < len(data) {
		err = io.ErrShortWrite
	}
	if err != nil {
		if w.gzip {
			n = 0 // of a part of a member nothing can be kept
		}
		return w.fail(n, err)
	}
	w.bytes += int64(n)
	w.records += w.pending
	w.pending = 0
	if w.buf = w.buf[:0]; cap(w.buf) > maxKept {
		w.buf = nil
	}
	return nil
}

func compressed(data []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(data) // a buffer takes everything
	_ = z.Close()
	return b.Bytes()
}

// Position is the size of the destination up to the last whole record that was flushed. Saved together with the state
// of a crawl, it lets Resume take back what the state does not know of.
func (w *Writer) Position() int64 { return w.start + w.bytes }

// Mark implements [Durable].
func (w *Writer) Mark() record.Position {
	return record.Position{Path: w.path, Format: string(w.format), Bytes: w.Position(), Records: w.earlier + w.records}
}

// Sync implements [Durable]. What cannot be synced, as a pipe, is left as it is.
func (w *Writer) Sync() error {
	if w.file == nil || w.truncate == nil {
		return nil
	}
	return w.file.Sync()
}

// Close flushes, makes sure that a file is on its disk, and closes it. Standard output and plain writers stay open.
// After an error it still closes, and returns the error.
func (w *Writer) Close() error {
	if errors.Is(w.err, errClosed) {
		return nil
	}
	err := w.Flush()
	note := func(e error) {
		if err == nil && e != nil {
			err = &WriteError{Path: w.path, Records: w.records, Bytes: w.bytes, Err: e}
		}
	}
	if w.file != nil {
		if err == nil { // where some file systems first tell of a full disk or a spent quota
			note(w.Sync())
		}
		note(w.file.Close())
	}
	w.err = errClosed
	return err
}

// fail takes back what lies behind the last whole record of a flush of which only n bytes were written, and remembers
// err.
func (w *Writer) fail(n int, err error) error {
	taken := w.buf[:max(0, min(n, len(w.buf)))]
	whole := taken[:bytes.LastIndexByte(taken, '\n')+1]
	lines := func(b []byte) int64 { return int64(bytes.Count(b, []byte{'\n'})) } // no format has one within a record
	header := lines(w.buf) - w.pending                                           // the first line of CSV is no record
	w.records += max(lines(whole)-header, 0)
	w.bytes += int64(len(whole))
	// Appending goes on at the end wherever that is, so cutting is all it takes.
	if w.truncate != nil {
		if e := w.truncate(w.Position()); e != nil {
			err = errors.Join(err, fmt.Errorf("cut off the partial record: %w", e))
		}
	}
	w.buf, w.pending = nil, 0
	w.err = &WriteError{Path: w.path, Records: w.records, Bytes: w.bytes, Err: err}
	return w.err
}

// Stdout is the path that stands for standard output.
const Stdout = "-"

// Open opens the file at path for records, or creates it with mode 0644. [Stdout], "-", is standard output. A file
// with content is refused unless cfg says otherwise. Partial records can be taken back only from regular files.
func Open(path string, cfg Config) (*Writer, error) {
	w, err := New(os.Stdout, cfg)
	if err != nil {
		return nil, err
	}
	w.path, w.earlier = path, cfg.Records
	if path == Stdout {
		return w, nil
	}
	// Appending, not writing at an offset: two crawls by mistake on one file then interleave whole lines and
	// overwrite nothing.
	flags := os.O_RDWR | os.O_CREATE | os.O_APPEND
	if cfg.Existing == Resume && cfg.Position > 0 {
		flags &^= os.O_CREATE // an empty file in its place would be taken for what is left of it
	}
	f, err := os.OpenFile(path, flags, 0o644)
	if os.IsNotExist(err) && flags&os.O_CREATE == 0 {
		return nil, fmt.Errorf("%s is not there, but the crawl to resume had written %d bytes to it: %s", path, cfg.Position, advice)
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
	w.file, w.out = f, f
	info, err := f.Stat()
	if err == nil && info.Mode().IsRegular() { // a pipe has no size to go back to, and a device none that means anything
		w.truncate = f.Truncate
		w.start, err = prepare(f, info.Size(), cfg)
	}
	if err != nil {
		_ = f.Close() // nothing has been written
		return nil, err
	}
	if w.start > 0 {
		w.buf = nil // the header line is there already
	}
	return w, nil
}

// prepare brings a regular file of that size to where writing begins, which it returns.
func prepare(f *os.File, size int64, cfg Config) (start int64, err error) {
	switch {
	case cfg.Existing == Overwrite:
		return 0, f.Truncate(0)
	case cfg.Existing != Resume && size > 0:
		return 0, fmt.Errorf("%s exists and is not empty: add --overwrite to replace it, or choose another file", f.Name())
	case cfg.Existing != Resume:
		return 0, nil
	case size < cfg.Position:
		return 0, fmt.Errorf("%s has %d bytes, but the crawl to resume had written %d: %s", f.Name(), size, cfg.Position, advice)
	case cfg.Position > 0:
		if err := isOurs(f, size, cfg); err != nil {
			return 0, err
		}
	}
	return cfg.Position, f.Truncate(cfg.Position)
}

// isOurs refuses to write behind lines that have other columns, and behind what is no line.
func isOurs(f *os.File, size int64, cfg Config) (err error) {
	if header := cfg.header(); header != nil {
		first := make([]byte, len(header))
		var from io.Reader = io.NewSectionReader(f, 0, size)
		if cfg.Gzip {
			from, err = gzip.NewReader(from)
		}
		if err == nil {
			_, err = io.ReadFull(from, first)
		}
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("read the header of %s: %w", f.Name(), err)
		}
		if !bytes.Equal(first, header) {
			return fmt.Errorf("%s has other columns than its next lines would have: give the same --field as before, "+
				"or go on with the program that began it; 'crawl --overwrite' begins anew", f.Name())
		}
	}
	last := []byte{'\n'}
	if !cfg.Gzip {
		if _, err := f.ReadAt(last, cfg.Position-1); err != nil && err != io.EOF {
			return fmt.Errorf("read the end of %s: %w", f.Name(), err)
		}
	}
	if last[0] != '\n' {
		return fmt.Errorf("%s was changed, no record ends at byte %d where the crawl to resume had written to: %s", f.Name(), cfg.Position, advice)
	}
	return nil
}

// advice is what helps when the file of a crawl is not as that left it.
const advice = "put the file back as it was, or begin the crawl anew with --overwrite, without 'resume'"
