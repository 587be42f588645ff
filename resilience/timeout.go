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
	Name  string        // name of the policy in errors and events; may be empty
	After time.Duration // time for the call and, with Bind, for the life of its value; zero is an error
	Bind  Bind[T]       // lets the time run until the end of the value's life; nil means that it ends with Execute
	// Discard frees a value that came after the time was up. Nil means that nothing needs to be freed. Without Bind
	// such a value is returned.
	Discard func(T)
	Hub     *Hub // receives a [TimeoutEvent] for each call, or life of a value, that was cut off; nil means no events
}

// Timeout is a [Policy] that bounds the time of a call and of the use of its value.
//
// It works through the call's context: if the call ignores the context, Execute still waits for it, because a goroutine
// left behind would leak. The error is a [*TimeoutError] only if this policy's time was up; if the caller's deadline
// came first, the call's error is unchanged.
//
// The time is that of the system clock, or of a synctest bubble.
type Timeout[T any] struct {
	gate
	limit   timeLimit
	bind    Bind[T]
	discard func(T)
}

// NewTimeout returns the policy. An error names the field that is out of range.
func NewTimeout[T any](cfg TimeoutConfig[T]) (*Timeout[T], error) {
	if cfg.After <= 0 {
		return nil, fmt.Errorf("timeout: After = %v: want a positive duration", cfg.After)
	}
	t := &Timeout[T]{
		limit: timeLimit{name: cfg.Name, after: cfg.After, hub: cfg.Hub, epoch: now(), over: new(realContext)},
		bind:  cfg.Bind, discard: cfg.Discard,
	}
	t.limit.over.ctx, t.limit.over.stop = context.WithCancel(context.Background())
	t.limit.over.stop()
	return t, nil
}

// Execute runs fn with a context that ends when the time is up, when ctx ends, or when the scope ends.
func (t *Timeout[T]) Execute(ctx context.Context, fn func(context.Context) (T, error)) (T, error) {
	if t.shut() {
		return refuse[T](ErrClosed)
	}
	d := &timeContext{Context: ctx, limit: &t.limit, at: t.limit.now().AddClamped(t.limit.after)}
	bound := false
	defer func() {
		if !bound { // also if fn panics or ends its goroutine
			d.end()
		}
	}()
	v, err := fn(d)
	if err != nil {
		return v, d.translate(err)
	}
	if t.bind == nil {
		return v, nil
	}
	if d.made.Load() != nil { // without a real context nothing was cut off, and checking would cost a reading of the clock
		if late := d.expired(); late != nil {
			// The time is up, so reading from the value would fail.
			if t.discard != nil {
				t.discard(v)
			}
			return refuse[T](d.translate(late))
		}
	}
	v = t.bind(v, d.endValue)
	bound = true
	return v, nil
}

// timeLimit has what all calls under a [Timeout] share. It never changes.
type timeLimit struct {
	name  string
	after time.Duration
	hub   *Hub
	epoch time.Time    // the instants count from here
	over  *realContext // has ended; taken by scopes that end before anybody waits for them
}

func (l *timeLimit) now() clock.Instant { return clock.Instant(since(l.epoch)) }

// timeContext ends with its parent, with the scope, and when the time is up. It makes a real context only when somebody
// first waits for its end; before that it takes one allocation in place of four, and no timer.
type timeContext struct {
	context.Context // the parent
	limit           *timeLimit
	at              clock.Instant // when the time is up
	made            atomic.Pointer[realContext]
}

type realContext struct {
	ctx   context.Context
	stop  context.CancelFunc
	cause TimeoutError // its address distinguishes this timer's cause from another's, because a policy may be nested in itself
}

func (c *timeContext) real() *realContext {
	if r := c.made.Load(); r != nil {
		return r
	}
	r := &realContext{cause: TimeoutError{Name: c.limit.name, After: c.limit.after}}
	r.ctx, r.stop = context.WithDeadlineCause(c.Context, c.time(), &r.cause)
	if !c.made.CompareAndSwap(nil, r) {
		r.stop()
	}
	return c.made.Load()
}

func (c *timeContext) time() time.Time { return c.limit.epoch.Add(time.Duration(c.at)) }

func (c *timeContext) Deadline() (time.Time, bool) {
	at := c.time()
	if earlier, ok := c.Context.Deadline(); ok && earlier.Before(at) {
		at = earlier
	}
	return at, true
}

// Done makes the real context, because its caller is going to wait. Package context calls it too, for contexts derived
// from this one.
func (c *timeContext) Done() <-chan struct{} { return c.real().ctx.Done() }

// Err notices that the time is up even if nobody has waited. The real context then keeps that cause.
func (c *timeContext) Err() error {
	if c.made.Load() == nil && c.Context.Err() == nil && c.limit.now() < c.at {
		return nil
	}
	return c.real().ctx.Err()
}

// Value asks the real context if there is one, because package context finds the cause and the children through it.
func (c *timeContext) Value(key any) any {
	if r := c.made.Load(); r != nil && r != c.limit.over {
		return r.ctx.Value(key)
	}
	return c.Context.Value(key)
}

func (c *timeContext) end() {
	if !c.made.CompareAndSwap(nil, c.limit.over) {
		c.made.Load().stop()
	}
}

func (c *timeContext) expired() *TimeoutError {
	if c.Err() == nil {
		return nil
	}
	if r := c.made.Load(); context.Cause(r.ctx) == error(&r.cause) { //nolint:errorlint // identity tells ours from another's
		return &r.cause
	}
	return nil
}

// translate returns err as a TimeoutError, and emits an event, if this policy's time was up; otherwise err itself.
func (c *timeContext) translate(err error) error {
	cause := c.expired()
	if cause == nil {
		return err
	}
	c.tell()
	if err == error(cause) { //nolint:errorlint // a wrapped one is kept, with what wraps it
		return cause
	}
	return &TimeoutError{Name: cause.Name, After: cause.After, Err: err}
}

func (c *timeContext) endValue(err error) {
	if err != nil && c.expired() != nil {
		c.tell()
	}
	c.end()
}

func (c *timeContext) tell() {
	if l := c.limit; l.hub.Wants() {
		l.hub.Emit(TimeoutEvent{At: now(), Name: l.name, After: l.after})
	}
}
