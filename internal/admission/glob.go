package admission

import (
	"fmt"
	"strings"
)

// maxGlob bounds a pattern. Those that people write are a tenth of it, and matching
// costs in proportion to it.
const maxGlob = 1024

// glob is a pattern of paths. "*" stands for one segment, or for any part of one, and
// "**" for any number of segments, none included: "/api/**" matches "/api" too, which is
// the stricter way for a limit. Everything else stands for itself. It never changes.
type glob struct {
	text     string   // without a trailing slash
	segments []string // none for "/"
	literal  bool     // it has no wildcard, so that comparing is enough
	tree     bool     // its only wildcard is "/**" at the end
	below    string   // of a tree, what stands before that
}

// parseGlob reads a pattern. A trailing slash makes no difference, as in no path.
func parseGlob(text string) (glob, error) {
	switch {
	case !strings.HasPrefix(text, "/"):
		return glob{}, fmt.Errorf(`%q: begin it with "/"`, text)
	case len(text) > maxGlob:
		return glob{}, fmt.Errorf("%q…: use no more than %d bytes", text[:32], maxGlob)
	}
	text = trimSlash(text)
	// Most rules of most services are for one path each.
	g := glob{text: text, literal: !strings.Contains(text, "*")}
	if text == "/" {
		return g, nil
	}
	for segment := range strings.SplitSeq(text[1:], "/") {
		switch {
		case segment == "" || segment == "." || segment == "..":
			return glob{}, fmt.Errorf("%q: leave out the segment %q, which no cleaned path has", text, segment)
		case segment != "**" && strings.Contains(segment, "**"):
			return glob{}, fmt.Errorf(`%q: let "**" be a segment of its own, or use "*"`, text)
		}
		g.segments = append(g.segments, segment)
	}
	// Most others are for all that is below one.
	g.below, g.tree = strings.CutSuffix(text, "/**")
	g.tree = g.tree && !strings.Contains(g.below, "*")
	return g, nil
}

// trimSlash is a path without its trailing slash, unless that is all there is.
func trimSlash(path string) string {
	if len(path) > 1 && path[len(path)-1] == '/' {
		return path[:len(path)-1]
	}
	return path
}

// match reports whether path matches, which begins with "/" and does not end with it
// unless that is all. It goes back to the last "**" only: what the ones before it have
// swallowed is no matter, because it may swallow everything. So it needs time in
// proportion to path times pattern, whoever wrote the path.
func (g *glob) match(path string) bool {
	if g.literal {
		return path == g.text
	}
	if g.tree {
		rest, ok := strings.CutPrefix(path, g.below)
		return ok && (rest == "" || rest[0] == '/')
	}
	pos, end := 1, len(path)+1 // of the next segment; end is after the last one's slash
	if path == "/" {
		pos = end
	}
	// One loop in place of a recursion, whose depth a client would choose.
	at, retry, from := 0, -1, 0 // the next of our segments; the one after the last "**", and where it was tried
	for {
		switch {
		case at == len(g.segments):
			if pos == end {
				return true
			}
		case g.segments[at] == "**":
			at++
			retry, from = at, pos
			continue
		case pos < end:
			next := segmentEnd(path, pos)
			if matchSegment(g.segments[at], path[pos:next]) {
				at, pos = at+1, next+1
				continue
			}
		}
		if retry < 0 || from == end {
			return false
		}
		from = segmentEnd(path, from) + 1 // the "**" swallows one more
		at, pos = retry, from
	}
}

// segmentEnd is the index of the slash after pos, or the end.
func segmentEnd(path string, pos int) int {
	if i := strings.IndexByte(path[pos:], '/'); i >= 0 {
		return pos + i
	}
	return len(path)
}

// matchSegment matches one segment, in which "*" stands for any bytes. It goes back to
// the last "*" only, for the reason match does.
func matchSegment(pattern, s string) bool {
	p, i, star, from := 0, 0, -1, 0
	for i < len(s) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, i
			p++
		case p < len(pattern) && pattern[p] == s[i]:
			p, i = p+1, i+1
		case star >= 0:
			from++
			p, i = star+1, from
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
