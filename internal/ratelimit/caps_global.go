package ratelimit

import (
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/estimate"
	"github.com/treadlight/crawl/limit"
)

// globalCaps are the caps of all domains together, beside the rate of the budget they
// belong to. That rate is a bucket of the engine's own and no classic limiter, because
// a grant takes from several budgets or from none, and because who came first among the
// heads of all domains' lines is known to the budget's line alone; a limiter's own line
// would know only who came to it. These two are classic limiters that are asked in the
// same line and under the same lock.
type globalCaps struct {
	concurrency *limit.Concurrency // requests out; nil for no bound
	bytes       *limit.TokenBucket // bytes of answers; nil for no bound
	burst       int64              // of bytes
	out         int64              // requests out
	size        estimate.EWMA      // bytes that an answer takes
	tokenSource *tokenSource       // of bytes, if processes share them; nil if not
	slots       *slots             // of requests out, if processes share them; nil if not
}

// sizeWeight is the share of an answer in the expected size of the next: pages differ by
// orders of magnitude, and twenty of them make a fair average.
const sizeWeight = 0.05

// newGlobalCaps makes the caps, or nil if there are none. The second of bytes that the
// bucket holds is what a connection may bring between two looks at it without being slowed.
func (c *Config) newGlobalCaps() (*globalCaps, error) {
	if c.GlobalConcurrency == 0 && c.GlobalBytes == 0 {
		return nil, nil
	}
	g := &globalCaps{burst: c.GlobalBytes}
	var err error
	if c.GlobalConcurrency > 0 {
		g.concurrency, err = limit.NewConcurrency(limit.ConcurrencyConfig{Max: int64(c.GlobalConcurrency)}, limit.WithClock(c.Clock))
	}
	if err == nil && c.GlobalBytes > 0 {
		g.bytes, err = limit.NewTokenBucket(limit.TokenBucketConfig{Permits: c.GlobalBytes, Per: time.Second}, limit.WithClock(c.Clock))
	}
	return g, err
}

// soon is when to ask again about a place that is taken by somebody who has been told to
// go and has not gone yet: a scheduler's lease is microseconds from its permit.
const soon = time.Millisecond

// when is the earliest instant for the n-th grant from now on, and what it waits for. For
// a place among those out it is when to ask again, since nobody knows when a request ends.
func (g *globalCaps) when(now clock.Instant, n int) (at clock.Instant, why Limit) {
	at = now
	if g.bytes != nil {
		if d := g.bytes.Wait(g.worth(n)); d > 0 {
			at, why = now.Add(min(d, longest)), LimitGlobalBytes
		}
	}
	if g.tokenSource != nil {
		if t := g.tokenSource.when(now, min(g.worth(n), g.tokenSource.most)); t > at {
			at, why = t, LimitGlobalBytes
		}
	}
	if g.slots != nil && !g.slots.room(now, g.out, int64(n)) {
		again := lookAgain
		if g.slots.room(now, g.out, 1) {
			again = soon
		}
		at, why = max(at, now.Add(again)), LimitGlobalConcurrency
	}
	if g.concurrency != nil && g.concurrency.Wait(int64(n)) > 0 {
		again := lookAgain
		if g.concurrency.Wait(1) == 0 {
			again = soon
		}
		at, why = max(at, now.Add(again)), LimitGlobalConcurrency
	}
	return at, why
}

// worth is how many bytes must be there for the n-th grant: what those that are out may
// still bring, and one. So a debt is what could not be foreseen, and not what a hundred
// workers bring in who were all let go on the last byte.
func (g *globalCaps) worth(n int) int64 {
	expected := float64(g.out+int64(n)-1) * float64(g.size)
	return min(1+int64(min(expected, float64(g.burst))), g.burst)
}

// take counts a grant.
func (g *globalCaps) take() {
	if g.concurrency != nil {
		g.concurrency.TryAcquire() // there was room for one, and the lock is held
	}
	g.out++
	if g.slots != nil {
		g.slots.peak = max(g.slots.peak, g.out)
	}
}

// release counts the end of a request.
func (g *globalCaps) release() {
	if g.concurrency != nil {
		g.concurrency.Release()
	}
	g.out--
}

// released gives back what a grant took of the caps of all domains, which have a budget.
func (h *shared) released() {
	if h.global.caps == nil {
		return
	}
	h.mu.Lock()
	h.global.caps.release()
	h.global.nudge()
	h.mu.Unlock()
}

// ChargeBytes charges Config.GlobalBytes with what an answer has taken on the wire, whoever
// sent it and however it ended. It is to be called before the permit's release. Until a
// debt is paid nobody is granted anything. Without that cap, or for n below 1, it does
// nothing.
func (l *AdaptiveRateLimiter) ChargeBytes(n int64) {
	b := l.shared.global
	if n < 1 || !l.cfg.Enabled || b == nil || b.caps == nil || b.caps.bytes == nil {
		return
	}
	l.shared.mu.Lock()
	defer l.shared.mu.Unlock()
	b.caps.bytes.Charge(n)
	if f := b.caps.tokenSource; f != nil {
		now := l.now()
		f.spend(now, n)
		l.shared.ask(f, now, 1)
	}
	if b.caps.size == 0 {
		b.caps.size = estimate.EWMA(n) // an average that begins at nothing would trust the first hundred
	}
	b.caps.size.Add(float64(n), sizeWeight)
}
