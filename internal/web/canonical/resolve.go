package canonical

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	whatwg "github.com/nlnwa/whatwg-url/url"
)

// text is the type of a reference: string or []byte, so that a page scanner need not make strings.
type text interface{ ~string | ~[]byte }

// workspace is the size of the buffer in which a URL is built. Longer URLs cost one more allocation.
const workspace = 512

// resolve implements the WHATWG URL parser for http and https. It works on whole parts instead of single characters.
func resolve[T text](base URL, ref T) (URL, error) {
	ref = strip(Trim(ref))
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
	if s, ok := any(ref).(string); ok && s == string(out) { // avoids an allocation
		return Restore(s), nil
	}
	return Restore(string(out)), nil
}

// Portable reports whether ref resolves to the same URL, or the same error, for every page of one directory (see
// [URL.Dir]), so that the result may be cached. It is false for references that contain the name of the page, and for
// some others.
func Portable(ref []byte) bool {
	ref = Trim(ref)
	if len(ref) == 0 || ref[0] == '?' || ref[0] == '#' {
		return false
	}
	colon := bytes.IndexByte(ref, ':')
	return colon < 0 || len(ref) > colon+2 && ref[colon+1] == '/' && ref[colon+2] == '/'
}

// Trim removes C0 controls and spaces from both ends, as in the standard.
func Trim[T text](s T) T {
	for len(s) > 0 && s[0] <= ' ' {
		s = s[1:]
	}
	for len(s) > 0 && s[len(s)-1] <= ' ' {
		s = s[:len(s)-1]
	}
	return s
}

// strip removes the fragment, tabs and line ends, as in the standard.
func strip[T text](s T) T {
	s = s[:index(s, '#')]
	for i := range len(s) {
		if !isStripped(s[i]) {
			continue
		}
		out := append(make([]byte, 0, len(s)), s[:i]...)
		for ; i < len(s); i++ {
			if !isStripped(s[i]) {
				out = append(out, s[i])
			}
		}
		return T(out)
	}
	return s
}

func isStripped(c byte) bool { return c == '\t' || c == '\n' || c == '\r' }

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
		ref = rest // by the standard, "https:page" under an https base is relative
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

// appendAbsolute resolves the part after "http:", or a "//host/path" with any number of slashes.
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

// appendTail appends the path and query of ref to dst, which ends with a directory. The path in dst begins at root.
func appendTail[T text](dst []byte, root int, ref T) ([]byte, error) {
	if len(ref) > MaxLength { // too long even without escaping
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

// appendPath appends a path by segments and resolves dot segments. A backslash counts as a slash.
func appendPath[T text](dst []byte, root int, path T) []byte {
	for {
		n := 0
		for n < len(path) && !isSlash(path[n]) {
			n++
		}
		start := len(dst)
		dst = appendEscaped(dst, path[:n], inPath)
		switch string(dst[start:]) { // escaped dots are unescaped by now
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

// schemeLen returns the length of the scheme before a colon, or 0 if there is none.
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

// webScheme returns "http" or "https", or an empty string for any other scheme.
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

// index returns the index of the first c in s, or len(s).
func index[T text](s T, c byte) int {
	for i := range len(s) {
		if s[i] == c {
			return i
		}
	}
	return len(s)
}

const (
	maxHost      = 253          // RFC 1035 §2.3.4
	maxAuthority = 10 * maxHost // bound for the library: escaped UTF-8 is longer than the name
)

// appendHost appends the host of an authority, with its port unless it is the default. Most links lead to their own
// host, and most others to plain names, so these come first.
func appendHost[T text](dst []byte, base URL, scheme string, authority T) ([]byte, error) {
	if string(authority) == base.Host() && scheme == base.Scheme() {
		return append(dst, authority...), nil
	}
	if index(authority, '@') < len(authority) {
		return nil, errUserinfo
	}
	if len(authority) == 0 {
		return nil, errNoHost
	}
	if out, ok := appendPlainHost(dst, scheme, authority); ok {
		return out, nil
	}
	host, err := parseHost(scheme, authority)
	return append(dst, host...), err
}

// appendPlainHost appends a plain name (letters, digits, hyphens, underscores) in lower case, with its port unless it
// is the default. It returns false for anything else: other names may be addresses in an unusual form, and names with
// "--" as third and fourth character may be punycode.
func appendPlainHost[T text](dst []byte, scheme string, authority T) ([]byte, bool) {
	colon := index(authority, ':')
	dst, ok := appendPlainName(dst, authority[:colon])
	if !ok || colon == len(authority) {
		return dst, ok
	}
	port := authority[colon+1:]
	if !isPlainNumber(port, 0xffff) {
		return nil, false
	}
	if string(port) == "80" && scheme == "http" || string(port) == "443" && scheme == "https" {
		return dst, true
	}
	return append(append(dst, ':'), port...), true
}

func appendPlainName[T text](dst []byte, name T) ([]byte, bool) {
	if len(name) > maxHost {
		return nil, false
	}
	label := 0 // where the current label begins
	for i := range len(name) {
		c := name[i]
		switch {
		case c == '.' && i > label:
			label = i + 1
		case classes[c]&inHost == 0, c == '-' && i == label+3:
			return nil, false
		}
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		dst = append(dst, c)
	}
	// If the last label begins with a digit, the name is an address or invalid.
	return dst, label < len(name) && classes[name[label]]&alpha != 0
}

// isPlainNumber reports whether s is a decimal number up to limit without leading zeros.
func isPlainNumber[T text](s T, limit int) bool {
	if len(s) == 0 || s[0] == '0' && len(s) > 1 {
		return false
	}
	n := 0
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
		if n = 10*n + int(s[i]-'0'); n > limit {
			return false
		}
	}
	return true
}

// parseHost parses a host with the library, and checks that DNS can hold the result.
func parseHost[T text](scheme string, authority T) (string, error) {
	if len(authority) > maxAuthority {
		return "", errLongHost
	}
	u, err := whatwg.Parse(scheme + "://" + string(authority) + "/")
	if err != nil {
		return "", errHost
	}
	name := strings.TrimSuffix(u.Hostname(), ".")
	switch {
	case name == "":
		return "", errNoHost
	case len(name) > maxHost:
		return "", errLongHost
	case name[0] == '.' || name[len(name)-1] == '.' || strings.Contains(name, ".."):
		return "", errLabel
	}
	if port := u.Port(); port != "" {
		name += ":" + port
	}
	return name, nil
}

// Classes of bytes, as bits for a table lookup.
const (
	inPath     = 1 << iota // not escaped in a path segment
	inQuery                // not escaped in a query
	unreserved             // has the same meaning escaped or not, RFC 3986 §2.3
	hexDigit               //
	alpha                  // may begin a scheme
	schemeRest             // may continue a scheme
	inHost                 // may be in a name that needs no IDNA; upper case becomes lower case
)

// classes follows the percent-encode sets of the WHATWG URL standard, §1.3, for special schemes. "/", "?" and "%" have
// a meaning of their own and are in neither set.
var classes = func() (t [256]byte) {
	set := func(chars string, bits byte) {
		for _, c := range []byte(chars) {
			t[c] |= bits
		}
	}
	const letters, digits = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789"
	for c := '!'; c <= '~'; c++ {
		t[c] = inPath | inQuery
	}
	for _, c := range []byte("\"#<>?^`{}/\\%") {
		t[c] &^= inPath
	}
	for _, c := range []byte("\"#<>'%") {
		t[c] &^= inQuery
	}
	set(letters+digits+"-._~", unreserved)
	set(digits+"abcdefABCDEF", hexDigit)
	set(letters, alpha)
	set(letters+digits+"+-.", schemeRest)
	set(letters+digits+"-_", inHost)
	return t
}()

// appendEscaped appends s escaped as part of a path segment (allowed is inPath) or of a query (inQuery).
func appendEscaped[T text](dst []byte, s T, allowed byte) []byte {
	clean := 0
	for clean < len(s) && classes[s[clean]]&allowed != 0 {
		clean++
	}
	dst = append(dst, s[:clean]...)
	if clean == len(s) {
		return dst
	}
	return appendDirty(dst, s[clean:], allowed)
}

func appendDirty[T text](dst []byte, s T, allowed byte) []byte {
	stray := -len("%XX") // index in dst of the last "%" that escapes nothing
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case classes[c]&allowed != 0:
			dst = append(dst, c)
			i++
		case c == '%' && i+2 < len(s) && classes[s[i+1]]&classes[s[i+2]]&hexDigit != 0:
			v := unhex(s[i+1])<<4 | unhex(s[i+2])
			// Unescaped, a hex digit right after a stray "%" could make an escape of it.
			joins := classes[v]&hexDigit != 0 && len(dst)-stray < len("%XX")
			if classes[v]&unreserved != 0 && !joins {
				dst = append(dst, v)
			} else {
				dst = appendHex(dst, v)
			}
			i += len("%XX")
		case c == '%':
			stray = len(dst)
			dst = append(dst, c)
			i++
		case c < utf8.RuneSelf:
			dst = appendHex(dst, c)
			i++
		default:
			dst, i = appendRune(dst, s, i)
		}
	}
	return dst
}

// appendRune escapes the character at s[i] and returns the index after it. Invalid UTF-8 becomes U+FFFD.
func appendRune[T text](dst []byte, s T, i int) ([]byte, int) {
	var b [utf8.UTFMax]byte
	r, n := utf8.DecodeRune(b[:copy(b[:], s[i:])])
	for _, c := range b[:utf8.EncodeRune(b[:], r)] {
		dst = appendHex(dst, c)
	}
	return dst, i + n
}

func appendHex(dst []byte, c byte) []byte {
	const digits = "0123456789ABCDEF"
	return append(dst, '%', digits[c>>4], digits[c&15])
}

// unhex returns the value of a hex digit of either case.
func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c&^0x20 - 'A' + 10
}

// Location returns the value of a Location field as browsers read it: bytes that are not UTF-8 are escaped unchanged,
// so that the server recognizes them. A URL parser would replace them.
func Location(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i := range len(s) {
		if s[i] < utf8.RuneSelf {
			b.WriteByte(s[i])
		} else {
			fmt.Fprintf(&b, "%%%02X", s[i])
		}
	}
	return b.String()
}
