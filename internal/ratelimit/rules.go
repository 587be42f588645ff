package ratelimit

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// rules are what the user has laid down for a domain. Domains share them by
// pointer: one for all that no [HostRule] matches and one for each HostRule. Only a
// domain with caps has a copy of its own.
type rules struct {
	l                     *AdaptiveRateLimiter // here instead of in each state, which saves it a word
	start, floor, ceiling rate
	minDelay              time.Duration
	capacity              int64     // of the bucket, in its units
	maxInFlight           int32     // zero for none
	bounded               bool      // there is maxInFlight or a cap
	operator              bool      // the ceiling is SetCeiling's, and there is no minDelay
	caps                  *ruleCaps // nil for none
	held                  *heldCaps // those of the one domain whose rules these are; nil if they are shared
}

// RuleFor is the index of the HostRule that holds for a domain, the first that matches; -1
// if none does. The domain is in the form of [Domain].
func (c *Config) RuleFor(domain string) int {
	return slices.IndexFunc(c.Hosts, func(h HostRule) bool {
		m, ok := newMatcher(h.Match)
		return ok && m.matches(domain)
	})
}

// host is what a strategy begins with.
func (r *rules) host(m control.Memory) control.Host {
	return control.Host{Start: r.start.rps(), Floor: r.floor.rps(), Ceiling: r.ceiling.rps(), Memory: m}
}

// matcher is a HostRule made ready.
type matcher struct {
	exact  string // a domain; empty for a suffix rule
	suffix string // ".example.com", or empty for every domain
	port   bool   // the pattern names a port, so the domain's counts too
	rules  rules
}

// newMatcher reads a pattern. Names are put into the form of domains, so that a
// rule for "Bücher.example" means what it says.
func newMatcher(pattern string) (m matcher, ok bool) {
	if pattern == "*" {
		return matcher{}, true
	}
	rest, below := strings.CutPrefix(pattern, "*.")
	name := Domain(rest)
	if name == "" || strings.ContainsAny(name, "*/ ") {
		return matcher{}, false
	}
	m = matcher{exact: name, port: withoutPort(name) != name}
	if below {
		m.exact, m.suffix = "", "."+name
	}
	return m, true
}

func (m *matcher) matches(domain string) bool {
	if !m.port {
		domain = withoutPort(domain)
	}
	if m.exact != "" {
		return domain == m.exact
	}
	return len(domain) > len(m.suffix) && strings.HasSuffix(domain, m.suffix)
}

// withoutPort cuts the port off a name that is in the form of [Domain].
func withoutPort(domain string) string {
	colon := strings.LastIndexByte(domain, ':')
	if colon < 0 || strings.HasSuffix(domain, "]") {
		return domain
	}
	return domain[:colon]
}

// rules are those of the domains without a HostRule.
func (c *Config) rules() rules {
	return rules{
		start: rateOf(c.InitialRPS), floor: rateOf(c.MinRPS), ceiling: rateOf(c.MaxRPS),
		minDelay: c.MinDelay, capacity: int64(c.TokenBucketCapacity * float64(token)),
	}
}

// with is r as a HostRule changes it.
func (r rules) with(h HostRule) rules {
	if h.MaxRPS != 0 {
		r.ceiling = rateOf(h.MaxRPS)
	}
	if h.MinRPS != 0 {
		r.floor = rateOf(h.MinRPS)
	}
	if h.InitialRPS != 0 {
		r.start = rateOf(h.InitialRPS)
	}
	if h.MinDelay != 0 {
		r.minDelay = max(h.MinDelay, 0)
	}
	r.maxInFlight, r.bounded = int32(h.MaxInFlight), h.MaxInFlight > 0
	r.floor = min(r.floor, r.ceiling)
	r.start = min(max(r.start, r.floor), r.ceiling)
	return r
}

// validateHosts rejects rules that are malformed or contradict themselves. What
// they inherit adapts to them, so it cannot contradict.
func (c *Config) validateHosts() error {
	for i, h := range c.Hosts {
		if field, value, want := h.invalid(); field != "" {
			return fmt.Errorf("ratelimit: Hosts[%d].%s = %v: want %s", i, field, value, want)
		}
		if _, err := c.newCaps(h); err != nil {
			return fmt.Errorf("ratelimit: Hosts[%d].%w", i, err)
		}
	}
	return nil
}

// invalid is the first field that is out of range and what it should be.
func (h HostRule) invalid() (field string, value any, want string) {
	top := maxRPS
	if h.MaxRPS != 0 {
		top = h.MaxRPS
	}
	if _, ok := newMatcher(h.Match); !ok {
		return "Match", h.Match, `a host such as "example.com", or "*.example.com" for all below it, or "*"`
	}
	if !isRate(h.MaxRPS, maxRPS) {
		return "MaxRPS", h.MaxRPS, "0 to inherit, or 1e-6 to 1e6 requests per second"
	}
	if !isRate(h.MinRPS, top) {
		return "MinRPS", h.MinRPS, "0 to inherit, or 1e-6 to MaxRPS requests per second"
	}
	if !isRate(h.InitialRPS, top) || h.InitialRPS != 0 && h.InitialRPS < h.MinRPS {
		return "InitialRPS", h.InitialRPS, "0 to inherit, or a rate from MinRPS to MaxRPS"
	}
	if h.MaxInFlight < 0 || h.MaxInFlight > math.MaxInt32 {
		return "MaxInFlight", h.MaxInFlight, "0 for no bound, or 1 request or more"
	}
	if h.MinDelay > longest {
		return "MinDelay", h.MinDelay, "0 to inherit, less for none, or a duration up to a century"
	}
	return "", nil, ""
}

// isRate is true of no rate and of one in range; NaN is in none.
func isRate(rps, top float64) bool { return rps == 0 || rps >= minRPS && rps <= top }
