package resilience

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// Policy runs a call under a rule: it may repeat, bound, refuse or replace it. Implementations are safe for concurrent
// use.
type Policy[T any] interface {
	// Execute runs fn under the policy, on the caller's goroutine unless the policy says otherwise: never if it
	// refuses, several times if it repeats. fn must honour its context.
	Execute(ctx context.Context, fn func(context.Context) (T, error)) (T, error)
	// Close makes every later Execute fail with [ErrClosed]; running calls go on. It may be called again.
	Close() error
}

// Bind ties the end of a policy's scope to the life of the value: it returns v, or a replacement, and calls end
// exactly once, from any goroutine, when the life is over, with the error that ended it or nil. The life of an HTTP
// response ends with its body: at the end, at an error or by Close.
//
// With a nil Bind the scope ends when Execute returns. Bind is called only for values with a nil error.
type Bind[T any] func(v T, end func(error)) T

// Wrap makes one policy of several, the outermost first: Wrap(a, b) runs a(b(fn)). Nil policies are left out; without
// any, fn runs as it is. Close closes all, the outermost first, and joins their errors.
func Wrap[T any](outerToInner ...Policy[T]) Policy[T] {
	w := &wrapped[T]{}
	for _, p := range outerToInner {
		if p != nil {
			w.policies = append(w.policies, p)
		}
	}
	return w
}

type wrapped[T any] struct {
	gate
	policies []Policy[T]
}

// Execute builds the closures from the inside out, once per call.
func (w *wrapped[T]) Execute(ctx context.Context, fn func(context.Context) (T, error)) (T, error) {
	if w.shut() {
		return refuse[T](ErrClosed)
	}
	if len(w.policies) == 0 {
		return fn(ctx)
	}
	for i := len(w.policies) - 1; i > 0; i-- {
		p, inner := w.policies[i], fn
		fn = func(ctx context.Context) (T, error) { return p.Execute(ctx, inner) }
	}
	return w.policies[0].Execute(ctx, fn)
}

// Close closes the policies only in its first call.
func (w *wrapped[T]) Close() error {
	if !w.closeOnce() {
		return nil
	}
	var errs []error
	for _, p := range w.policies {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}

// gate is the part of a policy that Close shuts. The zero gate is open.
type gate struct{ closed atomic.Bool }

func (g *gate) shut() bool { return g.closed.Load() }

// closeOnce reports whether this call shut the gate.
func (g *gate) closeOnce() bool { return g.closed.CompareAndSwap(false, true) }

// Close is the whole of it for policies that hold nothing.
func (g *gate) Close() error {
	g.closeOnce()
	return nil
}

// enter is why a call is not even tried, or nil.
func (g *gate) enter(ctx context.Context) error {
	switch {
	case g.shut():
		return ErrClosed
	case ctx.Err() != nil:
		return callerErr(ctx)
	}
	return nil
}

// refuse is the result of a call that never came to fn.
func refuse[T any](err error) (none T, _ error) { return none, err }

// callerErr is why ctx has ended: its cause, which is always its error too.
func callerErr(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// now is the system's time, or that of a synctest bubble.
func now() time.Time { return clock.System().Now() }

func since(t time.Time) time.Duration { return clock.System().Since(t) }
