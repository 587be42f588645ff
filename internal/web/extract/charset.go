package extract

import (
	"bytes"
	"fmt"
	"iter"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
	"golang.org/x/text/transform"

	"github.com/treadlight/crawl/internal/web/chardet"
)

const utf8Name = "utf-8"

// decode converts the body to UTF-8 and notes its encoding. A body in UTF-8 is not copied;
// invalid bytes stay.
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
	if err != nil {
		out = append(out, "\ufffd"...)
	}
	e.decoded = out
	return out
}

// encodesQueries is true of encodings that are used in queries. For others UTF-8 is; the escape
// sequences of ISO-2022-JP are not worth their code.
func encodesQueries(name string) bool {
	switch name {
	case utf8Name, "utf-16le", "utf-16be", "replacement", "iso-2022-jp", "x-user-defined":
		return false
	}
	return true
}

// inCharset encodes the query of ref in the encoding of the page (URL standard, percent-encode
// after encoding). Paths are always UTF-8.
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

func isASCII(s []byte) bool {
	for _, c := range s {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// plainText keeps a body without markup as it is: its line ends and indentation are its form.
func (e *Extractor) plainText(body []byte) {
	if e.opts.Text {
		e.text.buf = append(e.text.buf, bytes.TrimSpace(body)...)
		e.dst.Text = e.text.string()
	}
}

// UTF8 converts body from the encoding name, [Result].Charset; an unknown one is UTF-8. A body
// in UTF-8 is not copied.
func UTF8(body []byte, name string) []byte {
	if enc, name := charset.Lookup(name); enc != nil && name != utf8Name {
		if out, _, err := transform.Append(enc.NewDecoder(), nil, body); err == nil {
			return out
		}
	}
	return bytes.TrimPrefix(body, []byte("\ufeff"))
}

const (
	declaredWithin = 1 << 10  // where the HTML standard has the encoding declared
	lateWithin     = 64 << 10 // where browsers accept it as well
	maxLate        = 64       // tags that are tested there
	sample         = "é."     // text that the library takes for UTF-8
	// maxDeclarations bounds the remembered tags, so that the library reads the sample as well.
	maxDeclarations = declaredWithin - len(sample)
)

// userDefined is a label that a page cannot declare.
const userDefined = "x-user-defined"

// encodings finds the encoding of pages by the library, which needs a tokenizer. Pages of a site
// have equal declarations, so the last result is kept.
type encodings struct {
	scanner      scanner
	declarations []byte // the meta tags of the page that may declare one
	last         []byte // those that the library was last asked about
	declared     bool   // they declare one
	enc          encoding.Encoding
	name         string
}

// of finds an encoding by the HTML standard, §13.2.3.2: byte order mark, Content-Type,
// declaration of the page. A page without any that is valid UTF-8 is UTF-8, and so is one beyond
// ASCII that declares windows-1252: other text is not valid by chance. Otherwise it is guessed.
func (x *encodings) of(body []byte, server string) (encoding.Encoding, string) {
	if hasMark(body) {
		enc, name, _ := charset.DetermineEncoding(body, "")
		return enc, name
	}
	if enc, name := charset.Lookup(strings.TrimSpace(server)); enc != nil {
		return enc, name
	}
	head := body[:min(len(body), declaredWithin)]
	enc, name, declared := x.ofPage(head)
	if !declared && len(body) > len(head) {
		enc, name, declared = x.late(body[:min(len(body), lateWithin)])
	}
	if !declared {
		if label := xmlEncoding(head); label != "" {
			if xml, of := charset.Lookup(label); xml != nil {
				return inASCII(xml, of)
			}
		}
		if hasEscapes(body) {
			return charset.Lookup(chardet.Detect(body))
		}
	}
	if name == userDefined { // only a server can declare it
		enc, name = charset.Lookup(chardet.Default)
	}
	switch {
	case declared && (name != chardet.Default || isASCII(body)):
		return enc, name
	case utf8.Valid(body):
		return encoding.Nop, utf8Name
	case !declared:
		return charset.Lookup(chardet.Detect(body))
	}
	return enc, name
}

// hasEscapes is true of valid UTF-8 that may be UTF-16 or ISO-2022-JP: it has zeros or escapes.
func hasEscapes(body []byte) bool {
	return bytes.IndexByte(body[:min(len(body), declaredWithin)], 0) >= 0 || bytes.IndexByte(body, 0x1b) >= 0
}

// xmlEncoding is the label in an XML declaration ("get an XML encoding"), or empty.
func xmlEncoding(head []byte) string {
	if !hasPrefix(head, "<?xml") {
		return ""
	}
	head, _, ok := bytes.Cut(head, []byte(">"))
	_, rest, has := bytes.Cut(head, []byte("encoding"))
	rest, is := bytes.CutPrefix(trimControls(rest), []byte("="))
	rest = trimControls(rest)
	if !ok || !has || !is || len(rest) == 0 || rest[0] != '"' && rest[0] != '\'' {
		return ""
	}
	label, _, closed := bytes.Cut(rest[1:], rest[:1])
	if !closed || bytes.ContainsFunc(label, func(r rune) bool { return r <= ' ' }) {
		return ""
	}
	return string(label)
}

func trimControls(s []byte) []byte {
	return bytes.TrimLeftFunc(s, func(r rune) bool { return r <= ' ' })
}

// inASCII is the encoding that an ASCII page can mean by a label: not UTF-16.
func inASCII(enc encoding.Encoding, name string) (encoding.Encoding, string) {
	if name == "utf-16le" || name == "utf-16be" {
		return encoding.Nop, utf8Name
	}
	return enc, name
}

// hasMark reports whether body begins with the byte order mark of UTF-8 or UTF-16.
func hasMark(body []byte) bool {
	return hasPrefix(body, "\xef\xbb\xbf") || hasPrefix(body, "\xfe\xff") || hasPrefix(body, "\xff\xfe")
}

// ofPage decides by the beginning of a page, and reports whether that declares an encoding.
func (x *encodings) ofPage(head []byte) (enc encoding.Encoding, name string, declared bool) {
	x.declarations = x.declarations[:0]
	for tag := range x.metas(head) {
		x.declarations = appendASCII(x.declarations, tag)
	}
	switch {
	case len(x.declarations) == 0:
		return nil, "", false
	case len(x.declarations) <= maxDeclarations:
		x.ask()
		return x.enc, x.name, x.declared
	}
	enc, name, _ = charset.DetermineEncoding(head, "")
	return enc, name, true
}

// late is the first declaration after those that ofPage reads.
func (x *encodings) late(head []byte) (enc encoding.Encoding, name string, declared bool) {
	asked := 0
	for tag, end := range x.metas(head) {
		if end <= declaredWithin || len(tag) > maxDeclarations {
			continue
		}
		x.declarations = appendASCII(x.declarations[:0], tag)
		if x.ask(); x.declared {
			return x.enc, x.name, true
		}
		if asked++; asked == maxLate {
			break
		}
	}
	return nil, "", false
}

// metas are the meta tags that may declare a charset, and where each ends.
func (x *encodings) metas(head []byte) iter.Seq2[[]byte, int] {
	return func(yield func([]byte, int) bool) {
		s := &x.scanner
		s.reset(head, false, false)
		defer s.release()
		for t := s.next(); t != endOfPage; t = s.next() {
			if t != startTag || string(s.tag()) != "meta" {
				continue
			}
			if tag := head[s.nameEnd-len("<meta") : s.at]; namesCharset(tag) && !yield(tag, s.at) {
				return
			}
		}
	}
}

// appendASCII appends a tag, with "?" for other characters, which no label has: the library
// would take them as a sample of text.
func appendASCII(dst, tag []byte) []byte {
	for _, c := range tag {
		if c >= utf8.RuneSelf {
			c = '?'
		}
		dst = append(dst, c)
	}
	return dst
}

func namesCharset(tag []byte) bool {
	const word = "charset"
	for i, c := range tag {
		if c == '&' || lower(c) == word[0] && len(tag)-i >= len(word) && spells(tag[i:i+len(word)], word) {
			return true
		}
	}
	return false
}

// ask asks the library about new declarations. Without any it guesses by the text, so that two
// answers on different texts mean that there were none.
func (x *encodings) ask() {
	if x.last != nil && string(x.declarations) == string(x.last) {
		return
	}
	x.last = append(x.last[:0:0], x.declarations...)
	x.last = append(x.last, sample...)
	_, other, _ := charset.DetermineEncoding(x.last, "")
	x.last = x.last[:len(x.declarations)]
	x.enc, x.name, _ = charset.DetermineEncoding(x.last, "")
	x.declared = x.name == other
}
