package extract

import (
	"unicode/utf8"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
)

const (
	// declaredWithin is how far into a page the HTML standard has its encoding declared.
	declaredWithin = 1 << 10
	// sample is text that is taken for UTF-8, but for a last character beyond ASCII, which
	// might be cut.
	sample = "é."
	// maxDeclarations bounds the tags that are remembered, in bytes: with a sample behind
	// them the library still looks at all of it.
	maxDeclarations = declaredWithin - len(sample)
)

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
// then the server's word, then the page's own. A page that says nothing, or claims
// windows-1252, and is valid UTF-8 throughout, is UTF-8: text in any other encoding is
// not that by chance.
func (x *encodings) of(body []byte, server string) (encoding.Encoding, string) {
	if hasMark(body) {
		enc, name, _ := charset.DetermineEncoding(body, "")
		return enc, name
	}
	if enc, name := charset.Lookup(server); enc != nil {
		return enc, name
	}
	enc, name := x.ofPage(body[:min(len(body), declaredWithin)])
	if name == "windows-1252" && utf8.Valid(body) {
		return encoding.Nop, utf8Name
	}
	return enc, name
}

// hasMark reports whether body begins with a byte order mark of UTF-8 or UTF-16.
func hasMark(body []byte) bool {
	return hasPrefix(body, "\xef\xbb\xbf") || hasPrefix(body, "\xfe\xff") || hasPrefix(body, "\xff\xfe")
}

// ofPage goes by the beginning of a page alone.
func (x *encodings) ofPage(head []byte) (encoding.Encoding, string) {
	x.gather(head)
	if len(x.declarations) <= maxDeclarations && isASCII(x.declarations) {
		if x.last == nil || string(x.declarations) != string(x.last) {
			x.ask()
		}
		if x.declared || isASCII(head) {
			return x.enc, x.name
		}
	}
	enc, name, _ := charset.DetermineEncoding(head, "") // which looks at the text as well
	return enc, name
}

// gather collects the meta tags of head that name a charset, or may, in references.
func (x *encodings) gather(head []byte) {
	x.declarations = x.declarations[:0]
	s := &x.scanner
	s.reset(head, false, false)
	for t := s.next(); t != endOfPage; t = s.next() {
		if t != startTag || string(s.tag()) != "meta" {
			continue
		}
		if tag := head[s.nameEnd-len("<meta") : s.at]; namesCharset(tag) {
			x.declarations = append(x.declarations, tag...)
		}
	}
	s.release()
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

// ask asks the library about the declarations. It says of a page without any what its
// text looks like, so that two answers on different texts tell that there was none.
func (x *encodings) ask() {
	x.last = append(x.last[:0:0], x.declarations...)
	x.last = append(x.last, sample...)
	_, other, _ := charset.DetermineEncoding(x.last, "")
	x.last = x.last[:len(x.declarations)]
	x.enc, x.name, _ = charset.DetermineEncoding(x.last, "")
	x.declared = x.name == other
}
