// Package recordfile reads the lines of files that crawls have written, plain or compressed with gzip or Zstandard,
// even if their ends are missing.
//
// A file may be written while it is read, and may be larger than the memory: [Open] determines how much is there, and
// the Reader reads nothing beyond; [Reader.Each] holds one line at a time. A killed process leaves half a line, or half
// a compressed file; both are reported as such and are no errors.
//
// A Reader and a Table must not be used by several goroutines at once.
package recordfile

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/klauspost/compress/zstd"
)

// DefaultMaxLine is the default for the longest line that is read, in bytes. The line of a page with its body takes
// four thirds of the body's size.
const DefaultMaxLine = 256 << 20

const bufferSize = 256 << 10

// Reader reads a file, and decompresses it if it is compressed.
type Reader struct {
	*bufio.Reader
	Size    int64 // bytes of the file, as stored, that are read; zero if it has no size
	Regular bool  // false for pipes and devices, which cannot be read twice

	path    string
	file    *os.File
	counted *Counter
	unpack  *zstd.Decoder
	buf     []byte
	number  int64
	ended   bool
	cut     bool
}

// Counter counts the bytes that are read from its Reader.
type Counter struct {
	io.Reader
	N int64 // bytes
}

func (c *Counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.N += int64(n)
	return n, err
}

// Open opens a file. Of a regular file at most size bytes, as stored, are read; zero means its present size. A byte
// order mark is skipped. An error is one of the file system, or about a damaged header of compression.
func Open(path string, size int64) (*Reader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	r := &Reader{path: path, file: f, counted: &Counter{Reader: f}}
	room := bufferSize
	if r.Regular = info.Mode().IsRegular(); r.Regular {
		if r.Size = size; size == 0 {
			r.Size = info.Size()
		}
		r.counted.Reader = io.LimitReader(f, r.Size)
		room = int(min(max(4*r.Size, 4<<10), bufferSize)) // for a small file, a large buffer would be most of the work
	}
	r.Reader = bufio.NewReaderSize(r.counted, room)
	if err := r.unpacked(room); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	if mark, _ := r.Peek(3); string(mark) == "\xef\xbb\xbf" {
		_, _ = r.Discard(3) // cannot fail: Peek has buffered it
	}
	return r, nil
}

// unpacked puts a decompressor in front of a file that is compressed.
func (r *Reader) unpacked(room int) error {
	magic, _ := r.Peek(4) // a shorter file is not compressed
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		gz, err := gzip.NewReader(r.Reader)
		if err != nil {
			return err
		}
		r.Reader = bufio.NewReaderSize(gz, room)
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		// No concurrency: otherwise the decoder would start goroutines.
		zr, err := zstd.NewReader(r.Reader, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20))
		if err != nil {
			return err
		}
		r.unpack, r.Reader = zr, bufio.NewReaderSize(zr, room)
	}
	return nil
}

// Done returns how many bytes of the file, as stored, were read so far.
func (r *Reader) Done() int64 { return r.counted.N }

// Close closes the file.
func (r *Reader) Close() error {
	if r.unpack != nil {
		r.unpack.Close()
	}
	return r.file.Close()
}

// Line is one line of a file.
type Line struct {
	Text   []byte // without surrounding space, except tabs at its end; valid until the next line is read
	Number int64  // from 1
	Whole  bool   // it ends with a line feed
	Long   bool   // it was longer than the bound, and Text is empty
}

// Next returns the next line that is not empty. A line of more than maxLine bytes has no text; zero means
// [DefaultMaxLine]. The error is io.EOF at the end, also if the file is cut off: see [Reader.Cut].
func (r *Reader) Next(maxLine int) (Line, error) {
	if maxLine <= 0 {
		maxLine = DefaultMaxLine
	}
	for !r.ended {
		r.number++
		line := Line{Number: r.number}
		var err error
		r.buf, line.Long, err = r.line(r.buf[:0], maxLine)
		switch {
		case err == nil:
			line.Whole = true
		case errors.Is(err, io.EOF):
			r.ended = true
		case CutOff(err):
			r.ended, r.cut = true, true
		default:
			return Line{}, fmt.Errorf("read %s: %w", r.path, err)
		}
		if !line.Long {
			line.Text = bytes.TrimRightFunc(bytes.TrimLeftFunc(r.buf, unicode.IsSpace), func(r rune) bool {
				return r != '\t' && unicode.IsSpace(r) // tabs at the end of a table's line are empty cells
			})
		}
		if line.Long || len(line.Text) > 0 {
			return line, nil
		}
	}
	return Line{}, io.EOF
}

// line appends a line to buf, without what exceeds limit, and reports whether anything did.
func (r *Reader) line(buf []byte, limit int) (line []byte, long bool, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if len(buf)+len(part) > limit {
			long = true
		} else {
			buf = append(buf, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return buf, long, err
		}
	}
}

// Cut reports whether a compressed file ended too early, or continued with something else.
func (r *Reader) Cut() bool { return r.cut }

// Each calls take with every line of [Reader.Next], until take returns an error, which Each then returns. Other errors
// are those of ctx and of the file system.
func (r *Reader) Each(ctx context.Context, maxLine int, take func(Line) error) error {
	for {
		line, err := r.Next(maxLine)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case line.Number%1024 == 0 && ctx.Err() != nil:
			return ctx.Err()
		}
		if err := take(line); err != nil {
			return err
		}
	}
}

// CutOff reports whether an error of reading means that a compressed file ends too early, or continues with something
// else, and is not an error of the disk.
func CutOff(err error) bool {
	return slices.ContainsFunc([]error{
		io.ErrUnexpectedEOF, gzip.ErrChecksum, gzip.ErrHeader,
		zstd.ErrMagicMismatch, zstd.ErrCRCMismatch, zstd.ErrBlockTooSmall, zstd.ErrReservedBlockType,
	}, func(e error) bool { return errors.Is(err, e) })
}

// Errors about lines that are no records.
var (
	ErrColumns = errors.New("it has not the columns of the first line")
	ErrLong    = errors.New("it is too long")
	ErrNoURL   = errors.New("it has no url")
)

// Decode decodes a line into a record: without a table the line's JSON into v; with a table it reads the cells and
// calls cells.
func Decode(l Line, t *Table, v any, cells func()) error {
	switch {
	case l.Long:
		return ErrLong
	case t == nil:
		return json.Unmarshal(l.Text, v)
	}
	if err := t.Read(l.Text); err != nil {
		return err
	}
	cells()
	return t.err
}

// Table reads the lines of a table one by one: no cell that a crawl writes contains a line feed. Cells are found by the
// names of their columns.
type Table struct {
	columns map[string]int
	in      bytes.Reader
	csv     *csv.Reader
	cells   []string
	err     error // the first error of a cell
}

// NewTable returns a table with that header line. It is an error if a column of need is missing.
func NewTable(header []byte, separator byte, need ...string) (*Table, error) {
	t := &Table{columns: make(map[string]int)}
	t.csv = csv.NewReader(&t.in)
	t.csv.Comma, t.csv.LazyQuotes, t.csv.ReuseRecord = rune(separator), true, true
	if err := t.Read(header); err != nil {
		return nil, err
	}
	for i, name := range t.cells {
		t.columns[name] = i
	}
	need = slices.DeleteFunc(need, func(name string) bool { _, ok := t.columns[name]; return ok })
	if len(need) > 0 {
		return nil, fmt.Errorf("its first line has no column %s", strings.Join(need, ", "))
	}
	return t, nil
}

// Read reads the cells of a line, which the other methods then return.
func (t *Table) Read(line []byte) (err error) {
	t.in.Reset(line)
	t.err = nil
	t.cells, err = t.csv.Read()
	if errors.Is(err, csv.ErrFieldCount) {
		return ErrColumns
	}
	return err
}

// Text returns a copy of a cell; empty if there is no such column. It removes the apostrophe that keeps a spreadsheet
// from taking the cell for a formula.
func (t *Table) Text(name string) string {
	i, ok := t.columns[name]
	if !ok {
		return ""
	}
	s := t.cells[i]
	if rest, ok := strings.CutPrefix(s, "'"); ok && strings.ContainsAny(rest[:min(1, len(rest))], "=+-@") {
		s = rest
	}
	return strings.Clone(s) // a substring would keep the whole line in memory
}

// Number returns the number in a cell; zero if the cell is empty or no number. [Decode] returns an error in the second
// case.
func (t *Table) Number(name string) float64 {
	s := t.Text(name)
	if s == "" {
		return 0
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil && t.err == nil {
		t.err = fmt.Errorf("%s is %q: it is no number", name, s)
	}
	return v
}

// Time returns the time in the cell fetched_at. [Decode] returns an error if it is none.
func (t *Table) Time() time.Time {
	at, err := time.Parse(time.RFC3339, t.Text("fetched_at"))
	if err != nil && t.err == nil {
		t.err = fmt.Errorf("fetched_at: %w", err)
	}
	return at
}
