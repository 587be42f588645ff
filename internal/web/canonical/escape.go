package canonical

import "unicode/utf8"

// Byte classes, for table lookup.
const (
	inPath     = 1 << iota // stands for itself in a path segment
	inQuery                // stands for itself in a query
	unreserved             // means the same escaped or not, RFC 3986 §2.3
	hexDigit               //
	alpha                  // may begin a scheme
	schemeRest             // may go on in a scheme
	inHost                 // may stand in a name that needs no IDNA; upper case is lowered
)

// classes follows the percent-encode sets of the WHATWG URL standard, §1.3, for special schemes.
// "/", "?" and "%" have a meaning and are in neither set.
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

// appendEscaped appends s as part of a path segment (allowed = inPath) or query (inQuery).
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
	stray := -len("%XX") // where in dst a "%" stands that escapes nothing
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case classes[c]&allowed != 0:
			dst = append(dst, c)
			i++
		case c == '%' && isEscape(s, i):
			v := unhex(s[i+1])<<4 | unhex(s[i+2])
			// Bare, a hex digit right behind a stray "%" would make an escape of it.
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

// appendRune escapes the character at s[i] and returns the index of the next. Invalid UTF-8
// becomes U+FFFD.
func appendRune[T text](dst []byte, s T, i int) ([]byte, int) {
	var b [utf8.UTFMax]byte
	r, n := utf8.DecodeRune(b[:copy(b[:], s[i:])])
	for _, c := range b[:utf8.EncodeRune(b[:], r)] {
		dst = appendHex(dst, c)
	}
	return dst, i + n
}

func isEscape[T text](s T, i int) bool {
	return i+2 < len(s) && classes[s[i+1]]&hexDigit != 0 && classes[s[i+2]]&hexDigit != 0
}

func appendHex(dst []byte, c byte) []byte {
	const digits = "0123456789ABCDEF"
	return append(dst, '%', digits[c>>4], digits[c&15])
}

// unhex is the value of a hex digit of either case.
func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c&^0x20 - 'A' + 10
}
