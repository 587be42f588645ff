package canonical

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Rule is a way of merging spellings beyond the URL standard. It may merge resources that
// differ, so none is on by default.
type Rule uint8

// The rules, in the order in which they are applied: those that remove parameters come before
// those that ask whether there are any.
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

// String is the word used in settings.
func (r Rule) String() string { return ruleNames[r] }

// RuleNames lists the words that [NewRules] takes, in the order of the rules.
func RuleNames() []string {
	return slices.DeleteFunc(slices.Clone(ruleNames[:]), func(s string) bool { return s == Drop.String() })
}

// Rules are the rules of a crawl, immutable. Nil has none.
type Rules struct {
	on   [numRules]bool
	drop []string // globs, in lower case
}

// dropWord begins the word for a parameter to drop: "drop:ref".
const dropWord = "drop:"

// NewRules reads the words of settings, among them drop:NAME for parameters to drop: names in
// which "*" stands for any text, upper and lower case being the same. Without any the Rules
// are nil. The error names the word that is wrong.
func NewRules(words []string) (*Rules, error) {
	if len(words) == 0 {
		return nil, nil //nolint:nilnil // there are none, and that is no error
	}
	r := new(Rules)
	for _, w := range words {
		if err := CheckRule(w); err != nil {
			return nil, err
		}
		if glob, ok := strings.CutPrefix(w, dropWord); ok {
			r.drop, r.on[Drop] = append(r.drop, strings.ToLower(glob)), true
		} else {
			r.on[slices.Index(ruleNames[:], w)] = true
		}
	}
	return r, nil
}

// CheckRule validates a word for [NewRules].
func CheckRule(word string) error {
	if glob, ok := strings.CutPrefix(word, dropWord); ok {
		return checkDrop(glob)
	}
	if names := RuleNames(); !slices.Contains(names, word) {
		if strings.ContainsAny(word, ", ") { // a list where one is wanted
			return fmt.Errorf("%q is not one rule: give each by itself, of %s, drop:NAME", word, strings.Join(names, ", "))
		}
		return fmt.Errorf("%q is no rule: use %s, drop:NAME", word, strings.Join(names, ", "))
	}
	return nil
}

// checkDrop says what is wrong with a pattern of parameters.
func checkDrop(glob string) error {
	switch {
	case strings.Trim(glob, "*") == "":
		return errors.New(`would drop every parameter: name them, as "drop:ref" or "drop:utm_*"`)
	case strings.ContainsAny(glob, "&=#? "):
		return fmt.Errorf(`%q is no name of a parameter: give the name alone, as "drop:ref" or "drop:utm_*"`, glob)
	}
	return nil
}

// Apply rewrites u by the rules. The host stays, and applying twice changes nothing more. It
// does not allocate if nothing changes.
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
	return Restore(string(out))
}

// apply applies one rule in place. The path of s begins at root.
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

func (r *Rules) drops(rule Rule, name, value []byte) bool {
	switch rule {
	case Sessions:
		return matchAny(sessionNames, name) || looksRandom(value) && matchAny(shortNames, name)
	case Tracking:
		return matchAny(trackers, name)
	}
	return matchAny(r.drop, name)
}

func matchAny(globs []string, name []byte) bool {
	return slices.ContainsFunc(globs, func(glob string) bool { return matchFold(glob, name) })
}

// matchFold matches name against a lower-case glob. It backtracks to the last star only, so it
// takes at most the product of both lengths.
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

// dropParams removes the parameters that a rule drops, and the "?" if none is left.
func (r *Rules) dropParams(rule Rule, s []byte, root int) []byte {
	mark := root + index(s[root:], '?')
	if mark == len(s) {
		return s
	}
	out := s[:mark]
	separator := byte('?')
	for at := mark; at < len(s); {
		next := at + 1 + index(s[at+1:], '&')
		param := s[at+1 : next]
		name := nameOf(param)
		if !r.drops(rule, name, param[min(len(name)+1, len(param)):]) {
			out = append(append(out, separator), param...)
			separator = '&'
		}
		at = next
	}
	return out
}

// sortParams sorts parameters by name. Those of one name keep their order.
func sortParams(s []byte, root int) []byte {
	mark := root + index(s[root:], '?')
	if mark == len(s) || inOrder(s[mark+1:]) {
		return s
	}
	params := bytes.Split(bytes.Clone(s[mark+1:]), []byte("&"))
	slices.SortStableFunc(params, func(a, b []byte) int { return bytes.Compare(nameOf(a), nameOf(b)) })
	return append(s[:mark+1], bytes.Join(params, []byte("&"))...)
}

func inOrder(query []byte) bool {
	before := []byte(nil)
	for {
		end := index(query, '&')
		name := nameOf(query[:end])
		if bytes.Compare(before, name) > 0 {
			return false
		}
		if end == len(query) {
			return true
		}
		before, query = name, query[end+1:]
	}
}

func nameOf(param []byte) []byte { return param[:index(param, '=')] }

func cutEmptyQuery(s []byte, root int) []byte {
	if mark := root + index(s[root:], '?'); mark == len(s)-1 {
		return s[:mark]
	}
	return s
}

func mergeSlashes(s []byte, root int) []byte {
	end := root + index(s[root:], '?')
	out := s[:root+1]
	for i := root + 1; i < end; i++ {
		if s[i] != '/' || s[i-1] != '/' {
			out = append(out, s[i])
		}
	}
	return append(out, s[end:]...)
}

// indexes are the default names of directory index pages.
var indexes = []string{
	"index.html", "index.htm", "index.xhtml", "index.shtml", "index.php", "index.jsp", "index.asp", "index.aspx", "index.cgi",
	"default.html", "default.htm", "default.asp", "default.aspx",
}

// cutIndex removes the name of a directory index page, unless there is a query.
func cutIndex(s []byte, root int) []byte {
	if index(s[root:], '?') < len(s)-root {
		return s
	}
	slash := bytes.LastIndexByte(s, '/')
	if slices.Contains(indexes, string(s[slash+1:])) {
		return s[:slash+1]
	}
	return s
}

// trackers are the parameters that analytics and advertisement services document.
var trackers = []string{
	"utm_*", "gclid", "gclsrc", "dclid", "gbraid", "wbraid", "srsltid", "_ga", "_gl", // Google
	"fbclid", "igsh", "igshid", "msclkid", "twclid", "ttclid", "li_fat_id", "epik", "yclid", "ysclid", "_openstat",
	"mc_cid", "mc_eid", "mkt_tok", "_hsenc", "_hsmi", "__hssc", "__hstc", "__hsfp", "hsctatracking",
	"pk_*", "piwik_*", "mtm_*", "matomo_*", "vero_id", "vero_conv", "oly_anon_id", "oly_enc_id", "wickedid", "rb_clickid",
}

// sessionNames are parameters that hold session ids of any form.
var sessionNames = []string{"phpsessid", "jsessionid", "aspsessionid*", "sessionid", "session_id", "cfid", "cftoken", "oscsid", "zenid"}

// shortNames are parameters that hold a session id if the value looks like one.
var shortNames = []string{"sid", "s", "sess", "session"}

// minSession is the shortest such value: 64 bits in hex.
const minSession = 16

// looksRandom reports whether a value is long and of letters and digits, with both.
func looksRandom(value []byte) bool {
	letters, digits := 0, 0
	for _, c := range value {
		switch {
		case classes[c]&alpha != 0:
			letters++
		case '0' <= c && c <= '9':
			digits++
		default:
			return false
		}
	}
	return len(value) >= minSession && letters > 0 && digits > 0
}

// Session ids in the path: parameters of a segment, by the Servlet specification (Jakarta Servlet
// section 7.1.3) and imitations, and segments of ASP.NET such as "/(S(id))/".
var (
	pathSession = regexp.MustCompile(`(?i);(?:jsessionid|phpsessid|sid)=[^;/]*`)
	cookieless  = regexp.MustCompile(`/(?:\((?:[SAFX]\([^()]+\))+\)/)+`)
	withParams  = regexp.MustCompile(`/[^/;]*;[^/]*`)
)

// cutPathSessions removes session ids from the path. Dot segments keep theirs: without them they
// would lead elsewhere.
func cutPathSessions(s []byte, root int) []byte {
	end := root + index(s[root:], '?')
	if !bytes.ContainsAny(s[root:end], ";(") {
		return s
	}
	path := bytes.Clone(s[root:end]) // so that s need not be on the heap
	path = withParams.ReplaceAllFunc(path, func(segment []byte) []byte {
		if name := string(segment[:index(segment, ';')]); name == "/." || name == "/.." {
			return segment
		}
		return pathSession.ReplaceAll(segment, nil)
	})
	return slices.Concat(s[:root], cookieless.ReplaceAll(path, []byte("/")), s[end:])
}
