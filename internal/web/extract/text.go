package extract

import (
	"bytes"
	"strings"
	"unicode/utf8"

	nethtml "golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/treadlight/crawl/internal/lazy"
)

// gap is the white space before the next character. Of two gaps the larger applies.
type gap uint8

const (
	none gap = iota
	blank
	line
)

// textBuffer collects the text of a page: one space for white space, a new line between blocks, neither at the ends.
type textBuffer struct {
	buf []byte
	due gap
}

// add returns the buffer with s appended. It is passed by value, so that a buffer on the stack stays there.
func (t textBuffer) add(s []byte) textBuffer {
	for len(s) > 0 {
		n := endOf(s, 0, space)
		if n > 0 {
			if len(t.buf) > 0 && t.due != none {
				t.buf = append(t.buf, " \n"[t.due-blank])
			}
			t.due = none
			t.buf = append(t.buf, s[:n]...)
		}
		if s = s[n:]; len(s) > 0 {
			t.due = max(t.due, blank)
			s = s[1:]
		}
	}
	return t
}

// field returns s with white space collapsed, as valid UTF-8, cut to maxField bytes of whole characters.
func field(s []byte) string {
	if len(s) == 0 {
		return ""
	}
	var room [256]byte // enough for most
	t := textBuffer{buf: room[:0]}.add(s[:min(len(s), 4*maxField)])
	out := string(t.buf)
	if !utf8.ValidString(out) {
		out = strings.ToValidUTF8(out, "\ufffd")
	}
	if len(out) <= maxField {
		return out
	}
	end := maxField
	for !utf8.RuneStart(out[end]) {
		end--
	}
	return out[:end]
}

// refresh matches the content of a meta refresh such as "5; url=next.html": HTML standard §4.2.5.3, shared declarative
// refresh steps.
var refresh = lazy.Regexp(`(?is)^[ \t\n\f\r]*(?:\d+|\d*\.)[\d.]*(?:[;,]|[ \t\n\f\r]+[;,]?)[ \t\n\f\r]*` +
	`(?:url[ \t\n\f\r]*=[ \t\n\f\r]*)?(?:"([^"]*)|'([^']*)|(.*))`)

// RefreshTarget returns the URL in the content of a meta refresh, as it is written, sharing the memory of s. Empty
// means that there is none.
func RefreshTarget(s []byte) []byte {
	m := refresh().FindSubmatchIndex(s)
	for i := 2; i < len(m); i += 2 {
		if m[i] >= 0 {
			return bytes.TrimSpace(s[m[i]:m[i+1]])
		}
	}
	return nil
}

// Unescape resolves the character references in the value of an attribute.
func Unescape(s string) string {
	if strings.IndexByte(s, '&') < 0 {
		return s
	}
	text, _ := unescape([]byte(s), false)
	return string(text)
}

// UnescapeMapped is Unescape that also returns the index in s of each byte of the text, and of the end of the text.
func UnescapeMapped(s []byte) (text []byte, places []int) {
	text, places = unescape(s, true)
	return text, append(places, len(s))
}

func unescape(s []byte, mapped bool) (text []byte, places []int) {
	for i := 0; i < len(s); {
		n := 1
		if s[i] == '&' {
			text, n = appendReference(text, s[i:], true)
		} else {
			text = append(text, s[i])
		}
		for mapped && len(places) < len(text) {
			places = append(places, i)
		}
		i += n
	}
	return text, places
}

// NextImage splits the first URL off a srcset, sharing the memory of s: HTML standard §4.8.4.3.8. A comma ends a
// candidate only after a URL or its descriptors.
func NextImage(s []byte) (ref, rest []byte) {
	s = bytes.TrimLeft(s, " \t\n\f\r,")
	end := endOf(s, 0, space)
	ref, rest = s[:end], s[end:]
	if bare := bytes.TrimRight(ref, ","); len(bare) < len(ref) {
		return bare, rest
	}
	depth := 0
	for i, c := range rest {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ',' && depth <= 0:
			return ref, rest[i+1:]
		}
	}
	return ref, nil
}

// text returns the current text, decoded.
func (s *scanner) text() []byte {
	return s.read(s.words, reading{refs: !s.verbatim, noNUL: s.noNUL})
}

// reading says how to decode a part of the page.
type reading struct {
	refs  bool // it has character references
	attr  bool // it is the value of an attribute
	noNUL bool // NUL becomes U+FFFD
}

// read decodes raw: it resolves references, replaces NUL, and turns line ends into "\n". If nothing changes it returns
// raw without a copy.
func (s *scanner) read(raw []byte, as reading) []byte {
	if (!as.refs || bytes.IndexByte(raw, '&') < 0) && (!as.noNUL || bytes.IndexByte(raw, 0) < 0) && bytes.IndexByte(raw, '\r') < 0 {
		return raw
	}
	out := s.decoded
	for i := 0; i < len(raw); {
		switch c := raw[i]; {
		case c == '&' && as.refs:
			n := 0
			out, n = appendReference(out, raw[i:], as.attr)
			i += n
			continue
		case c == '\r':
			if i+1 == len(raw) || raw[i+1] != '\n' {
				out = append(out, '\n')
			}
		case c == 0 && as.noNUL:
			out = utf8.AppendRune(out, utf8.RuneError)
		default:
			out = append(out, c)
		}
		i++
	}
	from := len(s.decoded)
	s.decoded = out
	return out[from:]
}

// appendReference appends the characters of the reference at the beginning of s, and returns its length. In an
// attribute, where "&copy=1" is part of a query, a name must be complete and not be followed by "=".
func appendReference(dst, s []byte, attr bool) ([]byte, int) {
	n := referenceLen(s)
	switch string(s[:n]) {
	case "&amp;":
		return append(dst, '&'), n
	case "&", "&#", "&#x", "&#X":
		return append(dst, '&'), 1
	}
	complete := s[n-1] == ';'
	if s[1] == '#' || !attr {
		return append(dst, nethtml.UnescapeString(string(s[:n]))...), n
	}
	if !complete && n < len(s) && s[n] == '=' || n > longestName {
		return append(dst, '&'), 1
	}
	// If the library resolved only a part of the name, the result ends like the name does. No complete name stands for
	// a letter, digit or semicolon, except &semi;.
	out := nethtml.UnescapeString(string(s[:n]))
	if out[len(out)-1] == s[n-1] && string(s[:n]) != "&semi;" {
		return append(dst, '&'), 1
	}
	return append(dst, out...), n
}

const longestName = 40 // longer than "&CounterClockwiseContourIntegral;"

// referenceLen returns the length of what may be a reference, including its semicolon.
func referenceLen(s []byte) int {
	n, of := 1, uint8(letter|digit)
	if n < len(s) && s[n] == '#' {
		n, of = n+1, digit
		if n < len(s) && lower(s[n]) == 'x' {
			n, of = n+1, hexDigit
		}
	}
	start := n
	for n < len(s) && kinds[s[n]]&of != 0 {
		n++
	}
	if n > start && n < len(s) && s[n] == ';' {
		n++
	}
	return n
}

// rawElement returns name if the content of that element is raw text, and otherwise an empty string. The Extractor
// handles XHTML and foreign elements.
func rawElement(name []byte) string {
	switch string(name) {
	case "script", "style", "title", "textarea", "iframe", "noscript", "noframes", "noembed", "xmp", "plaintext":
		return atom.String(name) // does not allocate
	}
	return ""
}

// rawText reads the content of the element just begun and reports whether it has any, as there are no empty text
// tokens.
func (s *scanner) rawText() bool {
	from, to := s.at, RawTextEnd(s.body, s.at, s.raw)
	s.setText(from, to, to)
	s.verbatim = s.raw != "textarea" && s.raw != "title"
	s.noNUL = true
	s.raw = ""
	return to > from
}

// RawTextEnd returns the index of the end tag of a raw text element whose content begins at i, or the length of s. The
// name is in lower case.
func RawTextEnd(s []byte, i int, name string) int {
	switch name {
	case "plaintext": // nothing ends it
		return len(s)
	case "script":
		return scriptEnd(s, i)
	}
	return rawEnd(s, i, name)
}

func rawEnd(s []byte, i int, name string) int {
	for {
		n := bytes.Index(s[i:], []byte("</"))
		if n < 0 {
			return len(s)
		}
		i += n + len("</")
		if isTag(s, i, name) {
			return i - len("</")
		}
	}
}

// isTag reports whether the tag name at i is name. At the end of the page it returns false, because the name could be
// longer.
func isTag(s []byte, i int, name string) bool {
	if i+len(name) >= len(s) {
		return false
	}
	return spells(s[i:i+len(name)], name) && kinds[s[i+len(name)]]&endsName != 0
}

// scriptEnd returns the index of the end tag of a script, or the length of s. Old pages hide scripts in comments, and a
// script in a comment may contain a script: §13.2.5.15 to 31. A "<" in such a comment that begins no tag ends the
// comment, as in x/net/html; by the standard the comment continues.
func scriptEnd(s []byte, i int) int {
	const tag, comment = "script", "<!--"
	for {
		n := bytes.IndexByte(s[i:], '<')
		if n < 0 {
			return len(s)
		}
		i += n
		switch {
		case hasPrefix(s[i:], "</") && isTag(s, i+len("</"), tag):
			return i
		case hasPrefix(s[i:], comment):
			var end bool
			if i, end = hiddenScript(s, i+len(comment)); end {
				return i
			}
		default:
			i++
		}
	}
}

// hiddenScript reads a script within a comment, up to the end of the comment or of the script, and reports whether it
// was the end of the script.
//
// The eleven states of the standard are kept in two values: the number of dashes right before, as two and a ">" end the
// comment, and whether another script was begun within the comment.
func hiddenScript(s []byte, i int) (next int, end bool) {
	const tag = "script"
	nested := false                // within a script within the comment
	for dashes := 2; i < len(s); { // those of "<!--" count
		c := s[i]
		i++
		switch {
		case c == '-':
			dashes++
			continue
		case c == '>' && dashes >= 2:
			return i, false
		case c != '<':
		case i == len(s): // a "<" at the end of the page
		case s[i] == '/':
			i++
			if !isTag(s, i, tag) {
				break
			}
			if !nested {
				return i - len("</"), true
			}
			nested = false
			i += len("script>") // or another byte that ends a name
		case nested: // a third level of scripts is text
		case kinds[s[i]]&letter == 0:
			return i, false
		case isTag(s, i, tag):
			nested = true
			i += len("script>")
		}
		dashes = 0
	}
	return len(s), true
}
