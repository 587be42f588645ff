package limit

import (
	"context"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// algorithm is what makes one limiter different from another: a small state that is
// told the time and neither reads a clock nor waits. The core calls it under its lock,
// with instants that never go back and with weights from 1 to settings.max.
//
// Room never shrinks while nobody takes: once wait is 0 it stays 0, so a forecast holds.
type algorithm interface {
	// take spends n if there is room for it.
	take(now clock.Instant, n int64) bool
	// wait is the exact time until take would succeed, or Never.
	wait(now clock.Instant, n int64) time.Duration
	// available is the largest n for which take would succeed.
	available(now clock.Instant) int64
	// standing is how a client of it stands, but for Next.
	standing(now clock.Instant) Standing
	// clone is a copy with which the future can be played through. It leaves the original
	// alone, and is good until that is asked again.
	clone() algorithm
}

// core is what the six limiters share. With the state of a window or a bucket behind it it
// fills two cache lines, which is what a [Keyed] with many keys waits for.
type core struct {
	queue
	alg  algorithm
	last clock.Instant // the latest instant seen: time never goes back
}

func (c *core) init(set *settings, alg algorithm) { c.set, c.alg = set, alg }

// slots is the algorithm, if permits come back, and nil for a rate.
func (c *core) slots() *slots {
	if c.set.timed {
		return nil
	}
	s, _ := c.alg.(*slots)
	return s
}

// nowLocked reads the clock under the lock, so that two callers cannot come in with
// their instants the wrong way round.
func (c *core) nowLocked() clock.Instant {
	if c.set.timed {
		c.last = max(c.last, clock.Instant(c.set.clk.Since(c.set.epoch)))
	}
	return c.last
}

func (c *core) fits(n int64) bool { return n >= 1 && n <= c.set.max }

// passLocked takes n for a caller who finds no one waiting. Ticketed permits are the
// property of who holds the ticket.
func (c *core) passLocked(n int64, ticket bool) bool {
	if c.line.head != nil || c.line.closed || !c.fits(n) || !c.alg.take(c.nowLocked(), n) {
		return false
	}
	c.grantedLocked(n, ticket)
	return true
}

// grantedLocked counts what the algorithm has just given.
func (c *core) grantedLocked(n int64, ticket bool) {
	c.acquired = addCount(c.acquired, n)
	if !ticket {
		return
	}
	if s := c.slots(); s != nil {
		s.ticketed += n
	}
}

// TryAcquire takes a permit if there is one now and nobody waits for it.
func (c *core) TryAcquire() bool { return c.TryAcquireN(1) }

// TryAcquireN takes n permits if they are there now and nobody waits. A weight out of
// range is never granted.
func (c *core) TryAcquireN(n int64) bool {
	c.mu.Lock()
	ok := c.passLocked(n, false)
	if !ok {
		c.rejected = addCount(c.rejected, n)
	}
	c.mu.Unlock()
	return ok
}

// Acquire waits for a permit; see [Limiter].
func (c *core) Acquire(ctx context.Context) error { return c.acquire(ctx, 1, Never, false) }

// AcquireN waits for n permits; see [Weighted].
func (c *core) AcquireN(ctx context.Context, n int64) error { return c.acquire(ctx, n, Never, false) }

// AcquireTimeout waits for n permits and for d at most, zero meaning now or never; see
// [Weighted].
func (c *core) AcquireTimeout(ctx context.Context, n int64, d time.Duration) error {
	return c.acquire(ctx, n, max(d, 0), false)
}

// acquire is all the Acquires. A caller whose permits are there pays for no timer, no
// place in line and no memory.
func (c *core) acquire(ctx context.Context, n int64, limit time.Duration, ticket bool) error {
	ended := ctx.Err() != nil
	c.mu.Lock()
	if !ended && c.passLocked(n, ticket) {
		c.mu.Unlock()
		return nil
	}
	c.nowLocked()
	err := c.waitLocked(ctx, c, n, limit, ended, ticket)
	c.mu.Unlock()
	return err
}

// lock reads the clock too: what follows goes by c.last.
func (c *core) lock() {
	c.mu.Lock()
	c.nowLocked()
}

func (c *core) unlock() { c.mu.Unlock() }

func (c *core) unfitLocked(n int64) error { return c.set.unfit(n, c.line.closed) }

// limitErrorLocked has the time until a caller who came now would be served.
func (c *core) limitErrorLocked(n int64) *Error {
	e := &Error{Name: c.set.name, Algorithm: string(c.set.kind)}
	if c.set.timed {
		e.RetryAfter = c.untilLocked(n)
	}
	return e
}

func (c *core) soonestLocked(n int64) *Error {
	if !c.set.timed {
		return nil
	}
	return c.limitErrorLocked(n)
}

func (c *core) serveLocked(w *waiter, ticket bool) time.Duration {
	pause := c.alg.wait(c.last, w.n)
	if pause == 0 {
		c.alg.take(c.last, w.n)
		c.grantedLocked(w.n, ticket)
	}
	return pause
}

func (c *core) leaveLocked(w *waiter) {
	if !w.gone {
		c.line.remove(w)
	}
}

// Wait is how long until TryAcquireN(n) could succeed; see [Weighted].
func (c *core) Wait(n int64) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nowLocked()
	return c.untilLocked(n)
}

// untilLocked is the algorithm's own answer unless somebody waits, which is seldom.
func (c *core) untilLocked(n int64) time.Duration {
	if c.line.closed || !c.fits(n) {
		return Never
	}
	if c.line.head == nil {
		return c.alg.wait(c.last, n)
	}
	f := c.forecastLocked(nil)
	return f.wait(n)
}

// Statistics is a consistent snapshot.
func (c *core) Statistics() Statistics {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.statistics()
	s.Available = c.alg.available(c.nowLocked())
	if out := c.slots(); out != nil {
		s.InUse = out.inUse
	}
	return s
}

// Standing is how who asks for one permit at a time stands; see [Weighted].
func (c *core) Standing() Standing {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.standingLocked(c.nowLocked())
}

func (c *core) standingLocked(now clock.Instant) Standing {
	s := c.alg.standing(now)
	if s.Left = max(0, s.Left); s.Left == 0 {
		s.Next = c.alg.wait(now, 1)
	} else if !s.Even {
		s.Lasts = min(s.Lasts, c.alg.wait(now, c.set.max)) // longer than until all is back need nothing last
	}
	return s
}

// Release gives one permit back, where permits come back; see [Limiter].
func (c *core) Release() { c.ReleaseN(1) }

// ReleaseN gives n permits back to a [Concurrency] limiter; for a rate it does nothing.
func (c *core) ReleaseN(n int64) { c.release(n, false) }

func (c *core) release(n int64, ticket bool) {
	if c.set.timed || n < 1 {
		return
	}
	c.mu.Lock()
	c.releaseLocked(n, ticket)
	c.mu.Unlock()
}

// releaseLocked frees what the caller can have had; more than that is only counted.
func (c *core) releaseLocked(n int64, ticket bool) {
	freed := c.slots().free(n, ticket)
	c.overReleased = addCount(c.overReleased, n-freed)
	if freed > 0 && c.line.head != nil {
		c.line.head.nudge()
	}
}

// acquireTicket acquires n permits that only the returned function gives back.
func (c *core) acquireTicket(ctx context.Context, n int64, limit time.Duration) (func(), error) {
	if err := c.acquire(ctx, n, limit, true); err != nil {
		return nil, err
	}
	if c.set.timed {
		return func() {}, nil
	}
	return ticket(n, c.release, c.overRelease), nil
}
