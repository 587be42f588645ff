package limit

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// queue is what one limiter and a [Composite] share: a lock, the line of those who wait, and
// the counters.
type queue struct {
	set *settings

	mu       sync.Mutex // guards what follows; a composite's is taken before those of its members
	line     line
	acquired uint64

	rejected, cancelled, overReleased uint64
}

// owner is whose queue it is, and knows when there is room.
type owner interface {
	lock()
	unlock()
	// unfitLocked is why n will never be granted, or nil.
	unfitLocked(n int64) error
	// limitErrorLocked is a refusal of n.
	limitErrorLocked(n int64) *Error
	// soonestLocked is a refusal with the least time that n has to wait; nil if nobody knows.
	soonestLocked(n int64) *Error
	// serveLocked takes what the first in line waits for and returns 0, or how long to sleep.
	serveLocked(w *waiter, ticket bool) (pause time.Duration)
	// leaveLocked takes w out of all lines; it may be out of the queue's own.
	leaveLocked(w *waiter)
}

// waitLocked is the part of all Acquires for a caller who could not pass at once.
func (q *queue) waitLocked(ctx context.Context, o owner, n int64, limit time.Duration, ended, ticket bool) error {
	if err := q.refusalLocked(ctx, o, n, limit, ended); err != nil {
		return err
	}
	w := newWaiter(n)
	q.line.push(w)
	var s clock.Sleeper
	defer s.Stop()
	var end time.Duration // of the timeout, by the clock and not by core.last, which may stand still
	if limit != Never {
		end = addWaits(q.set.clk.Since(q.set.epoch), limit)
	}
	for {
		rest := Never
		if limit != Never {
			rest = end - q.set.clk.Since(q.set.epoch)
		}
		pause, err := q.turnLocked(ctx, o, w, rest, ticket)
		if pause == 0 {
			return err
		}
		o.unlock()
		s.Sleep(ctx, q.set.clk, w.wake, pause)
		o.lock()
	}
}

// refusalLocked says why a caller who cannot pass may not even wait, or nil.
func (q *queue) refusalLocked(ctx context.Context, o owner, n int64, limit time.Duration, ended bool) error {
	if ended {
		q.cancelled = addCount(q.cancelled, n)
		return endedError(ctx, q.set.name, func() *Error { return o.limitErrorLocked(n) })
	}
	err := o.unfitLocked(n)
	if err == nil {
		err = q.denialLocked(ctx, o, n, limit)
	}
	if err != nil {
		q.rejected = addCount(q.rejected, n)
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

// denialLocked is the refusal of a caller whom waiting would not help. A turn that comes with
// the timeout is in time; one that comes with the end of the context is not, for the context
// has ended by then.
func (q *queue) denialLocked(ctx context.Context, o owner, n int64, limit time.Duration) error {
	if limit > 0 && int64(q.line.n) >= q.set.queue {
		return o.limitErrorLocked(n).because(ErrQueueFull)
	}
	if limit == 0 {
		return o.limitErrorLocked(n)
	}
	deadline, bound := ctx.Deadline()
	if !bound && limit == Never {
		return nil
	}
	e := o.soonestLocked(n)
	switch {
	case e == nil:
		return nil
	case e.RetryAfter > limit:
		return e
	case bound && e.RetryAfter >= deadline.Sub(q.set.clk.Now()):
		return e.because(context.DeadlineExceeded)
	}
	return nil
}

// turnLocked decides what w may do: go or give up, having left the line, with a pause of
// zero; or pause. It looks at the context first: one who has given up never goes.
func (q *queue) turnLocked(ctx context.Context, o owner, w *waiter, rest time.Duration, ticket bool) (pause time.Duration, err error) {
	if w.gone { // and counted by Close
		o.leaveLocked(w)
		return 0, q.set.unfit(w.n, true)
	}
	if ctx.Err() != nil {
		q.giveUpLocked(o, w)
		return 0, endedError(ctx, q.set.name, func() *Error { return o.limitErrorLocked(w.n) })
	}
	if err := o.unfitLocked(w.n); err != nil { // a composite's member has been closed
		q.giveUpLocked(o, w)
		return 0, err
	}
	pause = Never
	if q.line.head == w {
		if pause = o.serveLocked(w, ticket); pause == 0 {
			o.leaveLocked(w)
			return 0, nil
		}
	}
	if rest <= 0 {
		q.giveUpLocked(o, w)
		return 0, o.limitErrorLocked(w.n)
	}
	return min(pause, rest), nil
}

// giveUpLocked leaves nothing behind but a count: w has taken nothing yet.
func (q *queue) giveUpLocked(o owner, w *waiter) {
	q.cancelled = addCount(q.cancelled, w.n)
	o.leaveLocked(w)
}

// Close fails those who wait and all later calls with ErrClosed. Permits that are out
// can still be released. It may be called again.
func (q *queue) Close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.cancelled = q.line.close(q.cancelled)
	return nil
}

func (q *queue) overRelease(n int64) {
	q.mu.Lock()
	q.overReleased = addCount(q.overReleased, n)
	q.mu.Unlock()
}

// statistics are those of the counters.
func (q *queue) statistics() Statistics {
	return Statistics{
		Acquired: q.acquired, Rejected: q.rejected, Cancelled: q.cancelled, OverReleased: q.overReleased,
		Max: q.set.max, Queued: int64(q.line.n),
	}
}

// waiter is a caller in a line. Its own goroutine does all the work: it looks at the
// limiter when it becomes the head, when it is woken, and when its timer fires. Nobody
// takes permits on behalf of another, so none can be on its way to a caller who has
// just given up.
type waiter struct {
	n          int64
	next, prev *waiter
	wake       chan struct{} // of one: look again
	gone       bool          // turned away, its owner having been closed
	guest      bool          // a composite's place: its calls are counted there

	// The first in a composite's line stands in that of a member too: place, at at.
	at    *core
	place *waiter
}

// newWaiter makes a waiter with a channel of one, so that a nudge never waits for it.
func newWaiter(n int64) *waiter { return &waiter{n: n, wake: make(chan struct{}, 1)} }

// nudge makes the waiter look again. A nudge that has not been seen yet is enough.
func (w *waiter) nudge() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// line is callers in the order of their arrival: a ring, of which the head's prev is the
// last. Its owner's lock guards it.
type line struct {
	head   *waiter
	n      int32
	closed bool // its owner has been closed: nobody may stand in it any more
}

// push puts w at the end.
func (ln *line) push(w *waiter) {
	if ln.n++; ln.head == nil {
		w.next, w.prev, ln.head = w, w, w
		return
	}
	w.next, w.prev = ln.head, ln.head.prev
	w.prev.next, w.next.prev = w, w
}

// remove takes w out, wherever it stands, and tells a new head.
func (ln *line) remove(w *waiter) {
	w.prev.next, w.next.prev = w.next, w.prev
	if ln.n--; ln.n == 0 {
		ln.head = nil
	} else if ln.head == w {
		ln.head = w.next
		ln.head.nudge()
	}
	w.next, w.prev = nil, nil
}

// all is everyone in line, the first first.
func (ln *line) all() iter.Seq[*waiter] {
	return func(yield func(*waiter) bool) {
		w := ln.head
		for range ln.n {
			if !yield(w) {
				return
			}
			w = w.next
		}
	}
}

// close turns everyone away and adds their weights to count.
func (ln *line) close(count uint64) uint64 {
	ln.closed = true
	for ln.head != nil {
		w := ln.head.prev
		w.gone = true
		if !w.guest {
			count = addCount(count, w.n)
		}
		ln.remove(w)
		w.nudge()
	}
	return count
}
