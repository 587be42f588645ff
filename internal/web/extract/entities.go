package extract

import (
	"bytes"
	"unicode/utf8"

	nethtml "golang.org/x/net/html"
)

// text is the current text as it reads. Line ends are one character in HTML.
func (s *scanner) text() []byte {
	return s.read(s.words, reading{refs: !s.verbatim, noNUL: s.noNUL})
}

// reading says what a stretch of the page can hold that does not read as it stands.
type reading struct {
	refs  bool // character references
	attr  bool // and they stand in an attribute, where names must be complete
	noNUL bool // a NUL stands for U+FFFD
}

// read gives raw as it reads: itself where that is how it stands, which is almost
// always, and a copy otherwise.
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

// appendReference appends what the reference at the beginning of s stands for, and
// says how long it is. What is none stands for itself. In an attribute, "&copy=1" is
// part of a query: there a name must be complete, and neither go on nor be assigned to.
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
	// The library has no way to ask for whole names, but what it took only part of still
	// ends as the name did, and no name stands for a letter, a digit or a semicolon,
	// but one.
	out := nethtml.UnescapeString(string(s[:n]))
	if out[len(out)-1] == s[n-1] && string(s[:n]) != "&semi;" {
		return append(dst, '&'), 1
	}
	return append(dst, out...), n
}

// longestName is beyond "&CounterClockwiseContourIntegral;", which no name is.
const longestName = 40

// referenceLen is the length of what can be a reference at the beginning of s, with
// its semicolon if it has one.
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
