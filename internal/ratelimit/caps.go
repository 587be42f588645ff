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

// The hard limits that a user's rule may set for a domain, each a limiter of package limit.
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

// caps are the hard limits of a domain, used under its lock. A grant needs room in every one, and takes from each.
//
// The limiters of a rule are in one [limit.Keyed]. A state pins its domain's limiter; one that is not full outlives the
// state's eviction, so that eviction is no way round a cap. Beyond MaxDomains+MaxTombstones further domains share one
// limiter, which is slower for each.
type caps struct {
	rule   *[numCaps]*hardCap
	domain string                        // empty in a rule
	held   [numCaps]limit.Pinned[string] // the domain's, while it has a state
}

// newCaps makes the caps of a rule, or nil. A quota without a kind is a fixed window.
func (c *Config) newCaps(h HostRule) (*caps, error) {
	if h.Quota != (limit.Spec{}) && h.Quota.Kind == "" {
		h.Quota.Kind = limit.KindFixedWindow
	}
	var all [numCaps]*hardCap
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
		all[i] = &set
	}
	if all == ([numCaps]*hardCap{}) {
		return nil, nil
	}
	return &caps{rule: &all}, nil
}

func (c *caps) pin() {
	for i, r := range c.rule {
		if r != nil {
			c.held[i], _ = r.keyed.Pin(c.domain) // fails only after Close, which nobody calls
		}
	}
}

func (c *caps) unpin() {
	for i := range c.held {
		c.held[i].Unpin()
	}
	c.held = [numCaps]limit.Pinned[string]{}
}

func (c *caps) sweep() {
	for _, r := range c.rule {
		if r != nil {
			r.keyed.Sweep()
		}
	}
}

// wait is how long it takes until n permits of a cap are there.
func (c *caps) wait(i int, n int64) time.Duration {
	if l := c.held[i].Limiter; l != nil {
		return l.Wait(n)
	}
	return c.rule[i].keyed.Wait(c.domain, n)
}

func (c *caps) left(i int) int64 {
	if l := c.held[i].Limiter; l != nil {
		return l.Statistics().Available
	}
	r := c.rule[i]
	if st, ok := r.keyed.Statistics(c.domain); ok {
		return st.Available
	}
	return max(r.spec.Permits, r.spec.Burst) // a limiter that is not made yet is full
}

// when returns the earliest instant with room for the grant after ahead others, and which cap decides. A cap on requests
// in flight does not count here: see full.
func (c *caps) when(now clock.Instant, ahead int) (at clock.Instant, why Limit) {
	at = now
	for i, r := range c.rule {
		if r == nil || r.spec.Kind == limit.KindConcurrency {
			continue
		}
		if t := now.Add(min(c.ahead(i, int64(ahead)+1), longest)); t > at {
			at, why = t, r.why
		}
	}
	return at, why
}

// ahead is how long it takes until the n-th of sequential grants. Where that cannot be told it is too short rather than
// too long, as a caller with a deadline gives up when it is too long.
func (c *caps) ahead(i int, n int64) time.Duration {
	spec := &c.rule[i].spec
	if n == 1 {
		return c.wait(i, 1)
	}
	first := min(n, cmp.Or(spec.Burst, spec.Permits)) // as many may be there at once
	more := n - first
	switch spec.Kind {
	case limit.KindFixedWindow, limit.KindSlidingWindow:
		return c.windowAhead(i, n)
	case limit.KindLeakyBucket: // it never has room for two
		first, more = 1, n-1
	case limit.KindSlidingWindowLog: // each request makes room for another one span later
		more = (n - 1) / spec.Permits * spec.Permits
		first = n - more
	default:
		if more > 0 && (spec.Kind != limit.KindTokenBucket || spec.Refill != limit.RefillContinuous) {
			more = (more - 1) / spec.Permits * spec.Permits
		}
	}
	return andThen(c.wait(i, first), spec, more)
}

// windowAhead is ahead for windows: first what is left, then whole windows if they are fixed, or the fastest that a
// sliding one may be. It is a lower bound where the limiter does not tell more.
func (c *caps) windowAhead(i int, n int64) time.Duration {
	spec, left := &c.rule[i].spec, c.left(i)
	if n <= left {
		return 0
	}
	wait, more := soon, n-left-1
	fixed := spec.Kind == limit.KindFixedWindow
	if fixed {
		more = more / spec.Permits * spec.Permits
	}
	if left == 0 || fixed && left < spec.Permits {
		wait = c.wait(i, left+1)
	}
	return andThen(wait, spec, more)
}

func andThen(wait time.Duration, spec *limit.Spec, n int64) time.Duration {
	more := float64(n) * float64(spec.Per) / float64(spec.Permits)
	return min(wait, longest) + time.Duration(min(more, float64(longest)))
}

// atATime is how many requests may be in flight; zero for no such cap.
func (c *caps) atATime() int64 {
	if c == nil || c.rule[capRate] == nil || c.rule[capRate].spec.Kind != limit.KindConcurrency {
		return 0
	}
	return c.rule[capRate].spec.Permits
}

// full reports whether only a release makes room.
func (c *caps) full() bool { return c.atATime() > 0 && c.wait(capRate, 1) > 0 }

// take takes a permit of each cap; each had room under this lock. It fails, and takes nothing, only if domains share a
// limiter and another one emptied it.
func (c *caps) take() bool {
	if c == nil {
		return true
	}
	for i := range c.held {
		if l := c.held[i].Limiter; l != nil && !l.TryAcquire() {
			c.release(i)
			return false
		}
	}
	return true
}

func (c *caps) release(n int) {
	if c == nil {
		return
	}
	for i := range n {
		if l := c.held[i].Limiter; l != nil {
			l.Release()
		}
	}
}

// InFlightCap is how many requests of the domain the user's rules let be in flight; zero: no rule. It is constant.
func (l *AdaptiveRateLimiter) InFlightCap(domain string) int {
	r := l.rules.Load().match(Domain(domain))
	n := int64(r.maxInFlight)
	if m := r.caps.atATime(); m > 0 && (n == 0 || m < n) {
		n = m
	}
	return int(n)
}

// globalCaps are the bounds on all domains together, beside a rate.
type globalCaps struct {
	most  int64         // requests in flight, of all processes together; zero for no bound
	share int64         // how many of those this process may have
	until clock.Instant // when the share ends; forever if the process is alone
	out   int64         // requests in flight
	peak  int64         // the most since Slots was called
	short bool          // a request has waited for a place since Slots was called

	bytes       *limit.TokenBucket // bytes of answers; nil for no bound
	burst       int64              // bytes that may come at once
	size        estimate.EWMA      // expected bytes of an answer
	tokenSource *tokenSource       // where tokens for bytes come from if processes share them; nil if not
}

// sizeWeight is the weight of an answer in the expected size of the next.
const sizeWeight = 0.05

func (h *shared) newGlobalCaps(b *budget) *globalCaps {
	c := &h.l.cfg
	if c.GlobalConcurrency == 0 && c.GlobalBytes == 0 {
		return nil
	}
	g := &globalCaps{most: int64(c.GlobalConcurrency), burst: c.GlobalBytes}
	if g.share, g.until = g.most, forever; c.Fleet != nil {
		g.share, g.until = 0, never
	}
	if c.GlobalBytes == 0 {
		return g
	}
	if g.tokenSource = h.newTokenSource(b, "bytes", "bytes", float64(c.GlobalBytes)); g.tokenSource != nil {
		g.tokenSource.size = max(1, g.tokenSource.bucket.Capacity/8) // a first lease of one byte would serve nobody
	}
	g.bytes, _ = limit.NewTokenBucket(limit.TokenBucketConfig{Permits: c.GlobalBytes, Per: time.Second}, limit.WithClock(c.Clock))
	return g
}

func (g *globalCaps) shareAt(now clock.Instant) int64 {
	if now >= g.until {
		return 0
	}
	return g.share
}

// when returns the earliest instant for the n-th grant, and the limit. Where requests in flight are the limit, it is the
// instant to ask again.
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

// worth is how many bytes must be there for the n-th grant: what the requests in flight are expected to bring, and one.
// That bounds the debt.
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

// giveUp takes back a grant that failed because a cap's shared limiter was emptied meanwhile. Its tokens are lost.
func (h *shared) giveUp(now clock.Instant, t ticket) {
	t.lost(now)
	h.released()
}

// ChargeBytes takes an answer's bytes on the wire from Config.GlobalBytes. Call it before the permit's release. If more
// is taken than is there, nothing is granted until the debt is paid. Without that cap, or for n below 1, it does nothing.
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
		c.size = estimate.EWMA(n) // an average that began at zero would be too low for a hundred answers
	}
	c.size.Add(float64(n), sizeWeight)
}

// CapSnapshot is one hard limit, with its setting and state.
type CapSnapshot struct {
	Limit    Limit      `json:"limit"`                // cap, quota, global_concurrency or global_bytes
	Kind     limit.Kind `json:"kind"`                 // the algorithm
	Permits  int64      `json:"permits"`              // requests, or bytes for global_bytes
	PerMS    float64    `json:"per_ms,omitempty"`     // the span in milliseconds; zero for a bound on requests in flight
	Left     int64      `json:"left"`                 // permits that are there now; below zero is a debt
	NextInMS float64    `json:"next_in_ms,omitempty"` // milliseconds until the next permit; zero for now, or if only a release brings it

	among string // who shares it, in words; empty for all domains of this process
}

// snapshotOf makes the snapshot of a limiter. A wait of [limit.Never] is one for a release, and shown as zero.
func snapshotOf(why Limit, spec limit.Spec, left int64, wait time.Duration) CapSnapshot {
	c := CapSnapshot{Limit: why, Kind: cmp.Or(spec.Kind, limit.KindTokenBucket), Permits: spec.Permits, PerMS: millis(spec.Per), Left: left}
	if wait != limit.Never {
		c.NextInMS = millis(wait)
	}
	return c
}

func (c *caps) describe() (all []CapSnapshot) {
	if c == nil {
		return nil
	}
	for i, r := range c.rule {
		if r != nil {
			all = append(all, snapshotOf(r.why, r.spec, c.left(i), c.wait(i, 1)))
		}
	}
	return all
}

func (h *shared) describeCaps() (all []CapSnapshot) {
	if h.global == nil || h.global.caps == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	c, now := h.global.caps, h.l.now()
	if c.most > 0 {
		cap := snapshotOf(LimitGlobalConcurrency, limit.Spec{Kind: limit.KindConcurrency, Permits: c.most}, c.shareAt(now)-c.out, limit.Never)
		switch {
		case now >= c.until:
			cap.among = wholeFleet + unanswered
		case h.l.cfg.Fleet != nil:
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
		next += ", more in " + Span(wait)
	}
	switch {
	case c.Limit == LimitGlobalConcurrency:
		return fmt.Sprintf("%s: at most %d requests out at a time, %s", among, c.Permits, next)
	case c.Limit == LimitGlobalBytes && c.Left <= 0:
		return fmt.Sprintf("%s: at most %d bytes per second, %d bytes in debt, paid in %s", among, c.Permits, -c.Left, Span(wait))
	case c.Limit == LimitGlobalBytes: // requests in flight may bring more than what is left
		return fmt.Sprintf("%s: at most %d bytes per second, %d left for what is out", among, c.Permits, c.Left)
	case c.Limit == LimitQuota:
		return fmt.Sprintf("your quota: %d requests per %s (%s), %s", c.Permits, Span(per), c.Kind, next)
	case per == 0:
		return fmt.Sprintf("your cap: %d requests out at a time (%s), %s", c.Permits, c.Kind, next)
	}
	return fmt.Sprintf("your cap: %d requests per %s (%s), %s", c.Permits, Span(per), c.Kind, next)
}

func msToDuration(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// Span writes a duration as in settings, without minutes and seconds that are zero: 24h, not 24h0m0s, and 0, not 0s.
func Span(d time.Duration) string {
	if d == 0 {
		return "0"
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
