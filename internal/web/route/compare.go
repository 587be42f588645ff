package route

import (
	"fmt"
	"slices"
	"strings"
)

// token is a step of the automaton that a path is.
type token struct {
	kind kind
	char byte // of a literal
}

type kind uint8

const (
	literal kind = iota // that character
	one                 // one character of a segment
	more                // any number of them
	rest                // any number of any characters
)

// takes reports whether a token may be followed through a character, and repeats whether it stays then.
func (t token) takes(c byte) bool {
	switch t.kind {
	case literal:
		return c == t.char
	case one, more:
		return c != separator
	default:
		return true
	}
}

func (t token) repeats() bool { return t.kind == more || t.kind == rest }

// states is where in a path one may be: 1 for each token that may come next; the last one is the end.
type states []byte

// enter adds a state, and those that are reached from it without a character.
func (s states) enter(path []token, i int) {
	for ; ; i++ {
		s[i] = 1
		if i == len(path) || !path[i].repeats() {
			return
		}
	}
}

func begin(path []token) states {
	s := make(states, len(path)+1)
	s.enter(path, 0)
	return s
}

func (s states) step(path []token, c byte) states {
	next := make(states, len(s))
	for i, t := range path {
		if s[i] == 0 || !t.takes(c) {
			continue
		}
		if t.repeats() {
			next.enter(path, i)
		} else {
			next.enter(path, i+1)
		}
	}
	return next
}

func (s states) end() bool  { return s[len(s)-1] == 1 }
func (s states) dead() bool { return !slices.Contains(s, 1) }

// relation is what two paths have in common: the shortest of each kind, and whether there is one.
type relation struct {
	both, onlyA, onlyB         string
	overlaps, aBeyond, bBeyond bool
}

// maxPairs bounds what a comparison looks at. Patterns that people write take a few hundred.
const maxPairs = 20_000

// paths compares two paths by walking both automata together, shortest texts first. It is false if that takes too long.
func paths(a, b []token) (r relation, ok bool) {
	type pair struct {
		a, b states
		text string
	}
	chars := alphabet(a, b)
	queue := []pair{{begin(a), begin(b), ""}}
	seen := map[string]bool{}
	for len(queue) > 0 {
		p := queue[0]
		queue = queue[1:]
		switch inA, inB := p.a.end(), p.b.end(); {
		case inA && inB && !r.overlaps:
			r.both, r.overlaps = p.text, true
		case inA && !inB && !r.aBeyond:
			r.onlyA, r.aBeyond = p.text, true
		case inB && !inA && !r.bBeyond:
			r.onlyB, r.bBeyond = p.text, true
		}
		if r.overlaps && r.aBeyond && r.bBeyond {
			return r, true
		}
		for _, c := range chars {
			next := pair{p.a.step(a, c), p.b.step(b, c), p.text + string([]byte{c})}
			if next.a.dead() && next.b.dead() {
				continue
			}
			key := string(slices.Concat(next.a, next.b))
			if seen[key] {
				continue
			}
			if seen[key] = true; len(seen) > maxPairs {
				return r, false
			}
			queue = append(queue, next)
		}
	}
	return r, true
}

// alphabet is the characters that make a difference: those of both paths, the separator, and one that neither has.
func alphabet(a, b []token) []byte {
	chars := []byte{separator}
	for _, t := range slices.Concat(a, b) {
		if t.kind == literal && !slices.Contains(chars, t.char) {
			chars = append(chars, t.char)
		}
	}
	for _, c := range []byte("xyzabcdefghijklmnopqrstuvwXYZABCDEFGHIJKLMNOPQRSTUVW0123456789-_.~") {
		if !slices.Contains(chars, c) {
			return slices.Insert(chars, 0, c) // examples have it where they can
		}
	}
	return chars // all of them are in a path, so that none is another
}

// compare decides between two patterns of one host: whether a goes first, or why they are in conflict.
func compare(a, b *Pattern) (first bool, conflict string) {
	r, ok := paths(a.path, b.path)
	if !ok {
		return false, "they are too long to be compared"
	}
	if !r.overlaps || contradict(a.query, b.query) {
		return false, ""
	}
	queryA, queryB := implies(a.query, b.query), implies(b.query, a.query)
	switch inB, inA := !r.aBeyond && queryA, !r.bBeyond && queryB; {
	case inB && inA:
		return false, "they match the same URLs"
	case inB:
		return true, ""
	case inA:
		return false, ""
	default:
		return false, fmt.Sprintf("both match %s, but %s matches only the first and %s only the second; neither is more specific",
			example(r.both, a.query, b.query), beyond(r.onlyA, r.aBeyond, r.both, a, b), beyond(r.onlyB, r.bBeyond, r.both, b, a))
	}
}

// beyond is an example that only p matches of p and o.
func beyond(only string, there bool, both string, p, o *Pattern) string {
	if there {
		return example(only, p.query, o.query)
	}
	return example(both, p.query)
}

func example(path string, queries ...[]condition) string {
	var conditions []string
	for _, c := range slices.Concat(queries...) {
		if c.any {
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

// implies reports whether whatever fulfils a fulfils b.
func implies(a, b []condition) bool {
	return !slices.ContainsFunc(b, func(want condition) bool {
		return !slices.ContainsFunc(a, func(c condition) bool { return c.key == want.key && (want.any || c == want) })
	})
}

// contradict reports whether nothing fulfils both: a parameter has one value.
func contradict(a, b []condition) bool {
	return slices.ContainsFunc(a, func(x condition) bool {
		return slices.ContainsFunc(b, func(y condition) bool { return x.key == y.key && !x.any && !y.any && x.value != y.value })
	})
}
