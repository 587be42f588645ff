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

// declaredWithin is how far into a document an XML declaration is looked for.
const declaredWithin = 256

// open makes the window read a body as UTF-8, up to limit bytes. The error is that of the gzip
// header.
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

// decode reads through a decoder. Its input is bounded too: there are escape sequences that
// yield no text.
func (w *window) decode(enc encoding.Encoding, limit int64) {
	var rest io.Reader = bytes.NewReader(w.buf)
	if w.src != nil {
		rest = io.MultiReader(rest, w.src)
	}
	raw := &io.LimitedReader{R: rest, N: limit}
	*w = window{src: transform.NewReader(raw, enc.NewDecoder()), left: limit, raw: raw, cut: w.cut}
}

// encodingOf is the encoding by the byte order mark, the server, or the XML declaration (RFC
// 7303 section 3). Nil is UTF-8. What begins with single bytes is never UTF-16.
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

// detectWithin is how much of a document Detect reads to find its root.
const detectWithin = 8 << 10

// Detect is the format of a page by its root element; [None] for everything else, lists in plain
// text too. The media type is without parameters; only that of HTML decides.
func Detect(mediaType string, body []byte) Format {
	if strings.EqualFold(mediaType, "text/html") || strings.EqualFold(mediaType, "application/xhtml+xml") {
		return None
	}
	head := body[:min(len(body), 64)]
	if head = bytes.TrimLeft(bytes.TrimPrefix(head, []byte(mark)), space); len(head) < 2 {
		return None
	}
	switch head[0] {
	case '<', 0, 0x1f, 0xfe, 0xff:
	default:
		return None
	}
	r := reader{strict: true, yield: func(Entry) bool { return true }}
	if r.w.open(body, "", detectWithin) != nil {
		return None
	}
	for !r.root && !r.stopped {
		if _, ok := r.w.through("<"); !ok {
			break
		}
		r.markupAt()
	}
	return r.sum.Format
}
