package header

import (
	"encoding/base64"
	"strconv"
	"strings"
	"time"
)

// maxInteger is the largest integer of a structured field, RFC 9651 section 3.3.1.
const maxInteger = 999_999_999_999_999

// item is one member of the list: a String and its parameters. That is the part of
// RFC 9651 which the two fields use; members of other types make the field
// malformed, parameters of other types are parsed and ignored when not known.
type item struct {
	name   string
	params map[string]any // int64, float64, string, token, []byte or bool
}

type token string

// integer stores the parameter key, which must be a non-negative Integer.
func (it item) integer(key string, to *int64, required bool) bool {
	v, found := it.params[key]
	if !found {
		return !required
	}
	n, ok := v.(int64)
	*to = n
	return ok && n >= 0
}

// seconds stores an Integer as that many seconds. Fifteen digits of them are more
// than a Duration holds.
func (it item) seconds(key string, to *time.Duration) bool {
	var n int64
	ok := it.integer(key, &n, false)
	if n > int64(maxDuration/time.Second) {
		n = int64(maxDuration / time.Second)
	}
	*to = time.Duration(n) * time.Second
	return ok
}

// text stores a String; a Token is taken too, since both are in use for units.
func (it item) text(key string, to *string) bool {
	switch v := it.params[key].(type) {
	case nil:
	case string:
		*to = v
	case token:
		*to = string(v)
	default:
		return false
	}
	return true
}

// bytes stores a Byte Sequence, never nil if there is one.
func (it item) bytes(key string, to *[]byte) bool {
	v, found := it.params[key]
	if !found {
		return true
	}
	b, ok := v.([]byte)
	*to = b
	return ok
}

// bytes writes a Byte Sequence, unless b is nil.
func (w *itemWriter) bytes(key string, b []byte) {
	if b != nil {
		w.b.WriteString(";" + key + "=:" + base64.StdEncoding.EncodeToString(b) + ":")
	}
}

// parseItems reads a list of Strings with parameters. Lines of the same header are
// one list. An empty list is ok and has no items.
func parseItems(lines []string) ([]item, bool) {
	s := scanner{rest: strings.Join(lines, ", ")}
	s.skip(" ")
	var items []item
	for s.rest != "" {
		name, ok := s.quoted()
		if !ok {
			return nil, false
		}
		params, ok := s.params()
		if !ok {
			return nil, false
		}
		items = append(items, item{name, params})
		s.skip(" \t")
		if s.rest == "" {
			break
		}
		if !s.take(',') {
			return nil, false
		}
		s.skip(" \t")
		if s.rest == "" {
			return nil, false // a comma promises a member
		}
	}
	return items, true
}

// parseDictionary reads a dictionary, RFC 9651 section 4.2.2, without the parameters of its
// members. Lines of the same header are one.
func parseDictionary(lines []string) (members map[string]any, ok bool) {
	s := scanner{rest: strings.Join(lines, ", ")}
	members = map[string]any{}
	for s.skip(" \t"); s.rest != ""; s.skip(" \t") {
		if len(members) > 0 && (!s.take(',') || strings.Trim(s.rest, " \t") == "") {
			return nil, false
		}
		s.skip(" \t")
		if s.rest == "" || !isLower(s.rest[0]) && s.rest[0] != '*' {
			return nil, false
		}
		key := s.while(isKey)
		var value any = true
		if s.take('=') {
			if value, ok = s.bare(); !ok {
				return nil, false
			}
		}
		if _, ok = s.params(); !ok {
			return nil, false
		}
		members[key] = value
	}
	return members, len(members) > 0
}

// scanner reads from the front of rest. Its methods follow the parsing algorithms of
// RFC 9651 section 4.2, one each; where one is not ok the whole field is given up,
// so none bothers to restore what it has taken.
type scanner struct{ rest string }

func (s *scanner) skip(cutset string) { s.rest = strings.TrimLeft(s.rest, cutset) }

// take takes c if it is next.
func (s *scanner) take(c byte) bool {
	if s.rest == "" || s.rest[0] != c {
		return false
	}
	s.rest = s.rest[1:]
	return true
}

// while takes the longest prefix of bytes that ok holds for.
func (s *scanner) while(ok func(byte) bool) string {
	n := 0
	for n < len(s.rest) && ok(s.rest[n]) {
		n++
	}
	taken := s.rest[:n]
	s.rest = s.rest[n:]
	return taken
}

// params reads what follows an item: ;key=value, or ;key alone, which is true.
func (s *scanner) params() (map[string]any, bool) {
	params := map[string]any{}
	for s.take(';') {
		s.skip(" ")
		if s.rest == "" || !isLower(s.rest[0]) && s.rest[0] != '*' {
			return nil, false
		}
		key := s.while(isKey)
		var value any = true
		if s.take('=') {
			var ok bool
			if value, ok = s.bare(); !ok {
				return nil, false
			}
		}
		params[key] = value // the last of equal keys counts, section 4.2.3.2
	}
	return params, true
}

// bare reads a bare item, telling the type by its first byte.
func (s *scanner) bare() (any, bool) {
	if s.rest == "" {
		return nil, false
	}
	switch c := s.rest[0]; {
	case c == '"':
		return s.quoted()
	case c == ':':
		return s.binary()
	case c == '?':
		return s.boolean()
	case c == '-' || isDigit(c):
		return s.number()
	case c == '*' || isAlpha(c):
		return token(s.while(isToken)), true
	}
	return nil, false
}

// quoted reads a String: printable ASCII, in which only the quote and the backslash
// are escaped.
func (s *scanner) quoted() (string, bool) {
	if !s.take('"') {
		return "", false
	}
	var b strings.Builder
	for i := 0; i < len(s.rest); i++ {
		c := s.rest[i]
		switch {
		case c == '"':
			s.rest = s.rest[i+1:]
			return b.String(), true
		case c == '\\':
			i++
			if i == len(s.rest) || s.rest[i] != '"' && s.rest[i] != '\\' {
				return "", false
			}
			c = s.rest[i]
		case c < ' ' || c > '~':
			return "", false
		}
		b.WriteByte(c)
	}
	return "", false
}

// binary reads a Byte Sequence: base64 between colons. The decoder would skip line
// breaks, which the grammar does not have.
func (s *scanner) binary() (any, bool) {
	s.take(':')
	text, rest, found := strings.Cut(s.rest, ":")
	if !found || strings.ContainsAny(text, "\r\n") {
		return nil, false
	}
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, false
	}
	s.rest = rest
	return append([]byte{}, b...), true // never nil: an empty sequence was said
}

// boolean reads ?1 or ?0.
func (s *scanner) boolean() (any, bool) {
	s.take('?')
	switch {
	case s.take('1'):
		return true, true
	case s.take('0'):
		return false, true
	}
	return nil, false
}

// number reads an Integer of up to 15 digits or a Decimal of up to 12 and 3.
func (s *scanner) number() (any, bool) {
	sign := ""
	if s.take('-') {
		sign = "-"
	}
	whole := s.while(isDigit)
	if !s.take('.') {
		n, err := strconv.ParseInt(sign+whole, 10, 64)
		return n, err == nil && len(whole) <= 15
	}
	fraction := s.while(isDigit)
	if whole == "" || len(whole) > 12 || fraction == "" || len(fraction) > 3 {
		return nil, false
	}
	x, err := strconv.ParseFloat(sign+whole+"."+fraction, 64)
	return x, err == nil
}

// The character sets of the grammar; none goes beyond ASCII.
func isDigit(c byte) bool { return '0' <= c && c <= '9' }
func isLower(c byte) bool { return 'a' <= c && c <= 'z' }
func isAlpha(c byte) bool { return isLower(c | 0x20) }
func isKey(c byte) bool   { return isLower(c) || isDigit(c) || strings.IndexByte("_-.*", c) >= 0 }
func isToken(c byte) bool {
	return isAlpha(c) || isDigit(c) || strings.IndexByte("!#$%&'*+-.^_`|~:/", c) >= 0
}
