// Package recordfile reads the lines of files that crawls have written, as they are or compressed with gzip or
// Zstandard, whatever has become of their ends.
//
// A file may be written on while it is read, and may be larger than the memory: [Open] looks at what is there at
// first and at nothing beyond, and [Reader.Each] holds one line at a time. A process that was killed leaves half a
// line, or half a compressed file; both are told as such and are no errors.
//
// A Reader, and a Table, has one user at a time.
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

// DefaultMaxLine is the longest line that is read unless a caller says otherwise, in bytes: a page with its body has
// a line of four thirds of that.
const DefaultMaxLine = 256 << 20

const bufferSize = 256 << 10

// Reader is a file that is being read, unpacked if it is compressed.
type Reader struct {
	*bufio.Reader
	Size    int64 // bytes of the file as it lies that are read; zero of what has no size
	Regular bool  // false of pipes and devices, which cannot be read twice

	path    string
	file    *os.File
	counted *Counter
	unpack  *zstd.Decoder
	buf     []byte
	number  int64
	ended   bool
	cut     bool
}

// Counter counts what is read of its Reader.
type Counter struct {
	io.Reader
	N int64 // bytes
}

func (c *Counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.N += int64(n)
	return n, err
}

// Open opens a file. Of a regular one no more than size bytes are read, as it lies; zero means those that it has now.
// A byte order mark is passed over. An error is one of the file system, or of a header that is damaged.
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
		room = int(min(max(4*r.Size, 4<<10), bufferSize)) // of a small file a large buffer is most of the work
	}
	r.Reader = bufio.NewReaderSize(r.counted, room)
	if err := r.unpacked(room); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	if mark, _ := r.Peek(3); string(mark) == "\xef\xbb\xbf" {
		_, _ = r.Discard(3) // it is there
	}
	return r, nil
}

// unpacked puts what unpacks in front of a file that is compressed.
func (r *Reader) unpacked(room int) error {
	magic, _ := r.Peek(4) // a shorter file is none of them
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		gz, err := gzip.NewReader(r.Reader)
		if err != nil {
			return err
		}
		r.Reader = bufio.NewReaderSize(gz, room)
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		// One goroutine of ours: the decoder starts others otherwise.
		zr, err := zstd.NewReader(r.Reader, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20))
		if err != nil {
			return err
		}
		r.unpack, r.Reader = zr, bufio.NewReaderSize(zr, room)
	}
	return nil
}

// Done is how many bytes of the file as it lies were read so far.
func (r *Reader) Done() int64 { return r.counted.N }

// Close gives the file up.
func (r *Reader) Close() error {
	if r.unpack != nil {
		r.unpack.Close()
	}
	return r.file.Close()
}

// Line is one line of a file.
type Line struct {
	Text   []byte // without space around it, but for tabs at its end; valid until the next one is read
	Number int64  // from 1
	Whole  bool   // it has its line feed
	Long   bool   // it was longer than the bound, and has no text
}

// Next is the next line that is not empty. Of one that is longer than maxLine bytes, zero being [DefaultMaxLine],
// there is no text. The error is io.EOF at the end, also where the file is cut off: see [Reader.Cut].
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

// line appends a line to buf, without what goes beyond limit, which it reports.
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

// Cut reports whether a compressed file was found to end too early, or to go on with something else.
func (r *Reader) Cut() bool { return r.cut }

// Each hands every line of [Reader.Next] to take, until that returns an error, which is then that of Each; others are
// ctx's and the file system's.
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

// CutOff reports whether an error of reading is that a compressed file ends too early, or goes on with something
// else, and none of the disk.
func CutOff(err error) bool {
	return slices.ContainsFunc([]error{
		io.ErrUnexpectedEOF, gzip.ErrChecksum, gzip.ErrHeader,
		zstd.ErrMagicMismatch, zstd.ErrCRCMismatch, zstd.ErrBlockTooSmall, zstd.ErrReservedBlockType,
	}, func(e error) bool { return errors.Is(err, e) })
}

// What is wrong with lines that are no records.
var (
	ErrColumns = errors.New("it has not the columns of the first line")
	ErrLong    = errors.New("it is too long")
	ErrNoURL   = errors.New("it has no url")
)

// Decode reads a line into a record: its JSON into v, or if there is a table its cells, by cells.
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

// Table reads the lines of a table, one after another: no cell that a crawl writes has a line feed in it. Its cells
// are found by the names of their columns.
type Table struct {
	columns map[string]int
	in      bytes.Reader
	csv     *csv.Reader
	cells   []string
	err     error // the first of a cell
}

// NewTable is the table with that first line. Columns that it must have, and has not, are an error.
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

// Read makes a line the one whose cells are asked for.
func (t *Table) Read(line []byte) (err error) {
	t.in.Reset(line)
	t.err = nil
	t.cells, err = t.csv.Read()
	if errors.Is(err, csv.ErrFieldCount) {
		return ErrColumns
	}
	return err
}

// Text is a copy of a cell, empty if there is no such column. The apostrophe that keeps a spreadsheet from taking it
// for a formula goes.
func (t *Table) Text(name string) string {
	i, ok := t.columns[name]
	if !ok {
		return ""
	}
	s := t.cells[i]
	if rest, ok := strings.CutPrefix(s, "'"); ok && strings.ContainsAny(rest[:min(1, len(rest))], "=+-@") {
		s = rest
	}
	return strings.Clone(s) // or it would keep all of its line
}

// Number is a cell; zero if it is empty, or no number, which [Decode] tells.
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

// Time is the cell fetched_at; what is wrong with it [Decode] tells.
func (t *Table) Time() time.Time {
	at, err := time.Parse(time.RFC3339, t.Text("fetched_at"))
	if err != nil && t.err == nil {
		t.err = fmt.Errorf("fetched_at: %w", err)
	}
	return at
}
