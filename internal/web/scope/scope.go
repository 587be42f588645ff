// Package scope decides which URLs belong to a crawl.
//
// A [Scope] has the seeds and the limits of the user. [Scope.Check] gives a [Decision] on a URL,
// with a [Code] to count and a reason in words. It asks, in this order: is it a resource, too
// deep, one redirect too many, outside of the area of the seeds, excluded, not included.
//
// Patterns may be replaced at any time; [Scope.Recheck] checks again what earlier ones let in.
// Seeds may be added at any time: the caller adds the target of a seed's redirect, so that
// http://example.com leads into https://www.example.com. A Scope remembers no URL it checked.
package scope

import (
	"fmt"
	"net/netip"
	"regexp"
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

// String is the name in settings.
func (m Mode) String() string {
	if m < numModes {
		return modeNames[m]
	}
	return fmt.Sprintf("mode(%d)", uint8(m))
}

// MarshalText writes the name.
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads a name.
func (m *Mode) UnmarshalText(text []byte) error {
	for i, name := range modeNames {
		if name == string(text) {
			*m = Mode(i)
			return nil
		}
	}
	return fmt.Errorf("scope %q: use one of %s", text, strings.Join(modeNames[:], ", "))
}

// Unlimited is no bound on the depth.
const Unlimited = -1

const defaultMaxSeeds = 1 << 20

// Config is the settings of a Scope. The zero Config lets the seeds in.
type Config struct {
	// Mode is the area that each seed spans. Zero is Host.
	Mode Mode
	// Include are regular expressions of which one must match the canonical URL. Seeds are
	// exempt. Empty: all match.
	Include []string
	// Exclude are regular expressions of which none may match, for seeds too. They come before
	// Include.
	Exclude []string
	// MaxDepth is how many links away from a seed a page may be, or Unlimited.
	MaxDepth int
	// MaxRedirects is how many redirects in a row are followed.
	MaxRedirects int
	// Resources lets images, scripts, styles and media in, under the same rules.
	Resources bool
	// MaxSeeds bounds the areas, at roughly 100 bytes each. Zero is 1,048,576.
	MaxSeeds int
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

// maxKnown bounds the known hosts of mode Domain, at less than 10 MB.
const maxKnown = 1 << 16

// New makes a scope without seeds, in which only mode Any lets anything in. The error names the
// invalid field.
func New(cfg Config) (*Scope, error) {
	switch {
	case cfg.Mode >= numModes:
		return nil, fmt.Errorf("Mode is %d: use Host, Domain, Prefix or Any", cfg.Mode)
	case cfg.MaxDepth < Unlimited:
		return nil, fmt.Errorf("MaxDepth is %d: use -1 for no limit, or 0 and up", cfg.MaxDepth)
	case cfg.MaxRedirects < 0:
		return nil, fmt.Errorf("MaxRedirects is %d: use 0 and up", cfg.MaxRedirects)
	case cfg.MaxSeeds < 0:
		return nil, fmt.Errorf("MaxSeeds is %d: use 0 for the default, or more", cfg.MaxSeeds)
	case cfg.MaxSeeds == 0:
		cfg.MaxSeeds = defaultMaxSeeds
	}
	p, err := newPatterns(cfg.Include, cfg.Exclude)
	if err != nil {
		return nil, err
	}
	s := &Scope{
		cfg: cfg, areas: make(map[string]struct{}), hosts: make(map[string]struct{}), known: make(map[string]struct{}),
	}
	s.patterns.Store(p)
	return s, nil
}

// AddSeed adds the area of u. It reports false if there is no room.
func (s *Scope) AddSeed(u canonical.URL) bool {
	area := s.areaOf(u)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.areas[area]; ok || s.cfg.Mode == Prefix && s.hasPrefixLocked(area) {
		return true
	}
	if len(s.areas) >= s.cfg.MaxSeeds {
		return false
	}
	s.areas[strings.Clone(area)] = struct{}{} // not to keep the whole URL
	if s.cfg.Mode == Prefix {
		s.hosts[strings.Clone(u.Host())] = struct{}{}
	}
	return true
}

// fileName has an extension, as index.html; v1.2 is a directory.
var fileName = regexp.MustCompile(`.\.[A-Za-z]{2,5}$`)

func (s *Scope) areaOf(u canonical.URL) string {
	switch s.cfg.Mode {
	case Domain:
		return domainOf(u.Hostname())
	case Prefix:
		p := u.HostPath()
		if q := strings.IndexByte(p, '?'); q >= 0 {
			p = p[:q]
		}
		last := strings.LastIndexByte(p, '/')
		if last == len(p)-1 || fileName.MatchString(p[last+1:]) {
			return p[:last]
		}
		return p
	}
	return u.Host()
}

// Check decides on u, found depth links away from a seed (seeds: 0) after so many redirects, as a
// page or as a resource of one. It does not allocate for a URL in scope, but for the first of a
// host in mode Domain.
func (s *Scope) Check(u canonical.URL, depth, redirects int, resource bool) Decision {
	v := Decision{scope: s, url: u, depth: depth, redirects: redirects}
	switch {
	case resource && !s.cfg.Resources:
		v.Code = NoResources
	case s.checkDistance(&v):
	case s.cfg.Mode != Any && !s.within(u):
		v.Code = Code(s.cfg.Mode) + OtherHost
	default:
		v.Code, v.by = s.patterns.Load().check(u, depth > 0)
	}
	v.In = v.Code == In
	return v
}

// CheckSitemap decides on u as a sitemap, whose pages are depth links away from a seed. It may be
// outside of the area of the seeds, and Include does not apply.
func (s *Scope) CheckSitemap(u canonical.URL, depth, redirects int) Decision {
	v := Decision{scope: s, url: u, depth: depth, redirects: redirects}
	if !s.checkDistance(&v) {
		v.Code, v.by = s.patterns.Load().check(u, false)
	}
	v.In = v.Code == In
	return v
}

// checkDistance reports whether v is out of scope for its depth or redirects.
func (s *Scope) checkDistance(v *Decision) bool {
	switch {
	case s.cfg.MaxDepth != Unlimited && v.depth > s.cfg.MaxDepth:
		v.Code = TooDeep
	case v.redirects > s.cfg.MaxRedirects:
		v.Code = TooManyRedirects
	}
	return v.Code != In
}

// Reaches reports whether any page of u's host can be in scope.
func (s *Scope) Reaches(u canonical.URL) bool {
	switch s.cfg.Mode {
	case Any:
		return true
	case Prefix:
		return s.has(s.hosts, u.Host())
	}
	return s.within(u)
}

// within reports whether u lies in an area that a seed spans.
func (s *Scope) within(u canonical.URL) bool {
	switch s.cfg.Mode {
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
	end := len(p)
	if q := strings.IndexByte(p, '?'); q >= 0 {
		end = q
	}
	for i := range end {
		if p[i] != '/' {
			continue
		}
		if _, ok := s.areas[p[:i]]; ok {
			return true
		}
	}
	_, ok := s.areas[p[:end]]
	return ok
}

// domainOf is the registrable domain: the public suffix and one label. Addresses, single labels
// and public suffixes are themselves.
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
