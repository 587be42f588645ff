package resilience

import (
	"context"
	"sync/atomic"
)

// hedgeContext is the context of a first call. It is one of context.WithCancelCause from
// the moment on when anybody waits for its end or it is cancelled; before that it costs
// nothing, as it lies within the call. It ends with its parent, with the scope, or by
// cancel.
type hedgeContext struct {
	context.Context // the parent
	over            *hedgeReal
	made            atomic.Pointer[hedgeReal] // nil until it is needed; then it stays
}

// hedgeReal is the real context.
type hedgeReal struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// endedReal is one that has ended. All calls share it that end before one was needed.
func endedReal() *hedgeReal {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(nil)
	return &hedgeReal{ctx, cancel}
}

// need is the real context. It makes it if there is none.
func (c *hedgeContext) need() *hedgeReal {
	if r := c.made.Load(); r != nil {
		return r
	}
	ctx, cancel := context.WithCancelCause(c.Context)
	if !c.made.CompareAndSwap(nil, &hedgeReal{ctx, cancel}) {
		cancel(nil)
	}
	return c.made.Load()
}

// Done is where waiting begins, also for what package context hangs below this one.
func (c *hedgeContext) Done() <-chan struct{} { return c.need().ctx.Done() }

// Err asks the parent where there is nothing else that could have ended it.
func (c *hedgeContext) Err() error {
	if r := c.made.Load(); r != nil {
		return r.ctx.Err()
	}
	return c.Context.Err()
}

// Value asks the real context where there is one: package context finds the way to its
// cause and to its children by that.
func (c *hedgeContext) Value(key any) any {
	if r := c.made.Load(); r != nil && r != c.over {
		return r.ctx.Value(key)
	}
	return c.Context.Value(key)
}

// cancel ends it with a cause.
func (c *hedgeContext) cancel(cause error) { c.need().cancel(cause) }

// end ends the scope.
func (c *hedgeContext) end() {
	if !c.made.CompareAndSwap(nil, c.over) {
		c.made.Load().cancel(nil)
	}
}
