package ratelimit

import (
	"fmt"
	"slices"
	"time"

	"github.com/treadlight/crawl/limit"
)

// ruleSet are what the user has laid down for all domains. They never change once they
// are stored; [AdaptiveRateLimiter.SetRules] stores others.
type ruleSet struct {
	base  rules
	hosts []matcher
	given []HostRule // that hosts were made of

	ceilings map[string]rate   // of single domains, by SetCeiling: maxCeilings at most
	own      map[string]*rules // of those domains
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

// lay makes rules of a configuration that is valid. Caps are taken over from old, which
// has the same if it is not nil: what was taken of them counts on.
func (l *AdaptiveRateLimiter) lay(cfg *Config, old *ruleSet) (*ruleSet, error) {
	laid := &ruleSet{base: cfg.rules(), given: slices.Clone(cfg.Hosts)}
	laid.base.l = l
	for i, h := range cfg.Hosts {
		m, _ := newMatcher(h.Match)
		m.rules = laid.base.with(h)
		if old != nil && old.binding() {
			m.rules.caps = old.hosts[i].rules.caps
		} else if caps, err := cfg.newCaps(h); err != nil {
			return nil, fmt.Errorf("ratelimit: Hosts[%d].%w", i, err)
		} else {
			m.rules.caps = caps
		}
		m.rules.bounded = m.rules.bounded || m.rules.caps != nil
		laid.hosts = append(laid.hosts, m)
	}
	if old != nil {
		for domain, ceiling := range old.ceilings {
			laid.set(domain, ceiling)
		}
	}
	return laid, nil
}

// rulesFor is what holds for a domain: its own ceiling, the first rule that matches, or the
// one of all others.
func (l *AdaptiveRateLimiter) rulesFor(domain string) *rules {
	laid := l.laid.Load()
	if own := laid.own[domain]; own != nil {
		return own
	}
	return laid.of(domain)
}

// base are the rules of domains that no rule matches.
func (l *AdaptiveRateLimiter) base() *rules { return &l.laid.Load().base }

// binding reports whether a rule has what is kept count of.
func (laid *ruleSet) binding() bool {
	return slices.ContainsFunc(laid.given, HostRule.binding)
}

func (h HostRule) binding() bool {
	return h.MaxInFlight > 0 || h.Cap != (limit.Spec{}) || h.Quota != (limit.Spec{})
}

// SetRules replaces the rates and delays that New was given, at once and for all domains:
// who waits is told anew when the turn comes. What was learned, what a host asked for and
// what is out stays. Caps, quotas and bounds on what is in flight are being counted and
// must be as they were; where there is one, so must the list of matches. The error names
// the field and leaves everything as it was. It may be called at any time, but not by a
// hook; of two calls at a time one counts.
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
	laid, err := l.lay(&cfg, old)
	if err != nil {
		return err
	}
	l.laid.Store(laid)
	for i := range l.shards {
		l.applyRules(&l.shards[i])
	}
	return nil
}

// counts rejects rules under which something would have to be counted in another way.
func (laid *ruleSet) counts(hosts []HostRule) error {
	if !laid.binding() && !slices.ContainsFunc(hosts, HostRule.binding) {
		return nil
	}
	same := slices.EqualFunc(laid.given, hosts, func(a, b HostRule) bool { return a.Match == b.Match })
	if !same {
		return fmt.Errorf("ratelimit: Hosts: rules cannot come, go or change places while one has a cap, a quota or a bound in flight: start the crawl anew")
	}
	for i, h := range hosts {
		was := laid.given[i]
		if h.MaxInFlight != was.MaxInFlight || h.Cap != was.Cap || h.Quota != was.Quota {
			return fmt.Errorf("ratelimit: Hosts[%d]: MaxInFlight, Cap and Quota are being counted and cannot change: start the crawl anew", i)
		}
	}
	return nil
}

// applyRules gives every state of a shard its new rules.
func (l *AdaptiveRateLimiter) applyRules(sh *shard) {
	sh.mu.RLock()
	states := sh.states.list()
	sh.mu.RUnlock()
	for _, s := range states {
		l.applyRulesTo(s)
	}
}

// applyRulesTo gives a state its new rules.
func (l *AdaptiveRateLimiter) applyRulesTo(s *state) {
	s.mu.Lock()
	if s.dead {
		s.mu.Unlock()
		return
	}
	held := s.rules.held
	s.rules = l.rulesFor(s.domain)
	if held != nil {
		own := *s.rules
		own.held = held
		s.rules = &own
	}
	now, before := s.nowLocked(), s.bucket.rate
	s.replanLocked(now)
	s.rearmLocked(now)
	l.unlock(s, s.domain, before)
}
