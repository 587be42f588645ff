package limit

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/header"
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
	standing(now clock.Instant) header.Standing
	// clone is a copy with which the future can be played through. It leaves the original
	// alone, and is good until that is asked again.
	clone() algorithm
}

// core is what the six limiters share: the lock, the line, the statistics. With the
// state of a window or a bucket behind it it fills two cache lines, which is what a
// [Keyed] with many keys waits for.
type core struct {
	set *settings

	mu       sync.Mutex // guards what follows
	alg      algorithm
	last     clock.Instant // the latest instant seen: time never goes back
	line     line
	acquired uint64

	rejected, cancelled, overReleased uint64
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
	now := c.nowLocked()
	if err := c.refusalLocked(ctx, now, n, limit, ended); err != nil {
		c.mu.Unlock()
		return err
	}
	w := newWaiter(n)
	c.line.push(w)
	err := c.awaitLocked(ctx, w, now, limit, ticket)
	c.mu.Unlock()
	return err
}

// refusalLocked says why a caller who cannot pass may not even wait, or nil.
func (c *core) refusalLocked(ctx context.Context, now clock.Instant, n int64, limit time.Duration, ended bool) error {
	if ended {
		c.cancelled = addCount(c.cancelled, n)
		return endedError(ctx, c.set.name, func() *Error { return c.limitErrorLocked(now, n) })
	}
	err := c.set.unfit(n, c.line.closed)
	if err == nil {
		err = c.denialLocked(ctx, now, n, limit)
	}
	if err != nil {
		c.rejected = addCount(c.rejected, n)
	}
	return err
}

// unfit is the reason for which n will never be granted, or nil.
func (s *settings) unfit(n int64, closed bool) error {
	switch {
	case closed:
		return fmt.Errorf("acquire %s: %w", s.name, ErrClosed)
	case n < 1:
		return fmt.Errorf("acquire %d of %s: %w", n, s.name, ErrInvalidWeight)
	case n > s.max:
		return fmt.Errorf("acquire %d of %s, which never has more than %d: %w", n, s.name, s.max, ErrExceedsCapacity)
	}
	return nil
}

// denialLocked is the refusal of a caller whom waiting would not help.
func (c *core) denialLocked(ctx context.Context, now clock.Instant, n int64, limit time.Duration) error {
	if limit > 0 && int64(c.line.n) >= c.set.queue {
		return c.limitErrorLocked(now, n).because(ErrQueueFull)
	}
	if limit == 0 {
		return c.limitErrorLocked(now, n)
	}
	if !c.set.timed {
		return nil
	}
	return tooLate(ctx, c.set.clk, limit, func() *Error { return c.limitErrorLocked(now, n) })
}

// tooLate is the refusal of a caller who cannot stay until his turn. A turn that comes
// with the timeout is in time; one that comes with the end of the context is not, for
// the context has ended by then.
func tooLate(ctx context.Context, clk clock.Clock, limit time.Duration, refusal func() *Error) error {
	deadline, bound := ctx.Deadline()
	if !bound && limit == Never {
		return nil
	}
	e := refusal()
	if e.RetryAfter > limit {
		return e
	}
	if bound && e.RetryAfter >= deadline.Sub(clk.Now()) {
		return e.because(context.DeadlineExceeded)
	}
	return nil
}

func (e *Error) because(err error) *Error {
	e.Err = err
	return e
}

// limitErrorLocked is a refusal with the time until a caller who came now would be served.
func (c *core) limitErrorLocked(now clock.Instant, n int64) *Error {
	e := &Error{Name: c.set.name, Algorithm: string(c.set.kind)}
	if c.set.timed {
		e.RetryAfter = c.waitLocked(now, n)
	}
	return e
}

// awaitLocked stands in line until w is served or gives up. The lock is released while
// it sleeps.
func (c *core) awaitLocked(ctx context.Context, w *waiter, begun clock.Instant, limit time.Duration, ticket bool) error {
	var s sleeper
	defer s.stop()
	var end time.Duration // of the timeout, by the clock and not by nowLocked, which may stand still
	if limit != Never {
		end = addWaits(c.set.clk.Since(c.set.epoch), limit)
	}
	for now := begun; ; now = c.nowLocked() {
		rest := Never
		if limit != Never {
			rest = end - c.set.clk.Since(c.set.epoch)
		}
		pause, err := c.turnLocked(ctx, w, now, rest)
		if pause == 0 {
			if err == nil {
				c.grantedLocked(w.n, ticket)
			}
			return err
		}
		c.mu.Unlock()
		s.sleep(ctx, c.set.clk, w, pause)
		c.mu.Lock()
	}
}

// turnLocked decides what w may do: go or give up, having left the line, with a pause
// of zero; or pause. It looks at the context first: one who has given up never goes.
func (c *core) turnLocked(ctx context.Context, w *waiter, now clock.Instant, rest time.Duration) (pause time.Duration, err error) {
	if w.gone { // and counted by Close
		return 0, c.set.unfit(w.n, true)
	}
	if ctx.Err() != nil {
		c.giveUpLocked(w)
		return 0, endedError(ctx, c.set.name, func() *Error { return c.limitErrorLocked(now, w.n) })
	}
	pause = Never
	if c.line.head == w {
		if pause = c.alg.wait(now, w.n); pause == 0 {
			c.alg.take(now, w.n)
			c.line.remove(w)
			return 0, nil
		}
	}
	if rest <= 0 {
		c.giveUpLocked(w)
		return 0, c.limitErrorLocked(now, w.n)
	}
	return min(pause, rest), nil
}

// giveUpLocked leaves nothing behind but a count: w has taken nothing yet.
func (c *core) giveUpLocked(w *waiter) {
	c.cancelled = addCount(c.cancelled, w.n)
	c.line.remove(w)
}

// Wait is how long until TryAcquireN(n) could succeed; see [Weighted].
func (c *core) Wait(n int64) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waitLocked(c.nowLocked(), n)
}

// waitLocked is the algorithm's own answer unless somebody waits, which is seldom.
func (c *core) waitLocked(now clock.Instant, n int64) time.Duration {
	if c.line.closed || !c.fits(n) {
		return Never
	}
	if c.line.head == nil {
		return c.alg.wait(now, n)
	}
	f := c.forecastLocked(now, nil)
	return f.wait(n)
}

// Statistics is a consistent snapshot.
func (c *core) Statistics() Statistics {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := Statistics{
		Acquired: c.acquired, Rejected: c.rejected, Cancelled: c.cancelled, OverReleased: c.overReleased,
		Available: c.alg.available(c.nowLocked()), Max: c.set.max, Queued: int64(c.line.n),
	}
	if out := c.slots(); out != nil {
		s.InUse = out.inUse
	}
	return s
}

// Standing is how who asks for one permit at a time stands; see [Weighted].
func (c *core) Standing() header.Standing {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.standingLocked(c.nowLocked())
}

func (c *core) standingLocked(now clock.Instant) header.Standing {
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

// Close fails those who wait and all later calls with ErrClosed. Permits that are out
// can still be released. It may be called again.
func (c *core) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancelled = c.line.close(c.cancelled)
	return nil
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

func (c *core) overRelease(n int64) {
	c.mu.Lock()
	c.overReleased = addCount(c.overReleased, n)
	c.mu.Unlock()
}
