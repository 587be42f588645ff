package limit

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// Never is the wait for something that time alone does not bring: more permits than the limiter can have, a permit that
// only a Release can free, anything of a closed limiter, or an instant more than 292 years away.
const Never = clock.Forever

// Limiter is the interface of all limiters, for one permit at a time. All methods are safe for concurrent use.
type Limiter interface {
	// TryAcquire takes a permit if one is there and no caller waits.
	TryAcquire() bool
	// Acquire waits for a permit, in the order of arrival. It fails with ErrClosed; with ErrQueueFull if too many
	// callers wait; with ctx's error when ctx ends; and at once, with an [Error], if the permit would come after ctx's
	// deadline.
	Acquire(ctx context.Context) error
	// Release gives a permit back to a [Concurrency] limiter. For a rate it does nothing. [AcquireRelease] is the safe
	// way.
	Release()
	// Statistics returns a consistent snapshot.
	Statistics() Statistics
	// Close makes all waiting and later calls fail with ErrClosed. It may be called again. Its error is always nil.
	Close() error
}

// Weighted is a Limiter for requests that cost several permits, taken together or not at all. A weight below 1 is
// refused.
type Weighted interface {
	Limiter
	// TryAcquireN is TryAcquire for n permits.
	TryAcquireN(n int64) bool
	// AcquireN is Acquire for n permits. It fails with ErrExceedsCapacity if n is more than the limiter can ever have,
	// and with ErrInvalidWeight if n is below 1.
	AcquireN(ctx context.Context, n int64) error
	// AcquireTimeout is AcquireN for a caller who waits at most d, d included. Zero or less means not to wait. If the
	// permits come later, it fails with an [Error], at once if that is known.
	AcquireTimeout(ctx context.Context, n int64, d time.Duration) error
	// ReleaseN is Release for n permits. Below 1 it does nothing.
	ReleaseN(n int64)
	// Wait is how long it takes until TryAcquireN(n) can succeed, exact to the nanosecond: 0 means now, [Never] never.
	// Callers that wait already are served first. It takes nothing.
	Wait(n int64) time.Duration
	// Standing is what a response can tell a client about the limit. For a [Concurrency] limiter Window is zero, and
	// Left is how many more permits can be taken. For a [Composite] it is that of the member with the least left.
	Standing() Standing
}

// Statistics is what a limiter has done, and its state. The counters count permits and stop at their maximum. Each
// call's weight is in exactly one of Acquired, Rejected and Cancelled once the call has returned.
type Statistics struct {
	Acquired     uint64 // granted
	Rejected     uint64 // refused without a wait
	Cancelled    uint64 // given up: the context ended, the timeout passed, or the limiter was closed while the caller waited
	OverReleased uint64 // given back by callers who had no permit; they had no effect
	Available    int64  // the largest weight that could be taken now if nobody waited
	Max          int64  // the largest weight that can ever be taken
	Queued       int64  // callers who wait
	InUse        int64  // permits taken and not yet released; always 0 for a rate
}

// ticketer is what makes an idempotent release of its own.
type ticketer interface {
	acquireTicket(ctx context.Context, n int64, limit time.Duration) (release func(), err error)
}

// AcquireRelease acquires a permit of l and returns the function that releases it. Any goroutine may call the function,
// any number of times: the first call counts, others are counted in Statistics.OverReleased. Such a permit is released
// only by its function; a Release by mistake elsewhere does not free it.
func AcquireRelease(ctx context.Context, l Limiter) (release func(), err error) {
	if t, ok := l.(ticketer); ok {
		return t.acquireTicket(ctx, 1, Never)
	}
	if err := l.Acquire(ctx); err != nil {
		return nil, err
	}
	return sync.OnceFunc(l.Release), nil
}

// Errors of limiters.
var (
	// ErrLimited means that there is no room now, or none before the caller's deadline. Error.RetryAfter says when to
	// try again.
	ErrLimited = errors.New("rate limited")
	// ErrQueueFull means that too many callers wait. It is also ErrLimited.
	ErrQueueFull = errors.New("queue full")
	// ErrTooManyKeys means that a [Keyed] has no room for another key. It is also ErrLimited.
	ErrTooManyKeys = errors.New("too many keys")
	// ErrClosed means that the limiter is closed.
	ErrClosed = errors.New("limiter closed")
	// ErrExceedsCapacity means that the weight is more than the limiter can ever have.
	ErrExceedsCapacity = errors.New("weight exceeds the capacity")
	// ErrInvalidWeight means that the weight is below 1.
	ErrInvalidWeight = errors.New("weight must be at least 1")
)

// Error is a refusal. It is [ErrLimited], and also [ErrQueueFull], [ErrTooManyKeys] or [context.DeadlineExceeded] if
// that is the reason; the last if the permits would come after the caller's deadline.
type Error struct {
	Name      string // of the limiter; of a [Composite], that of the member with the longest wait
	Algorithm string // the limiter's Kind
	// RetryAfter is the exact time until the same call can succeed at once, if no other comes. Zero means that it is
	// not known, because it depends on a Release.
	RetryAfter time.Duration
	Err        error // a more particular reason; nil for none
}

// Error says which limiter refused, why, and when to try again.
func (e *Error) Error() string {
	text := "acquire " + e.Name
	if e.Algorithm != "" && e.Algorithm != e.Name {
		text += " (" + e.Algorithm + ")"
	}
	text += ": " + ErrLimited.Error()
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	switch e.RetryAfter {
	case 0:
		return text
	case Never:
		return text + ", for good"
	default:
		return fmt.Sprintf("%s, retry after %v", text, e.RetryAfter)
	}
}

// Unwrap returns ErrLimited and Err.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrLimited}
	}
	return []error{ErrLimited, e.Err}
}

func fieldError(field string, value any, fix string) error {
	return fmt.Errorf("%s is %v: %s", field, value, fix)
}

// waiter is a caller in a line. It looks at the limiter when it becomes the head, when it is woken, and when its timer
// fires.
type waiter struct {
	n          int64
	next, prev *waiter
	wake       chan struct{} // of capacity one, so that nudge never blocks: look again
	gone       bool          // the limiter was closed
	guest      bool          // the place of a composite, which counts its calls itself
}

func newWaiter(n int64) *waiter { return &waiter{n: n, wake: make(chan struct{}, 1)} }

// nudge makes the waiter look again. A nudge that has not been seen yet is enough.
func (w *waiter) nudge() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// line has the waiting callers in the order of their arrival, as a ring: the head's prev is the last. Its owner's lock
// guards it.
type line struct {
	head   *waiter
	n      int32
	closed bool // no caller may join it any more
}

func (ln *line) push(w *waiter) {
	if ln.n++; ln.head == nil {
		w.next, w.prev, ln.head = w, w, w
		return
	}
	w.next, w.prev = ln.head, ln.head.prev
	w.prev.next, w.next.prev = w, w
}

// remove takes w out, wherever it stands, and wakes a new head.
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

// all yields the callers in line, the first first.
func (ln *line) all() iter.Seq[*waiter] {
	return func(yield func(*waiter) bool) {
		for w, left := ln.head, ln.n; left > 0 && yield(w); left-- {
			w = w.next
		}
	}
}

// close sends all callers away and adds their weights to count.
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
