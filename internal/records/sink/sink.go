// Package sink writes what a crawl finds: one [record.Record] per URL, as JSON lines, CSV or a plain list of URLs.
//
// [Open] opens a file or standard output, [New] takes any writer, and [Formats] lists the formats. Both return a
// [*Writer], the sink of this package. Records are buffered; they are written to the file when 64 KiB have been
// collected, at Flush and at Close.
//
// # The invariant
//
// A file contains whole lines. Only whole lines are written to it, in one call per flush. If the system writes only
// part of them, a regular file is cut back to the last whole record. The error says how many records are in the file,
// and every later call returns it again: after a gap nothing more is written. What has been flushed survives the end of
// the process, whatever ends it; after Close it survives a crash of the machine.
//
// # The fields
//
// The tags of [record.Record] are the schema of a JSON line: url, kind, depth, fetched_at, attempt, bytes and
// wire_bytes are always present, other fields are left out when empty. Times are RFC 3339 in UTC with milliseconds;
// durations are milliseconds with up to three decimals. Whatever a server sent, a line is valid UTF-8, and valid JSON
// without raw control, line or direction characters, so it can be shown on a terminal.
//
// A table (CSV) has a header line, the scalar fields, and behind them the user's fields. A text that a spreadsheet
// would take for a formula begins with an apostrophe there. The list of URLs contains the pages that were fetched with
// success.
//
// A Writer must not be used by two goroutines at once. It does not rotate files.
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

	"github.com/treadlight/crawl/internal/records/chunk"
	"github.com/treadlight/crawl/record"
)

var _ record.Durable = (*Writer)(nil)

// Existing says what to do with an existing file that is not empty.
type Existing uint8

// The ways with existing files.
const (
	Refuse    Existing = iota // fail, and leave the file alone
	Append                    // write behind its content; for archives only
	Overwrite                 // truncate the file to zero first
	Resume                    // truncate the file to Config.Position, then write behind that
)

// Config configures how a destination is opened.
type Config struct {
	// Format is one of the formats. Empty means JSONL.
	Format Format
	// Existing says what to do with a file that is not empty. Zero refuses it.
	Existing Existing
	// Position is where Resume continues, in bytes: what Writer.Position returned when the state to resume from was
	// saved. Zero means the beginning of the file.
	Position int64
	// Records is how many records precede Position. It is only added to the result of Mark.
	Records int64
	// Fields are the names of Record.Fields for which CSV has columns, in that order. The other formats contain all of
	// them in any case.
	Fields []string
	// Chunk is the most tokens of a chunk of Markdown; see package chunk. Zero means [chunk.DefaultTokens].
	Chunk int
	// Gzip compresses the file: each flush is a gzip member, so that the file can be cut off between flushes.
	Gzip bool
	// Columns are the columns of a table of items. Nil means those of records.
	Columns []string
}

// Header returns the header line of a table. It is nil for other formats.
func (c Config) Header() []byte {
	spec := c.Format.Spec()
	switch t := (table{spec.Separator, c.Fields}); {
	case spec.Separator == 0:
		return nil
	case c.Columns != nil:
		return t.names(c.Columns)
	default:
		return t.header()
	}
}

const (
	// flushSize is how many bytes of text are collected before they are written. Beyond 64 KiB the cost of a system
	// call is negligible compared with that of copying.
	flushSize = 64 << 10
	// maxKept is the largest buffer that is kept after a flush; a record with the text of a large page may have made it
	// larger.
	maxKept = 1 << 20
)

var errClosed = errors.New("sink is closed")

// WriteError means that a destination can no longer be written, and says what it contains.
type WriteError struct {
	Path    string // path as it was opened; "-" is standard output, and empty a plain writer
	Records int64  // whole records written by this Writer
	Bytes   int64  // bytes of these records and of the header line
	Err     error  // the system's error
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
	append   func(dst []byte, r *record.Record) []byte // appends nothing for a record that is not for this format
	out      io.Writer
	truncate func(size int64) error // nil if what was written cannot be taken back
	file     *os.File               // nil unless made by Open
	path     string
	format   Format
	gzip     bool
	earlier  int64 // records that were in the file when it was opened

	buf     []byte
	pending int64 // records in buf
	records int64 // records in the destination
	start   int64 // position in the destination where this Writer began
	bytes   int64 // bytes written since
	err     error // once set, every call returns it
}

// New returns a Writer of cfg.Format that writes to w. With [Resume] and a Position it continues what was written up to
// there, wherever that is now: the header line is not repeated.
func New(w io.Writer, cfg Config) (*Writer, error) {
	spec := cfg.Format.Spec()
	made := &Writer{append: spec.encode, out: w, format: spec.Format, gzip: cfg.Gzip}
	switch {
	case spec.Format == WARC:
		return nil, errors.New("format warc: archives need a directory, and are opened by package warc")
	case spec.Format == Markdown:
		made.append = chunks(cmp.Or(cfg.Chunk, chunk.DefaultTokens))
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
			made.buf = cfg.Header()
		}
	}
	return made, nil
}

// Write writes r. If an earlier call has failed, it returns that error.
func (w *Writer) Write(r *record.Record) error {
	if w.err != nil {
		return w.err
	}
	before := len(w.buf)
	if w.buf = w.append(w.buf, r); len(w.buf) == before {
		return nil
	}
	return w.added()
}

func (w *Writer) added() error {
	if w.pending++; len(w.buf) < flushSize {
		return nil
	}
	return w.Flush()
}

// WriteLine writes a line in place of a record. The line must end with a line feed.
func (w *Writer) WriteLine(line []byte) error {
	if w.err != nil {
		return w.err
	}
	w.buf = append(w.buf, line...)
	return w.added()
}

// Flush writes the buffered records to the destination, in one call.
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
			n = 0 // a part of a gzip member cannot be kept
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
	_, _ = z.Write(data) // cannot fail: the buffer is in memory
	_ = z.Close()
	return b.Bytes()
}

// Position returns the size of the destination up to the last whole record that was flushed. If it is saved together
// with the state of a crawl, Resume can remove what the state does not know.
func (w *Writer) Position() int64 { return w.start + w.bytes }

// Mark implements [record.Durable].
func (w *Writer) Mark() record.Position {
	return record.Position{Path: w.path, Format: string(w.format), Bytes: w.Position(), Records: w.earlier + w.records}
}

// Sync implements [record.Durable]. For a destination that cannot be synced, such as a pipe, it does nothing.
func (w *Writer) Sync() error {
	if w.file == nil || w.truncate == nil {
		return nil
	}
	return w.file.Sync()
}

// Close flushes, syncs and closes a file. Standard output and plain writers stay open. After an error it still closes
// the file, and returns the error.
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
		if err == nil { // some file systems report a full disk or quota only here
			note(w.Sync())
		}
		note(w.file.Close())
	}
	w.err = errClosed
	return err
}

// fail cuts off what lies behind the last whole record after a flush of which only n bytes were written, and stores
// err.
func (w *Writer) fail(n int, err error) error {
	taken := w.buf[:max(0, min(n, len(w.buf)))]
	whole := taken[:bytes.LastIndexByte(taken, '\n')+1]
	lines := func(b []byte) int64 { return int64(bytes.Count(b, []byte{'\n'})) } // no record contains a line feed
	header := lines(w.buf) - w.pending                                           // the header line of CSV is no record
	w.records += max(lines(whole)-header, 0)
	w.bytes += int64(len(whole))
	// The file is open for appending, so cutting it suffices.
	if w.truncate != nil {
		if e := w.truncate(w.Position()); e != nil {
			err = errors.Join(err, fmt.Errorf("cut off the partial record: %w", e))
		}
	}
	w.buf, w.pending = nil, 0
	w.err = &WriteError{Path: w.path, Records: w.records, Bytes: w.bytes, Err: err}
	return w.err
}

// Stdout is the path that means standard output.
const Stdout = "-"

// Open opens the file at path for records, or creates it with mode 0644. [Stdout], "-", is standard output. A file with
// content is refused unless cfg says otherwise. Partial records can be cut off only in regular files.
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
		flags &^= os.O_CREATE // a new, empty file must not take its place
	}
	f, err := os.OpenFile(path, flags, 0o644)
	if os.IsNotExist(err) && flags&os.O_CREATE == 0 {
		return nil, fmt.Errorf("%s is not there, but the crawl to resume had written %d bytes to it: %s", path, cfg.Position, advice)
	}
	if os.IsPermission(err) { // a pipe or a device may be for writing only
		var second error
		if f, second = os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0); second == nil {
			err = nil // otherwise the first error is the better one, as when a file cannot be made
		}
	}
	if err != nil {
		return nil, err // the error names the operation and the path
	}
	w.file, w.out = f, f
	info, err := f.Stat()
	if err == nil && info.Mode().IsRegular() { // pipes and devices have no meaningful size
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

// prepare brings a regular file of that size to the position where writing begins, and returns that position.
func prepare(f *os.File, size int64, cfg Config) (start int64, err error) {
	switch {
	case cfg.Existing == Overwrite, cfg.Existing != Resume && onlyHeader(f, size, cfg):
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

// onlyHeader reports whether a file has nothing but the header line of the same table, as a crawl leaves it that ended
// before its first record.
func onlyHeader(f *os.File, size int64, cfg Config) bool {
	header := cfg.Header()
	if cfg.Gzip || len(header) == 0 || size != int64(len(header)) {
		return false
	}
	there := make([]byte, size)
	_, err := f.ReadAt(there, 0)
	return err == nil && bytes.Equal(there, header)
}

// isOurs returns an error if a table in the file has other columns, or if no line ends at the position.
func isOurs(f *os.File, size int64, cfg Config) (err error) {
	if header := cfg.Header(); header != nil {
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

// advice says what to do when a file is not as a crawl left it.
const advice = "put the file back as it was, or begin the crawl anew with --overwrite, without 'resume'"
