// Package scope decides which URLs belong to a crawl.
//
// A [Scope] has the seeds and the limits of the user. [Scope.Check] returns a [Decision] on a URL, with a [Code] for
// counting and a reason in words. It checks in this order: whether the URL is an unwanted resource, too deep, one
// redirect too many, outside of the area of the seeds, excluded, or not included.
//
// Patterns may be replaced at any time; [Scope.Recheck] then checks URLs that earlier patterns accepted. Seeds may be
// added at any time: the caller adds the target of a seed's redirect, so that http://example.com leads into
// https://www.example.com. A Scope does not remember the URLs that it checked.
package scope

import (
	"cmp"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/net/publicsuffix"

	"github.com/treadlight/crawl/internal/lazy"
	"github.com/treadlight/crawl/internal/web/canonical"
)

// Mode says which area belongs to a seed.
type Mode uint8

// The modes. http and https of a host are one site in all of them.
const (
	Host   Mode = iota // the seed's host and port
	Domain             // everything under the seed's registrable domain, on any port
	Prefix             // the seed's path and everything below it; for a file such as index.html, its directory
	Any                // everywhere
	numModes
)

var modeNames = [numModes]string{"host", "domain", "prefix", "any"}

func (m Mode) String() string { return modeNames[m] }

// MarshalText writes the name.
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads a name.
func (m *Mode) UnmarshalText(text []byte) error {
	if i := slices.Index(modeNames[:], string(text)); i >= 0 {
		*m = Mode(i)
		return nil
	}
	return fmt.Errorf("scope %q: use one of %s", text, strings.Join(modeNames[:], ", "))
}

// Code is the decision as a number. The zero Code is [In].
type Code uint8

// The codes. OtherHost, OtherDomain and OtherPrefix are in the order of their modes.
const (
	In               Code = iota
	OtherHost             // not a seed's host
	OtherDomain           // not in a seed's registrable domain
	OtherPrefix           // not below a seed's path
	TooDeep               // more links away than MaxDepth
	TooManyRedirects      // more redirects in a row than MaxRedirects
	Excluded              // an Exclude pattern matches
	NotIncluded           // no Include pattern matches
	NoResources           // a resource, while only pages are wanted
	NumCodes              // the number of codes
)

var codeNames = [NumCodes]string{
	"in", "other_host", "other_domain", "other_prefix", "too_deep", "too_many_redirects",
	"excluded", "not_included", "no_resources",
}

func (c Code) String() string { return codeNames[c] }

// Decision is whether a URL is in scope, and why.
type Decision struct {
	In   bool
	Code Code

	scope            *Scope
	url              canonical.URL
	depth, redirects int
	by               *regexp.Regexp // the Exclude pattern that matched; nil if none did
}

// Reason returns the decision in words, such as "depth 6 > 5".
func (v Decision) Reason() string {
	switch v.Code {
	case In:
		return "in scope"
	case OtherHost:
		return fmt.Sprintf("host %s is not a seed host", v.url.Host())
	case OtherDomain:
		return fmt.Sprintf("domain %s is not a seed's domain", domainOf(v.url.Hostname()))
	case OtherPrefix:
		return fmt.Sprintf("%s is not below a seed's path", v.url)
	case TooDeep:
		return fmt.Sprintf("depth %d > %d", v.depth, v.scope.cfg.MaxDepth)
	case TooManyRedirects:
		return fmt.Sprintf("redirect %d > %d", v.redirects, v.scope.cfg.MaxRedirects)
	case Excluded:
		return fmt.Sprintf("excluded by /%s/", v.by)
	case NotIncluded:
		return "matches no include pattern"
	case NoResources:
		return "resources are not asked for"
	}
	return v.Code.String()
}

// Unlimited as a MaxDepth means no bound.
const Unlimited = -1

// maxSeeds bounds the areas, at roughly 100 bytes each.
const maxSeeds = 1 << 20

// Config has the settings of a Scope. The zero Config accepts only the seeds.
type Config struct {
	// Mode says which area belongs to each seed. Zero means Host.
	Mode Mode
	// Include has regular expressions, one of which must match the canonical URL. Seeds are exempt. Empty means that
	// every URL matches.
	Include []string
	// Exclude has regular expressions, none of which may match, also for seeds. It takes precedence over Include.
	Exclude []string
	// MaxDepth is how many links away from a seed a page may be, or Unlimited.
	MaxDepth int
	// MaxRedirects is how many redirects in a row are followed.
	MaxRedirects int
	// Resources accepts images, scripts, styles and media, under the same rules as pages.
	Resources bool
}

// Scope decides on URLs. All methods are safe for concurrent use.
type Scope struct {
	cfg      Config // never changes after New
	patterns atomic.Pointer[patterns]

	mu    sync.RWMutex        // guards what follows
	areas map[string]struct{} // hosts, registrable domains or host/dir prefixes
	hosts map[string]struct{} // in mode Prefix: hosts of seeds, at most one for each area
	known map[string]struct{} // in mode Domain: hosts in scope, so that each domain is looked up once
}

// New returns a scope without seeds, which accepts URLs only in mode Any. An error names the invalid pattern.
func New(cfg Config) (*Scope, error) {
	p, err := newPatterns(cfg.Include, cfg.Exclude)
	if err != nil {
		return nil, err
	}
	s := &Scope{cfg: cfg, areas: make(map[string]struct{}), hosts: make(map[string]struct{}), known: make(map[string]struct{})}
	s.patterns.Store(p)
	return s, nil
}

// AddSeed adds the area of u, unless there are too many.
func (s *Scope) AddSeed(u canonical.URL) {
	area := s.areaOf(u)
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known := s.areas[area]
	if known || s.cfg.Mode == Prefix && s.hasPrefixLocked(area) || len(s.areas) >= maxSeeds {
		return
	}
	s.areas[strings.Clone(area)] = struct{}{} // a copy, so that the whole URL is not kept in memory
	if s.cfg.Mode == Prefix {
		s.hosts[strings.Clone(u.Host())] = struct{}{}
	}
}

// fileName matches a segment with an extension, as index.html; v1.2 is a directory.
var fileName = lazy.Regexp(`.\.[A-Za-z]{2,5}$`)

func (s *Scope) areaOf(u canonical.URL) string {
	switch s.cfg.Mode {
	case Domain:
		return domainOf(u.Hostname())
	case Prefix:
		p, _, _ := strings.Cut(u.HostPath(), "?")
		last := strings.LastIndexByte(p, '/')
		if last == len(p)-1 || fileName().MatchString(p[last+1:]) {
			return p[:last]
		}
		return p
	}
	return u.Host()
}

// Check decides on u, which was found depth links away from a seed (0 for seeds) and after so many redirects. resource
// says that u is a resource of a page, and not a page. For a URL in scope Check does not allocate, except for the first
// of each host in mode Domain.
func (s *Scope) Check(u canonical.URL, depth, redirects int, resource bool) Decision {
	v := s.checkDistance(u, depth, redirects)
	switch {
	case resource && !s.cfg.Resources:
		v.Code = NoResources
	case v.Code == In && !s.within(u):
		v.Code = Code(s.cfg.Mode) + OtherHost
	}
	return v.byPatterns(depth > 0)
}

// CheckSitemap decides on u as a sitemap whose pages are depth links away from a seed. u may be outside of the area of
// the seeds, and Include does not apply.
func (s *Scope) CheckSitemap(u canonical.URL, depth, redirects int) Decision {
	return s.checkDistance(u, depth, redirects).byPatterns(false)
}

// Recheck decides by the present patterns on a URL that is about to be fetched: a seed, which was not checked before,
// or a URL that earlier patterns accepted. For exempt URLs (seeds and sitemaps) Include does not apply.
func (s *Scope) Recheck(u canonical.URL, exempt bool) Decision {
	return Decision{scope: s, url: u}.byPatterns(!exempt)
}

func (s *Scope) checkDistance(u canonical.URL, depth, redirects int) Decision {
	v := Decision{scope: s, url: u, depth: depth, redirects: redirects}
	switch {
	case s.cfg.MaxDepth != Unlimited && depth > s.cfg.MaxDepth:
		v.Code = TooDeep
	case redirects > s.cfg.MaxRedirects:
		v.Code = TooManyRedirects
	}
	return v
}

// byPatterns applies the patterns to a URL that is in scope without them. It applies Include only if include is set.
func (v Decision) byPatterns(include bool) Decision {
	if v.Code == In {
		p := v.scope.patterns.Load()
		if v.by = firstMatch(p.exclude, v.url.String()); v.by != nil {
			v.Code = Excluded
		} else if include && len(p.include) > 0 && firstMatch(p.include, v.url.String()) == nil {
			v.Code = NotIncluded
		}
	}
	v.In = v.Code == In
	return v
}

// Reaches reports whether any page of u's host can be in scope.
func (s *Scope) Reaches(u canonical.URL) bool {
	if s.cfg.Mode == Prefix {
		return s.has(s.hosts, u.Host())
	}
	return s.within(u)
}

// within reports whether u is in the area of a seed.
func (s *Scope) within(u canonical.URL) bool {
	switch s.cfg.Mode {
	case Any:
		return true
	case Domain:
		return s.has(s.known, u.Host()) || s.has(s.areas, domainOf(u.Hostname())) && s.remember(u.Host())
	case Prefix:
		s.mu.RLock()
		defer s.mu.RUnlock()
		return s.hasPrefixLocked(u.HostPath())
	}
	return s.has(s.areas, u.Host())
}

func (s *Scope) has(set map[string]struct{}, key string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	_, ok := set[key]
	return ok
}

// maxKnown bounds the known hosts of mode Domain, at less than 10 MB.
const maxKnown = 1 << 16

// remember adds a host of mode Domain that is in scope, and returns true.
func (s *Scope) remember(host string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) < maxKnown {
		s.known[strings.Clone(host)] = struct{}{}
	}
	return true
}

// hasPrefixLocked reports whether p or a directory above it is an area.
func (s *Scope) hasPrefixLocked(p string) bool {
	p, _, _ = strings.Cut(p, "?")
	for i := range len(p) + 1 {
		if i < len(p) && p[i] != '/' {
			continue
		}
		if _, ok := s.areas[p[:i]]; ok {
			return true
		}
	}
	return false
}

// SiteOf returns the registrable domain of a URL's host, or the host if it has none.
func SiteOf(u canonical.URL) string { return domainOf(u.Hostname()) }

// domainOf returns the registrable domain of a name: the public suffix and one more label. It returns addresses, single
// labels and public suffixes unchanged.
func domainOf(name string) string {
	if strings.IndexByte(name, '.') < 0 || isAddress(name) {
		return name
	}
	if domain, err := publicsuffix.EffectiveTLDPlusOne(name); err == nil {
		return domain
	}
	return name
}

// isAddress reports whether a name with a dot is an IP address. It first checks the last byte, because only addresses
// end in a digit.
func isAddress(name string) bool {
	if last := name[len(name)-1]; last < '0' || last > '9' {
		return false
	}
	_, err := netip.ParseAddr(name)
	return err == nil
}

// patterns has the Include and Exclude in force.
type patterns struct {
	include, exclude []*regexp.Regexp
}

func newPatterns(include, exclude []string) (*patterns, error) {
	in, wrongIn := compile("Include", include)
	out, wrongOut := compile("Exclude", exclude)
	return &patterns{include: in, exclude: out}, cmp.Or(wrongIn, wrongOut)
}

func compile(field string, patterns []string) ([]*regexp.Regexp, error) {
	out := make([]*regexp.Regexp, len(patterns))
	for i, p := range patterns {
		re, err := regexp.Compile(p)
		if err != nil {
			return nil, fmt.Errorf("%s[%d] %q is no regular expression: %w: escape what is meant literally with \\", field, i, p, err)
		}
		if p == "" {
			return nil, fmt.Errorf("%s[%d] is empty, which matches everything: remove it", field, i)
		}
		out[i] = re
	}
	return out, nil
}

func firstMatch(patterns []*regexp.Regexp, s string) *regexp.Regexp {
	for _, re := range patterns {
		if re.MatchString(s) {
			return re
		}
	}
	return nil
}

// SetPatterns replaces Include and Exclude for all later checks. An error names the invalid pattern; then nothing is
// changed.
func (s *Scope) SetPatterns(include, exclude []string) error {
	p, err := newPatterns(include, exclude)
	if err != nil {
		return err
	}
	s.patterns.Store(p)
	return nil
}

// Patterns returns the Include and Exclude in force.
func (s *Scope) Patterns() (include, exclude []string) {
	p := s.patterns.Load()
	return texts(p.include), texts(p.exclude)
}

func texts(patterns []*regexp.Regexp) []string {
	out := make([]string, len(patterns))
	for i, re := range patterns {
		out[i] = re.String()
	}
	return out
}
