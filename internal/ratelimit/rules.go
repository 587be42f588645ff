package ratelimit

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/treadlight/crawl/internal/ratelimit/control"
	"github.com/treadlight/crawl/limit"
)

// HostRule is what holds for the domains it matches in place of the global fields.
// Where it lowers MaxRPS below an inherited rate, that rate follows.
type HostRule struct {
	Match      string        // "example.com", or "*.example.com" for all below it, or "*"; a port only if it matters
	InitialRPS float64       // zero means the global one
	MinRPS     float64       // zero means the global one
	MaxRPS     float64       // zero means the global one
	MinDelay   time.Duration // zero means the global one, negative none

	MaxInFlight int // requests of a domain that are out at a time; zero means as many as the strategy lets
	// Cap is a limit that a domain is never asked beyond, whatever was learned of it. Each
	// domain that matches has its own. Queue has no meaning. The zero Spec means none.
	Cap limit.Spec
	// Quota is the same for a long span: a domain that has used it up is blocked, not
	// paced. Of its kinds concurrency is refused, and the empty one means a fixed window,
	// of which the first begins with the limiter. The zero Spec means none.
	Quota limit.Spec
}

// Rules are the part of a [Config] that may change while requests are under way. The
// fields mean what those of the same names mean there, and so does zero.
type Rules struct {
	InitialRPS float64       // of domains that are met from now on
	MinRPS     float64       // requests per second
	MaxRPS     float64       // requests per second
	MinDelay   time.Duration // between two requests to a domain
	Hosts      []HostRule
}

// rules are what the user has laid down for a domain. Domains share them by pointer; only one with caps, or with a
// ceiling of its own, has a copy.
type rules struct {
	l                     *AdaptiveRateLimiter // here instead of in each state, which saves it a word
	start, floor, ceiling rate
	minDelay              time.Duration
	capacity              int64 // of the bucket, in its units
	maxInFlight           int32 // zero for none
	operator              bool  // the ceiling is SetCeiling's, and there is no minDelay
	caps                  *caps // nil for none
}

func (r *rules) bounded() bool { return r.maxInFlight > 0 || r.caps != nil }

func (r *rules) host(m control.Memory) control.Host {
	return control.Host{Start: r.start.rps(), Floor: r.floor.rps(), Ceiling: r.ceiling.rps(), Memory: m}
}

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
	r.maxInFlight = int32(h.MaxInFlight)
	r.floor = min(r.floor, r.ceiling)
	r.start = min(max(r.start, r.floor), r.ceiling)
	return r
}

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

func withoutPort(domain string) string {
	colon := strings.LastIndexByte(domain, ':')
	if colon < 0 || strings.HasSuffix(domain, "]") {
		return domain
	}
	return domain[:colon]
}

// RuleFor is the index of the HostRule that holds for a domain, the first that matches; -1
// if none does. The domain is in the form of [Domain].
func (c *Config) RuleFor(domain string) int {
	return slices.IndexFunc(c.Hosts, func(h HostRule) bool {
		m, ok := newMatcher(h.Match)
		return ok && m.matches(domain)
	})
}

// validateHosts rejects rules that are malformed or contradict themselves. What
// they inherit adapts to them, so it cannot contradict.
func (c *Config) validateHosts() error {
	for i, h := range c.Hosts {
		top := maxRPS
		if h.MaxRPS != 0 {
			top = h.MaxRPS
		}
		_, named := newMatcher(h.Match)
		for _, f := range []check{
			{"Match", h.Match, named, `a host such as "example.com", or "*.example.com" for all below it, or "*"`},
			{"MaxRPS", h.MaxRPS, isRate(h.MaxRPS, maxRPS), "0 to inherit, or 1e-6 to 1e6 requests per second"},
			{"MinRPS", h.MinRPS, isRate(h.MinRPS, top), "0 to inherit, or 1e-6 to MaxRPS requests per second"},
			{"InitialRPS", h.InitialRPS, isRate(h.InitialRPS, top) && (h.InitialRPS == 0 || h.InitialRPS >= h.MinRPS), "0 to inherit, or a rate from MinRPS to MaxRPS"},
			{"MaxInFlight", h.MaxInFlight, h.MaxInFlight >= 0 && h.MaxInFlight <= math.MaxInt32, "0 for no bound, or 1 request or more"},
			{"MinDelay", h.MinDelay, h.MinDelay <= longest, "0 to inherit, less for none, or a duration up to a century"},
		} {
			if !f.ok {
				return fmt.Errorf("ratelimit: Hosts[%d].%s = %v: want %s", i, f.name, f.value, f.want)
			}
		}
		if _, err := c.newCaps(h); err != nil {
			return fmt.Errorf("ratelimit: Hosts[%d].%w", i, err)
		}
	}
	return nil
}

func isRate(rps, top float64) bool { return rps == 0 || rps >= minRPS && rps <= top }

// ruleSet are what the user has laid down for all domains. They never change once they
// are stored; SetRules and SetCeiling store others.
type ruleSet struct {
	base     rules
	hosts    []matcher
	given    []HostRule      // that hosts were made of
	ceilings map[string]rate // of single domains, by SetCeiling: maxCeilings at most
}

// newRuleSet makes rules of a configuration that is valid. Ceilings and caps are taken over from old,
// if it is not nil and has the same caps: what was taken of them counts on.
func newRuleSet(l *AdaptiveRateLimiter, cfg *Config, old *ruleSet) (*ruleSet, error) {
	laid := &ruleSet{given: slices.Clone(cfg.Hosts), base: rules{
		l: l, start: rateOf(cfg.InitialRPS), floor: rateOf(cfg.MinRPS), ceiling: rateOf(cfg.MaxRPS),
		minDelay: cfg.MinDelay, capacity: int64(cfg.TokenBucketCapacity * float64(token)),
	}}
	for i, h := range cfg.Hosts {
		m, _ := newMatcher(h.Match)
		m.rules = laid.base.with(h)
		var err error
		if old != nil && old.binding() {
			m.rules.caps = old.hosts[i].rules.caps
		} else if m.rules.caps, err = cfg.newCaps(h); err != nil {
			return nil, fmt.Errorf("ratelimit: Hosts[%d].%w", i, err)
		}
		laid.hosts = append(laid.hosts, m)
	}
	if old != nil {
		laid.ceilings = old.ceilings
	}
	return laid, nil
}

func (laid *ruleSet) match(domain string) *rules {
	for i := range laid.hosts {
		if laid.hosts[i].matches(domain) {
			return &laid.hosts[i].rules
		}
	}
	return &laid.base
}

func (laid *ruleSet) rulesFor(domain string) *rules {
	r := laid.match(domain)
	ceiling, operator := laid.ceilings[domain]
	if r.caps == nil && !operator {
		return r
	}
	own := *r
	if own.caps != nil {
		own.caps = &caps{rule: r.caps.rule, domain: domain}
	}
	if operator {
		own.operator, own.ceiling, own.minDelay = true, ceiling, 0
		own.floor = min(own.floor, ceiling) // start stays: it is what a fixed rate goes back to
	}
	return &own
}

func (laid *ruleSet) binding() bool { return slices.ContainsFunc(laid.given, HostRule.binding) }

func (h HostRule) binding() bool {
	return h.MaxInFlight > 0 || h.Cap != (limit.Spec{}) || h.Quota != (limit.Spec{})
}

// SetRules replaces the rates and delays that New was given, at once and for all domains: who waits is told anew when
// the turn comes. What was learned, what a host asked for and what is out stays. Caps, quotas and bounds on what is in
// flight are being counted and must be as they were; where there is one, so must the list of matches. The error names
// the field and leaves everything as it was. It may be called at any time, but not by a hook; of two calls at a time
// one counts.
func (l *AdaptiveRateLimiter) SetRules(r Rules) error {
	cfg := l.cfg
	cfg.InitialRPS, cfg.MinRPS, cfg.MaxRPS, cfg.MinDelay, cfg.Hosts = r.InitialRPS, r.MinRPS, r.MaxRPS, r.MinDelay, r.Hosts
	cfg.setDefaults()
	if err := cfg.validate(); err != nil {
		return err
	}
	l.rulesMu.Lock()
	defer l.rulesMu.Unlock()
	old := l.laid.Load()
	if err := old.counts(cfg.Hosts); err != nil {
		return err
	}
	laid, err := newRuleSet(l, &cfg, old)
	if err != nil {
		return err
	}
	l.laid.Store(laid)
	for i := range l.shards {
		sh := &l.shards[i]
		sh.mu.RLock()
		states := sh.index.appendAll(nil)
		sh.mu.RUnlock()
		for _, s := range states {
			l.applyRules(s)
		}
	}
	return nil
}

// counts rejects rules under which something would have to be counted in another way.
func (laid *ruleSet) counts(hosts []HostRule) error {
	if !laid.binding() && !slices.ContainsFunc(hosts, HostRule.binding) {
		return nil
	}
	if !slices.EqualFunc(laid.given, hosts, func(a, b HostRule) bool { return a.Match == b.Match }) {
		return errors.New("ratelimit: Hosts: rules cannot come, go or change places while one has a cap, a quota or a bound in flight: start the crawl anew")
	}
	for i, h := range hosts {
		was := laid.given[i]
		if h.MaxInFlight != was.MaxInFlight || h.Cap != was.Cap || h.Quota != was.Quota {
			return fmt.Errorf("ratelimit: Hosts[%d]: MaxInFlight, Cap and Quota are being counted and cannot change: start the crawl anew", i)
		}
	}
	return nil
}

func (l *AdaptiveRateLimiter) applyRules(s *state) {
	s.mu.Lock()
	if s.dead {
		s.mu.Unlock()
		return
	}
	held := s.rules.caps
	if s.rules = l.laid.Load().rulesFor(s.domain); held != nil {
		s.rules.caps = held
	}
	now := s.nowLocked()
	s.replanLocked(now)
	s.rearmLocked(now)
	l.unlock(s)
}

// maxCeilings bounds the domains with a ceiling of their own: a person who sets that many wants a HostRule.
const maxCeilings = 1 << 12

// ErrTooManyCeilings is what SetCeiling returns when as many domains have one as may.
var ErrTooManyCeilings = fmt.Errorf("ratelimit: %d hosts have a ceiling of their own: set one of them to 0 first, or lay down a rule for many", maxCeilings)

// SetCeiling has one domain be asked at most rps times a second from now on, in place of the MaxRPS and the MinDelay
// that its rules lay down, be it less or more. It is a bound: how much of it is used is learned as before, and a fixed
// rate below it stays. What robots.txt and the server ask for holds as before, and so do caps and quotas. An rps of
// zero takes it back: then the rules hold again. It outlives [AdaptiveRateLimiter.SetRules] and the eviction of the
// domain. The error names what is wrong and leaves everything as it was. It may be called at any time, but not by a
// hook.
func (l *AdaptiveRateLimiter) SetCeiling(domain string, rps float64) error {
	if !l.cfg.Enabled {
		return errors.New("ratelimit: rates are not limited: there is no ceiling to change")
	}
	if !isRate(rps, maxRPS) {
		return fmt.Errorf("ratelimit: the ceiling is %v: want 1e-6 to 1e6 requests per second, or 0 for that of the settings", rps)
	}
	domain = Domain(domain)
	l.rulesMu.Lock()
	defer l.rulesMu.Unlock()
	laid := *l.laid.Load()
	ceilings := maps.Clone(laid.ceilings)
	delete(ceilings, domain)
	if rps > 0 {
		if len(ceilings) >= maxCeilings {
			return ErrTooManyCeilings
		}
		if ceilings == nil {
			ceilings = make(map[string]rate)
		}
		ceilings[domain] = rateOf(rps)
	}
	laid.ceilings = ceilings
	l.laid.Store(&laid)
	id := l.identify(domain)
	sh := l.shardOf(id)
	sh.mu.RLock() // who makes the state has read the rules under it
	s := sh.index.get(id)
	sh.mu.RUnlock()
	if s != nil {
		l.applyRules(s)
	}
	return nil
}
