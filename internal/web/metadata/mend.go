package metadata

import (
	"bytes"
	"encoding/json"
	"html"
	"strings"
)

// mend makes JSON without needless space of a block. It takes what browsers and search
// engines are known to put up with: the comments and CDATA marks that hid scripts from old
// browsers, a semicolon at the end, line ends within strings, commas before a closing
// bracket, and quotes as character references.
func mend(s string) (string, bool) {
	s = unwrap(s)
	if compact, ok := compactJSON(s); ok {
		return compact, true
	}
	if !strings.Contains(s, `"`) && strings.Contains(s, "&quot;") {
		s = html.UnescapeString(s)
	}
	return compactJSON(tidy(s))
}

func compactJSON(s string) (string, bool) {
	var b bytes.Buffer
	if json.Compact(&b, []byte(s)) != nil {
		return "", false
	}
	if depth(b.Bytes()) > MaxDepth {
		return "", false
	}
	// A text or a number by itself is JSON, but says nothing.
	return b.String(), b.Len() > 0 && (b.Bytes()[0] == '{' || b.Bytes()[0] == '[')
}

// depth is how deep the objects and arrays of valid JSON are in one another.
func depth(s []byte) (deepest int) {
	quoted, now := false, 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{', c == '[':
			now++
			deepest = max(deepest, now)
		case c == '}', c == ']':
			now--
		}
	}
	return deepest
}

// wrappers stand around scripts that were to be XML as well, or hidden.
var wrappers = [...]string{"<!--", "-->", "<![CDATA[", "]]>", "//", "/*", "*/", ";", "\ufeff"}

// unwrap takes off what stands around the value.
func unwrap(s string) string {
	for again := true; again; {
		again = false
		s = strings.TrimSpace(s)
		for _, w := range wrappers {
			if rest := strings.TrimSuffix(strings.TrimPrefix(s, w), w); rest != s {
				s, again = rest, true
			}
		}
	}
	return s
}

// tidy drops commas before a closing bracket and escapes controls within strings.
func tidy(s string) string {
	var b strings.Builder
	quoted := false
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case quoted && c == '\\' && i+1 < len(s):
			b.WriteByte(c)
			i++
			c = s[i]
		case c == '"':
			quoted = !quoted
		case quoted && c < ' ':
			b.WriteString(escape(c))
			continue
		case !quoted && c == ',' && closes(s[i+1:]):
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}

// closes reports whether the next thing is a closing bracket.
func closes(s string) bool {
	s = strings.TrimLeft(s, " \t\r\n")
	return s != "" && (s[0] == '}' || s[0] == ']')
}

// escape is a control character as JSON writes it.
func escape(c byte) string {
	quoted, err := json.Marshal(string(rune(c)))
	if err != nil {
		return ""
	}
	return strings.Trim(string(quoted), `"`)
}
