package admission

import (
	"fmt"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxDecodings is how many times a path is decoded once more with readings of its own each time. What is encoded more
// often is then decoded fully at once.
const maxDecodings = 2

// readings returns the paths that the handlers behind the limiter may read from u. A plain path has one reading. A path
// with dots, empty segments, parameters, backslashes or needless encoding has several, and if a limiter knew only one
// of them, a client could pass it by another spelling:
//
//   - decoded and cleaned, as most frameworks do: "/a%2F..%2Fb" is "/b";
//   - decoded and not cleaned, for handlers that compare prefixes: "/a/../b";
//   - split into segments as sent, each decoded, as http.ServeMux does: one segment;
//   - as sent, for handlers that use url.URL.RawPath;
//   - without parameters, as servlets read it, and with backslashes as slashes, as some servers on Windows do:
//     "/a;v=1/b" and "/a\b" are "/a/b";
//   - the first two and the last once more for what is encoded twice, behind a proxy that decodes: "/%2561" is "/%61"
//     and "/a".
//
// A trailing slash makes no difference.
func readings(u *url.URL) (first string, more []string) {
	p := u.Path
	// In the usual case, nothing of this allocates.
	if u.RawPath == "" && strings.HasPrefix(p, "/") && path.Clean(p) == p && !strings.ContainsAny(p, `%;\`) {
		return p, nil
	}
	p = rooted(p)
	var all []string
	add := func(readings ...string) {
		for _, r := range readings {
			if r = trimSlash(r); !slices.Contains(all, r) {
				all = append(all, r)
			}
		}
	}
	add(path.Clean(p), p, bare(p))
	if u.RawPath != "" {
		add(bySegments(u.EscapedPath()), u.RawPath)
	}
	for i := 1; ; i++ {
		next := decode(p)
		if next == p {
			return all[0], all[1:]
		}
		if i > maxDecodings {
			next = decodeFully(next)
		}
		p = next
		add(path.Clean(p), p, bare(p))
	}
}

func rooted(p string) string {
	if strings.HasPrefix(p, "/") {
		return p
	}
	return "/" + p
}

// canonical returns the one spelling under which a path is counted: fully decoded, without parameters, cleaned, and
// with case folded.
func canonical(u *url.URL) string {
	if first, more := readings(u); len(more) == 0 {
		return fold(first)
	}
	return fold(trimSlash(bare(decodeFully(rooted(u.Path)))))
}

// fold returns s with all letters in one case, as servers compare that ignore case. It also folds letters of which only
// one case is ASCII.
func fold(s string) string {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c >= utf8.RuneSelf || 'A' <= c && c <= 'Z' {
			return strings.ToLower(strings.ToUpper(s))
		}
	}
	return s
}

// bare returns a decoded path without parameters, with slashes in place of backslashes, and cleaned.
func bare(p string) string {
	segments := strings.Split(strings.ReplaceAll(p, `\`, "/"), "/")
	for i, s := range segments {
		segments[i], _, _ = strings.Cut(s, ";")
	}
	return path.Clean(rooted(strings.Join(segments, "/")))
}

// decode returns p with every escape decoded once; what is not a valid escape stays.
func decode(p string) string {
	at := strings.IndexByte(p, '%')
	if at < 0 {
		return p
	}
	b := append(make([]byte, 0, len(p)), p[:at]...)
	for i := at; i < len(p); i++ {
		if c, ok := encoded(p[i:min(i+3, len(p))]); ok {
			b = append(b, c)
			i += 2
			continue
		}
		b = append(b, p[i])
	}
	return string(b)
}

// decodeFully decodes until no escape is left, in one pass. Decoding again and again would take quadratic time for
// "%25252525…", which a client may send.
func decodeFully(p string) string {
	b := make([]byte, 0, len(p))
	for i := range len(p) {
		b = append(b, p[i])
		for len(b) >= 3 {
			c, ok := encoded(string(b[len(b)-3:]))
			if !ok {
				break
			}
			b = append(b[:len(b)-3], c)
		}
	}
	return string(b)
}

// encoded returns the byte that an escape of three characters stands for.
func encoded(s string) (c byte, ok bool) {
	if len(s) != 3 || s[0] != '%' {
		return 0, false
	}
	n, err := strconv.ParseUint(s[1:], 16, 8)
	return byte(n), err == nil
}

// bySegments decodes each segment. An encoded slash within a segment stays encoded, so that it does not divide it.
func bySegments(escaped string) string {
	segments := strings.Split(escaped, "/")
	for i, s := range segments {
		segments[i] = strings.ReplaceAll(decode(s), "/", "%2F")
	}
	return rooted(strings.Join(segments, "/"))
}

// maxGlob bounds the length of a pattern. Patterns that people write are a tenth of it; matching takes time in
// proportion to it.
const maxGlob = 1024

// glob is a pattern of paths. "*" matches one segment, or any part of one, and "**" any number of segments, also none:
// "/api/**" matches "/api" too, which is stricter for a limit. Everything else matches itself. A glob never changes.
type glob struct {
	text     string   // without a trailing slash
	segments []string // empty for "/"
	literal  bool     // it has no wildcard: the text is compared
	tree     bool     // its only wildcard is "/**" at the end
	below    string   // of a tree: what stands before "/**"
}

func parseGlob(text string) (glob, error) {
	switch {
	case !strings.HasPrefix(text, "/"):
		return glob{}, fmt.Errorf(`%q: begin it with "/"`, text)
	case len(text) > maxGlob:
		return glob{}, fmt.Errorf("%q…: use no more than %d bytes", text[:32], maxGlob)
	}
	text = trimSlash(text)
	// Most rules of most services match one path each.
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
	// Most other rules match everything below one path.
	g.below, g.tree = strings.CutSuffix(text, "/**")
	g.tree = g.tree && !strings.Contains(g.below, "*")
	return g, nil
}

func trimSlash(path string) string {
	if len(path) > 1 && path[len(path)-1] == '/' {
		return path[:len(path)-1]
	}
	return path
}

// match reports whether path matches. path must begin with "/" and must not end with it, unless it is "/". It
// backtracks to the last "**" only: whatever the ones before it matched, the last one can match the rest. So it takes
// time in proportion to path times pattern, whatever path a client sends.
func (g *glob) match(path string) bool {
	if g.literal {
		return path == g.text
	}
	if g.tree {
		rest, ok := strings.CutPrefix(path, g.below)
		return ok && (rest == "" || rest[0] == '/')
	}
	pos, end := 1, len(path)+1 // of the next segment; end includes the slash that would follow the last one
	if path == "/" {
		pos = end
	}
	// A loop in place of recursion, whose depth a client would choose.
	at, retry, from := 0, -1, 0 // the next segment of the pattern; the one after the last "**", and where in path it was tried
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
		from = segmentEnd(path, from) + 1 // the "**" matches one segment more
		at, pos = retry, from
	}
}

func segmentEnd(path string, pos int) int {
	if i := strings.IndexByte(path[pos:], '/'); i >= 0 {
		return pos + i
	}
	return len(path)
}

// matchSegment matches one segment, in which "*" matches any bytes. It backtracks to the last "*" only, as match does
// to the last "**".
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
