package limit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// algorithm is what makes one limiter different from another: a small state that is told the time and neither reads a
// clock nor waits. The core calls it under its lock, with instants that never go back and with weights from 1 to
// settings.max. Once wait is 0 it stays 0 while nobody takes, so a forecast holds.
type algorithm interface {
	// take spends n if there is room for it.
	take(now clock.Instant, n int64) bool
	// wait is the exact time until take would succeed, or Never.
	wait(now clock.Instant, n int64) time.Duration
	// available is the largest n for which take would succeed.
	available(now clock.Instant) int64
	// standing is how a client of it stands, but for Next.
	standing(now clock.Instant) Standing
	// clone is a copy with which the future can be played through, good until the original is asked again.
	clone() algorithm
}

// core is what all limiters share: a lock, the line of those who wait, and the counters. With
// the state of a window or a bucket behind it it fills two cache lines.
type core struct {
	set *settings

	mu       sync.Mutex // guards what follows; a composite's is taken before those of its members
	line     line
	acquired uint64

	rejected, cancelled, overReleased uint64

	alg  algorithm
	last clock.Instant // the latest instant seen: time never goes back
}

func (c *core) init(set *settings, alg algorithm) { c.set, c.alg = set, alg }

// slots counts the permits that are out, if they come back; nil for a rate.
func (c *core) slots() *slots {
	switch {
	case c.set.timed:
		return nil
	case c.set.all != nil:
		return &c.set.all.out
	}
	s, _ := c.alg.(*slots)
	return s
}

// nowLocked reads the clock under the lock, so that two callers cannot come in with their
// instants the wrong way round. The members of a composite read it for themselves.
func (c *core) nowLocked() clock.Instant {
	if c.set.timed && c.set.all == nil {
		c.last = max(c.last, clock.Instant(c.set.clk.Since(c.set.epoch)))
	}
	return c.last
}

func (c *core) lock() {
	c.mu.Lock()
	c.nowLocked()
}

func (c *core) fits(n int64) bool { return n >= 1 && n <= c.set.max }

// passLocked takes n for a caller who finds no one waiting.
func (c *core) passLocked(n int64, ticket bool) bool {
	if c.line.head != nil || c.line.closed || !c.fits(n) || !c.alg.take(c.nowLocked(), n) {
		return false
	}
	c.grantedLocked(n, ticket)
	return true
}

// grantedLocked counts what the algorithm has given. Ticketed permits are the property of who holds the ticket.
func (c *core) grantedLocked(n int64, ticket bool) {
	c.acquired = addCount(c.acquired, n)
	if !ticket {
		return
	}
	if s := c.slots(); s != nil {
		s.ticketed += n
	}
}

// TryAcquire takes a permit if one is there and no caller waits.
func (c *core) TryAcquire() bool { return c.TryAcquireN(1) }

// TryAcquireN takes n permits if they are there and no caller waits. A weight out of range is never granted.
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

// AcquireTimeout waits at most d for n permits; with d zero it does not wait. See [Weighted].
func (c *core) AcquireTimeout(ctx context.Context, n int64, d time.Duration) error {
	return c.acquire(ctx, n, max(d, 0), false)
}

// acquire is all the Acquires. A caller whose permits are there pays for no timer, no place in line and no memory.
func (c *core) acquire(ctx context.Context, n int64, limit time.Duration, ticket bool) error {
	ended := ctx.Err() != nil
	c.mu.Lock()
	if !ended && c.passLocked(n, ticket) {
		c.mu.Unlock()
		return nil
	}
	defer c.mu.Unlock()
	c.nowLocked()
	if err := c.refusalLocked(ctx, n, limit, ended); err != nil {
		return err
	}
	return c.waitLocked(ctx, n, limit, ticket)
}

// acquireTicket acquires n permits that only the returned function gives back.
func (c *core) acquireTicket(ctx context.Context, n int64, limit time.Duration) (func(), error) {
	if err := c.acquire(ctx, n, limit, true); err != nil {
		return nil, err
	}
	if c.set.timed {
		return func() {}, nil
	}
	return c.ticket(n), nil
}

// refusalLocked says why a caller who cannot pass may not even wait, or nil.
func (c *core) refusalLocked(ctx context.Context, n int64, limit time.Duration, ended bool) error {
	if ended {
		c.cancelled = addCount(c.cancelled, n)
		return c.endedLocked(ctx, n)
	}
	err := c.unfitLocked(n)
	if err == nil {
		err = c.denialLocked(ctx, n, limit)
	}
	if err != nil {
		c.rejected = addCount(c.rejected, n)
	}
	return err
}

// unfitLocked is why n will never be granted, or nil.
func (c *core) unfitLocked(n int64) error {
	err := c.set.unfit(n, c.line.closed)
	if err == nil && c.set.all != nil {
		err = c.set.all.unfit(n)
	}
	return err
}

// denialLocked is the refusal of a caller whom waiting would not help. A turn that comes with
// the timeout is in time; one that comes with the end of the context is not.
func (c *core) denialLocked(ctx context.Context, n int64, limit time.Duration) error {
	if limit == 0 || int64(c.line.n) >= c.set.queue {
		e, _ := c.limitErrorLocked(n)
		if limit > 0 {
			e.Err = ErrQueueFull
		}
		return e
	}
	deadline, bound := ctx.Deadline()
	if !bound && limit == Never {
		return nil
	}
	e, known := c.limitErrorLocked(n)
	switch {
	case known == 0:
		return nil
	case bound && known <= limit && known >= deadline.Sub(c.set.clk.Now()):
		e.Err = context.DeadlineExceeded
	case known <= limit:
		return nil
	}
	e.RetryAfter = known
	return e
}

// limitErrorLocked is a refusal of n, with the time until a caller who came now would be
// served; known is how long that takes at least, zero if nobody knows.
func (c *core) limitErrorLocked(n int64) (e *Error, known time.Duration) {
	of := c.set
	switch {
	case of.all != nil:
		return of.all.limitError(&c.line, n)
	case of.timed:
		known = c.untilLocked(n)
	}
	return &Error{Name: of.name, Algorithm: string(of.spec.Kind), RetryAfter: known}, known
}

// endedLocked is the end of a caller's context. A deadline that passed in the line is the limiter's doing.
func (c *core) endedLocked(ctx context.Context, n int64) error {
	if err := ctx.Err(); !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("acquire %s: %w", c.set.name, err)
	}
	e, _ := c.limitErrorLocked(n)
	e.Err = context.DeadlineExceeded
	return e
}

// waitLocked stands in line until the permits are there. Each caller's own goroutine does all
// the work, so that no permit can be on its way to one who has just given up.
func (c *core) waitLocked(ctx context.Context, n int64, limit time.Duration, ticket bool) error {
	w := newWaiter(n)
	c.line.push(w)
	var s clock.Sleeper
	defer s.Stop()
	var end time.Duration // of the timeout, by the clock and not by core.last, which may stand still
	if limit != Never {
		end = addWaits(c.set.clk.Since(c.set.epoch), limit)
	}
	for {
		rest := Never
		if limit != Never {
			rest = end - c.set.clk.Since(c.set.epoch)
		}
		pause, err := c.turnLocked(ctx, w, rest, ticket)
		if pause == 0 {
			return err
		}
		c.mu.Unlock()
		s.Sleep(ctx, c.set.clk, w.wake, pause)
		c.lock()
	}
}

// turnLocked decides what w may do: go or give up, having left the line, with a pause of zero;
// or pause. It looks at the context first: one who has given up never goes.
func (c *core) turnLocked(ctx context.Context, w *waiter, rest time.Duration, ticket bool) (pause time.Duration, err error) {
	if w.gone { // and counted by Close
		return 0, c.set.unfit(w.n, true)
	}
	if err = c.unfitLocked(w.n); err == nil && ctx.Err() != nil {
		err = c.endedLocked(ctx, w.n)
	}
	pause = Never
	if err == nil && c.line.head == w {
		if pause = c.serveLocked(w); pause == 0 {
			c.grantedLocked(w.n, ticket)
			c.leaveLocked(w)
			return 0, nil
		}
	}
	if err == nil && rest <= 0 {
		err, _ = c.limitErrorLocked(w.n)
	}
	if err != nil {
		c.cancelled = addCount(c.cancelled, w.n)
		c.leaveLocked(w)
		return 0, err
	}
	return min(pause, rest), nil
}

// serveLocked takes what the first in line waits for and returns 0, or how long to sleep.
func (c *core) serveLocked(w *waiter) time.Duration {
	if c.set.all != nil {
		return c.set.all.serve(w)
	}
	pause := c.alg.wait(c.last, w.n)
	if pause == 0 {
		c.alg.take(c.last, w.n)
	}
	return pause
}

func (c *core) leaveLocked(w *waiter) {
	if c.set.all != nil && c.line.head == w {
		c.set.all.leave()
	}
	c.line.remove(w)
}

// Wait is how long until TryAcquireN(n) could succeed; see [Weighted].
func (c *core) Wait(n int64) time.Duration {
	c.lock()
	defer c.mu.Unlock()
	return c.untilLocked(n)
}

// untilLocked is the algorithm's own answer unless somebody waits, which is rarely.
func (c *core) untilLocked(n int64) time.Duration {
	switch {
	case c.line.closed || !c.fits(n):
		return Never
	case c.line.head == nil:
		return c.alg.wait(c.last, n)
	case c.set.all != nil:
		return c.set.all.outlook(&c.line, n).wait
	}
	f := c.forecastLocked(nil)
	return f.wait(n)
}

// Statistics is a consistent snapshot.
func (c *core) Statistics() Statistics {
	c.lock()
	defer c.mu.Unlock()
	s := Statistics{
		Acquired: c.acquired, Rejected: c.rejected, Cancelled: c.cancelled, OverReleased: c.overReleased,
		Available: c.alg.available(c.last), Max: c.set.max, Queued: int64(c.line.n),
	}
	if out := c.slots(); out != nil {
		s.InUse = out.inUse
	}
	return s
}

// Standing is what a response can tell a client about the limit; see [Weighted].
func (c *core) Standing() Standing {
	c.lock()
	defer c.mu.Unlock()
	return c.standingLocked()
}

func (c *core) standingLocked() Standing {
	s := c.alg.standing(c.last)
	if s.Left = max(0, s.Left); s.Left == 0 {
		s.Next = c.alg.wait(c.last, 1)
	} else if !s.Even {
		s.Lasts = min(s.Lasts, c.alg.wait(c.last, c.set.max)) // longer than until all is back need nothing last
	}
	return s
}

// Release gives one permit back to a [Concurrency] limiter; for a rate it does nothing. See [Limiter].
func (c *core) Release() { c.ReleaseN(1) }

// ReleaseN gives n permits back to a [Concurrency] limiter; for a rate it does nothing. Permits of a [Composite] go
// back to each member that is a [Concurrency] limiter.
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
	switch {
	case freed == 0:
	case c.set.all != nil:
		c.set.all.release(freed)
	case c.line.head != nil:
		c.line.head.nudge()
	}
}

// Close makes all waiting and later calls fail with ErrClosed. Permits that are out can still be released. It may be
// called again.
func (c *core) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancelled = c.line.close(c.cancelled)
	if c.set.all != nil {
		c.set.all.leave()
	}
	return nil
}

// forecast plays the line through on a copy of the state: everyone in it is served as soon as it
// can be, one after the other. Those who give up later only make it better.
type forecast struct {
	alg  algorithm
	from clock.Instant
	at   time.Duration // after from: when the last of the line was served, or Never
}

// forecastLocked leaves out skip, whom the caller plays through himself.
func (c *core) forecastLocked(skip *waiter) forecast {
	f := forecast{alg: c.alg.clone(), from: c.last}
	for w := range c.line.all() {
		if w != skip {
			f.serve(f.wait(w.n), w.n)
		}
	}
	return f
}

// wait is how long after from there is room for n.
func (f *forecast) wait(n int64) time.Duration {
	at := f.from.Add(f.at)
	if f.at == Never || at < f.from { // past the end of time
		return Never
	}
	return addWaits(f.at, f.alg.wait(at, n))
}

// serve grants n at the wait that was found for it, or later.
func (f *forecast) serve(at time.Duration, n int64) {
	if f.at = at; at == Never || f.from.Add(at) < f.from {
		f.at = Never
		return
	}
	f.alg.take(f.from.Add(at), n)
}
