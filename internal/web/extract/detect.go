package extract

import (
	"bytes"
	"iter"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"

	"github.com/treadlight/crawl/internal/web/chardet"
)

const (
	// declaredWithin is how far into a page the HTML standard has its encoding declared, and
	// lateWithin how far it is looked for where it is not there: browsers take one in the head
	// when they meet it. At most maxLate tags are asked about there.
	declaredWithin = 1 << 10
	lateWithin     = 64 << 10
	maxLate        = 64
	// sample is text that is taken for UTF-8, but for a last character beyond ASCII, which
	// might be cut.
	sample = "é."
	// maxDeclarations bounds the tags that are remembered, in bytes: with a sample behind
	// them the library still looks at all of it.
	maxDeclarations = declaredWithin - len(sample)
)

// userDefined is a label that pages cannot give themselves.
const userDefined = "x-user-defined"

// encodings finds the encoding of pages. The library does, and asks its tokenizer; but
// the pages of a site declare alike, so what it made of the last declaration is
// remembered.
type encodings struct {
	scanner      scanner
	declarations []byte // the meta tags of the page that can declare one
	last         []byte // those of the last page that the library was asked about
	declared     bool   // whether they did
	enc          encoding.Encoding
	name         string
}

// of finds a body's encoding as the HTML standard does, §13.2.3.2: byte order mark,
// then the server's word, then the page's own. A page that says nothing and is valid UTF-8
// throughout is UTF-8, and so is one beyond ASCII that claims windows-1252: text in any other
// encoding is not that by chance. Of others that say nothing it is guessed.
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
		if hasForm(body) {
			return charset.Lookup(chardet.Detect(body))
		}
	}
	if name == userDefined { // only a server can mean it
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

// hasForm is true of text that is valid UTF-8 and may be something else: that has zeros or
// escapes, as none in UTF-8 needs any.
func hasForm(body []byte) bool {
	return bytes.IndexByte(body[:min(len(body), declaredWithin)], 0) >= 0 || bytes.IndexByte(body, 0x1b) >= 0
}

// xmlEncoding is the label in an XML declaration, as the standard finds it: "get an XML
// encoding". It is empty if there is none.
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

// inASCII is the encoding that a page in ASCII can mean by a label: its own text says that
// it is not UTF-16.
func inASCII(enc encoding.Encoding, name string) (encoding.Encoding, string) {
	if name == "utf-16le" || name == "utf-16be" {
		return encoding.Nop, utf8Name
	}
	return enc, name
}

// hasMark reports whether body begins with a byte order mark of UTF-8 or UTF-16.
func hasMark(body []byte) bool {
	return hasPrefix(body, "\xef\xbb\xbf") || hasPrefix(body, "\xfe\xff") || hasPrefix(body, "\xff\xfe")
}

// ofPage goes by the beginning of a page alone, and tells whether the page says what it is
// in. If it does not, the encoding is of no meaning.
func (x *encodings) ofPage(head []byte) (enc encoding.Encoding, name string, declared bool) {
	x.gather(head)
	switch {
	case len(x.declarations) == 0:
		return nil, "", false
	case len(x.declarations) <= maxDeclarations:
		x.ask()
		return x.enc, x.name, x.declared
	}
	enc, name, _ = charset.DetermineEncoding(head, "") // which looks at the text as well
	return enc, name, true
}

// gather collects the declarations of head.
func (x *encodings) gather(head []byte) {
	x.declarations = x.declarations[:0]
	for tag := range x.metas(head) {
		x.declarations = appendASCII(x.declarations, tag)
	}
}

// late is the first declaration behind those that ofPage looks at.
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

// metas are the meta tags of head that name a charset, or may, and where each ends.
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

// appendASCII appends a tag as far as it matters to the library, which would look at other
// characters as at text. No label has any, nor a question mark.
func appendASCII(dst, tag []byte) []byte {
	for _, c := range tag {
		if c >= utf8.RuneSelf {
			c = '?'
		}
		dst = append(dst, c)
	}
	return dst
}

// namesCharset reports whether a tag can declare an encoding.
func namesCharset(tag []byte) bool {
	const word = "charset"
	for i, c := range tag {
		if c == '&' || lower(c) == word[0] && len(tag)-i >= len(word) && sameName(tag[i:i+len(word)], []byte(word)) {
			return true
		}
	}
	return false
}

// ask asks the library about the declarations, unless they are the last it was asked about.
// It says of a page without any what its text looks like, so that two answers on different
// texts tell that there was none.
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
