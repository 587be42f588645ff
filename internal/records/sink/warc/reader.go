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

// maxHeader bounds the header of a record. Its longest field is a URL.
const maxHeader = 8 << 20

// Record is a record that was read.
type Record struct {
	// Offset is where in the file the record, or its gzip member, begins.
	Offset int64
	// Fields is the header, in order.
	Fields []Field
	// Block is the content. It is valid until the next call of a method of the Reader.
	Block io.Reader
}

// Get returns the value of the field with that name, ignoring case; empty if there is none.
func (r *Record) Get(name string) string {
	for _, f := range r.Fields {
		if strings.EqualFold(f.Name, name) {
			return f.Value
		}
	}
	return ""
}

// Reader reads an archive, plain or with one record per gzip member. It is strict: it accepts what a [Writer] writes,
// verifies the digest of each block, and reports anything else as an error. It must not be used by several goroutines
// at once.
type Reader struct {
	in     *recordfile.Counter
	raw    *bufio.Reader // reads from in
	gz     *gzip.Reader  // nil until the first use
	member *bufio.Reader // reads from gz
	text   *bufio.Reader // the text of the record: member, or raw if the archive is plain
	plain  bool
	rec    *Record // the record that is not read to its end; nil means none
	left   *io.LimitedReader
	digest hash.Hash // digest of what was read of the block
}

// NewReader returns a Reader of an archive, from its beginning or from the beginning of any record.
func NewReader(r io.Reader) *Reader {
	in := &recordfile.Counter{Reader: r}
	return &Reader{in: in, raw: bufio.NewReaderSize(in, 64<<10)}
}

// Offset returns the position of the Reader in the archive. After Finish it is the end of the record.
func (r *Reader) Offset() int64 { return r.in.N - int64(r.raw.Buffered()) }

// Next returns the next record. The error is io.EOF behind the last one, and wraps io.ErrUnexpectedEOF if the file ends
// within a record.
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

// whole turns io.EOF into io.ErrUnexpectedEOF, for places where a file must not end.
func whole(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// begin prepares r.text to read the record that begins here. In a compressed archive the text ends with the record's
// gzip member.
func (r *Reader) begin() (err error) {
	if r.text == nil { // all records are written like the first one
		head, _ := r.raw.Peek(len(version)) // a shorter file is cut off
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

// crlfLine reads a line of at most limit bytes, and returns it without its line end.
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

// Finish reads the rest of the current record, if there is one, and returns an error if the record is damaged.
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
	room := int64(5) // one byte more than may follow
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

// FieldsOf reads a block that consists of fields, such as those of warcinfo and metadata records.
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
