package extract

import "bytes"

// refreshTarget is the URL in the content of a meta refresh, as in "5; url=next.html":
// HTML standard §4.2.5.3, shared declarative refresh steps. It is empty if the page
// only reloads itself, or if what stands there is not a refresh.
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

// afterURLEquals steps over "url=" with any space in it. Without one, what follows
// the semicolon is the URL.
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

// nextImage splits the first URL off a srcset: HTML standard §4.8.4.3.8. Commas end
// a candidate only behind a URL or its descriptors, for URLs may hold them.
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
