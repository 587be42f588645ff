package ratelimit

import (
	"cmp"
	"fmt"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/limit"
)

// Caps are hard limits of the user's: beside what is learned of a domain, never in place
// of it. Each is decided by a limiter of package limit that belongs to one domain, and
// only asked under that domain's lock, whose line is in order already: nobody ever waits
// in the limiter's own. A grant is made when every cap has room, and then takes from each.
//
// The limiters of a rule are in one [limit.Keyed]. A state holds its own in place while
// it lives; what is not full when the state is evicted stays behind, so that eviction is
// no way round a cap. Beyond MaxDomains+MaxTombstones such domains share one limiter,
// which is slower for each of them.
const (
	capRate  = iota // HostRule.Cap
	capQuota        // HostRule.Quota
	numCaps
)

// hardCap is one cap of a rule.
type hardCap struct {
	why   Limit
	spec  limit.Spec
	keyed *limit.Keyed[string]
}

// ruleCaps are the caps of a rule, nil where there is none.
type ruleCaps [numCaps]*hardCap

// heldCaps are the limiters of one domain's state, in the order of its rule's caps.
type heldCaps [numCaps]limit.Pinned[string]

// quotaKind is the kind of a quota that names none. It is two numbers, where a log would
// be thousands of instants for each domain, and gives all out again at one instant, which
// can be told; a sliding counter would let one request through at a time for hours.
const quotaKind = limit.KindFixedWindow

// withDefaults gives a quota its kind.
func (h HostRule) withDefaults() HostRule {
	if h.Quota != (limit.Spec{}) && h.Quota.Kind == "" {
		h.Quota.Kind = quotaKind
	}
	return h
}

// newCaps makes the caps of a rule, or nil if it has none.
func (c *Config) newCaps(h HostRule) (*ruleCaps, error) {
	h = h.withDefaults()
	var caps ruleCaps
	for i, set := range [numCaps]struct {
		field string
		why   Limit
		spec  limit.Spec
	}{{"Cap", LimitCap, h.Cap}, {"Quota", LimitQuota, h.Quota}} {
		if set.spec == (limit.Spec{}) {
			continue
		}
		keyed, err := limit.NewKeyed(limit.KeyedConfig[string]{
			Name: set.why.String(), Limit: set.spec, MaxKeys: c.MaxDomains + c.MaxTombstones,
		}, limit.WithClock(c.Clock))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", set.field, err)
		}
		if set.why == LimitQuota && set.spec.Kind == limit.KindConcurrency {
			return nil, fmt.Errorf("%s: Kind is %s: set it to one that counts over time, such as %s", set.field, set.spec.Kind, quotaKind)
		}
		caps[i] = &hardCap{why: set.why, spec: set.spec, keyed: keyed}
	}
	if caps == (ruleCaps{}) {
		return nil, nil
	}
	return &caps, nil
}

// pinCaps gives a new state its limiters. They are in a copy of the rules, and not in the
// state, of which nearly all have none and there are a hundred thousand.
func (s *state) pinCaps() {
	if s.rules.caps == nil {
		return
	}
	own := *s.rules
	own.held = new(heldCaps)
	for i, c := range own.caps {
		if c != nil {
			own.held[i], _ = c.keyed.Pin(s.domain) // it shares where it is full, and is never closed
		}
	}
	s.rules = &own
}

// unpinCaps leaves the limiters of a state that is evicted to their Keyed.
func (s *state) unpinCaps() {
	if s.rules.held != nil {
		for i := range s.rules.held {
			s.rules.held[i].Unpin()
		}
	}
}

// sweepCaps forgets the limiters that make no difference any more.
func (r *rules) sweepCaps() {
	if r.caps == nil {
		return
	}
	for _, c := range r.caps {
		if c != nil {
			c.keyed.Sweep()
		}
	}
}

// capWaitLocked is how long n permits of a cap are away. A state that is only looked at
// has no limiters, and one that was evicted a moment ago none that still count: they ask
// what their domain's would say.
func (s *state) capWaitLocked(i int, n int64) time.Duration {
	if s.rules.held != nil && !s.dead {
		return s.rules.held[i].Limiter.Wait(n)
	}
	return s.rules.caps[i].keyed.Wait(s.domain, n)
}

// capsWhenLocked is the earliest instant at which the caps have room for the grant after
// ahead others, and which of them it waits for. Caps of what is out at a time are not
// looked at: see capFullLocked.
func (s *state) capsWhenLocked(now clock.Instant, ahead int) (at clock.Instant, why Limit) {
	at = now
	for i, c := range s.rules.caps {
		if c == nil || c.spec.Kind == limit.KindConcurrency {
			continue
		}
		if t := now.Add(s.capAheadLocked(i, int64(ahead)+1)); t > at {
			at, why = t, c.why
		}
	}
	return at, why
}

// capAheadLocked is how long until the n-th of grants that are taken one by one, each as
// soon as it can be. Where that cannot be told it is too early rather than too late: too
// early costs a second look, too late a refusal that was not due.
func (s *state) capAheadLocked(i int, n int64) time.Duration {
	spec := &s.rules.caps[i].spec
	switch {
	case n == 1:
		return min(s.capWaitLocked(i, 1), longest)
	case spec.Kind == limit.KindLeakyBucket: // it never has room for two
		return andThen(s.capWaitLocked(i, 1), spec, n-1)
	case spec.Kind == limit.KindSlidingWindowLog: // each makes room for another a span later
		rounds := (n - 1) / spec.Permits
		return andThen(s.capWaitLocked(i, n-rounds*spec.Permits), spec, rounds*spec.Permits)
	case spec.Kind == limit.KindFixedWindow, spec.Kind == limit.KindSlidingWindow:
		return s.windowAheadLocked(i, n)
	}
	batch := cmp.Or(spec.Burst, spec.Permits)
	wait := s.capWaitLocked(i, min(n, batch))
	switch {
	case n <= batch:
		return min(wait, longest)
	case spec.Kind == limit.KindTokenBucket && spec.Refill == limit.RefillContinuous:
		return andThen(wait, spec, n-batch)
	}
	return andThen(wait, spec, (n-batch-1)/spec.Permits*spec.Permits)
}

// windowAheadLocked is capAheadLocked of windows: what is left now, and after that whole
// windows of a fixed one, or what fades of a sliding one at the fastest. When a window ends
// of which all is left its limiter does not say, nor a counter what it would say if it had
// less: soon is early enough.
func (s *state) windowAheadLocked(i int, n int64) time.Duration {
	spec, left := &s.rules.caps[i].spec, s.capLeftLocked(i)
	if n <= left {
		return 0
	}
	wait, more := soon, n-left-1
	if spec.Kind == limit.KindFixedWindow {
		more = more / spec.Permits * spec.Permits
		if left < spec.Permits {
			wait = s.capWaitLocked(i, left+1)
		}
	} else if left == 0 {
		wait = s.capWaitLocked(i, 1)
	}
	return andThen(wait, spec, more)
}

// andThen is the wait and the time in which n more permits come in, within what can be
// reckoned with.
func andThen(wait time.Duration, spec *limit.Spec, n int64) time.Duration {
	more := float64(n) * float64(spec.Per) / float64(spec.Permits)
	return min(min(wait, longest)+time.Duration(min(more, float64(longest))), longest)
}

// capFullLocked reports whether as many requests of the domain are out as a rule lets be
// out at a time, and which rule that is. Only a release makes room.
func (s *state) capFullLocked() (why Limit, full bool) {
	if m := s.rules.maxInFlight; m > 0 && s.inFlight >= m {
		return LimitRule, true
	}
	if c := s.rules.atATime(); c != nil && s.capWaitLocked(capRate, 1) > 0 {
		return c.why, true
	}
	return LimitNone, false
}

// atATime is the cap that counts what is out, or nil.
func (r *rules) atATime() *hardCap {
	if r.caps == nil || r.caps[capRate] == nil || r.caps[capRate].spec.Kind != limit.KindConcurrency {
		return nil
	}
	return r.caps[capRate]
}

// takeCapsLocked takes a permit of each cap, all of which had room under this very lock.
// It fails, having taken nothing that counts, only where domains share a limiter.
func (s *state) takeCapsLocked() bool {
	for i, c := range s.rules.caps {
		if c != nil && !s.rules.held[i].Limiter.TryAcquire() {
			s.releaseCapsLocked(i)
			return false
		}
	}
	return true
}

// releaseCapsLocked gives the first n caps back what comes back.
func (s *state) releaseCapsLocked(n int) {
	for i := range n {
		if s.rules.held[i].Limiter != nil {
			s.rules.held[i].Limiter.Release()
		}
	}
}

// InFlightCap is how many requests of the domain the user's rules let be out at a time;
// zero means that no rule says. It is the same at any time, and so what a scheduler
// may size its slots by.
func (l *AdaptiveRateLimiter) InFlightCap(domain string) int {
	r := l.rulesFor(Domain(domain))
	n := int64(r.maxInFlight)
	if c := r.atATime(); c != nil && (n == 0 || c.spec.Permits < n) {
		n = c.spec.Permits
	}
	return int(n)
}
