package canonical

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Rule is a way of merging spellings that goes beyond the URL standard. Each may merge
// resources that differ, so none of them holds unless the user says so.
type Rule uint8

// The rules, in the order in which they are applied, so that each leaves nothing to do for
// those before it: what takes parameters away goes before what asks whether there are any.
const (
	Sessions   Rule = iota // session ids in path and query
	Slashes                // slashes that follow a slash in the path
	Tracking               // parameters that tell where a visitor came from
	Drop                   // the parameters that the user named
	EmptyQuery             // a "?" with nothing behind it
	Index                  // the name of a directory's own page, where there is no query
	Sort                   // the order of parameters; those of one name keep theirs
	numRules
)

var ruleNames = [numRules]string{"sessions", "slashes", "tracking", "drop", "empty-query", "index", "sort"}

// String is the word of settings; for Drop it is only a name.
func (r Rule) String() string { return ruleNames[r] }

// RuleNames lists the words that [NewRules] takes, in the order of the rules.
func RuleNames() []string {
	return slices.DeleteFunc(slices.Clone(ruleNames[:]), func(s string) bool { return s == Drop.String() })
}

// Rules are the rules that hold in a crawl. Nil holds none. They never change, and are safe
// for concurrent use.
type Rules struct {
	on   [numRules]bool
	drop []string // globs, in lower case
}

// NewRules reads the words of settings, and patterns of the parameters to drop: names in
// which "*" stands for any text, upper and lower case being the same. Without any of both
// the Rules are nil. The error names the word or pattern that is wrong.
func NewRules(words, drop []string) (*Rules, error) {
	if len(words)+len(drop) == 0 {
		return nil, nil //nolint:nilnil // there are none, and that is no error
	}
	r := &Rules{drop: make([]string, len(drop))}
	for _, w := range words {
		if err := CheckRule(w); err != nil {
			return nil, err
		}
		r.on[slices.Index(ruleNames[:], w)] = true
	}
	for i, glob := range drop {
		if err := CheckDrop(glob); err != nil {
			return nil, err
		}
		r.drop[i], r.on[Drop] = strings.ToLower(glob), true
	}
	return r, nil
}

// CheckRule says what is wrong with a word for [NewRules].
func CheckRule(word string) error {
	if names := RuleNames(); !slices.Contains(names, word) {
		if strings.ContainsAny(word, ", ") { // a list where one is wanted
			return fmt.Errorf("%q is not one rule: give each by itself, of %s", word, strings.Join(names, ", "))
		}
		return fmt.Errorf("%q is no rule: use %s", word, strings.Join(names, ", "))
	}
	return nil
}

// CheckDrop says what is wrong with a pattern for [NewRules].
func CheckDrop(glob string) error {
	switch {
	case strings.Trim(glob, "*") == "":
		return errors.New(`would drop every parameter: name them, as "ref" or "utm_*"`)
	case strings.ContainsAny(glob, "&=#? "):
		return fmt.Errorf(`%q is no name of a parameter: give the name alone, as "ref" or "utm_*"`, glob)
	}
	return nil
}

// Apply is u as the rules spell it: a URL of the same host, to which nothing more is to be
// applied. It does not allocate if nothing changes, and never fails: what the rules take
// away only makes a URL shorter.
func (r *Rules) Apply(u URL) URL {
	if r == nil || u.s == "" {
		return u
	}
	var buf [workspace]byte
	out := append(buf[:0], u.s...)
	for rule := range numRules {
		if r.on[rule] {
			out = r.apply(rule, out, int(u.path))
		}
	}
	if string(out) == u.s {
		return u
	}
	return view(string(out))
}

// apply rewrites s, whose path begins at root, in place.
func (r *Rules) apply(rule Rule, s []byte, root int) []byte {
	switch rule {
	case Sessions:
		return r.dropParams(rule, cutPathSessions(s, root), root)
	case Slashes:
		return mergeSlashes(s, root)
	case Tracking, Drop:
		return r.dropParams(rule, s, root)
	case EmptyQuery:
		return cutEmptyQuery(s, root)
	case Index:
		return cutIndex(s, root)
	}
	return sortParams(s, root)
}

// drops reports whether a rule takes a parameter away.
func (r *Rules) drops(rule Rule, name, value []byte) bool {
	switch rule {
	case Sessions:
		return matchAny(sessionNames, name) || looksRandom(value) && matchAny(shortNames, name)
	case Tracking:
		return matchAny(trackers, name)
	}
	return matchAny(r.drop, name)
}

// matchAny reports whether one of the globs matches.
func matchAny(globs []string, name []byte) bool {
	for _, glob := range globs {
		if matchFold(glob, name) {
			return true
		}
	}
	return false
}

// matchFold reports whether name matches a lower-case glob in which "*" is any text. It
// goes back to the last star only, so it takes the product of both lengths at most.
func matchFold(glob string, name []byte) bool {
	star, from := -1, 0
	g := 0
	for n := 0; n < len(name); {
		switch {
		case g < len(glob) && glob[g] == '*':
			star, from = g, n
			g++
		case g < len(glob) && glob[g] == lower(name[n]):
			g++
			n++
		case star >= 0:
			from++
			g, n = star+1, from
		default:
			return false
		}
	}
	return strings.Trim(glob[g:], "*") == ""
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c |= 0x20
	}
	return c
}
