package warc

import (
	"bufio"
	"crypto/sha1" //nolint:gosec // see record.go
	"errors"
	"fmt"
	"hash"
	"io"
	"strconv"
	"strings"

	"github.com/klauspost/compress/gzip"

	"github.com/treadlight/crawl/internal/records/recordfile"
)

// maxHeader bounds the header of a record, whose longest field is a URL.
const maxHeader = 8 << 20

// Record is a record as it is read.
type Record struct {
	// Offset is where in the file it begins, or its gzip member.
	Offset int64
	// Fields is the header, in order.
	Fields []Field
	// Block is the content. It is valid until the next call of a method of the Reader.
	Block io.Reader
}

// Get is the value of the field with that name, in any case; empty if there is none.
func (r *Record) Get(name string) string {
	for _, f := range r.Fields {
		if strings.EqualFold(f.Name, name) {
			return f.Value
		}
	}
	return ""
}

// Reader reads an archive, plain or with one record in each gzip member, and is strict: it takes what a [Writer]
// writes, holds each block against its digest, and calls all else an error.
type Reader struct {
	in     *recordfile.Counter
	raw    *bufio.Reader // over in
	gz     *gzip.Reader  // nil until first used
	member *bufio.Reader // over gz
	text   *bufio.Reader // of the record: member, or raw if it is plain
	plain  bool
	rec    *Record // not read to its end; nil: there is none
	left   *io.LimitedReader
	digest hash.Hash // of what was read of the block
}

// NewReader reads the archive in r from its beginning, or that of any record.
func NewReader(r io.Reader) *Reader {
	in := &recordfile.Counter{Reader: r}
	return &Reader{in: in, raw: bufio.NewReaderSize(in, 64<<10)}
}

// Offset is how far in the archive the Reader is. After Finish it is the end of the record.
func (r *Reader) Offset() int64 { return r.in.N - int64(r.raw.Buffered()) }

// Next is the next record. The error is io.EOF behind the last one, and io.ErrUnexpectedEOF if the file ends within a
// record.
func (r *Reader) Next() (*Record, error) {
	if err := r.Finish(); err != nil {
		return nil, err
	}
	if _, err := r.raw.Peek(1); err != nil {
		return nil, err
	}
	offset := r.Offset()
	rec, err := r.open()
	if err != nil {
		return nil, fmt.Errorf("record at %d: %w", offset, whole(err))
	}
	rec.Offset = offset
	r.rec = rec
	return rec, nil
}

// whole is an error of a file that should have gone on.
func whole(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// begin is the text of the record that begins here, up to its end if that is one of a gzip member.
func (r *Reader) begin() (err error) {
	if r.text == nil { // the first record says how all are written
		head, _ := r.raw.Peek(len(version)) // a shorter one is cut off
		r.plain = strings.HasPrefix(version, string(head))
	}
	if r.plain {
		r.text = r.raw
		return nil
	}
	if r.gz == nil {
		r.gz, err = gzip.NewReader(r.raw)
	} else {
		err = r.gz.Reset(r.raw)
	}
	if err != nil {
		return err
	}
	r.gz.Multistream(false)
	if r.member == nil {
		r.member = bufio.NewReader(r.gz)
	} else {
		r.member.Reset(r.gz)
	}
	r.text = r.member
	return nil
}

func (r *Reader) open() (*Record, error) {
	err := r.begin()
	if err != nil {
		return nil, err
	}
	rec := new(Record)
	if rec.Fields, err = header(r.text); err != nil {
		return nil, err
	}
	length := rec.Get("Content-Length")
	n, err := strconv.ParseUint(length, 10, 63)
	if err != nil || strconv.FormatUint(n, 10) != length {
		return nil, fmt.Errorf("Content-Length %q is no length", length)
	}
	r.left = &io.LimitedReader{R: r.text, N: int64(n)}
	r.digest = sha1.New() //nolint:gosec // see record.go
	rec.Block = io.TeeReader(r.left, r.digest)
	return rec, nil
}

func header(text *bufio.Reader) ([]Field, error) {
	first, err := crlfLine(text, maxHeader)
	if err != nil {
		return nil, err
	}
	if first != version {
		return nil, fmt.Errorf("it begins with %.20q, not with %s", first, version)
	}
	fields, err := readFields(text, maxHeader-len(first))
	if err != nil {
		return nil, err
	}
	rec := &Record{Fields: fields}
	for _, name := range []string{"WARC-Type", "WARC-Record-ID", "WARC-Date", "Content-Length"} {
		if rec.Get(name) == "" {
			return nil, fmt.Errorf("it has no %s", name)
		}
	}
	return fields, nil
}

func readFields(text *bufio.Reader, room int) (fields []Field, err error) {
	for {
		l, err := crlfLine(text, room)
		if err != nil || l == "" {
			return fields, err
		}
		name, value, ok := strings.Cut(l, ": ")
		if !ok || name == "" || strings.ContainsAny(name, " \t") {
			return nil, fmt.Errorf("%.60q is no field", l)
		}
		fields = append(fields, Field{name, value})
		room -= len(l)
	}
}

// crlfLine reads a line of at most that many bytes, and returns it without its end.
func crlfLine(text *bufio.Reader, limit int) (string, error) {
	var l []byte
	for {
		part, err := text.ReadSlice('\n')
		l = append(l, part...)
		switch {
		case len(l) > limit:
			return "", errors.New("its header is too long")
		case err == nil:
			line, ok := strings.CutSuffix(string(l), "\r\n")
			if !ok {
				return "", fmt.Errorf("the line %.60q does not end in CR LF", l)
			}
			return line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			if len(l) > 0 {
				err = whole(err)
			}
			return "", err
		}
	}
}

// Finish reads the rest of the record under way, if there is one, and reports what is wrong with it.
func (r *Reader) Finish() error {
	rec := r.rec
	if rec == nil {
		return nil
	}
	r.rec = nil
	_, err := io.Copy(io.Discard, rec.Block)
	if err == nil && r.left.N > 0 {
		err = io.ErrUnexpectedEOF
	}
	room := int64(5) // a byte more than there may be
	if r.plain {
		room = 4 // the next record follows
	}
	var end []byte
	if err == nil {
		end, err = io.ReadAll(io.LimitReader(r.text, room))
	}
	want, got := rec.Get("WARC-Block-Digest"), digestText([sha1.Size]byte(r.digest.Sum(nil)))
	switch {
	case err != nil:
	case string(end) != "\r\n\r\n":
		err = fmt.Errorf("%q stands behind its block, not two empty lines", end)
	case want != "" && got != want:
		err = fmt.Errorf("its block has the digest %s, not %s", got, want)
	default:
		return nil
	}
	return fmt.Errorf("record at %d: %w", rec.Offset, whole(err))
}

// FieldsOf reads a block of fields, as those of warcinfo and metadata records are.
func FieldsOf(block io.Reader) ([]Field, error) {
	fields, err := readFields(bufio.NewReader(block), maxHeader)
	switch {
	case errors.Is(err, io.EOF):
		return fields, nil
	case err == nil:
		err = errors.New("an empty line is no field")
	}
	return nil, err
}
