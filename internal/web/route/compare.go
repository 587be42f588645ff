package route

import (
	"fmt"
	"slices"
	"strings"
)

// token is a part of a path. All tokens but literals match many texts.
type token struct {
	kind kind
	char byte // the character of a literal
}

type kind uint8

const (
	literal kind = iota // one certain character
	one                 // one character of a segment
	more                // any number of characters of a segment
	rest                // any number of any characters
)

func (t token) repeats() bool { return t.kind == more || t.kind == rest }

// common returns a character that both tokens match.
func (t token) common(o token) (c byte, ok bool) {
	if t.kind != literal {
		t, o = o, t
	}
	switch {
	case t.kind != literal:
		return 'x', true
	case o.kind == literal:
		return t.char, t.char == o.char
	}
	return t.char, t.char != separator || o.kind == rest
}

// meeting searches for a path that two patterns match.
type meeting struct {
	a, b []token
	not  map[[2]int]bool // positions from which there is no such path
	text []byte          // the path that was found, in reverse
}

// from reports whether there is such a path from these positions in both patterns.
func (m *meeting) from(i, j int) bool {
	inA, inB := i < len(m.a), j < len(m.b)
	switch at := [2]int{i, j}; {
	case !inA && !inB:
		return true
	case m.not[at]:
		return false
	case inA && m.a[i].repeats() && m.from(i+1, j), inB && m.b[j].repeats() && m.from(i, j+1):
		return true
	case inA && inB && (!m.a[i].repeats() || !m.b[j].repeats()):
		c, ok := m.a[i].common(m.b[j])
		if !m.a[i].repeats() {
			i++
		}
		if !m.b[j].repeats() {
			j++
		}
		if ok && m.from(i, j) {
			m.text = append(m.text, c)
			return true
		}
		fallthrough
	default:
		m.not[at] = true
		return false
	}
}

// beyond returns a path that a matches and b does not. If b matches the texts in which each wildcard of a is replaced
// by a character that b does not name, it matches everything that a matches, because only a wildcard can match that
// character, and a wildcard matches any other text, too.
func beyond(a, b *Pattern) (path string, found bool) {
	strange := byte(1)
	for _, c := range []byte("xyzabcdefghijklmnopqrstuvwXYZABCDEFGHIJKLMNOPQRSTUVW0123456789-_.~") {
		if !slices.Contains(b.path, token{kind: literal, char: c}) {
			strange = c
			break
		}
	}
	for _, end := range [][]byte{{strange}, {}, {strange, separator, strange}} {
		var text []byte
		for _, t := range a.path {
			switch t.kind {
			case literal:
				text = append(text, t.char)
			case one:
				text = append(text, strange)
			case rest:
				text = append(text, end...)
			}
		}
		if !b.pathMatches(string(text), separator, nil) {
			return string(text), true
		}
	}
	return "", false
}

// compare decides between two patterns of the same host: whether a goes first, or why they conflict.
func compare(a, b *Pattern) (first bool, conflict string) {
	m := meeting{a: a.path, b: b.path, not: map[[2]int]bool{}}
	if !m.from(0, 0) || contradict(a.query, b.query) {
		return false, ""
	}
	slices.Reverse(m.text)
	both := string(m.text)
	onlyA, aBeyond := beyond(a, b)
	onlyB, bBeyond := beyond(b, a)
	switch inB, inA := !aBeyond && implies(a.query, b.query), !bBeyond && implies(b.query, a.query); {
	case inB && inA:
		return false, "they match the same URLs"
	case inB || inA:
		return inB, ""
	}
	only := func(path string, beyond bool, p, o *Pattern) string {
		if beyond {
			return example(path, p.query, o.query)
		}
		return example(both, p.query)
	}
	return false, fmt.Sprintf("both match %s, but %s matches only the first and %s only the second; neither is more specific",
		example(both, a.query, b.query), only(onlyA, aBeyond, a, b), only(onlyB, bBeyond, b, a))
}

// example returns a URL with that path whose query meets all conditions.
func example(path string, queries ...[]condition) string {
	var conditions []string
	for _, c := range slices.Concat(queries...) {
		if c.wildcard != "" {
			c.value = "x"
		}
		if !slices.ContainsFunc(conditions, func(o string) bool { return strings.HasPrefix(o, c.key+"=") }) {
			conditions = append(conditions, c.key+"="+c.value)
		}
	}
	text := "/" + strings.ReplaceAll(path, string(rune(separator)), "/")
	if len(conditions) > 0 {
		text += "?" + strings.Join(conditions, "&")
	}
	return text
}

// implies reports whether every query that meets a meets b.
func implies(a, b []condition) bool {
	return !slices.ContainsFunc(b, func(want condition) bool {
		return !slices.ContainsFunc(a, func(c condition) bool { return c.key == want.key && (want.wildcard != "" || c == want) })
	})
}

// contradict reports whether no query meets both, as a parameter has one value.
func contradict(a, b []condition) bool {
	return slices.ContainsFunc(a, func(x condition) bool {
		return slices.ContainsFunc(b, func(y condition) bool {
			return x.key == y.key && x.wildcard == "" && y.wildcard == "" && x.value != y.value
		})
	})
}
