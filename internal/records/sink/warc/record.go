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

const version = "WARC/1.1"

// dateFormat is that of WARC-Date: UTC, here to the millisecond.
const dateFormat = "2006-01-02T15:04:05.000Z"

// level is where gzip gets small files for little: on pages, level 3 took two thirds of
// the time and 10 % more room.
const level = 6

// Field is a named field of a record's header, or of a block of fields.
type Field struct{ Name, Value string }

func newID() string {
	var u [16]byte
	_, _ = rand.Read(u[:]) // it never fails
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	return fmt.Sprintf("<urn:uuid:%x-%x-%x-%x-%x>", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

// dateOf is a time as archives have it. A year beyond four digits makes it the zero time.
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

type record struct {
	kind   string
	id     string
	date   string
	fields []Field // beside those that every record has; empty ones are left out
	media  string  // the Content-Type
	block  [][]byte
}

func (r *record) appendHeader(dst []byte) []byte {
	dst = append(dst, version+"\r\n"...)
	dst = appendField(dst, Field{"WARC-Type", r.kind})
	dst = appendField(dst, Field{"WARC-Record-ID", r.id})
	dst = appendField(dst, Field{"WARC-Date", r.date})
	for _, f := range r.fields {
		if f.Value != "" {
			dst = appendField(dst, f)
		}
	}
	size := 0
	for _, part := range r.block {
		size += len(part)
	}
	dst = appendField(dst, Field{"WARC-Block-Digest", digestText(sum(r.block...))})
	dst = appendField(dst, Field{"Content-Type", r.media})
	dst = appendField(dst, Field{"Content-Length", strconv.Itoa(size)})
	return append(dst, "\r\n"...)
}

// appendField appends a line. What comes from strangers must not begin another one.
func appendField(dst []byte, f Field) []byte {
	dst = append(append(append(dst, f.Name...), ": "...), oneLine(f.Value)...)
	return append(dst, "\r\n"...)
}

// oneLine is s without control characters, of which a URL has none.
func oneLine(s string) string {
	control := func(c rune) bool { return c < ' ' || c == 0x7f }
	if !strings.ContainsFunc(s, control) {
		return strings.Trim(s, " ")
	}
	return strings.Trim(strings.Map(func(c rune) rune {
		if control(c) {
			return ' '
		}
		return c
	}, s), " ")
}

func fieldBlock(fields []Field) []byte {
	var b []byte
	for _, f := range fields {
		if f.Value != "" {
			b = appendField(b, f)
		}
	}
	return b
}

// encoder compresses records, or leaves them plain.
type encoder struct {
	plain bool
	gz    *gzip.Writer // nil until first used
	head  []byte
}

// put appends a record to b, as a gzip member unless it is to be plain.
func (e *encoder) put(b *bytes.Buffer, r *record) error {
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

// write writes the record whose header is in e.head, to memory; what went wrong with
// compressing Close tells.
func (e *encoder) write(w io.Writer, r *record) {
	_, _ = w.Write(e.head)
	for _, part := range r.block {
		_, _ = w.Write(part)
	}
	_, _ = io.WriteString(w, "\r\n\r\n")
}

// get is the value of a field that was added; empty if there is none.
func (r *record) get(name string) string {
	for _, f := range r.fields {
		if f.Name == name {
			return f.Value
		}
	}
	return ""
}
