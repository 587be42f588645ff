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

// HostRule replaces global fields of a [Config] for the domains that it matches. If its MaxRPS is below an inherited
// InitialRPS or MinRPS, that one is lowered to it.
type HostRule struct {
	Match      string        // "example.com", or "*.example.com" for all below it, or "*"; a port only if it matters
	InitialRPS float64       // zero means the global one
	MinRPS     float64       // zero means the global one
	MaxRPS     float64       // zero means the global one
	MinDelay   time.Duration // zero means the global one, negative none

	MaxInFlight int // requests of a domain in flight at a time; zero means as many as the strategy allows
	// Cap is a hard limit on requests to a domain, whatever was learned of it. Each domain that matches has its own.
	// Its Queue has no effect. The zero Spec means none.
	Cap limit.Spec
	// Quota is a hard limit over a long span. It does not pace a domain, but blocks it once the quota is used up. Its
	// Kind may not be concurrency; an empty one means a fixed window, the first of which begins with the limiter. The
	// zero Spec means none.
	Quota limit.Spec
}

// Rules are the fields of a [Config] that may change while requests are under way. Each has the meaning and the zero
// value of the field of the same name there.
type Rules struct {
	InitialRPS float64       // of domains first asked from now on
	MinRPS     float64       // requests per second
	MaxRPS     float64       // requests per second
	MinDelay   time.Duration // between two requests to a domain
	Hosts      []HostRule
}

// rules are the user's rules for a domain. Domains share them by pointer; a domain with caps or with a ceiling of its
// own has a copy.
type rules struct {
	l                     *AdaptiveRateLimiter // here and not in state, which saves a word per domain
	start, floor, ceiling rate
	minDelay              time.Duration
	capacity              int64 // of the bucket, in 1e-15 tokens
	maxInFlight           int32 // zero for none
	operator              bool  // the ceiling was set by SetCeiling, which also drops minDelay
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

// pattern brings the name that a rule matches into the form of [Domain], so that "Bücher.example" matches. A port behind
// "*" makes it invalid.
func (h HostRule) pattern() string {
	if rest, below := strings.CutPrefix(h.Match, "*."); below {
		return "*." + Domain(rest)
	}
	if name := Domain(h.Match); name != "*" {
		return name
	}
	return h.Match
}

// RuleFor is the index of the first HostRule that matches a domain, which is the one that counts; -1 if none does. The
// domain is in the form of [Domain].
func (c *Config) RuleFor(domain string) int {
	var p Patterns
	for i, h := range c.Hosts {
		p.Add(h.pattern(), i)
	}
	return p.Find(domain)
}

// validateHosts rejects rules that are malformed or contradict themselves. Inherited fields adapt to a rule's own, so
// they cannot contradict it.
func (c *Config) validateHosts() error {
	for i, h := range c.Hosts {
		top := maxRPS
		if h.MaxRPS != 0 {
			top = h.MaxRPS
		}
		for _, f := range []check{
			{"Match", h.Match, new(Patterns).Add(h.pattern(), i), `a host such as "example.com", or "*.example.com" for all below it, or "*"`},
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

// ruleSet has the user's rules for all domains. It never changes once it is stored; SetRules and SetCeiling store
// another one.
type ruleSet struct {
	base     rules
	patterns Patterns        // of the hosts
	hosts    []rules         // of the domains that match
	given    []HostRule      // from which hosts were made
	ceilings map[string]rate // of single domains, set by SetCeiling; at most maxCeilings
}

// newRuleSet makes the rules of a valid configuration. If old is not nil, its ceilings are kept, and so are its caps
// with what was taken of them.
func newRuleSet(l *AdaptiveRateLimiter, cfg *Config, old *ruleSet) (*ruleSet, error) {
	set := &ruleSet{given: slices.Clone(cfg.Hosts), base: rules{
		l: l, start: rateOf(cfg.InitialRPS), floor: rateOf(cfg.MinRPS), ceiling: rateOf(cfg.MaxRPS),
		minDelay: cfg.MinDelay, capacity: int64(cfg.TokenBucketCapacity * float64(token)),
	}}
	for i, h := range cfg.Hosts {
		r := set.base.with(h)
		var err error
		if old != nil && old.binding() {
			r.caps = old.hosts[i].caps
		} else if r.caps, err = cfg.newCaps(h); err != nil {
			return nil, fmt.Errorf("ratelimit: Hosts[%d].%w", i, err)
		}
		set.patterns.Add(h.pattern(), i)
		set.hosts = append(set.hosts, r)
	}
	if old != nil {
		set.ceilings = old.ceilings
	}
	return set, nil
}

func (set *ruleSet) match(domain string) *rules {
	if i := set.patterns.Find(domain); i >= 0 {
		return &set.hosts[i]
	}
	return &set.base
}

func (set *ruleSet) rulesFor(domain string) *rules {
	r := set.match(domain)
	ceiling, operator := set.ceilings[domain]
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

func (set *ruleSet) binding() bool { return slices.ContainsFunc(set.given, HostRule.binding) }

func (h HostRule) binding() bool {
	return h.MaxInFlight > 0 || h.Cap != (limit.Spec{}) || h.Quota != (limit.Spec{})
}

// SetRules replaces the rates and delays that New was given, at once and for all domains, also for callers that wait.
// What was learned and what a host asked for stays. Caps, quotas and bounds on requests in flight cannot change, as they
// are being counted; if a rule has one, the list of rules must match the same domains in the same order. An error names
// the field and leaves everything as it was. SetRules may be called at any time, but not by OnEvent; of two concurrent
// calls one counts.
func (l *AdaptiveRateLimiter) SetRules(r Rules) error {
	cfg := l.cfg
	cfg.InitialRPS, cfg.MinRPS, cfg.MaxRPS, cfg.MinDelay, cfg.Hosts = r.InitialRPS, r.MinRPS, r.MaxRPS, r.MinDelay, r.Hosts
	cfg.setDefaults()
	if err := cfg.validate(); err != nil {
		return err
	}
	l.rulesMu.Lock()
	defer l.rulesMu.Unlock()
	old := l.rules.Load()
	if err := old.counts(cfg.Hosts); err != nil {
		return err
	}
	set, err := newRuleSet(l, &cfg, old)
	if err != nil {
		return err
	}
	l.rules.Store(set)
	for i := range l.shards {
		sh := &l.shards[i]
		sh.mu.RLock()
		states := slices.Collect(maps.Values(sh.states))
		sh.mu.RUnlock()
		for _, s := range states {
			l.applyRules(s)
		}
	}
	return nil
}

// counts rejects rules with other caps, quotas or bounds on requests in flight than those being counted.
func (set *ruleSet) counts(hosts []HostRule) error {
	if !set.binding() && !slices.ContainsFunc(hosts, HostRule.binding) {
		return nil
	}
	if !slices.EqualFunc(set.given, hosts, func(a, b HostRule) bool { return a.Match == b.Match }) {
		return errors.New("ratelimit: Hosts: rules cannot be added, removed or reordered while one of them has a cap, a quota or a bound on requests in flight: start a new crawl")
	}
	for i, h := range hosts {
		was := set.given[i]
		if h.MaxInFlight != was.MaxInFlight || h.Cap != was.Cap || h.Quota != was.Quota {
			return fmt.Errorf("ratelimit: Hosts[%d]: MaxInFlight, Cap and Quota cannot change while requests are counted: start a new crawl", i)
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
	if s.rules = l.rules.Load().rulesFor(s.domain); held != nil {
		s.rules.caps = held
	}
	now := s.nowLocked()
	s.replanLocked(now)
	s.rearmLocked(now)
	l.unlock(s)
}

// maxCeilings bounds the domains with a ceiling of their own. A [HostRule] serves for more.
const maxCeilings = 1 << 12

// ErrTooManyCeilings is the error of SetCeiling if the most domains that may have a ceiling of their own have one.
var ErrTooManyCeilings = fmt.Errorf("ratelimit: %d hosts have a ceiling of their own: set one of them to 0 first, or write a rule for many hosts", maxCeilings)

// SetCeiling sets the most requests per second of one domain, from now on and in place of the MaxRPS and the MinDelay of
// its rules, whether it is lower or higher. The rate below it is learned as before, and a lower fixed rate stays. What
// robots.txt and the server ask for, caps and quotas are obeyed as before. An rps of zero removes the ceiling, and the
// rules apply again. A ceiling outlives [AdaptiveRateLimiter.SetRules] and the eviction of the domain. An error leaves
// everything as it was. SetCeiling may be called at any time, but not by OnEvent.
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
	set := *l.rules.Load()
	ceilings := maps.Clone(set.ceilings)
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
	set.ceilings = ceilings
	l.rules.Store(&set)
	// A state is made under the shard's lock, with the rules of that time.
	if s := l.shardOf(domain).find(domain); s != nil {
		l.applyRules(s)
	}
	return nil
}
