package extract

import (
	"bytes"
	"strings"
	"unicode/utf8"

	nethtml "golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/treadlight/crawl/internal/web/lazy"
)

// gap is the space before the next character. Of two the larger one counts.
type gap uint8

const (
	none gap = iota
	blank
	line
)

// textBuffer collects the text of a page: one space for white space, a new line between blocks, none at the ends.
type textBuffer struct {
	buf []byte
	due gap
}

// add returns the buffer with s, so that one on the stack stays there.
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

// field is s with white space collapsed, as valid UTF-8, at most maxField bytes of whole characters.
func field(s []byte) string {
	if len(s) == 0 {
		return ""
	}
	var room [256]byte // for most
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

// refresh is the content of a meta refresh such as "5; url=next.html": HTML standard §4.2.5.3, shared declarative
// refresh steps.
var refresh = lazy.Regexp(`(?is)^[ \t\n\f\r]*(?:\d+|\d*\.)[\d.]*(?:[;,]|[ \t\n\f\r]+[;,]?)[ \t\n\f\r]*` +
	`(?:url[ \t\n\f\r]*=[ \t\n\f\r]*)?(?:"([^"]*)|'([^']*)|(.*))`)

// RefreshTarget is the URL in the content of a meta refresh, as it is written, in the memory of s. Empty: there is none.
func RefreshTarget(s []byte) []byte {
	m := refresh().FindSubmatchIndex(s)
	for i := 2; i < len(m); i += 2 {
		if m[i] >= 0 {
			return bytes.TrimSpace(s[m[i]:m[i+1]])
		}
	}
	return nil
}

// Unescape resolves the character references of an attribute.
func Unescape(s string) string {
	if strings.IndexByte(s, '&') < 0 {
		return s
	}
	text, _ := UnescapeMapped([]byte(s))
	return string(text)
}

// UnescapeMapped is Unescape, with the places in s of each byte of the text and of its end.
func UnescapeMapped(s []byte) (text []byte, places []int) {
	for i := 0; i < len(s); {
		n := 1
		if s[i] == '&' {
			text, n = appendReference(text, s[i:], true)
		} else {
			text = append(text, s[i])
		}
		for len(places) < len(text) {
			places = append(places, i)
		}
		i += n
	}
	return text, append(places, len(s))
}

// NextImage splits the first URL off a srcset, in the memory of s: HTML standard §4.8.4.3.8. Commas end a candidate only after a URL or
// its descriptors.
func NextImage(s []byte) (ref, rest []byte) {
	s = bytes.TrimLeft(s, " \t\n\f\r,")
	end := 0
	for end < len(s) && !isSpace(s[end]) {
		end++
	}
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

// text is the current text, decoded.
func (s *scanner) text() []byte {
	return s.read(s.words, reading{refs: !s.verbatim, noNUL: s.noNUL})
}

// reading is how to decode a part of the page.
type reading struct {
	refs  bool // it has character references
	attr  bool // of an attribute
	noNUL bool // NUL is U+FFFD
}

// read decodes raw: references, NUL, and line ends, which are "\n". It copies only what differs.
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

// appendReference appends what the reference at the beginning of s stands for, and returns its length. In an
// attribute, where "&copy=1" is part of a query, a name must be complete and not followed by "=".
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
	// If the library took only a part of the name, the result ends as the name does; no whole name stands for a
	// letter, digit or semicolon, but one.
	out := nethtml.UnescapeString(string(s[:n]))
	if out[len(out)-1] == s[n-1] && string(s[:n]) != "&semi;" {
		return append(dst, '&'), 1
	}
	return append(dst, out...), n
}

const longestName = 40 // longer than "&CounterClockwiseContourIntegral;"

// referenceLen is the length of what can be a reference, with its semicolon.
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

// rawElement is name if its content is raw text, or "". The extractor handles XHTML and foreign elements.
func rawElement(name []byte) string {
	switch string(name) {
	case "script", "style", "title", "textarea", "iframe", "noscript", "noframes", "noembed", "xmp", "plaintext":
		return atom.String(name) // without allocation
	}
	return ""
}

// rawText reads the content of the element just begun and reports whether it has any: there are no empty text tokens.
func (s *scanner) rawText() bool {
	from, to := s.at, RawTextEnd(s.body, s.at, s.raw)
	s.setText(from, to, to)
	s.verbatim = s.raw != "textarea" && s.raw != "title"
	s.noNUL = true
	s.raw = ""
	return to > from
}

// RawTextEnd is where the end tag of a raw text element is whose content begins at i, or the end of s. The name is in
// lower case.
func RawTextEnd(s []byte, i int, name string) int {
	switch name {
	case "plaintext": // which nothing ends
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

// isTag reports whether the tag name at i is name. At the end of the page it is not: the name could go on.
func isTag(s []byte, i int, name string) bool {
	if i+len(name) >= len(s) {
		return false
	}
	return spells(s[i:i+len(name)], name) && kinds[s[i+len(name)]]&endsName != 0
}

// scriptEnd is where the end tag of a script is, or the end of s. Old pages hide scripts in comments, and a script in
// a comment may contain a script: §13.2.5.15 to 31. Where a comment contains a "<" that begins no tag it ends, as in
// x/net/html; by the standard it goes on.
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

// hiddenScript reads a script within a comment, up to the end of either, and reports whether it was that of the
// script.
//
// The eleven states of the standard are two values: how many dashes came right before, since two and a ">" end the
// comment, and whether another script was begun within it.
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
			i += len("script>") // or with another byte that ends a name
		case nested: // a script within a script within a comment is text
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
