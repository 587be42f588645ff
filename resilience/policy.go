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
	// Execute runs fn under the policy, on the caller's goroutine unless the policy says otherwise. A policy that
	// refuses does not run fn, and one that repeats runs it several times. fn must obey its context.
	Execute(ctx context.Context, fn func(context.Context) (T, error)) (T, error)
	// Close makes every later Execute fail with [ErrClosed]; running calls go on. It may be called again.
	Close() error
}

// Bind ties the end of a policy's scope to the life of a value. It returns v, or a replacement for it, and calls end
// exactly once, from any goroutine, when the life of the value is over, with the error that ended it or nil. The life
// of an HTTP response ends with its body: at its end, at an error or by Close.
//
// With a nil Bind the scope ends when Execute returns. Bind is called only for values returned with a nil error.
type Bind[T any] func(v T, end func(error)) T

// Wrap makes one policy of several, the outermost first: Wrap(a, b) runs a(b(fn)). It leaves out nil policies; without
// any policy, fn runs directly. Close closes all, the outermost first, and joins their errors.
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

// Execute nests the policies by closures, made for each call, and runs the outermost.
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

// Close closes the policies in its first call only.
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

// gate records whether a policy is closed. The zero gate is open.
type gate struct{ closed atomic.Bool }

func (g *gate) shut() bool { return g.closed.Load() }

// closeOnce closes the gate, and reports whether it was open.
func (g *gate) closeOnce() bool { return g.closed.CompareAndSwap(false, true) }

// Close is the Close of policies that hold no resources.
func (g *gate) Close() error {
	g.closeOnce()
	return nil
}

// enter returns why a call is not even begun, or nil.
func (g *gate) enter(ctx context.Context) error {
	switch {
	case g.shut():
		return ErrClosed
	case ctx.Err() != nil:
		return callerErr(ctx)
	}
	return nil
}

// refuse returns the result of a call for which fn was not run, or whose value was discarded.
func refuse[T any](err error) (none T, _ error) { return none, err }

// callerErr returns why ctx has ended: its cause, which also matches ctx.Err().
func callerErr(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// now returns the time of the system clock, or of the synctest bubble.
func now() time.Time { return clock.System().Now() }

func since(t time.Time) time.Duration { return clock.System().Since(t) }
