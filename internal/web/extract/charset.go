package extract

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
	"golang.org/x/text/transform"

	"github.com/treadlight/crawl/internal/web/chardet"
	"github.com/treadlight/crawl/internal/web/lazy"
)

const utf8Name = "utf-8"

// decode converts the body to UTF-8 and notes its encoding. A body in UTF-8 is not copied; invalid bytes stay.
func (e *Extractor) decode(body []byte, declared string) []byte {
	enc, name := encodingOf(&e.scanner, body, declared)
	e.dst.Charset = name
	if name == utf8Name {
		return bytes.TrimPrefix(body, []byte("\ufeff"))
	}
	// Other queries are in UTF-8; the escape sequences of ISO-2022-JP are not worth their code.
	if !slices.Contains([]string{"utf-16le", "utf-16be", "replacement", "iso-2022-jp", "x-user-defined"}, name) {
		e.links.enc = enc
	}
	out, _, err := transform.Append(enc.NewDecoder(), e.decoded[:0], body)
	if err != nil {
		out = append(out, "\ufffd"...)
	}
	e.decoded = out
	return out
}

// IsASCII reports whether s has ASCII alone.
func IsASCII(s []byte) bool {
	for _, c := range s {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// UTF8 converts body from the encoding name, [Result].Charset; an unknown one is UTF-8. A body in UTF-8 is not
// copied.
func UTF8(body []byte, name string) []byte {
	if enc, name := lookup(name); enc != nil && name != utf8Name {
		if out, _, err := transform.Append(enc.NewDecoder(), nil, body); err == nil {
			return out
		}
	}
	return bytes.TrimPrefix(body, []byte("\ufeff"))
}

// Encoding is the encoding of a body whose Content-Type declares that charset, or none, with its WHATWG name; of UTF-8 it is
// nil. It is what browsers find, and where the body declares none, what it is likely to be.
func Encoding(body []byte, declared string) (encoding.Encoding, string) {
	enc, name := encodingOf(new(scanner), body, declared)
	if name == utf8Name {
		return nil, name
	}
	return enc, name
}

// lookup is [charset.Lookup], and cheap for most pages.
func lookup(label string) (encoding.Encoding, string) {
	if label == utf8Name {
		return encoding.Nop, utf8Name
	}
	return charset.Lookup(label)
}

const (
	declaredWithin = 1 << 10  // where the HTML standard has the encoding declared
	lateWithin     = 64 << 10 // where browsers accept it as well
)

// encodingOf finds the encoding of a page by the HTML standard, §13.2.3.2: byte order mark, Content-Type, declaration
// of the page. A page without any that is valid UTF-8 is UTF-8, and so is one beyond ASCII that declares
// windows-1252: other text is not valid by chance. Otherwise it is guessed.
func encodingOf(s *scanner, body []byte, server string) (encoding.Encoding, string) {
	if hasPrefix(body, "\xef\xbb\xbf") || hasPrefix(body, "\xfe\xff") || hasPrefix(body, "\xff\xfe") { // a byte order mark
		enc, name, _ := charset.DetermineEncoding(body, "")
		return enc, name
	}
	if enc, name := lookup(strings.TrimSpace(server)); enc != nil {
		return enc, name
	}
	enc, name := declared(s, body[:min(len(body), lateWithin)])
	if enc == nil {
		if m := xmlDeclaration().FindSubmatch(body[:min(len(body), declaredWithin)]); m != nil {
			if enc, name = inASCII(slices.Concat(m[1:]...)); enc != nil {
				return enc, name
			}
		}
		// Zeros or escapes in valid UTF-8 may be UTF-16 or ISO-2022-JP.
		if bytes.IndexByte(body[:min(len(body), declaredWithin)], 0) >= 0 || bytes.IndexByte(body, 0x1b) >= 0 {
			return charset.Lookup(chardet.Detect(body))
		}
	}
	switch {
	case enc != nil && (name != chardet.Default || IsASCII(body)):
		return enc, name
	case utf8.Valid(body):
		return encoding.Nop, utf8Name
	case enc == nil:
		return charset.Lookup(chardet.Detect(body))
	}
	return enc, name
}

// declared is the encoding of the first meta tag that declares one, or nil.
func declared(s *scanner, head []byte) (encoding.Encoding, string) {
	s.reset(head, false, false)
	defer s.release()
	for t := s.next(); t != endOfPage; t = s.next() {
		if t != startTag || string(s.tag()) != "meta" {
			continue
		}
		label, _ := s.attr(attrCharset)
		enc, name := inASCII(label)
		if equiv, _ := s.attr(attrHTTPEquiv); enc == nil && is(equiv, "content-type") {
			content, _ := s.attr(attrContent)
			if is(content, "text/html; charset=utf-8") { // as most have it, without allocations
				return encoding.Nop, utf8Name
			}
			if m := charsetParam().FindSubmatch(content); m != nil {
				enc, name = inASCII(slices.Concat(m[1:]...))
			}
		}
		switch {
		case name == "x-user-defined": // only a server can declare it
			return charset.Lookup(chardet.Default)
		case enc != nil:
			return enc, name
		}
	}
	return nil, ""
}

// charsetParam finds the label in the content of a meta tag (HTML standard, extracting a character encoding from a
// meta element).
var charsetParam = lazy.Regexp(`(?i)charset[ \t\n\f\r]*=[ \t\n\f\r]*(?:"([^"]*)"|'([^']*)'|([^"' \t\n\f\r;][^ \t\n\f\r;]*))`)

// xmlDeclaration finds the label in one ("get an XML encoding").
var xmlDeclaration = lazy.Regexp(`^<\?xml[^>]*?encoding[\x00- ]*=[\x00- ]*(?:"([^"\x00- >]*)"|'([^'\x00- >]*)')[^>]*>`)

// inASCII is the encoding that an ASCII page can mean by a label: not UTF-16.
func inASCII(label []byte) (encoding.Encoding, string) {
	if is(label, utf8Name) { // without an allocation
		return encoding.Nop, utf8Name
	}
	enc, name := charset.Lookup(string(label))
	if name == "utf-16le" || name == "utf-16be" {
		return encoding.Nop, utf8Name
	}
	return enc, name
}
