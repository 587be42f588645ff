package canonical

import "bytes"

// text is what a reference can lie in. One body of code serves both, so that a page
// scanner need not make a string of every href it drops again.
type text interface{ ~string | ~[]byte }

// workspace is where a URL is put together before it becomes a string. Few links
// are longer, and those that are only cost one allocation more.
const workspace = 512

// resolve is the WHATWG URL parser for the two schemes we know. The standard reads
// character by character with a state; on whole parts the same rules are shorter.
func resolve[T text](base URL, ref T) (URL, error) {
	ref = strip(trim(ref))
	if len(ref) == 0 {
		if base.IsZero() {
			return URL{}, errEmpty
		}
		return base, nil
	}
	var buf [workspace]byte
	out, err := appendResolved(buf[:0], base, ref)
	if err != nil {
		return URL{}, err
	}
	if len(out) > MaxLength {
		return URL{}, ErrLong
	}
	return view(asString(out, ref)), nil
}

// Portable reports whether ref resolves to the same URL, or the same error, against
// every page of one directory (see [URL.Dir]), so that an answer may be remembered. It
// may say no of a reference that does, but never yes of one that does not: those that
// keep the page's own name, which are empty but for a query, perhaps behind a scheme.
func Portable(ref []byte) bool {
	ref = trim(ref)
	if len(ref) == 0 || ref[0] == '?' || ref[0] == '#' {
		return false
	}
	colon := bytes.IndexByte(ref, ':')
	return colon < 0 || len(ref) > colon+2 && ref[colon+1] == '/' && ref[colon+2] == '/'
}

// asString makes the string of out, or takes ref if it is that string already: a
// list of clean URLs then costs nothing.
func asString[T text](out []byte, ref T) string {
	if s, ok := any(ref).(string); ok && s == string(out) {
		return s
	}
	return string(out)
}

// trim removes what the standard removes from both ends: C0 controls and space.
func trim[T text](s T) T {
	for len(s) > 0 && s[0] <= ' ' {
		s = s[1:]
	}
	for len(s) > 0 && s[len(s)-1] <= ' ' {
		s = s[:len(s)-1]
	}
	return s
}

// strip cuts the fragment off and removes tabs and line ends, which the standard
// removes wherever they are: editors break long links.
func strip[T text](s T) T {
	for i := range len(s) {
		switch s[i] {
		case '#':
			return s[:i]
		case '\t', '\n', '\r':
			return stripFrom(s, i)
		}
	}
	return s
}

func stripFrom[T text](s T, i int) T {
	out := append(make([]byte, 0, len(s)), s[:i]...)
	for ; i < len(s) && s[i] != '#'; i++ {
		if c := s[i]; c != '\t' && c != '\n' && c != '\r' {
			out = append(out, c)
		}
	}
	return T(out)
}

// appendResolved decides what kind of reference ref is.
func appendResolved[T text](dst []byte, base URL, ref T) ([]byte, error) {
	if n := schemeLen(ref); n > 0 {
		scheme := webScheme(ref[:n])
		rest := ref[n+1:]
		if scheme == "" {
			return nil, ErrScheme
		}
		twoSlashes := len(rest) > 1 && rest[0] == '/' && rest[1] == '/'
		if twoSlashes || base.Scheme() != scheme {
			return appendAbsolute(dst, base, scheme, rest)
		}
		ref = rest // "https:page" under an https base is relative, says the standard
	}
	if base.IsZero() {
		return nil, errRelative
	}
	return appendRelative(dst, base, ref)
}

func appendRelative[T text](dst []byte, base URL, ref T) ([]byte, error) {
	root := int(base.path)
	switch {
	case len(ref) == 0:
		return append(dst, base.s...), nil
	case isSlash(ref[0]) && len(ref) > 1 && isSlash(ref[1]):
		return appendAbsolute(dst, base, base.Scheme(), ref)
	case isSlash(ref[0]):
		return appendTail(append(dst, base.s[:root+1]...), root, ref[1:])
	}
	bare := base.s[:root+index(base.s[root:], '?')]
	if ref[0] == '?' {
		return appendTail(append(dst, bare...), root, ref)
	}
	dir := len(bare)
	for bare[dir-1] != '/' {
		dir--
	}
	return appendTail(append(dst, bare[:dir]...), root, ref)
}

// appendAbsolute handles what stands behind "http:" or is a "//host/path". However
// many slashes there are, the next thing is the host.
func appendAbsolute[T text](dst []byte, base URL, scheme string, rest T) ([]byte, error) {
	for len(rest) > 0 && isSlash(rest[0]) {
		rest = rest[1:]
	}
	end := 0
	for end < len(rest) && !isSlash(rest[end]) && rest[end] != '?' {
		end++
	}
	dst = append(append(dst, scheme...), "://"...)
	dst, err := appendHost(dst, base, scheme, rest[:end])
	if err != nil {
		return nil, err
	}
	root := len(dst)
	dst = append(dst, '/')
	rest = rest[end:]
	if len(rest) > 0 && isSlash(rest[0]) {
		rest = rest[1:]
	}
	return appendTail(dst, root, rest)
}

// appendTail appends the path and the query of ref to a dst that ends in the
// directory they are relative to, whose path begins at root.
func appendTail[T text](dst []byte, root int, ref T) ([]byte, error) {
	if len(ref) > MaxLength { // do not even escape it
		return nil, ErrLong
	}
	q := index(ref, '?')
	if q > 0 {
		dst = appendPath(dst, root, ref[:q])
	}
	if q < len(ref) {
		dst = appendEscaped(append(dst, '?'), ref[q+1:], inQuery)
	}
	return dst, nil
}

// appendPath appends segment after segment and resolves the dots as it goes. A
// backslash separates as a slash does, as in every browser.
func appendPath[T text](dst []byte, root int, path T) []byte {
	for {
		n := 0
		for n < len(path) && !isSlash(path[n]) {
			n++
		}
		start := len(dst)
		dst = appendEscaped(dst, path[:n], inPath)
		switch string(dst[start:]) { // escaped dots stand for themselves by now
		case ".":
			dst = dst[:start]
		case "..":
			dst = parent(dst[:start], root)
		default:
			if n < len(path) {
				dst = append(dst, '/')
			}
		}
		if n == len(path) {
			return dst
		}
		path = path[n+1:]
	}
}

// parent removes the last directory of a dst that ends in a slash. The root is its
// own parent.
func parent(dst []byte, root int) []byte {
	end := len(dst) - 1
	if end <= root {
		return dst
	}
	for dst[end-1] != '/' {
		end--
	}
	return dst[:end]
}

// schemeLen is the length of the scheme in front of a colon, or 0 if there is none.
func schemeLen[T text](s T) int {
	for i := range len(s) {
		switch c := s[i]; {
		case c == ':':
			return i
		case classes[c]&alpha != 0:
		case i > 0 && classes[c]&schemeRest != 0:
		default:
			return 0
		}
	}
	return 0
}

// webScheme is the scheme as we spell it, or "" if it is not for us.
func webScheme[T text](s T) string {
	if len(s) < len("http") || len(s) > len("https") {
		return ""
	}
	for i := range len(s) {
		if s[i]|0x20 != "https"[i] {
			return ""
		}
	}
	return "https"[:len(s)]
}

func isSlash(c byte) bool { return c == '/' || c == '\\' }

// index is where c first stands in s, or the end of s.
func index[T text](s T, c byte) int {
	for i := range len(s) {
		if s[i] == c {
			return i
		}
	}
	return len(s)
}
