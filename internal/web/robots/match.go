package robots

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Rules is what one crawler may ask of one origin. The zero Rules and nil allow
// everything.
type Rules struct {
	rules []rule        // the one that decides before those it overrules
	delay time.Duration // of Crawl-delay
	pace  time.Duration // of Request-rate
	fixed string        // if not empty, everything but robots.txt is refused for this reason
}

// rule is one Allow or Disallow line.
type rule struct {
	pattern string // normalised
	written string // as in the file
	line    int
	allow   bool
}

// Verdict is whether a path may be asked for, and why.
type Verdict struct {
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
	r := rule{pattern: normalisePattern(path), line: line, allow: allow}
	if r.written = r.pattern; path != r.pattern {
		// A clone, lest a few bytes keep the line alive.
		r.written = strings.Clone(path[:min(len(path), maxWritten)])
	}
	return r
}

// sorted puts the most specific rule first (RFC 9309 section 2.2.2: the most octets),
// Allow before Disallow among equals, so that the first match is the verdict.
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

// CrawlDelay is the pause that the file asks for between two requests, at most a day.
// Zero means that it asks for none.
func (r *Rules) CrawlDelay() time.Duration {
	if r == nil {
		return 0
	}
	return r.delay
}

// RequestRate is the pause between two requests that keeps to the file's Request-rate
// lines, at most a day. Zero means that it has none, or that they set no bound.
func (r *Rules) RequestRate() time.Duration {
	if r == nil {
		return 0
	}
	return r.pace
}

// Pause is the least time between two requests that offends neither Crawl-delay nor
// Request-rate: the longer of the two. Zero means that the file has neither.
func (r *Rules) Pause() time.Duration { return max(r.CrawlDelay(), r.RequestRate()) }

// Check gives the verdict on a path with its query, as in a request line: "/a?b".
// Without a leading slash one is put in front. A fragment is ignored.
func (r *Rules) Check(path string) Verdict {
	path, _, _ = strings.Cut(path, "#")
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	path = normalisePath(path)
	switch {
	case path == "/robots.txt":
		return Verdict{Allowed: true, Reason: "robots.txt itself is always allowed"}
	case r == nil:
		return Verdict{Allowed: true, Reason: noRule}
	case r.fixed != "":
		return Verdict{Reason: r.fixed}
	}
	for i := range r.rules {
		if match(r.rules[i].pattern, path) {
			return r.rules[i].verdict()
		}
	}
	return Verdict{Allowed: true, Reason: noRule}
}

const noRule = "no rule in robots.txt matches"

func (r *rule) verdict() Verdict {
	text := "Disallow: " + r.written
	if r.allow {
		text = "Allow: " + r.written
	}
	return Verdict{Allowed: r.allow, Line: r.line, Rule: text, Reason: fmt.Sprintf("robots.txt line %d: %s", r.line, text)}
}

// match reports whether the normalised pattern matches the start of the normalised
// path, or the whole of it if the pattern ends in "$". The literals between stars are
// looked for from left to right, each as early as possible, which leaves the most room
// for those that follow; so nothing is ever tried twice.
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

// normalisePattern and normalisePath bring both sides to one spelling (RFC 9309 section
// 2.2.2): characters that need no escape are not escaped, those that do are, in upper
// case. "*" and "$" are literal in a path and, escaped, in a pattern, so there they
// become "%2A" and "%24".
func normalisePattern(s string) string {
	body, anchored := strings.CutSuffix(s, "$")
	body = normalise(body, true)
	if anchored {
		body += "$"
	}
	return body
}

func normalisePath(s string) string { return normalise(s, false) }

func normalise(s string, stars bool) string {
	i := 0
	for i < len(s) && plain(s[i], stars) {
		i++
	}
	if i == len(s) {
		return s
	}
	out := make([]byte, i, len(s)+8)
	copy(out, s)
	query := strings.IndexByte(s, '?')
	for ; i < len(s); i++ {
		c := s[i]
		if c == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]) {
			c = unhex(s[i+1])<<4 | unhex(s[i+2])
			i += 2
			if unreserved(c) || c == ':' || c == '@' || query >= 0 && i > query && (c == '/' || c == '?') {
				out = append(out, c)
				continue
			}
		} else if plain(c, stars) {
			out = append(out, c)
			continue
		}
		out = append(out, '%', upperHex[c>>4], upperHex[c&15])
	}
	return string(out)
}

const upperHex = "0123456789ABCDEF"

// unreserved is RFC 3986 section 2.3: an escape changes nothing about these. ":" and
// "@" (section 3.3), and in a query "/" and "?" (section 3.4), have no special meaning
// where they stand either, and RFC 9309 wants "?u=https://a.b" and "?u=https%3A%2F%2Fa.b"
// to be one.
func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		c == '-' || c == '.' || c == '_' || c == '~'
}

// plain is true of what stays as it is when it stands unescaped.
func plain(c byte, stars bool) bool {
	if c == '*' {
		return stars
	}
	return unreserved(c) || strings.IndexByte("/?:@!&'()+,;=", c) >= 0
}

func isHex(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f' }

func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}
