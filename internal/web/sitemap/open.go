package sitemap

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"
	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
	"golang.org/x/text/transform"
)

// declaredWithin is how far into a document its encoding is looked for: an XML declaration
// is the first thing in it, and short.
const declaredWithin = 256

// open has the window look at a body as UTF-8, up to limit bytes of it. The error says that
// the body is not what its first bytes claim.
func (w *window) open(body []byte, declared string, limit int64) error {
	w.left = limit
	switch {
	case bytes.HasPrefix(body, []byte("\x1f\x8b")):
		zr, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return fmt.Errorf("gzip: %w", err)
		}
		w.src = zr
	case int64(len(body)) > limit:
		w.all, w.cut = body[:limit], true
	default:
		w.all = body
	}
	w.buf = w.all
	if enc := encodingOf(w.peek(declaredWithin), declared); enc != nil {
		w.decode(enc, limit)
	}
	if bytes.HasPrefix(w.peek(len(mark)), []byte(mark)) {
		w.skip(len(mark))
	}
	return nil
}

// mark is the byte order mark in UTF-8.
const mark = "\ufeff"

// decode reads the document through a decoder. Both sides of it are bounded: there are
// escape sequences of which a gigabyte is no text at all.
func (w *window) decode(enc encoding.Encoding, limit int64) {
	var rest io.Reader = bytes.NewReader(w.buf)
	if w.src != nil {
		rest = io.MultiReader(rest, w.src)
	}
	raw := &io.LimitedReader{R: rest, N: limit}
	*w = window{src: transform.NewReader(raw, enc.NewDecoder()), left: limit, raw: raw, cut: w.cut}
}

// encodingOf is the encoding of a document that begins with head: by its byte order mark,
// then by the server's word, then by its own (RFC 7303 section 3). Nil is UTF-8, or as good
// as that. A document whose first characters are single bytes is no UTF-16, whoever says so.
func encodingOf(head []byte, declared string) encoding.Encoding {
	switch {
	case bytes.HasPrefix(head, []byte(mark)):
		return nil
	case bytes.HasPrefix(head, []byte("\xff\xfe")), bytes.HasPrefix(head, []byte("<\x00")):
		return lookup("utf-16le")
	case bytes.HasPrefix(head, []byte("\xfe\xff")), bytes.HasPrefix(head, []byte("\x00<")):
		return lookup("utf-16be")
	}
	for _, label := range []string{declared, declaration(head)} {
		enc, name := charset.Lookup(label)
		switch {
		case name == "utf-8":
			return nil
		case enc != nil && !strings.HasPrefix(name, "utf-16") && name != "replacement":
			return enc
		}
	}
	return nil
}

func lookup(label string) encoding.Encoding {
	enc, _ := charset.Lookup(label)
	return enc
}

// declaration is the encoding that an XML declaration names.
func declaration(head []byte) string {
	head = bytes.TrimLeft(head, space)
	if !bytes.HasPrefix(head, []byte("<?xml")) {
		return ""
	}
	end := bytes.IndexByte(head, '>')
	if end < 0 {
		return ""
	}
	value, _ := attribute(head[:end], "encoding")
	return string(value)
}
