package resilience

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// TimeoutConfig says how long a call may take.
type TimeoutConfig[T any] struct {
	// Name is what errors and events call the policy. Zero leaves it out.
	Name string
	// After is the time for the call and, with Bind, for the life of its value. There is
	// no default: zero is refused.
	After time.Duration
	// Bind has the time go on until the end of the value's life. Nil means that it ends
	// when Execute returns.
	Bind Bind[T]
	// Discard frees a value that came when its context had been ended by the time. Nil
	// means that there is nothing to free. It is used with Bind only: without, such a value
	// is as good as any and is returned.
	Discard func(T)
	// Hub hears of a [TimeoutEvent] for each call, or life of a value, that was cut. Nil
	// means nobody.
	Hub *Hub
}

// Timeout bounds the time of a call, and of the use of its value.
//
// It works through the call's context: a call that ignores its context is not cut, and
// Execute returns when it does. That is on purpose, since a goroutine left behind in such
// a call would hold on to all it uses and nobody would know. The error is a
// [TimeoutError] only if this policy's own time was up; where the caller's deadline came
// first, it is the call's error as it is.
//
// The time is that of contexts, the system's, and that of the bubble in a synctest test.
type Timeout[T any] struct {
	gate
	limit   limit
	bind    Bind[T]
	discard func(T)
}

// NewTimeout returns a policy or an error that names the field that is out of range.
func NewTimeout[T any](cfg TimeoutConfig[T]) (*Timeout[T], error) {
	if cfg.After <= 0 {
		return nil, fmt.Errorf("timeout: After = %v: want a positive duration", cfg.After)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	clk := clock.System()
	return &Timeout[T]{
		limit: limit{
			name: cfg.Name, after: cfg.After, hub: cfg.Hub, clk: clk, epoch: clk.Now(),
			over: &timer{ctx: ended, cancel: cancel},
		},
		bind: cfg.Bind, discard: cfg.Discard,
	}, nil
}

// Execute runs fn with a context that ends when the time is up, when ctx does, or with
// the scope.
func (t *Timeout[T]) Execute(ctx context.Context, fn func(context.Context) (T, error)) (T, error) {
	if t.shut() {
		return refuse[T](ErrClosed)
	}
	d := t.limit.begin(ctx)
	bound := false
	defer func() {
		if !bound { // also when fn panics or ends its goroutine
			d.stop()
		}
	}()
	v, err := fn(d)
	if err != nil {
		return v, d.translate(err)
	}
	if t.bind == nil {
		return v, nil
	}
	if d.timer.Load() != nil { // without one nothing was cut, and asking costs a look at the clock
		if late := d.expired(); late != nil {
			// The value is dead on arrival: whatever it would read is cut.
			if t.discard != nil {
				t.discard(v)
			}
			return refuse[T](d.translate(late))
		}
	}
	v = t.bind(v, d.end)
	bound = true
	return v, nil
}

// limit is what all deadlines of a policy share. It never changes.
type limit struct {
	name  string
	after time.Duration
	hub   *Hub
	clk   clock.Clock
	epoch time.Time // of the instants of its deadlines
	over  *timer    // of the deadlines that ended before anybody waited for them
}

func (l *limit) begin(ctx context.Context) *deadline {
	return &deadline{Context: ctx, limit: l, at: l.now().AddClamped(l.after)}
}

func (l *limit) now() clock.Instant { return clock.Instant(l.clk.Since(l.epoch)) }

// deadline is a context that ends at an instant, as one of context.WithDeadline does, and
// that is one from the moment on when anybody waits for its end. Before that it is one
// allocation in place of four, with no timer, and no entry in its parent. A chain over a
// transport that fails at once, or a cache, never comes to that point.
type deadline struct {
	context.Context // the parent
	limit           *limit
	at              clock.Instant
	timer           atomic.Pointer[timer] // nil until it is needed; then it stays
}

// timer is the real context of a deadline.
type timer struct {
	ctx    context.Context
	cancel context.CancelFunc
	cause  TimeoutError // its address says whose timer fired: one policy may be nested in itself
}

// real is the real context. It makes it if there is none.
func (d *deadline) real() *timer {
	if t := d.timer.Load(); t != nil {
		return t
	}
	t := &timer{cause: TimeoutError{Name: d.limit.name, After: d.limit.after}}
	t.ctx, t.cancel = context.WithDeadlineCause(d.Context, d.time(), &t.cause)
	if !d.timer.CompareAndSwap(nil, t) {
		t.cancel()
		return d.timer.Load()
	}
	return t
}

// Deadline is the earlier of the parent's and our own.
func (d *deadline) Deadline() (time.Time, bool) {
	at := d.time()
	if earlier, ok := d.Context.Deadline(); ok && earlier.Before(at) {
		return earlier, true
	}
	return at, true
}

func (d *deadline) time() time.Time { return d.limit.epoch.Add(time.Duration(d.at)) }

// Done is where waiting begins, also for the contexts and functions that package context
// hangs below this one.
func (d *deadline) Done() <-chan struct{} { return d.real().ctx.Done() }

// Err sees that the time is up even if nobody has waited for it. Once it has said why the
// context ended, the real one keeps it to that.
func (d *deadline) Err() error {
	if d.timer.Load() == nil && d.Context.Err() == nil && d.limit.now() < d.at {
		return nil
	}
	return d.real().ctx.Err()
}

// Value asks the real context where there is one, through which package context finds
// the way to its cause and to its list of children.
func (d *deadline) Value(key any) any {
	if t := d.timer.Load(); t != nil && t != d.limit.over {
		return t.ctx.Value(key)
	}
	return d.Context.Value(key)
}

// stop ends the scope.
func (d *deadline) stop() {
	if !d.timer.CompareAndSwap(nil, d.limit.over) {
		d.timer.Load().cancel()
	}
}

// expired is the cause if our own time was up before anything else ended the scope.
func (d *deadline) expired() *TimeoutError {
	if d.Err() == nil {
		return nil
	}
	if t := d.timer.Load(); t != nil && context.Cause(t.ctx) == error(&t.cause) { //nolint:errorlint // identity tells ours from another's
		return &t.cause
	}
	return nil
}

// translate is err, as a TimeoutError and with an event if our own time was up.
func (d *deadline) translate(err error) error {
	cause := d.expired()
	if cause == nil {
		return err
	}
	d.tell()
	if err == error(cause) { //nolint:errorlint // a wrapped one is kept, with what wraps it
		return cause
	}
	return &TimeoutError{Name: cause.Name, After: cause.After, Err: err}
}

// end is the end of a value's life.
func (d *deadline) end(err error) {
	if err != nil && d.expired() != nil {
		d.tell()
	}
	d.stop()
}

func (d *deadline) tell() {
	if l := d.limit; l.hub.Wants() {
		l.hub.Emit(TimeoutEvent{At: l.clk.Now(), Name: l.name, After: l.after})
	}
}
