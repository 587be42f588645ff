package admission

import (
	"net/url"
	"path"
	"slices"
	"strings"
)

// maxReadings is how many ways there are to read a path; see readings.
const maxReadings = 4

// paths is what a request's path may be taken for, the first n of them, all different.
type paths struct {
	list [maxReadings]string
	n    int
}

// readings are the paths that the handlers behind may take u for. Of a plain path there is
// one. Of one with dots, empty segments or an encoding that need not be there are up to
// four, and a limiter that knew but one of them could be passed by spelling it another way:
//
//   - decoded and cleaned, as most frameworks do: "/a%2F..%2Fb" is "/b";
//   - decoded and as it is, for who looks at its prefix: "/a/../b";
//   - by the segments of what was sent, each decoded, as http.ServeMux does: one segment;
//   - as it was sent, for who goes by url.URL.RawPath.
//
// A trailing slash makes no difference.
func readings(u *url.URL) paths {
	p := u.Path
	if u.RawPath == "" && isClean(p) { // nearly always, and without an allocation
		return paths{[maxReadings]string{p}, 1}
	}
	if !strings.HasPrefix(p, "/") {
		p = "/" + p // "", and the "*" of OPTIONS
	}
	var all paths
	all.add(path.Clean(p))
	all.add(p)
	if u.RawPath != "" {
		all.add(bySegments(u.EscapedPath()))
		all.add(u.RawPath)
	}
	return all
}

// add adds a reading unless it is there already.
func (p *paths) add(reading string) {
	reading = trimSlash(reading)
	if !slices.Contains(p.list[:p.n], reading) {
		p.list[p.n] = reading
		p.n++
	}
}

// plain reports whether there is no doubt.
func (p *paths) plain() bool { return p.n == 1 }

// bySegments decodes each segment. A slash within one stays encoded, so that it divides
// nothing.
func bySegments(escaped string) string {
	segments := strings.Split(escaped, "/")
	for i, s := range segments {
		if decoded, err := url.PathUnescape(s); err == nil { // a URL has no others
			segments[i] = strings.ReplaceAll(decoded, "/", "%2F")
		}
	}
	p := strings.Join(segments, "/")
	if !strings.HasPrefix(p, "/") {
		p = "/" + p
	}
	return p
}

// isClean reports whether p is as path.Clean would leave it, and begins with a slash.
func isClean(p string) bool {
	if p == "/" {
		return true
	}
	if p == "" || p[0] != '/' || p[len(p)-1] == '/' {
		return false
	}
	for i := 0; i < len(p); i++ {
		if p[i] != '/' {
			continue
		}
		switch rest := p[i+1:]; {
		case rest[0] == '/': // there is one: the last byte is no slash
			return false
		case rest[0] == '.' && isDots(rest):
			return false
		}
	}
	return true
}

// isDots reports whether the first segment of rest is "." or "..".
func isDots(rest string) bool {
	rest = strings.TrimPrefix(rest[1:], ".")
	return rest == "" || rest[0] == '/'
}
