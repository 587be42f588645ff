package resilience

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// scopeContext is the context of one call under a policy. It ends with its parent, with the
// scope, by cancel and, under a limit, when the time is up. It becomes one of package context
// when anybody first waits for its end; before that it is one allocation in place of four, or
// none within its owner, with no timer and no entry in its parent.
type scopeContext struct {
	context.Context               // the parent
	limit           *timeLimit    // nil: it has no time of its own
	at              clock.Instant // when the time is up
	over            *realContext  // for scopes that end before anybody waits for them
	made            atomic.Pointer[realContext]
}

type realContext struct {
	ctx    context.Context
	cancel context.CancelCauseFunc // nil under a limit
	stop   context.CancelFunc      // nil without
	cause  TimeoutError            // its address tells our timer from another's: a policy may be nested in itself
}

func (r *realContext) end(cause error) {
	if r.cancel != nil {
		r.cancel(cause)
	} else {
		r.stop()
	}
}

// endedContext has ended. All calls of a policy share it.
func endedContext() *realContext {
	r := &realContext{}
	r.ctx, r.cancel = context.WithCancelCause(context.Background())
	r.cancel(nil)
	return r
}

// timeLimit is what all calls under a [Timeout] share. It never changes.
type timeLimit struct {
	name  string
	after time.Duration
	hub   *Hub
	clk   clock.Clock
	epoch time.Time // of the instants
}

func (l *timeLimit) now() clock.Instant { return clock.Instant(l.clk.Since(l.epoch)) }

func (c *scopeContext) real() *realContext {
	if r := c.made.Load(); r != nil {
		return r
	}
	r := &realContext{}
	if c.limit == nil {
		r.ctx, r.cancel = context.WithCancelCause(c.Context)
	} else {
		r.cause = TimeoutError{Name: c.limit.name, After: c.limit.after}
		r.ctx, r.stop = context.WithDeadlineCause(c.Context, c.time(), &r.cause)
	}
	if !c.made.CompareAndSwap(nil, r) {
		r.end(nil)
	}
	return c.made.Load()
}

func (c *scopeContext) time() time.Time { return c.limit.epoch.Add(time.Duration(c.at)) }

func (c *scopeContext) Deadline() (time.Time, bool) {
	earlier, ok := c.Context.Deadline()
	if c.limit == nil || ok && earlier.Before(c.time()) {
		return earlier, ok
	}
	return c.time(), true
}

// Done is where waiting begins, also for what package context hangs below this one.
func (c *scopeContext) Done() <-chan struct{} { return c.real().ctx.Done() }

// Err sees that the time is up even if nobody has waited for it. Once it has said why the
// context ended, the real one keeps it to that.
func (c *scopeContext) Err() error {
	if c.made.Load() == nil && (c.limit == nil || c.Context.Err() == nil && c.limit.now() < c.at) {
		return c.Context.Err()
	}
	return c.real().ctx.Err()
}

// Value asks the real context where there is one: package context finds the way to its cause and
// to its children by that.
func (c *scopeContext) Value(key any) any {
	if r := c.made.Load(); r != nil && r != c.over {
		return r.ctx.Value(key)
	}
	return c.Context.Value(key)
}

// cancel ends the context with a cause, which a limit has no use for.
func (c *scopeContext) cancel(cause error) { c.real().end(cause) }

func (c *scopeContext) end() {
	if !c.made.CompareAndSwap(nil, c.over) {
		c.made.Load().end(nil)
	}
}

func (c *scopeContext) expired() *TimeoutError {
	if c.Err() == nil {
		return nil
	}
	if r := c.made.Load(); r != nil && context.Cause(r.ctx) == error(&r.cause) { //nolint:errorlint // identity tells ours from another's
		return &r.cause
	}
	return nil
}

// translate is err, as a TimeoutError and with an event if our own time was up.
func (c *scopeContext) translate(err error) error {
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

// endValue ends the scope with the life of a value.
func (c *scopeContext) endValue(err error) {
	if err != nil && c.expired() != nil {
		c.tell()
	}
	c.end()
}

func (c *scopeContext) tell() {
	if l := c.limit; l.hub.Wants() {
		l.hub.Emit(TimeoutEvent{At: l.clk.Now(), Name: l.name, After: l.after})
	}
}
