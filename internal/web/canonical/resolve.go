package canonical

import "bytes"

// text is what a reference can be, so that a page scanner need not make strings.
type text interface{ ~string | ~[]byte }

// workspace is the buffer in which a URL is built; longer ones cost one allocation more.
const workspace = 512

// resolve is the WHATWG URL parser for http and https, on whole parts in place of single
// characters.
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
	return Restore(asString(out, ref)), nil
}

// Portable reports whether ref resolves to the same URL, or the same error, against every page
// of one directory (see [URL.Dir]), so that the result may be cached. It is false for references
// that keep the page's own name, and for some others.
func Portable(ref []byte) bool {
	ref = trim(ref)
	if len(ref) == 0 || ref[0] == '?' || ref[0] == '#' {
		return false
	}
	colon := bytes.IndexByte(ref, ':')
	return colon < 0 || len(ref) > colon+2 && ref[colon+1] == '/' && ref[colon+2] == '/'
}

// asString is out as a string, without allocating if that is ref.
func asString[T text](out []byte, ref T) string {
	if s, ok := any(ref).(string); ok && s == string(out) {
		return s
	}
	return string(out)
}

// trim removes C0 controls and space at both ends, as the standard does.
func trim[T text](s T) T {
	for len(s) > 0 && s[0] <= ' ' {
		s = s[1:]
	}
	for len(s) > 0 && s[len(s)-1] <= ' ' {
		s = s[:len(s)-1]
	}
	return s
}

// strip removes the fragment, tabs and line ends, as the standard does.
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

// appendAbsolute resolves what follows "http:", or a "//host/path" with any number of slashes.
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

// appendTail appends the path and query of ref to dst, a directory whose path begins at root.
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

// appendPath appends segment by segment and resolves dots. A backslash is a slash.
func appendPath[T text](dst []byte, root int, path T) []byte {
	for {
		n := 0
		for n < len(path) && !isSlash(path[n]) {
			n++
		}
		start := len(dst)
		dst = appendEscaped(dst, path[:n], inPath)
		switch string(dst[start:]) { // dots are unescaped by now
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

// parent removes the last directory of dst, which ends in a slash.
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

// webScheme is "http", "https" or "".
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

// index is where c first occurs in s, or len(s).
func index[T text](s T, c byte) int {
	for i := range len(s) {
		if s[i] == c {
			return i
		}
	}
	return len(s)
}
