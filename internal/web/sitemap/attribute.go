package sitemap

import (
	"bytes"
	"strconv"
	"unicode/utf8"
)

// attribute is the value of an attribute, unescaped. It may share the memory of attrs.
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

// cutValue splits off a value, quoted or not.
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

func unescaped(s []byte) []byte {
	if bytes.IndexByte(s, '&') < 0 {
		return s
	}
	return appendUnescaped(nil, s)
}

// appendUnescaped replaces entities. A "&" that begins none stays: many do not escape URLs in
// XML.
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

const longestEntity = 16 // "&#x10FFFF;" with some zeros in front

// entity decodes the entity at the beginning of s, and returns its length, or zero.
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
	if c, ok := entities[string(name)]; ok {
		return c, end + 1
	}
	return 0, 0
}

var entities = map[string]rune{"amp": '&', "lt": '<', "gt": '>', "quot": '"', "apos": '\''}
