package ratelimit

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/estimate"
	"github.com/treadlight/crawl/limit"
)

// Caps are the user's hard limits beside what is learned, each a limiter of package limit for one domain, asked under
// that domain's lock. A grant needs room in every cap, and takes from each.
//
// The limiters of a rule are in one [limit.Keyed]. A live state pins its own; those not full outlive eviction, so that
// it is no way round a cap. Beyond MaxDomains+MaxTombstones such domains share one limiter, which is slower for each.
const (
	capRate  = iota // HostRule.Cap
	capQuota        // HostRule.Quota
	numCaps
)

type hardCap struct {
	why   Limit
	spec  limit.Spec
	keyed *limit.Keyed[string]
}

type ruleCaps [numCaps]*hardCap

type heldCaps [numCaps]limit.Pinned[string]

// newCaps makes the caps of a rule, or nil. A quota without a kind is a fixed window.
func (c *Config) newCaps(h HostRule) (*ruleCaps, error) {
	if h.Quota != (limit.Spec{}) && h.Quota.Kind == "" {
		h.Quota.Kind = limit.KindFixedWindow
	}
	var caps ruleCaps
	for i, set := range [numCaps]hardCap{{why: LimitCap, spec: h.Cap}, {why: LimitQuota, spec: h.Quota}} {
		if set.spec == (limit.Spec{}) {
			continue
		}
		field := [numCaps]string{"Cap", "Quota"}[i]
		var err error
		set.keyed, err = limit.NewKeyed(limit.KeyedConfig[string]{
			Name: set.why.String(), Limit: set.spec, MaxKeys: c.MaxDomains + c.MaxTombstones,
		}, limit.WithClock(c.Clock))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", field, err)
		}
		if set.why == LimitQuota && set.spec.Kind == limit.KindConcurrency {
			return nil, fmt.Errorf("%s: Kind is %s: set it to one that counts over time, such as %s", field, set.spec.Kind, limit.KindFixedWindow)
		}
		caps[i] = &set
	}
	if caps == (ruleCaps{}) {
		return nil, nil
	}
	return &caps, nil
}

// pinCaps gives a new state its limiters, in a copy of the rules, as most states have none.
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

func (s *state) unpinCaps() {
	if s.rules.held != nil {
		for i := range s.rules.held {
			s.rules.held[i].Unpin()
		}
	}
}

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

// capWaitLocked is how long n permits of a cap are away, for a state without limiters those of its domain.
func (s *state) capWaitLocked(i int, n int64) time.Duration {
	if s.rules.held != nil && !s.dead {
		return s.rules.held[i].Limiter.Wait(n)
	}
	return s.rules.caps[i].keyed.Wait(s.domain, n)
}

func (s *state) capLeftLocked(i int) int64 {
	if s.rules.held != nil && !s.dead {
		return s.rules.held[i].Limiter.Statistics().Available
	}
	c := s.rules.caps[i]
	if st, ok := c.keyed.Statistics(s.domain); ok {
		return st.Available
	}
	return max(c.spec.Permits, c.spec.Burst) // of one that has not been made yet
}

// capsWhenLocked is the earliest instant with room for the grant after ahead others, and the limiting cap, without
// caps of requests in flight: see capFullLocked.
func (s *state) capsWhenLocked(now clock.Instant, ahead int) (at clock.Instant, why Limit) {
	at = now
	for i, c := range s.rules.caps {
		if c == nil || c.spec.Kind == limit.KindConcurrency {
			continue
		}
		if t := now.Add(min(s.capAheadLocked(i, int64(ahead)+1), longest)); t > at {
			at, why = t, c.why
		}
	}
	return at, why
}

// capAheadLocked is how long until the n-th of sequential grants; if unknown, too early rather than too late, which
// would refuse.
func (s *state) capAheadLocked(i int, n int64) time.Duration {
	spec := &s.rules.caps[i].spec
	if n == 1 {
		return s.capWaitLocked(i, 1)
	}
	first := min(n, cmp.Or(spec.Burst, spec.Permits)) // of those that may be there at once
	more := n - first
	switch spec.Kind {
	case limit.KindFixedWindow, limit.KindSlidingWindow:
		return s.windowAheadLocked(i, n)
	case limit.KindLeakyBucket: // it never has room for two
		first, more = 1, n-1
	case limit.KindSlidingWindowLog: // each makes room for another a span later
		more = (n - 1) / spec.Permits * spec.Permits
		first = n - more
	default:
		if more > 0 && (spec.Kind != limit.KindTokenBucket || spec.Refill != limit.RefillContinuous) {
			more = (more - 1) / spec.Permits * spec.Permits
		}
	}
	return andThen(s.capWaitLocked(i, first), spec, more)
}

// windowAheadLocked is capAheadLocked of windows: what is left, then whole fixed windows, or a sliding one at its
// fastest. A lower bound where the limiter does not tell.
func (s *state) windowAheadLocked(i int, n int64) time.Duration {
	spec, left := &s.rules.caps[i].spec, s.capLeftLocked(i)
	if n <= left {
		return 0
	}
	wait, more := soon, n-left-1
	fixed := spec.Kind == limit.KindFixedWindow
	if fixed {
		more = more / spec.Permits * spec.Permits
	}
	if left == 0 || fixed && left < spec.Permits {
		wait = s.capWaitLocked(i, left+1)
	}
	return andThen(wait, spec, more)
}

func andThen(wait time.Duration, spec *limit.Spec, n int64) time.Duration {
	more := float64(n) * float64(spec.Per) / float64(spec.Permits)
	return min(wait, longest) + time.Duration(min(more, float64(longest)))
}

// capFullLocked reports which rule's bound of requests in flight is reached, if any; only a release makes room.
func (s *state) capFullLocked() (why Limit, full bool) {
	if m := s.rules.maxInFlight; m > 0 && s.inFlight >= m {
		return LimitRule, true
	}
	if c := s.rules.atATime(); c != nil && s.capWaitLocked(capRate, 1) > 0 {
		return c.why, true
	}
	return LimitNone, false
}

func (r *rules) atATime() *hardCap {
	if r.caps == nil || r.caps[capRate] == nil || r.caps[capRate].spec.Kind != limit.KindConcurrency {
		return nil
	}
	return r.caps[capRate]
}

// takeCapsLocked takes a permit of each cap, all of which had room under this lock. It fails, having taken nothing,
// only where domains share a limiter.
func (s *state) takeCapsLocked() bool {
	for i, c := range s.rules.caps {
		if c != nil && !s.rules.held[i].Limiter.TryAcquire() {
			s.releaseCapsLocked(i)
			return false
		}
	}
	return true
}

func (s *state) releaseCapsLocked(n int) {
	for i := range n {
		if s.rules.held[i].Limiter != nil {
			s.rules.held[i].Limiter.Release()
		}
	}
}

// InFlightCap is how many requests of the domain the user's rules let be in flight; zero: no rule. It is constant.
func (l *AdaptiveRateLimiter) InFlightCap(domain string) int {
	r := l.rulesFor(Domain(domain))
	n := int64(r.maxInFlight)
	if c := r.atATime(); c != nil && (n == 0 || c.spec.Permits < n) {
		n = c.spec.Permits
	}
	return int(n)
}

type globalCaps struct {
	most  int64         // requests out at a time, of all processes together; zero for no bound
	share int64         // of those, this process's, which ends unless it is told anew
	until clock.Instant // or forever, if the process is alone
	out   int64         // requests out
	peak  int64         // of them, since Slots was asked
	short bool          // somebody was kept waiting for want of a share, since then

	bytes       *limit.TokenBucket // bytes of answers; nil for no bound
	burst       int64              // of bytes: what a connection may bring between two looks at it
	size        estimate.EWMA      // bytes that an answer takes
	tokenSource *tokenSource       // of bytes, if processes share them; nil if not
}

// sizeWeight is the weight of an answer in the expected size of the next.
const sizeWeight = 0.05

func (l *AdaptiveRateLimiter) makeGlobalCaps(b *budget) {
	c := &l.cfg
	if c.GlobalConcurrency == 0 && c.GlobalBytes == 0 {
		return
	}
	g := &globalCaps{most: int64(c.GlobalConcurrency), burst: c.GlobalBytes}
	b.caps = g
	if g.share, g.until = g.most, forever; c.Fleet != nil {
		g.share, g.until = 0, never
	}
	if c.GlobalBytes == 0 {
		return
	}
	if g.tokenSource = l.newTokenSource(b, "bytes", "bytes", float64(c.GlobalBytes)); g.tokenSource != nil {
		g.tokenSource.size = max(1, g.tokenSource.bucket.Capacity/8) // nobody fetches a single byte
	}
	g.bytes, _ = limit.NewTokenBucket(limit.TokenBucketConfig{Permits: c.GlobalBytes, Per: time.Second}, limit.WithClock(c.Clock))
}

func (g *globalCaps) shareAt(now clock.Instant) int64 {
	if now >= g.until {
		return 0
	}
	return g.share
}

// when is the earliest instant for the n-th grant, and why; for requests in flight, when to ask again.
func (g *globalCaps) when(now clock.Instant, n int) (at clock.Instant, why Limit) {
	at = now
	if g.bytes != nil {
		if d := g.bytes.Wait(g.worth(n)); d > 0 {
			at, why = now.Add(min(d, longest)), LimitGlobalBytes
		}
	}
	if g.tokenSource != nil {
		if t := g.tokenSource.when(now, min(g.worth(n), g.tokenSource.bucket.Capacity)); t > at {
			at, why = t, LimitGlobalBytes
		}
	}
	if g.most == 0 {
		return at, why
	}
	if room := g.shareAt(now) - g.out; room < int64(n) {
		again := lookAgain
		if g.short = true; room > 0 {
			again = soon
		}
		at, why = max(at, now.Add(again)), LimitGlobalConcurrency
	}
	return at, why
}

// worth is how many bytes must be there for the n-th grant: the expected rest of those in flight, and one, to bound
// the debt.
func (g *globalCaps) worth(n int) int64 {
	expected := float64(g.out+int64(n)-1) * float64(g.size)
	return min(1+int64(min(expected, float64(g.burst))), g.burst)
}

func (h *shared) released() {
	if h.global == nil || h.global.caps == nil {
		return
	}
	h.mu.Lock()
	h.global.caps.out--
	h.global.nudge()
	h.mu.Unlock()
}

// giveUp ends a grant that failed, as others emptied a shared limiter meanwhile. The tokens are lost.
func (h *shared) giveUp(now clock.Instant, t ticket) {
	t.lost(now)
	h.released()
}

// ChargeBytes charges Config.GlobalBytes with an answer's bytes on the wire, before the permit's release. Nothing is
// granted until a debt is paid. Without that cap, or for n below 1, it does nothing.
func (l *AdaptiveRateLimiter) ChargeBytes(n int64) {
	b := l.shared.global
	if n < 1 || !l.cfg.Enabled || b == nil || b.caps == nil || b.caps.bytes == nil {
		return
	}
	l.shared.mu.Lock()
	defer l.shared.mu.Unlock()
	c := b.caps
	c.bytes.Charge(n)
	if c.tokenSource != nil {
		now := l.now()
		c.tokenSource.spend(now, n)
		l.shared.ask(c.tokenSource, now, 1)
	}
	if c.size == 0 {
		c.size = estimate.EWMA(n) // an average that begins at nothing would trust the first hundred
	}
	c.size.Add(float64(n), sizeWeight)
}

// CapSnapshot is one hard limit, with its setting and state.
type CapSnapshot struct {
	Limit    Limit      `json:"limit"`                // as which it limits: cap, quota, global_concurrency, global_bytes
	Kind     limit.Kind `json:"kind"`                 // the algorithm
	Permits  int64      `json:"permits"`              // requests, or bytes for global_bytes
	PerMS    float64    `json:"per_ms,omitempty"`     // the span; zero for what is out at a time
	Left     int64      `json:"left"`                 // permits that are there now; below zero is a debt
	NextInMS float64    `json:"next_in_ms,omitempty"` // until there is one; zero for now, or when that depends on a release

	among string // whom it holds for, in words; empty: all domains of this process
}

// snapshotOf puts a limiter's figures together. A wait of [limit.Never] is for a release, and not shown as a number.
func snapshotOf(why Limit, spec limit.Spec, left int64, wait time.Duration) CapSnapshot {
	c := CapSnapshot{Limit: why, Kind: cmp.Or(spec.Kind, limit.KindTokenBucket), Permits: spec.Permits, PerMS: millis(spec.Per), Left: left}
	if wait != limit.Never {
		c.NextInMS = millis(wait)
	}
	return c
}

func (s *state) describeCapsLocked() (all []CapSnapshot) {
	if s.rules.caps == nil {
		return nil
	}
	for i, c := range s.rules.caps {
		if c != nil {
			all = append(all, snapshotOf(c.why, c.spec, s.capLeftLocked(i), s.capWaitLocked(i, 1)))
		}
	}
	return all
}

func (l *AdaptiveRateLimiter) globalCaps() (all []CapSnapshot) {
	b := l.shared.global
	if b == nil || b.caps == nil {
		return nil
	}
	l.shared.mu.Lock()
	defer l.shared.mu.Unlock()
	c, now := b.caps, l.now()
	if c.most > 0 {
		cap := snapshotOf(LimitGlobalConcurrency, limit.Spec{Kind: limit.KindConcurrency, Permits: c.most}, c.shareAt(now)-c.out, limit.Never)
		switch {
		case now >= c.until:
			cap.among = wholeFleet + unanswered
		case l.cfg.Fleet != nil:
			cap.among = fmt.Sprintf("%s, of which this process has %d", wholeFleet, c.share)
		}
		all = append(all, cap)
	}
	if c.bytes != nil {
		cap := snapshotOf(LimitGlobalBytes, limit.Spec{Permits: c.burst, Per: time.Second}, c.bytes.Statistics().Available, c.bytes.Wait(1))
		if f := c.tokenSource; f != nil {
			cap.Left, cap.NextInMS, cap.among = f.left(now), max(millis(f.when(now, 1).Sub(now)), cap.NextInMS), f.whose()
		}
		all = append(all, cap)
	}
	return all
}

func capReason(why Limit, caps []CapSnapshot) string {
	for i := range caps {
		if caps[i].Limit == why {
			return caps[i].reason()
		}
	}
	return why.String()
}

func (c *CapSnapshot) reason() string {
	per, wait := msToDuration(c.PerMS), msToDuration(c.NextInMS).Round(time.Millisecond)
	if wait >= time.Minute {
		wait = wait.Round(time.Second)
	}
	among, next := cmp.Or(c.among, allHosts), "nothing left"
	switch {
	case c.Left > 0:
		next = fmt.Sprintf("%d left", c.Left)
	case c.NextInMS > 0:
		next += ", more in " + span(wait)
	}
	switch {
	case c.Limit == LimitGlobalConcurrency:
		return fmt.Sprintf("%s: at most %d requests out at a time, %s", among, c.Permits, next)
	case c.Limit == LimitGlobalBytes && c.Left <= 0:
		return fmt.Sprintf("%s: at most %d bytes per second, %d bytes in debt, paid in %s", among, c.Permits, -c.Left, span(wait))
	case c.Limit == LimitGlobalBytes: // while it is not in debt, what is out may still bring more than there is
		return fmt.Sprintf("%s: at most %d bytes per second, %d left for what is out", among, c.Permits, c.Left)
	case c.Limit == LimitQuota:
		return fmt.Sprintf("your quota: %d requests per %s (%s), %s", c.Permits, span(per), c.Kind, next)
	case per == 0:
		return fmt.Sprintf("your cap: %d requests out at a time (%s), %s", c.Permits, c.Kind, next)
	}
	return fmt.Sprintf("your cap: %d requests per %s (%s), %s", c.Permits, span(per), c.Kind, next)
}

func msToDuration(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// span leaves out the zero minutes and seconds of a duration: 24h, not 24h0m0s.
func span(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
