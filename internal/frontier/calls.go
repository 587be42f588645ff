package frontier

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// Calls is what all stores have in common: the calls that a store has received and not stored yet, the loop of the
// writer that stores them, the answers, and the error with which the store has failed. Stores embed it. It is safe for
// concurrent use after Begin.
type Calls[T any] struct {
	clk     clock.Clock
	linger  time.Duration
	limit   int64
	enough  int
	pending atomic.Int64
	answers chan Answer
	room    chan struct{} // of capacity one, like the next two
	wake    chan struct{} // receives when there is a call
	hurry   chan struct{} // receives when the writer must take the calls at once

	once   sync.Once
	failed chan struct{}
	err    error // set before failed is closed

	mu      sync.Mutex // guards what follows
	waiting []T
	closed  bool
}

// answersRoom is how many answers the channel holds: more than can be on their way (256 loads, one Activate and one
// Update), so that stores do not wait for who takes them.
const answersRoom = 512

// Begin initializes c for a store that is Ready while fewer than maxPending calls wait to be stored. The writer waits
// for linger for more calls, but not once there are enough of them; a negative linger means not at all.
func (c *Calls[T]) Begin(clk clock.Clock, linger time.Duration, maxPending, enough int) {
	c.clk, c.linger, c.limit, c.enough = clk, linger, int64(maxPending), enough
	c.room, c.wake, c.hurry = make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{}, 1)
	c.answers, c.failed = make(chan Answer, answersRoom), make(chan struct{})
}

// Add appends calls, all of them or none, and reports whether it did. It appends none after NoMore or if the store has
// failed. With hurry set, the writer takes them at once.
func (c *Calls[T]) Add(hurry bool, calls ...T) (taken bool) {
	if c.Err() != nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.pending.Add(int64(len(calls)))
	if len(c.waiting) == 0 {
		Signal(c.wake)
	}
	if c.waiting = append(c.waiting, calls...); hurry || len(c.waiting) >= c.enough {
		Signal(c.hurry)
	}
	return true
}

// NoMore makes later calls of Add append nothing. The writer ends when it has stored what was added before.
func (c *Calls[T]) NoMore() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	Signal(c.hurry)
}

// Run is the loop of the writer: it passes the calls to store, in order, until store has got the last ones, or the store
// has failed, or store returns an error, which Run returns. due says that the time is up: that of linger, or what store
// returned as wait, for which it can wait without further calls. last says that no calls follow.
func (c *Calls[T]) Run(store func(calls []T, due, last bool) (wait time.Duration, err error)) error {
	var timer clock.Timer
	var timeUp <-chan time.Time // nil: no timer runs
	var at time.Time            // when it fires
	stop := func() {
		if timeUp != nil {
			timer.Stop()
			timeUp = nil
		}
	}
	defer stop()
	var calls []T
	for last := false; !last; {
		due, wait := c.linger < 0, c.linger
		var err error
		select {
		case <-c.failed:
			return nil
		case <-c.wake:
		case <-c.hurry:
			wait = 0
		case <-timeUp:
			due = true
		}
		if due || wait == 0 {
			stop()
			calls, last = c.take(calls)
			if wait, err = store(calls, due, last); err != nil {
				return err
			}
		}
		if now := c.clk.Now(); wait > 0 && (timeUp == nil || now.Add(wait).Before(at)) {
			stop()
			timer, at = c.clk.NewTimer(wait), now.Add(wait)
			timeUp = timer.C()
		}
	}
	return nil
}

// take returns all calls and whether no more follow. The memory of before, calls taken earlier and not used any more,
// is used again.
func (c *Calls[T]) take(before []T) (calls []T, last bool) {
	before = c.Spare(before)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, signal := range []chan struct{}{c.wake, c.hurry} { // these calls are being taken
		select {
		case <-signal:
		default:
		}
	}
	calls, c.waiting = c.waiting, before
	return calls, c.closed
}

// mostSpare bounds the capacity that is kept for later calls, as a multiple of enough.
const mostSpare = 4

// Spare returns the memory of calls as an empty slice for other calls, or nil if it is too large to keep.
func (c *Calls[T]) Spare(calls []T) []T {
	clear(calls)
	if cap(calls) > mostSpare*c.enough {
		return nil
	}
	return calls[:0]
}

// Signal sends on a channel of capacity one without blocking, so that its receiver knows that there is something to do.
// Several signals may arrive as one.
func Signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Answers returns the channel of answers, in the order of the calls that requested them. While 512 answers are not
// taken, the store blocks.
func (c *Calls[T]) Answers() <-chan Answer { return c.answers }

// Answer delivers an answer, and waits for room in the channel. It reports false if done was closed before there was
// room.
func (c *Calls[T]) Answer(done <-chan struct{}, a Answer) (taken bool) {
	select {
	case c.answers <- a:
		return true
	case <-done:
		return false
	}
}

// Stored records that n calls are stored and no longer pending.
func (c *Calls[T]) Stored(n int) {
	if c.pending.Add(-int64(n)) < c.limit {
		Signal(c.room)
	}
}

// Ready reports whether the store can keep up with further calls. It is advice: calls are accepted even if it is false.
func (c *Calls[T]) Ready() bool { return c.pending.Load() < c.limit }

// Room returns nil while the store is Ready; otherwise it returns a channel that receives when the store may be Ready
// again.
func (c *Calls[T]) Room() <-chan struct{} {
	if c.Ready() {
		return nil
	}
	return c.room
}

// Pending returns how many calls are not stored yet, and the number of pending calls from which on the store is not
// Ready.
func (c *Calls[T]) Pending() (n, limit int64) { return c.pending.Load(), c.limit }

// Fail ends the work of the store for good. Only the first error counts; Fail reports whether this was the first.
func (c *Calls[T]) Fail(err error) (first bool) {
	c.once.Do(func() {
		c.err, first = err, true
		close(c.failed)
	})
	return first
}

// Failed returns a channel that is closed when the store has failed for good: nothing more is stored or answered.
func (c *Calls[T]) Failed() <-chan struct{} { return c.failed }

// Err returns the error with which the store has failed, or nil if it has not failed.
func (c *Calls[T]) Err() error {
	select {
	case <-c.failed:
		return c.err
	default:
		return nil
	}
}
