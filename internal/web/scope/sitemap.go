package scope

import "github.com/treadlight/crawl/internal/web/canonical"

// CheckSitemap judges u as a list of pages, which are so many links away from a seed, at the
// end of so many redirects. A list is no page: it may lie outside of the area, where
// robots.txt says it does, and Include is not asked. Exclude is, and so is the depth, lest
// lists be read whose pages are all too deep.
func (s *Scope) CheckSitemap(u canonical.URL, depth, redirects int) Verdict {
	v := Verdict{scope: s, url: u, depth: depth, redirects: redirects}
	switch {
	case s.cfg.MaxDepth != Unlimited && depth > s.cfg.MaxDepth:
		v.Code = TooDeep
	case redirects > s.cfg.MaxRedirects:
		v.Code = TooManyRedirects
	default:
		v.Code, v.by = s.patterns.Load().judge(u, false)
	}
	v.In = v.Code == In
	return v
}

// Reaches reports whether pages of u's host can be in scope, wherever on it u lies.
func (s *Scope) Reaches(u canonical.URL) bool {
	switch s.cfg.Mode {
	case Any:
		return true
	case Prefix:
		return s.has(s.hosts, u.Host())
	}
	return s.within(u)
}
