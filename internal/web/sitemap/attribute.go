package sitemap

import (
	"bytes"
	"strconv"
	"unicode/utf8"
)

// attribute finds an attribute in what stands behind a tag's name. Its value is unescaped,
// and valid as long as attrs is.
func attribute(attrs []byte, name string) (value []byte, ok bool) {
	for rest := attrs; ; {
		i := bytes.IndexByte(rest, '=')
		if i < 0 {
			return nil, false
		}
		key := bytes.TrimRight(rest[:i], space)
		key = key[bytes.LastIndexAny(key, space+`"'`)+1:]
		value, rest = cutValue(bytes.TrimLeft(rest[i+1:], space))
		if string(key) == name {
			return unescaped(value), true
		}
	}
}

// cutValue splits off a value, which should be quoted.
func cutValue(s []byte) (value, rest []byte) {
	if len(s) == 0 {
		return nil, nil
	}
	if quote := s[0]; quote == '"' || quote == '\'' {
		if i := bytes.IndexByte(s[1:], quote); i >= 0 {
			return s[1 : 1+i], s[2+i:]
		}
		return s[1:], nil
	}
	if i := bytes.IndexAny(s, space); i >= 0 {
		return s[:i], s[i:]
	}
	return s, nil
}

// unescaped is s, if nothing in it is escaped, or a copy.
func unescaped(s []byte) []byte {
	if bytes.IndexByte(s, '&') < 0 {
		return s
	}
	return appendUnescaped(nil, s)
}

// appendUnescaped appends s with its entities replaced. A "&" that begins none stays: half
// of the people who write URLs into XML do not escape them.
func appendUnescaped(dst, s []byte) []byte {
	for {
		i := bytes.IndexByte(s, '&')
		if i < 0 {
			return append(dst, s...)
		}
		dst = append(dst, s[:i]...)
		s = s[i:]
		c, n := entity(s)
		if n == 0 {
			dst = append(dst, '&')
			s = s[1:]
			continue
		}
		dst = utf8.AppendRune(dst, c)
		s = s[n:]
	}
}

// longestEntity is "&#x10FFFF;", with some zeros in front.
const longestEntity = 16

// entity reads the one that s begins with, and how long it is; zero: none that we know.
func entity(s []byte) (c rune, n int) {
	end := bytes.IndexByte(s[:min(len(s), longestEntity)], ';')
	if end < 2 {
		return 0, 0
	}
	name := s[1:end]
	if name[0] == '#' {
		digits, base := name[1:], 10
		if len(digits) > 0 && digits[0]|0x20 == 'x' {
			digits, base = digits[1:], 16
		}
		v, err := strconv.ParseUint(string(digits), base, 21)
		if err != nil || !utf8.ValidRune(rune(v)) || v == 0 {
			return 0, 0
		}
		return rune(v), end + 1
	}
	switch string(name) {
	case "amp":
		return '&', end + 1
	case "lt":
		return '<', end + 1
	case "gt":
		return '>', end + 1
	case "quot":
		return '"', end + 1
	case "apos":
		return '\'', end + 1
	}
	return 0, 0
}
