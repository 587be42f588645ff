package extract

import (
	"bytes"
	"errors"

	nethtml "golang.org/x/net/html"
)

// maxToken bounds what the tokenizer buffers. It is beyond any tag or text that
// matters, and below the inlined images and data that some pages are full of.
const maxToken = 1 << 20

// scanner gives the tokens of a body in memory. It wraps the tokenizer of x/net/html
// for two reasons: a token beyond maxToken ends that one, and a page does not end
// there; and its TagName and TagAttr copy every name and value, which Raw does not.
type scanner struct {
	body    []byte
	last    int    // where in body the token before the current one begins
	pos     int    // where the current one begins
	next    int    // where the next one will
	rawTag  string // the element whose raw text comes next, if the caller said so
	xhtml   bool
	partial nethtml.TokenType // type of the last token, which may have been cut
	reader  bytes.Reader
	z       *nethtml.Tokenizer
}

// reset begins a page.
func (s *scanner) reset(body []byte, xhtml bool) {
	*s = scanner{body: body, xhtml: xhtml}
	s.restart(0)
}

// restart begins to tokenize at pos. The tokenizer cannot be reused.
func (s *scanner) restart(pos int) {
	s.reader.Reset(s.body[pos:])
	s.z = nethtml.NewTokenizer(&s.reader)
	s.z.SetMaxBuf(maxToken)
	s.z.AllowCDATA(s.xhtml)
	s.next = pos
}

// token is the type of the next token. ErrorToken is the end of the body.
func (s *scanner) token() nethtml.TokenType {
	s.last, s.pos = s.pos, s.next
	tt := s.z.Next()
	s.next += len(s.z.Raw())
	if tt == nethtml.ErrorToken && errors.Is(s.z.Err(), nethtml.ErrBufferExceeded) {
		s.restart(s.pos + s.oversized())
		tt = nethtml.CommentToken // for something without content
	}
	if tt != nethtml.TextToken && tt != nethtml.CommentToken {
		s.rawTag = ""
	}
	s.partial = tt
	return tt
}

// oversized is how much has to be stepped over from the current position. A tag that
// is too long comes without any token; text and comments come cut short first.
func (s *scanner) oversized() int {
	rest := s.body[s.pos:]
	switch {
	case s.next > s.pos:
		return through(rest, ">")
	case s.partial == nethtml.CommentToken && bytes.HasPrefix(s.body[s.last:], []byte("<!--")):
		return through(rest, "-->")
	case s.partial == nethtml.CommentToken:
		return through(rest, ">")
	case s.rawTag != "":
		return toEndTag(rest, s.rawTag)
	}
	if i := bytes.IndexByte(rest, '<'); i >= 0 {
		return i
	}
	return len(rest)
}

// through is the length of s up to and including the first end.
func through(s []byte, end string) int {
	if i := bytes.Index(s, []byte(end)); i >= 0 {
		return i + len(end)
	}
	return len(s)
}

// toEndTag is the length of s up to the first "</name", in whatever case.
func toEndTag(s []byte, name string) int {
	for at := 0; ; {
		i := bytes.Index(s[at:], []byte("</"))
		if i < 0 {
			return len(s)
		}
		at += i
		if after := s[at+len("</"):]; len(after) >= len(name) && bytes.EqualFold(after[:len(name)], []byte(name)) {
			return at
		}
		at += len("</")
	}
}

// raw is the current token as it stands in the page. It is valid until the next one.
func (s *scanner) raw() []byte { return s.body[s.pos:s.next] }

// text is the current text token with its entities resolved, valid until the next.
func (s *scanner) text() []byte { return s.z.Text() }

// rawText notes that the element just begun holds raw text.
func (s *scanner) rawText(name string) { s.rawTag = name }

// markup makes the content of the element just begun be read as markup, where the
// tokenizer would take it for raw text.
func (s *scanner) markup() { s.z.NextIsNotRawText() }

// tagName is the lower-case name of a tag in its raw form, "<name …>" or "</name …>".
// It is empty if the name is longer than any we look for.
func tagName(raw []byte, buf *[maxName]byte) []byte {
	i := 1
	if len(raw) > 1 && raw[1] == '/' {
		i = 2
	}
	n := 0
	for ; i < len(raw); i++ {
		switch raw[i] {
		case ' ', '\n', '\r', '\t', '\f', '/', '>':
			return buf[:n]
		}
		if n == maxName {
			return nil
		}
		buf[n] = lower(raw[i])
		n++
	}
	return buf[:n]
}

// lower is c in lower case if it is an ASCII letter; names in HTML know no others.
func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c | 0x20
	}
	return c
}
