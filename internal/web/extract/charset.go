package extract

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/transform"
)

// utf8Name is how the encoding standard, and so charset.Lookup, spells it.
const utf8Name = "utf-8"

// decode gives the body as UTF-8 and notes the name of what it was. A body in UTF-8
// is not copied, and bytes in it that are none stay as they are: what is made of them
// later is made valid where it is kept.
func (e *Extractor) decode(body []byte, declared string) []byte {
	enc, name := e.encodings.of(body, declared)
	e.dst.Charset = name
	if name == utf8Name {
		return bytes.TrimPrefix(body, []byte("\ufeff"))
	}
	if encodesQueries(name) {
		e.enc = enc
	}
	out, _, err := transform.Append(enc.NewDecoder(), e.decoded[:0], body)
	if err != nil { // decoders replace what they cannot read; if one gives up, so do we
		out = append(out, "\ufffd"...)
	}
	e.decoded = out
	return out
}

// encodesQueries is true of encodings that forms and links use for queries. The
// others are replaced by UTF-8 there, and the escape sequences of ISO-2022-JP are
// more than any link is worth.
func encodesQueries(name string) bool {
	switch name {
	case utf8Name, "utf-16le", "utf-16be", "replacement", "iso-2022-jp", "x-user-defined":
		return false
	}
	return true
}

// inCharset gives ref as the page's encoding makes it: characters beyond ASCII in a
// query are sent in the encoding of the page they stand in. Paths are always UTF-8.
// URL standard, percent-encode after encoding.
func (e *Extractor) inCharset(ref []byte) []byte {
	q := bytes.IndexByte(ref, '?')
	if e.enc == nil || q < 0 || isASCII(ref[q:]) {
		return ref
	}
	out := append(make([]byte, 0, 2*len(ref)), ref[:q]...)
	encoder := e.enc.NewEncoder()
	for _, r := range string(ref[q:]) {
		if r < utf8.RuneSelf {
			out = append(out, byte(r))
			continue
		}
		b, err := encoder.Bytes([]byte(string(r)))
		if err != nil || bytes.HasPrefix(b, []byte("&#")) { // not in the charset: what a form sends
			out = fmt.Appendf(out, "%%26%%23%d%%3B", r)
			continue
		}
		out = appendBytes(out, b)
	}
	return out
}

// appendBytes escapes what is not ASCII. The rest is left to those who resolve.
func appendBytes(dst, s []byte) []byte {
	for _, c := range s {
		if c < utf8.RuneSelf {
			dst = append(dst, c)
		} else {
			dst = fmt.Appendf(dst, "%%%02X", c)
		}
	}
	return dst
}

// isASCII is true of most queries, which then need no care.
func isASCII(s []byte) bool {
	for _, c := range s {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// plainText takes a body without markup as it is: its line ends and its indentation
// are the only form it has.
func (e *Extractor) plainText(body []byte) {
	if e.opts.Text {
		e.text.buf = append(e.text.buf, bytes.TrimSpace(body)...)
		e.dst.Text = e.text.string()
	}
}

// UTF8 is body as UTF-8. name is the encoding it was found to be in, [Result].Charset; of
// one that is not known it is taken for UTF-8. A body in UTF-8 is not copied.
func UTF8(body []byte, name string) []byte {
	if enc, name := charset.Lookup(name); enc != nil && name != utf8Name {
		if out, _, err := transform.Append(enc.NewDecoder(), nil, body); err == nil {
			return out
		}
	}
	return bytes.TrimPrefix(body, []byte("\ufeff"))
}
