package robots

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Rules are the rules of one crawler at one origin. The zero Rules and nil allow everything.
type Rules struct {
	rules []rule // in the order of precedence
	pause time.Duration
}

type rule struct {
	pattern string // normalised
	written string // as in the file
	line    int
	allow   bool
}

// Decision says whether a path may be requested, and why.
type Decision struct {
	Allowed bool
	// Line is the number of the line that decided, from 1; zero if none did.
	Line int
	// Rule is that line's content, such as "Disallow: /private". Empty if none decided.
	Rule string
	// Reason is for people, such as "robots.txt line 12: Disallow: /private".
	Reason string
}

// maxWritten bounds how much of a rule is kept for people to read.
const maxWritten = 200

func newRule(line int, allow bool, path string) rule {
	body, anchored := strings.CutSuffix(path, "$")
	r := rule{pattern: normalise(body, true), line: line, allow: allow}
	if anchored {
		r.pattern += "$"
	}
	if r.written = r.pattern; path != r.pattern {
		r.written = strings.Clone(path[:min(len(path), maxWritten)])
	}
	return r
}

// sorted sorts rules by precedence (RFC 9309 section 2.2.2): those with the most octets first, and among equals Allow
// before Disallow.
func (r *Rules) sorted() *Rules {
	slices.SortStableFunc(r.rules, func(a, b rule) int {
		if c := cmp.Compare(len(b.pattern), len(a.pattern)); c != 0 || a.allow == b.allow {
			return c
		}
		if a.allow {
			return -1
		}
		return 1
	})
	return r
}

// Pause returns the least time between two requests by Crawl-delay and Request-rate, at most a day. Zero means that the
// file has neither.
func (r *Rules) Pause() time.Duration {
	if r == nil {
		return 0
	}
	return r.pause
}

// Len returns the number of rules.
func (r *Rules) Len() int {
	if r == nil {
		return 0
	}
	return len(r.rules)
}

// Check decides on a path with its query. A missing leading slash is added, a fragment ignored.
func (r *Rules) Check(path string) Decision {
	path, _, _ = strings.Cut(path, "#")
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	path = normalise(path, false)
	switch {
	case path == "/robots.txt":
		return Decision{Allowed: true, Reason: "robots.txt itself is always allowed"}
	case r == nil:
		return Decision{Allowed: true, Reason: noRule}
	}
	for i := range r.rules {
		if match(r.rules[i].pattern, path) {
			d := Decision{Allowed: r.rules[i].allow, Line: r.rules[i].line, Rule: "Disallow: " + r.rules[i].written}
			if d.Allowed {
				d.Rule = "Allow: " + r.rules[i].written
			}
			d.Reason = fmt.Sprintf("robots.txt line %d: %s", d.Line, d.Rule)
			return d
		}
	}
	return Decision{Allowed: true, Reason: noRule}
}

const noRule = "no rule in robots.txt matches"

// match matches a normalized pattern with the beginning of a normalized path, or with the whole path if the pattern
// ends in "$". It matches each literal between stars as early as possible, so that nothing is tried twice.
func match(pattern, path string) bool {
	pattern, anchored := strings.CutSuffix(pattern, "$")
	first, rest, star := strings.Cut(pattern, "*")
	path, ok := strings.CutPrefix(path, first)
	for ok && star {
		first, rest, star = strings.Cut(rest, "*")
		if !star && anchored {
			return strings.HasSuffix(path, first)
		}
		var i int
		if i = strings.Index(path, first); i < 0 {
			return false
		}
		path = path[i+len(first):]
	}
	return ok && (!anchored || path == "")
}

// normalise percent-encodes s in one way (RFC 9309 section 2.2.2): only characters that need it are encoded, in upper
// case. If stars is set, "*" is a wildcard; otherwise it is literal and becomes "%2A", as it does when escaped. So does
// "$", which newRule keeps at the end of a pattern.
func normalise(s string, stars bool) string {
	i := 0
	for i < len(s) && plain(s[i], stars) {
		i++
	}
	if i == len(s) {
		return s
	}
	out := append(make([]byte, 0, len(s)+8), s[:i]...)
	for query := strings.Contains(s[:i], "?"); i < len(s); i++ {
		c, literal := s[i], plain(s[i], stars)
		if c == '%' && i+2 < len(s) {
			if v, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				// ":" and "@", and "/" and "?" in a query, have no other meaning either (RFC 3986 sections 3.3 and
				// 3.4).
				c = byte(v)
				literal = unreserved(c) || c == ':' || c == '@' || query && (c == '/' || c == '?')
				i += 2
			}
		}
		query = query || s[i] == '?'
		if literal {
			out = append(out, c)
		} else {
			out = fmt.Appendf(out, "%%%02X", c)
		}
	}
	return string(out)
}

// unreserved reports whether c is an unreserved character of RFC 3986 section 2.3.
func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0
}

func plain(c byte, stars bool) bool {
	return c == '*' && stars || unreserved(c) || strings.IndexByte("/?:@!&'()+,;=", c) >= 0
}
