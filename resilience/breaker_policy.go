package resilience

import (
	"context"
	"errors"
)

// CircuitBreakerConfig configures a [CircuitBreaker].
type CircuitBreakerConfig[T any] struct {
	Classify Classifier[T] // nil means DefaultClassifier
	Bind     Bind[T]       // of the value to the ticket; nil means that the call ends with Execute
}

// CircuitBreaker is the [Policy] in front of a [Breaker], which others may share.
type CircuitBreaker[T any] struct {
	gate
	core *Breaker
	cfg  CircuitBreakerConfig[T]
}

// NewCircuitBreaker returns the policy. The core stays the caller's: Close ends the
// policy and leaves the core as it is.
func NewCircuitBreaker[T any](core *Breaker, cfg CircuitBreakerConfig[T]) (*CircuitBreaker[T], error) {
	if core == nil {
		return nil, errors.New("circuit breaker: core = nil: want one of NewBreaker or Breakers.Get")
	}
	return &CircuitBreaker[T]{core: core, cfg: cfg}, nil
}

// Breaker is the core.
func (c *CircuitBreaker[T]) Breaker() *Breaker { return c.core }

// Execute runs fn if the breaker lets it, else it fails with an [OpenError]. A call that
// fails because ctx has ended, one that panics and one that leaves by runtime.Goexit say
// nothing of the callee: they end the ticket without a verdict. What says nothing is a
// caller that was impatient; for a callee that hangs put a timeout inside or outside.
//
// With a Bind a success stands only when the life of the value has ended well, while a
// failure is one at once. How slow a call was is known when fn returns.
func (c *CircuitBreaker[T]) Execute(ctx context.Context, fn func(context.Context) (T, error)) (T, error) {
	if c.shut() {
		return refuse[T](ErrClosed)
	}
	if ctx.Err() != nil { // would take the slot of a probe for nothing
		return refuse[T](callerErr(ctx))
	}
	t, err := c.core.Allow()
	if err != nil {
		return refuse[T](err)
	}
	bound := false
	defer func() {
		if !bound {
			t.Done(Ignored)
		}
	}()
	v, err := fn(ctx)
	verdict := c.cfg.Classify.judge(ctx, v, err)
	if c.cfg.Bind == nil || err != nil || verdict != Success {
		t.Done(verdict)
		return v, err
	}
	v = c.bind(ctx, &t, v)
	bound = true
	return v, nil
}

// bind ends the ticket with the life of the value. The function holds no more than it
// must: it is the one allocation of a call.
func (c *CircuitBreaker[T]) bind(ctx context.Context, t *Ticket, v T) T {
	ticket, slow := t.t, t.slow()
	return c.cfg.Bind(v, func(err error) {
		verdict := Success
		if err != nil {
			verdict = c.cfg.Classify.judge(ctx, v, err)
		}
		c.core.end(ticket, verdict, slow && verdict != Ignored)
	})
}
