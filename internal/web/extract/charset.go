package extract

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"github.com/treadlight/crawl/internal/lazy"
	"github.com/treadlight/crawl/internal/web/chardet"
)

const utf8Name = "utf-8"

// decode converts the body to UTF-8 and notes its encoding. A body in UTF-8 is not copied, and its invalid bytes are
// kept.
func (e *Extractor) decode(body []byte, declared string) []byte {
	enc, name := encodingOf(&e.scanner, body, declared)
	e.dst.Charset = name
	if name == utf8Name {
		return bytes.TrimPrefix(body, []byte("\ufeff"))
	}
	// In these encodings queries are sent as UTF-8, by the standard or, for ISO-2022-JP, because its escape sequences
	// are not worth the code.
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

// IsASCII reports whether s has only ASCII bytes.
func IsASCII(s []byte) bool {
	for _, c := range s {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// UTF8 converts body to UTF-8 from the encoding name, as in [Result].Charset. An unknown encoding counts as UTF-8. A
// body in UTF-8 is not copied.
func UTF8(body []byte, name string) []byte {
	if enc, name := lookup(name); enc != nil && name != utf8Name {
		if out, _, err := transform.Append(enc.NewDecoder(), nil, body); err == nil {
			return out
		}
	}
	return bytes.TrimPrefix(body, []byte("\ufeff"))
}

// Encoding returns the encoding of a body, given the charset of its Content-Type, which may be empty, and the WHATWG
// name of the encoding. For UTF-8 the encoding is nil. It is the encoding that browsers find; if neither header nor
// body declares one, it is the most likely one.
func Encoding(body []byte, declared string) (encoding.Encoding, string) {
	enc, name := encodingOf(new(scanner), body, declared)
	if name == utf8Name {
		return nil, name
	}
	return enc, name
}

// Editable returns a body as text whose markup is ASCII, and the encoding of its other characters; nil means UTF-8. In
// most encodings the text is the body. Otherwise it is UTF-8, and back returns an edited text in the encoding of the
// body. If the body cannot be restored byte by byte, text is nil and back returns the body.
func Editable(body []byte, declared string) (text []byte, beyond encoding.Encoding, back func([]byte) []byte) {
	enc, name := Encoding(body, declared)
	switch name {
	case utf8Name, "replacement", "x-user-defined":
		return body, nil, nil
	case "utf-16le":
		enc = unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)
	case "utf-16be":
		enc = unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)
	case "iso-2022-jp":
	default:
		return body, enc, nil
	}
	text, _, err := transform.Bytes(enc.NewDecoder(), body)
	back = func(b []byte) []byte {
		out, _, e := transform.Bytes(enc.NewEncoder(), b)
		if err != nil || e != nil {
			return body
		}
		return out
	}
	if !bytes.Equal(back(text), body) {
		err, text = encoding.ErrInvalidUTF8, nil
	}
	return text, nil, back
}

// lookup is [charset.Lookup] with a fast path for UTF-8.
func lookup(label string) (encoding.Encoding, string) {
	if label == utf8Name {
		return encoding.Nop, utf8Name
	}
	return charset.Lookup(label)
}

const (
	declaredWithin = 1 << 10  // bytes within which the HTML standard expects the declaration
	lateWithin     = 64 << 10 // bytes within which browsers accept it, too
)

// encodingOf finds the encoding of a page by the HTML standard, §13.2.3.2: byte order mark, Content-Type, declaration
// of the page. A page without any of these is UTF-8 if it is valid UTF-8. So is a page that declares windows-1252, has
// bytes beyond ASCII, and is valid UTF-8, as other text is hardly ever valid by chance. Otherwise the encoding is
// guessed.
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
		// With NUL or escape bytes, valid UTF-8 may be UTF-16 or ISO-2022-JP.
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

// declared returns the encoding of the first meta tag that declares one, or nil.
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
			if is(content, "text/html; charset=utf-8") { // the most frequent one, without allocations
				return encoding.Nop, utf8Name
			}
			if m := charsetParam().FindSubmatch(content); m != nil {
				enc, name = inASCII(slices.Concat(m[1:]...))
			}
		}
		switch {
		case name == "x-user-defined": // only a header can declare it
			return charset.Lookup(chardet.Default)
		case enc != nil:
			return enc, name
		}
	}
	return nil, ""
}

// charsetParam matches the label in the content of a meta tag (HTML standard, extracting a character encoding from a
// meta element).
var charsetParam = lazy.Regexp(`(?i)charset[ \t\n\f\r]*=[ \t\n\f\r]*(?:"([^"]*)"|'([^']*)'|([^"' \t\n\f\r;][^ \t\n\f\r;]*))`)

// xmlDeclaration matches the label in an XML declaration (HTML standard, "get an XML encoding").
var xmlDeclaration = lazy.Regexp(`^<\?xml[^>]*?encoding[\x00- ]*=[\x00- ]*(?:"([^"\x00- >]*)"|'([^'\x00- >]*)')[^>]*>`)

// inASCII returns the encoding that a label means within a page of ASCII bytes: UTF-16 cannot be meant and gives UTF-8.
func inASCII(label []byte) (encoding.Encoding, string) {
	if is(label, utf8Name) { // avoids an allocation
		return encoding.Nop, utf8Name
	}
	enc, name := charset.Lookup(string(label))
	if name == "utf-16le" || name == "utf-16be" {
		return encoding.Nop, utf8Name
	}
	return enc, name
}
