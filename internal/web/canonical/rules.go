package canonical

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/treadlight/crawl/internal/lazy"
)

// Rule merges spellings of URLs beyond the URL standard. It may merge different resources, so no rule is on by default.
type Rule uint8

// The rules, in the order in which they are applied. Those that remove parameters come before those that depend on
// whether there are any.
const (
	Sessions   Rule = iota // removes session IDs from path and query
	Slashes                // removes slashes that follow a slash in the path
	Tracking               // removes parameters that say where a visitor came from
	Drop                   // removes parameters that the user named
	EmptyQuery             // removes a "?" without a query
	Index                  // removes the name of a directory's index page, if there is no query
	Sort                   // sorts parameters by name; those of one name keep their order
	numRules
)

// rules has the name of each rule in settings, and what it does, as a clause for people.
var rules = [numRules]struct{ name, why string }{
	Sessions:   {"sessions", "session ids are another for every visitor"},
	Slashes:    {"slashes", "slashes that follow a slash are left out"},
	Tracking:   {"tracking", "parameters that tell where a visitor came from are left out"},
	Drop:       {"drop", "these parameters are to be left out"},
	EmptyQuery: {"empty-query", "a ? with nothing behind it is left out"},
	Index:      {"index", "a directory's own page goes by the directory's name"},
	Sort:       {"sort", "parameters go in the order of their names"},
}

func (r Rule) String() string { return rules[r].name }

// RuleNames returns the words that [NewRules] accepts, except drop:NAME, in the order of the rules.
func RuleNames() (names []string) {
	for r := range numRules {
		if r != Drop {
			names = append(names, r.String())
		}
	}
	return names
}

// Rules are the rules of a crawl. They are immutable. Nil has none.
type Rules struct {
	on   [numRules]bool
	drop []string // glob patterns, in lower case
}

// dropWord begins the word for a parameter to remove: "drop:ref".
const dropWord = "drop:"

// NewRules makes Rules of words in settings. A word drop:NAME removes the parameters with that name, in which "*"
// stands for any text and case is ignored. Without words the Rules are nil. The error names the invalid word.
func NewRules(words []string) (*Rules, error) {
	if len(words) == 0 {
		return nil, nil //nolint:nilnil // no rules are valid Rules
	}
	r := new(Rules)
	for _, w := range words {
		if err := CheckRule(w); err != nil {
			return nil, err
		}
		if glob, ok := strings.CutPrefix(w, dropWord); ok {
			r.drop, r.on[Drop] = append(r.drop, strings.ToLower(glob)), true
		} else {
			for rule := range numRules {
				r.on[rule] = r.on[rule] || rule.String() == w
			}
		}
	}
	return r, nil
}

// CheckRule returns an error if [NewRules] does not accept the word.
func CheckRule(word string) error {
	if glob, ok := strings.CutPrefix(word, dropWord); ok {
		return checkDrop(glob)
	}
	if names := RuleNames(); !slices.Contains(names, word) {
		if strings.ContainsAny(word, ", ") { // a list instead of one word
			return fmt.Errorf("%q is not one rule: give each by itself, of %s, drop:NAME", word, strings.Join(names, ", "))
		}
		return fmt.Errorf("%q is no rule: use %s, drop:NAME", word, strings.Join(names, ", "))
	}
	return nil
}

func checkDrop(glob string) error {
	switch {
	case strings.Trim(glob, "*") == "":
		return errors.New(`would drop every parameter: name them, as "drop:ref" or "drop:utm_*"`)
	case strings.ContainsAny(glob, "&=#? "):
		return fmt.Errorf(`%q is no name of a parameter: give the name alone, as "drop:ref" or "drop:utm_*"`, glob)
	}
	return nil
}

// Apply rewrites u by the rules. It keeps the host, and applying it twice gives the same as once. It does not allocate
// if nothing changes.
func (r *Rules) Apply(u URL) URL {
	if r == nil || u.s == "" {
		return u
	}
	var buf, room [workspace]byte
	path, query, asks := bytes.Cut(append(buf[:0], u.s[u.path:]...), []byte("?"))
	path = slices.Clip(path)
	for rule := range numRules {
		switch {
		case !r.on[rule]:
		case rule == Slashes:
			path = mergeSlashes(path)
		case rule == EmptyQuery:
			asks = asks && len(query) > 0
		case rule == Index && !asks:
			path = cutIndex(path)
		case rule == Sort && asks:
			query = sortParams(query)
		case rule == Sessions || rule == Tracking || rule == Drop:
			if rule == Sessions {
				path = cutPathSessions(path)
			}
			if asks {
				query, asks = r.dropParams(rule, query)
			}
		}
	}
	out := append(append(room[:0], u.Origin()...), path...)
	if asks {
		out = append(append(out, '?'), query...)
	}
	if string(out) == u.s {
		return u
	}
	return Restore(string(out))
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

// matchFold reports whether name matches a lower-case glob pattern. It backtracks only to the last star, so it takes at
// most the product of both lengths.
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

// dropParams removes the parameters that a rule drops, in place, and reports whether any are left.
func (r *Rules) dropParams(rule Rule, query []byte) (kept []byte, some bool) {
	kept = query[:0]
	for more := true; more; {
		var param []byte
		param, query, more = bytes.Cut(query, []byte("&"))
		name, value, _ := bytes.Cut(param, []byte("="))
		if r.drops(rule, name, value) {
			continue
		}
		if some {
			kept = append(kept, '&')
		}
		kept, some = append(kept, param...), true
	}
	return kept, some
}

// sortParams sorts parameters by name. Those of one name keep their order.
func sortParams(query []byte) []byte {
	if inOrder(query) {
		return query
	}
	params := bytes.Split(bytes.Clone(query), []byte("&")) // the copy keeps query off the heap
	slices.SortStableFunc(params, func(a, b []byte) int { return bytes.Compare(nameOf(a), nameOf(b)) })
	return bytes.Join(params, []byte("&"))
}

func inOrder(query []byte) bool {
	var before []byte
	for more := true; more; {
		var param []byte
		param, query, more = bytes.Cut(query, []byte("&"))
		name := nameOf(param)
		if bytes.Compare(before, name) > 0 {
			return false
		}
		before = name
	}
	return true
}

func nameOf(param []byte) []byte { return param[:index(param, '=')] }

func mergeSlashes(path []byte) []byte {
	out := path[:0]
	for i, c := range path {
		if i == 0 || c != '/' || out[len(out)-1] != '/' {
			out = append(out, c)
		}
	}
	return out
}

var indexes = []string{
	"index.html", "index.htm", "index.xhtml", "index.shtml", "index.php", "index.jsp", "index.asp", "index.aspx", "index.cgi",
	"default.html", "default.htm", "default.asp", "default.aspx",
}

// cutIndex removes the name of a directory's index page.
func cutIndex(path []byte) []byte {
	slash := bytes.LastIndexByte(path, '/')
	if slices.Contains(indexes, string(path[slash+1:])) {
		return path[:slash+1]
	}
	return path
}

// trackers lists the parameters that analytics and advertising services document.
var trackers = []string{
	"utm_*", "gclid", "gclsrc", "dclid", "gbraid", "wbraid", "srsltid", "_ga", "_gl", // Google
	"fbclid", "igsh", "igshid", "msclkid", "twclid", "ttclid", "li_fat_id", "epik", "yclid", "ysclid", "_openstat",
	"mc_cid", "mc_eid", "mkt_tok", "_hsenc", "_hsmi", "__hssc", "__hstc", "__hsfp", "hsctatracking",
	"pk_*", "piwik_*", "mtm_*", "matomo_*", "vero_id", "vero_conv", "oly_anon_id", "oly_enc_id", "wickedid", "rb_clickid",
}

// sessionNames lists parameters that contain a session ID of any form.
var sessionNames = []string{"phpsessid", "jsessionid", "aspsessionid*", "sessionid", "session_id", "cfid", "cftoken", "oscsid", "zenid"}

// shortNames lists parameters that contain a session ID if the value looks like one.
var shortNames = []string{"sid", "s", "sess", "session"}

// minSession is the least length of such a value: 64 bits in hex.
const minSession = 16

// looksRandom reports whether a value is long and consists of letters and digits, with some of both.
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

// Session IDs in the path: parameters of a segment, by the Servlet specification (Jakarta Servlet section 7.1.3) and
// imitations of it, and segments of ASP.NET such as "/(S(id))/".
var (
	pathSession = lazy.Regexp(`(?i);(?:jsessionid|phpsessid|sid)=[^;/]*`)
	cookieless  = lazy.Regexp(`/(?:\((?:[SAFX]\([^()]+\))+\)/)+`)
	withParams  = lazy.Regexp(`/[^/;]*;[^/]*`)
)

// cutPathSessions removes session IDs from a path. Those of dot segments are kept, because without them the segments
// would lead elsewhere.
func cutPathSessions(path []byte) []byte {
	if !bytes.ContainsAny(path, ";(") {
		return path
	}
	own := bytes.Clone(path) // as in sortParams
	own = withParams().ReplaceAllFunc(own, func(segment []byte) []byte {
		if name := string(segment[:index(segment, ';')]); name == "/." || name == "/.." {
			return segment
		}
		return pathSession().ReplaceAll(segment, nil)
	})
	return cookieless().ReplaceAll(own, []byte("/"))
}
