package warc

import (
	"bytes"
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // archives name content by it; nothing is kept safe with it
	"encoding/base32"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
)

// The types of records that are written.
const (
	typeInfo     = "warcinfo"
	typeResponse = "response"
	typeRequest  = "request"
	typeRevisit  = "revisit"
	typeMetadata = "metadata"
)

const (
	version = "WARC/1.1"
	// dateFormat is the format of WARC-Date: UTC, here in milliseconds.
	dateFormat = "2006-01-02T15:04:05.000Z"
	// level is the gzip level: on pages, level 3 took two thirds of the time and 10 % more space.
	level = 6
)

// Field is a named field of a record's header, or of a block of fields.
type Field struct{ Name, Value string }

func newID() string {
	var u [16]byte
	_, _ = rand.Read(u[:]) // it never fails
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	return fmt.Sprintf("<urn:uuid:%x-%x-%x-%x-%x>", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

// dateOf formats a time for WARC-Date. A year of more than four digits gives the zero time.
func dateOf(t time.Time) string {
	if t = t.UTC(); t.Year() < 0 || t.Year() > 9999 {
		t = time.Time{}
	}
	return t.Format(dateFormat)
}

func sum(parts ...[]byte) (d [sha1.Size]byte) {
	h := sha1.New() //nolint:gosec // see the import
	for _, p := range parts {
		_, _ = h.Write(p) // it never fails
	}
	h.Sum(d[:0])
	return d
}

func digestText(d [sha1.Size]byte) string { return "sha1:" + base32.StdEncoding.EncodeToString(d[:]) }

type warcRecord struct {
	kind   string
	id     string
	date   string
	fields []Field // fields other than those that every record has; those with an empty value are left out
	media  string  // value of Content-Type
	block  [][]byte
}

func (r *warcRecord) add(name, value string) { r.fields = append(r.fields, Field{name, value}) }

func (r *warcRecord) appendHeader(dst []byte) []byte {
	size := 0
	for _, part := range r.block {
		size += len(part)
	}
	dst = append(dst, version+"\r\n"...)
	dst = appendFields(dst, []Field{{"WARC-Type", r.kind}, {"WARC-Record-ID", r.id}, {"WARC-Date", r.date}})
	dst = appendFields(dst, r.fields)
	dst = appendFields(dst, []Field{
		{"WARC-Block-Digest", digestText(sum(r.block...))}, {"Content-Type", r.media}, {"Content-Length", strconv.Itoa(size)},
	})
	return append(dst, "\r\n"...)
}

// appendFields appends a line for each field that is not empty. Line breaks in values become spaces, so that a value
// from a server cannot begin another line.
func appendFields(dst []byte, fields []Field) []byte {
	for _, f := range fields {
		if f.Value != "" {
			dst = append(append(append(dst, f.Name...), ": "...), oneLine(f.Value)...)
			dst = append(dst, "\r\n"...)
		}
	}
	return dst
}

func oneLine(s string) string {
	return strings.Trim(strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return ' '
		}
		return c
	}, s), " ")
}

// encoder compresses records, or leaves them plain.
type encoder struct {
	plain bool
	gz    *gzip.Writer // nil until the first use
	head  []byte
}

// put appends a record to b, as a gzip member unless the encoder is plain.
func (e *encoder) put(b *bytes.Buffer, r *warcRecord) error {
	e.head = r.appendHeader(e.head[:0])
	if e.plain {
		e.write(b, r)
		return nil
	}
	if e.gz == nil {
		gz, err := gzip.NewWriterLevel(b, level)
		if err != nil {
			return err
		}
		e.gz = gz
	}
	e.gz.Reset(b)
	e.write(e.gz, r)
	return e.gz.Close()
}

// write writes the record whose header is in e.head. It ignores errors: w writes to memory, and Close of the gzip
// writer returns errors of compression.
func (e *encoder) write(w io.Writer, r *warcRecord) {
	_, _ = w.Write(e.head)
	for _, part := range r.block {
		_, _ = w.Write(part)
	}
	_, _ = io.WriteString(w, "\r\n\r\n")
}
