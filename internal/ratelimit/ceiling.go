package ratelimit

import (
	"errors"
	"fmt"
	"maps"
)

// maxCeilings bounds the domains with a ceiling of their own, some 200 bytes each. Beyond it
// [AdaptiveRateLimiter.SetCeiling] refuses: a person who sets that many wants a HostRule.
const maxCeilings = 1 << 12

// ErrTooManyCeilings is what SetCeiling returns when as many domains have one as may.
var ErrTooManyCeilings = fmt.Errorf("ratelimit: %d hosts have a ceiling of their own: set one of them to 0 first, or lay down a rule for many", maxCeilings)

// errOff is why there is nothing to set.
var errOff = errors.New("ratelimit: rates are not limited: there is no ceiling to change")

// SetCeiling has one domain be asked at most rps times a second from now on, in place of the
// MaxRPS and the MinDelay that its rules lay down, be it less or more. It is a bound: how much
// of it is used is learned as before, and a fixed rate below it stays. What robots.txt and
// the server ask for holds as before, and so do caps and quotas. An rps of zero takes it back:
// then the rules hold again. It outlives [AdaptiveRateLimiter.SetRules] and the eviction of
// the domain. The error names what is wrong and leaves everything as it was. It may be called
// at any time, but not by a hook.
func (l *AdaptiveRateLimiter) SetCeiling(domain string, rps float64) error {
	if !l.cfg.Enabled {
		return errOff
	}
	if !isRate(rps, maxRPS) {
		return fmt.Errorf("ratelimit: the ceiling is %v: want 1e-6 to 1e6 requests per second, or 0 for that of the settings", rps)
	}
	domain = Domain(domain)
	l.rulesMu.Lock()
	defer l.rulesMu.Unlock()
	laid := *l.laid.Load()
	laid.ceilings, laid.own = maps.Clone(laid.ceilings), maps.Clone(laid.own)
	delete(laid.ceilings, domain)
	delete(laid.own, domain)
	if rps > 0 {
		if len(laid.ceilings) >= maxCeilings {
			return ErrTooManyCeilings
		}
		laid.set(domain, rateOf(rps))
	}
	l.laid.Store(&laid)
	id := l.identify(domain)
	sh := l.shardOf(id)
	sh.mu.RLock() // who makes the state has read the rules under it
	s := sh.index.get(id)
	sh.mu.RUnlock()
	if s != nil {
		l.applyRulesTo(s)
	}
	return nil
}

// Ceiling is what SetCeiling has set for a domain; zero if nothing.
func (l *AdaptiveRateLimiter) Ceiling(domain string) float64 {
	return l.laid.Load().ceilings[Domain(domain)].rps()
}

// set gives a domain a ceiling. The maps must be of laid alone.
func (laid *ruleSet) set(domain string, ceiling rate) {
	if laid.ceilings == nil {
		laid.ceilings = make(map[string]rate)
	}
	if laid.own == nil {
		laid.own = make(map[string]*rules)
	}
	own := *laid.of(domain)
	own.operator, own.ceiling, own.minDelay = true, ceiling, 0
	own.floor = min(own.floor, ceiling) // start stays: it is what a fixed rate goes back to
	laid.ceilings[domain], laid.own[domain] = ceiling, &own
}

// of is the rule that the user has laid down for a domain beforehand: the first that matches,
// or the one of all others.
func (laid *ruleSet) of(domain string) *rules {
	for i := range laid.hosts {
		if laid.hosts[i].matches(domain) {
			return &laid.hosts[i].rules
		}
	}
	return &laid.base
}
