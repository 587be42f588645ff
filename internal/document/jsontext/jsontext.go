// Package jsontext appends values to JSON texts without reflection. Its output is valid UTF-8 without raw control, line
// or direction characters, so that it can be shown on a terminal.
package jsontext

import (
	"bytes"
	"encoding/binary"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

const timeFormat = "2006-01-02T15:04:05.000Z"

// AppendArray appends values as a JSON array; one appends a single value.
func AppendArray[T any](dst []byte, values []T, one func(dst []byte, v T) []byte) []byte {
	dst = append(dst, '[')
	for i, v := range values {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = one(dst, v)
	}
	return append(dst, ']')
}

// AppendMillis appends d in milliseconds, with up to three decimals as needed.
func AppendMillis(dst []byte, d time.Duration) []byte {
	us := d.Microseconds()
	dst = strconv.AppendInt(dst, us/1000, 10)
	frac := us % 1000
	if frac == 0 {
		return dst
	}
	dst = append(dst, '.', byte('0'+frac/100), byte('0'+frac/10%10), byte('0'+frac%10))
	return bytes.TrimRight(dst, "0")
}

// AppendTime appends t in milliseconds, without quotes. A year of more than four digits, which RFC 3339 does not
// permit, gives the zero time.
func AppendTime(dst []byte, t time.Time) []byte {
	t = t.UTC()
	if y := t.Year(); y < 0 || y > 9999 {
		t = time.Time{}
	}
	return t.AppendFormat(dst, timeFormat)
}

// AppendString appends s as a JSON string. Invalid UTF-8 becomes U+FFFD.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	done := 0
	for i := plainWords(s); i < len(s); {
		if plain[s[i]] {
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if r < utf8.RuneSelf || r == utf8.RuneError && n == 1 || IsUnsafe(r) {
			dst = appendEscape(append(dst, s[done:i]...), r)
			done = i + n
		}
		i += n
	}
	return append(append(dst, s[done:]...), '"')
}

// plainWords returns the length of the beginning of s that consists of groups of eight [plain] bytes, searched as in H.
// S. Warren, Hacker's Delight, section 6-1. A carry can make a group look not plain, but never the other way round.
func plainWords(s string) (i int) {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(s); i += 8 {
		x := binary.LittleEndian.Uint64([]byte(s[i : i+8]))
		quote, slash, del := x^ones*'"', x^ones*'\\', x^ones*0x7f
		if (x|(x-ones*' ')|(quote-ones)|(slash-ones)|(del-ones))&tops != 0 {
			break
		}
	}
	return i
}

// plain contains true for the bytes that a JSON string contains without an escape. Most strings are URLs, which contain
// no others.
var plain = func() (t [256]bool) {
	for c := ' '; c <= '~'; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// IsUnsafe reports whether a terminal or program may obey a character: C1 controls (U+009B begins a terminal escape),
// line separators of JavaScript, and changes of text direction.
func IsUnsafe(r rune) bool {
	return r >= 0x80 && r <= 0x9f || r >= 0x2028 && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// appendEscape appends r in its shortest escaped form. Every rune that it gets fits into four hex digits.
func appendEscape(dst []byte, r rune) []byte {
	if i := strings.IndexRune("\"\\\n\t\r", r); i >= 0 {
		return append(dst, '\\', `"\ntr`[i])
	}
	const digits = "0123456789abcdef"
	return append(dst, '\\', 'u', digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15])
}

// AppendRaw appends valid JSON. Line breaks between its values become spaces; within its strings the same characters
// are escaped as in AppendString. Outside of strings valid JSON has no such characters.
func AppendRaw(dst, v []byte) []byte {
	for i := 0; i < len(v); {
		r, n := utf8.DecodeRune(v[i:])
		switch {
		case r == '\n' || r == '\r':
			dst = append(dst, ' ')
		case r == utf8.RuneError && n == 1, IsUnsafe(r), r == 0x7f:
			dst = appendEscape(dst, r)
		default:
			dst = append(dst, v[i:i+n]...)
		}
		i += n
	}
	return dst
}
