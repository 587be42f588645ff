// Package scope decides which URLs belong to a crawl, and says why.
//
// A [Scope] knows the seeds and the user's limits. [Scope.Check] takes a URL with
// the way it was found and returns a [Verdict], which carries a [Code] to count and,
// for those who ask, a reason in words: the log, the record of what was not followed
// and "crawl explain" print the same sentence.
//
// The questions are asked from cheap to dear, and the first no is the verdict: is it
// a resource, is it too deep, is it one redirect too many, is it in the area that
// the seeds span, is it excluded, is it included.
//
// Patterns may be replaced at any time; what was let in by the old ones is judged again by
// [Scope.Recheck]. Seeds may be added while others check: the caller adds the target of a seed's own
// redirect, so that http://example.com leads into https://www.example.com. A Scope
// does not canonicalize, does not know robots.txt and remembers no URL it judged.
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

// The modes. Schemes do not matter in any of them: http and https of a host are one
// site.
const (
	Host   Mode = iota // the seed's host and port
	Domain             // everything under the seed's registrable domain, on any port
	Prefix             // the seed's path and all below it; of a file, as index.html, its directory
	Any                // everywhere
	numModes
)

var modeNames = [numModes]string{"host", "domain", "prefix", "any"}

// String is the name that the command line uses.
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

// Unlimited is the depth without an end.
const Unlimited = -1

// defaultMaxSeeds bounds the areas we keep, at roughly 100 bytes each. A list of
// seeds beyond a million hosts is a crawl of mode Any.
const defaultMaxSeeds = 1 << 20

// Config says what belongs to a crawl. The zero Config takes the seeds alone.
type Config struct {
	// Mode is the area that each seed spans. Zero is Host.
	Mode Mode
	// Include are regular expressions on the canonical URL, of which one must match.
	// Seeds are exempt: they are where the user asked to begin. None matches all.
	Include []string
	// Exclude are regular expressions on the canonical URL, of which none may match.
	// They go before Include and hold for seeds too. None excludes nothing.
	Exclude []string
	// MaxDepth is how many links away from a seed a page may be, or Unlimited. Zero
	// takes the seeds alone.
	MaxDepth int
	// MaxRedirects is how many redirects in a row are followed. Zero follows none.
	MaxRedirects int
	// Resources takes images, scripts, styles and media too, under the same rules.
	// False takes only pages.
	Resources bool
	// MaxSeeds bounds the areas that seeds span. Beyond it AddSeed refuses, which
	// keeps a crawl of redirects from growing without end. Zero is 1,048,576.
	MaxSeeds int
}

// Scope judges URLs. All methods are safe for concurrent use.
type Scope struct {
	cfg      Config // never changes after New
	patterns atomic.Pointer[patterns]

	mu    sync.RWMutex        // guards what follows
	areas map[string]struct{} // hosts, registrable domains or host/dir prefixes
	hosts map[string]struct{} // hosts of seeds in mode Prefix, of which there are as many as areas at most
	known map[string]struct{} // hosts found in scope in mode Domain, to ask the list once
}

// maxKnown bounds the hosts of mode Domain that are remembered, at less than 10 MB.
// A host that finds no room costs the look into the suffix list each time.
const maxKnown = 1 << 16

// New checks cfg and makes a scope without seeds, in which only mode Any lets
// anything in.
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

// AddSeed widens the scope by the area that u spans. It reports false, and changes
// nothing, if there is no room for another area.
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

// fileName is one with an ending, as index.html; v1.2 is a directory's.
var fileName = regexp.MustCompile(`.\.[A-Za-z]{2,5}$`)

// areaOf is the key of the area that a seed spans.
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

// Check judges u, which was found depth links away from a seed (seeds: 0) at the end
// of so many redirects, as a page or as a resource of one. A URL that is in costs no
// allocation, but for the first of a host in mode Domain.
func (s *Scope) Check(u canonical.URL, depth, redirects int, resource bool) Verdict {
	v := Verdict{scope: s, url: u, depth: depth, redirects: redirects}
	v.Code, v.by = s.judge(u, depth, redirects, resource)
	v.In = v.Code == In
	return v
}

// judge is the verdict's code, and which pattern excluded u if one did.
func (s *Scope) judge(u canonical.URL, depth, redirects int, resource bool) (code Code, by *regexp.Regexp) {
	switch {
	case resource && !s.cfg.Resources:
		return NoResources, nil
	case s.cfg.MaxDepth != Unlimited && depth > s.cfg.MaxDepth:
		return TooDeep, nil
	case redirects > s.cfg.MaxRedirects:
		return TooManyRedirects, nil
	case s.cfg.Mode != Any && !s.within(u):
		return Code(s.cfg.Mode) + OtherHost, nil
	}
	return s.patterns.Load().judge(u, depth > 0)
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

// remember keeps a host of mode Domain that is in. Seeds never leave, so it stays in.
// The answer is always true.
func (s *Scope) remember(host string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) < maxKnown {
		s.known[strings.Clone(host)] = struct{}{}
	}
	return true
}

// hasPrefixLocked looks p and every directory above it up: paths are shallow, lists of seeds
// may be long.
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

// domainOf is the registrable domain: the public suffix and one label. Addresses,
// names of one label and public suffixes themselves have none and stand for
// themselves.
func domainOf(name string) string {
	if strings.IndexByte(name, '.') < 0 || isAddress(name) {
		return name
	}
	suffix, _ := publicsuffix.PublicSuffix(name)
	if len(name) <= len(suffix) {
		return name
	}
	dot := strings.LastIndexByte(name[:len(name)-len(suffix)-1], '.')
	return name[dot+1:]
}

// isAddress is true of an IP address. Only those end in a digit, which is looked at
// first: this runs for every link.
func isAddress(name string) bool {
	if last := name[len(name)-1]; last < '0' || last > '9' {
		return false
	}
	_, err := netip.ParseAddr(name)
	return err == nil
}
