// Package scope decides which URLs belong to a crawl.
//
// A [Scope] has the seeds and the limits of the user. [Scope.Check] gives a [Decision] on a URL, with a [Code] to
// count and a reason in words. It asks, in this order: is it a resource, too deep, one redirect too many, outside of
// the area of the seeds, excluded, not included.
//
// Patterns may be replaced at any time; [Scope.Recheck] checks again what earlier ones let in. Seeds may be added at
// any time: the caller adds the target of a seed's redirect, so that http://example.com leads into
// https://www.example.com. A Scope remembers no URL it checked.
package scope

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/net/publicsuffix"

	"github.com/treadlight/crawl/internal/web/canonical"
)

// Mode is the area that a seed spans.
type Mode uint8

// The modes. http and https of a host are one site in all of them.
const (
	Host   Mode = iota // the seed's host and port
	Domain             // everything under the seed's registrable domain, on any port
	Prefix             // the seed's path and all below it; of a file, as index.html, its directory
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

// Code is a decision as a number. The zero Code is [In].
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
	NoResources           // a resource, and only pages were asked for
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

// Reason is the decision in words, such as "depth 6 > 5".
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

// Unlimited is no bound on the depth.
const Unlimited = -1

// maxSeeds bounds the areas, at roughly 100 bytes each.
const maxSeeds = 1 << 20

// Config is the settings of a Scope. The zero Config lets the seeds in.
type Config struct {
	// Mode is the area that each seed spans. Zero is Host.
	Mode Mode
	// Include are regular expressions of which one must match the canonical URL. Seeds are exempt. Empty: all match.
	Include []string
	// Exclude are regular expressions of which none may match, for seeds too. They come before Include.
	Exclude []string
	// MaxDepth is how many links away from a seed a page may be, or Unlimited.
	MaxDepth int
	// MaxRedirects is how many redirects in a row are followed.
	MaxRedirects int
	// Resources lets images, scripts, styles and media in, under the same rules.
	Resources bool
}

// Scope decides on URLs. All methods are safe for concurrent use.
type Scope struct {
	cfg      Config // never changes after New
	patterns atomic.Pointer[patterns]

	mu    sync.RWMutex        // guards what follows
	areas map[string]struct{} // hosts, registrable domains or host/dir prefixes
	hosts map[string]struct{} // hosts of seeds in mode Prefix, at most one per area
	known map[string]struct{} // hosts in scope in mode Domain, to look them up once
}

// New makes a scope without seeds, in which only mode Any lets anything in. The error names the invalid pattern.
func New(cfg Config) (*Scope, error) {
	p, err := newPatterns(cfg.Include, cfg.Exclude)
	if err != nil {
		return nil, err
	}
	s := &Scope{cfg: cfg, areas: make(map[string]struct{}), hosts: make(map[string]struct{}), known: make(map[string]struct{})}
	s.patterns.Store(p)
	return s, nil
}

// AddSeed adds the area of u, if there is room.
func (s *Scope) AddSeed(u canonical.URL) {
	area := s.areaOf(u)
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known := s.areas[area]
	if known || s.cfg.Mode == Prefix && s.hasPrefixLocked(area) || len(s.areas) >= maxSeeds {
		return
	}
	s.areas[strings.Clone(area)] = struct{}{} // not to keep the whole URL
	if s.cfg.Mode == Prefix {
		s.hosts[strings.Clone(u.Host())] = struct{}{}
	}
}

// fileName has an extension, as index.html; v1.2 is a directory.
var fileName = regexp.MustCompile(`.\.[A-Za-z]{2,5}$`)

func (s *Scope) areaOf(u canonical.URL) string {
	switch s.cfg.Mode {
	case Domain:
		return domainOf(u.Hostname())
	case Prefix:
		p, _, _ := strings.Cut(u.HostPath(), "?")
		last := strings.LastIndexByte(p, '/')
		if last == len(p)-1 || fileName.MatchString(p[last+1:]) {
			return p[:last]
		}
		return p
	}
	return u.Host()
}

// Check decides on u, found depth links away from a seed (seeds: 0) after so many redirects, as a page or as a
// resource of one. It does not allocate for a URL in scope, but for the first of a host in mode Domain.
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

// CheckSitemap decides on u as a sitemap, whose pages are depth links away from a seed. It may be outside of the area
// of the seeds, and Include does not apply.
func (s *Scope) CheckSitemap(u canonical.URL, depth, redirects int) Decision {
	return s.checkDistance(u, depth, redirects).byPatterns(false)
}

// Recheck decides by the present patterns on what is about to be fetched: a seed, which was not checked before, or a
// URL that was in scope by earlier patterns. exempt (seeds and sitemaps) leaves Include out.
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

// byPatterns decides on what is in scope but for the patterns, by Include only if include is set.
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

// within reports whether u lies in an area that a seed spans.
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

// hasPrefixLocked looks up p and every directory above it.
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

// SiteOf is the registrable domain of a URL's host, or the host if that is none.
func SiteOf(u canonical.URL) string { return domainOf(u.Hostname()) }

// domainOf is the registrable domain: the public suffix and one label. Addresses, single labels and public suffixes
// are themselves.
func domainOf(name string) string {
	if strings.IndexByte(name, '.') < 0 || isAddress(name) {
		return name
	}
	if domain, err := publicsuffix.EffectiveTLDPlusOne(name); err == nil {
		return domain
	}
	return name
}

// isAddress tests for an IP address, quickly: only those end in a digit.
func isAddress(name string) bool {
	if last := name[len(name)-1]; last < '0' || last > '9' {
		return false
	}
	_, err := netip.ParseAddr(name)
	return err == nil
}

// patterns are the Include and Exclude in force.
type patterns struct {
	include, exclude []*regexp.Regexp
}

func newPatterns(include, exclude []string) (*patterns, error) {
	in, err := compile("Include", include)
	if err != nil {
		return nil, err
	}
	out, err := compile("Exclude", exclude)
	if err != nil {
		return nil, err
	}
	return &patterns{include: in, exclude: out}, nil
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

// SetPatterns replaces Include and Exclude for all later checks. The error names the invalid pattern, and changes
// nothing.
func (s *Scope) SetPatterns(include, exclude []string) error {
	p, err := newPatterns(include, exclude)
	if err != nil {
		return err
	}
	s.patterns.Store(p)
	return nil
}

// Patterns are the Include and Exclude in force.
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
