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

// Never is the wait for what time alone will not bring: more permits than the limiter ever has, a slot that only a
// Release can free, anything of a closed limiter, or an instant more than 292 years away.
const Never = clock.Forever

// Limiter is what all limiters of the package are, for callers who ask for one permit at a time.
// All methods are safe for concurrent use.
type Limiter interface {
	// TryAcquire takes a permit if there is one now and nobody waits for it.
	TryAcquire() bool
	// Acquire waits for a permit, in the order of arrival. It fails with ErrClosed; with
	// ErrQueueFull when too many wait; with ctx's error when ctx ends, and at once when the
	// deadline of ctx comes too early. What came before the wait was limiting is in a [Error].
	Acquire(ctx context.Context) error
	// Release gives a permit back to a [Concurrency] limiter. For rates it does nothing: what was
	// let through has been let through. See [AcquireRelease] for the safe way.
	Release()
	// Statistics is a consistent snapshot.
	Statistics() Statistics
	// Close fails those who wait, and all later calls, with ErrClosed. It may be called again. Its
	// error is always nil.
	Close() error
}

// Weighted is a Limiter for requests that cost several permits, taken together or not at all. A
// weight below 1 is refused everywhere: it can be neither a test nor a refund.
type Weighted interface {
	Limiter
	// TryAcquireN is TryAcquire for n permits.
	TryAcquireN(n int64) bool
	// AcquireN is Acquire for n permits. It fails with ErrExceedsCapacity when n is more than
	// there ever are, and with ErrInvalidWeight when n is below 1.
	AcquireN(ctx context.Context, n int64) error
	// AcquireTimeout is AcquireN for those who wait no longer than d, which is d included. Zero or less means now or
	// never. When the permits come later than that it fails, at once if that is known, with a Error.
	AcquireTimeout(ctx context.Context, n int64, d time.Duration) error
	// ReleaseN is Release for n permits. Below 1 it does nothing.
	ReleaseN(n int64)
	// Wait is how long it takes until TryAcquireN(n) could succeed as things stand: 0 is now, [Never] is never. It is
	// exact to the nanosecond: those who wait already are served first, as soon as they can be. It changes nothing.
	Wait(n int64) time.Duration
	// Standing is how a client stands with the limiter, for the headers of an answer. That of a
	// [Concurrency] limiter has no Window: what is left of it is how many more permits may be out
	// at once. That of a [Composite] is of the member that has the least left.
	Standing() Standing
}

// Statistics is what a limiter has done and how it stands. The counters count permits and stop at their maximum: the
// weight of every call is in exactly one of Acquired, Rejected and Cancelled once the call has returned.
type Statistics struct {
	Acquired     uint64 // granted
	Rejected     uint64 // refused without a wait
	Cancelled    uint64 // given up: the context ended, the timeout passed, or the limiter was closed meanwhile
	OverReleased uint64 // given back by those who did not have them; nothing came of it
	Available    int64  // the largest weight there is room for now, leaving aside those who wait
	Max          int64  // the largest weight there ever is room for
	Queued       int64  // callers who wait
	InUse        int64  // permits out and not yet released; always 0 for a rate
}

// ticketer is what makes an idempotent release of its own.
type ticketer interface {
	acquireTicket(ctx context.Context, n int64, limit time.Duration) (release func(), err error)
}

// AcquireRelease acquires a permit of l and returns the function that gives it back. The function may be called by any
// goroutine and any number of times: once counts, and the others are harmless and counted in Statistics.OverReleased.
// A permit acquired here is given back by its function only, so that somebody else's stray Release cannot free it.
func AcquireRelease(ctx context.Context, l Limiter) (release func(), err error) {
	if t, ok := l.(ticketer); ok {
		return t.acquireTicket(ctx, 1, Never)
	}
	if err := l.Acquire(ctx); err != nil {
		return nil, err
	}
	return sync.OnceFunc(l.Release), nil
}

// What a caller may branch on.
var (
	// ErrLimited means not now: there was no room, or there will be none in the time the caller
	// has. Asking again after Error.RetryAfter is worth it.
	ErrLimited = errors.New("rate limited")
	// ErrQueueFull means that as many callers wait as may. It is also ErrLimited.
	ErrQueueFull = errors.New("queue full")
	// ErrTooManyKeys means that a [Keyed] has no place for one more key. It is also ErrLimited.
	ErrTooManyKeys = errors.New("too many keys")
	// ErrClosed means that the limiter has been closed.
	ErrClosed = errors.New("limiter closed")
	// ErrExceedsCapacity means a weight for which there is never room.
	ErrExceedsCapacity = errors.New("weight exceeds the capacity")
	// ErrInvalidWeight means a weight below 1.
	ErrInvalidWeight = errors.New("weight must be at least 1")
)

// Error is a refusal for now. It is [ErrLimited] and, where there is a more particular reason,
// that too: [ErrQueueFull], [ErrTooManyKeys], or [context.DeadlineExceeded] when the caller's
// deadline comes before the permits do.
type Error struct {
	Name      string // of the limiter; in a composition, of the member that is waited for longest
	Algorithm string // its Kind
	// RetryAfter is the exact time until the same call could succeed without a wait, as things
	// stood. Zero means that it is not known: it depends on a Release.
	RetryAfter time.Duration
	Err        error // the particular reason; nil means there is none
}

// Error says who refused, why, and when to come again.
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

// Unwrap makes the error an ErrLimited and what Err is.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrLimited}
	}
	return []error{ErrLimited, e.Err}
}

func fieldError(field string, value any, fix string) error {
	return fmt.Errorf("%s is %v: %s", field, value, fix)
}

// waiter is a caller in a line, who looks at the limiter when it becomes the head, when it is
// woken, and when its timer fires.
type waiter struct {
	n          int64
	next, prev *waiter
	wake       chan struct{} // of one, so that a nudge never waits: look again
	gone       bool          // turned away, its owner having been closed
	guest      bool          // a composite's place: its calls are counted there
}

func newWaiter(n int64) *waiter { return &waiter{n: n, wake: make(chan struct{}, 1)} }

// nudge makes the waiter look again. A nudge that has not been seen yet is enough.
func (w *waiter) nudge() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// line is callers in the order of their arrival: a ring, of which the head's prev is the last.
// Its owner's lock guards it.
type line struct {
	head   *waiter
	n      int32
	closed bool // nobody may stand in it any more
}

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
		for w, left := ln.head, ln.n; left > 0 && yield(w); left-- {
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
