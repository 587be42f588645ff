package extract

import (
	"bytes"
	"unicode/utf8"

	nethtml "golang.org/x/net/html"
)

// refreshTarget is the URL of a meta refresh such as "5; url=next.html": HTML standard §4.2.5.3,
// shared declarative refresh steps. It is empty if there is none.
func refreshTarget(s []byte) []byte {
	s = bytes.TrimLeft(s, " \t\n\f\r")
	digits := len(s)
	s = bytes.TrimLeft(s, "0123456789")
	if digits == len(s) && (len(s) == 0 || s[0] != '.') {
		return nil
	}
	s = bytes.TrimLeft(s, "0123456789.")
	if len(s) == 0 || s[0] != ';' && s[0] != ',' && !isSpace(s[0]) {
		return nil
	}
	s = bytes.TrimLeft(s, " \t\n\f\r")
	if len(s) > 0 && (s[0] == ';' || s[0] == ',') {
		s = s[1:]
	}
	s = afterURLEquals(bytes.TrimLeft(s, " \t\n\f\r"))
	if len(s) > 0 && (s[0] == '"' || s[0] == '\'') {
		q := s[0]
		s = s[1:]
		if i := bytes.IndexByte(s, q); i >= 0 {
			s = s[:i]
		}
	}
	return bytes.TrimSpace(s)
}

// afterURLEquals skips an optional "url=".
func afterURLEquals(s []byte) []byte {
	if len(s) < len("url") || !bytes.EqualFold(s[:len("url")], []byte("url")) {
		return s
	}
	rest := bytes.TrimLeft(s[len("url"):], " \t\n\f\r")
	if len(rest) == 0 || rest[0] != '=' {
		return s
	}
	return bytes.TrimLeft(rest[1:], " \t\n\f\r")
}

// nextImage splits the first URL off a srcset: HTML standard §4.8.4.3.8. Commas end a candidate
// only after a URL or its descriptors.
func nextImage(s []byte) (ref, rest []byte) {
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

// appendReference appends what the reference at the beginning of s stands for, and returns its
// length. In an attribute, where "&copy=1" is part of a query, a name must be complete and not
// followed by "=".
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
	// If the library took only a part of the name, the result ends as the name does; no whole
	// name stands for a letter, digit or semicolon, but one.
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
