package binder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/treadlight/crawl/internal/ratelimit/backoff"
	"github.com/treadlight/crawl/resilience"
)

// Deps has what policies share. The zero Deps shares nothing.
type Deps struct {
	Name string // name of the policies in errors and events; may be empty; a circuit has its own
	// Breakers has the circuits that are shared by name. It refuses a name with other settings, so that a reload that
	// changes them is refused too. Nil means that the policies have a breaker of their own, which a reload may change.
	Breakers *resilience.Breakers
	Budget   *resilience.Budget // bounds what retries and hedges add; nil means no bound
	Hub      *resilience.Hub    // receives the events of the policies; nil means no events
	Random   resilience.Source  // random numbers for pauses; nil means the process-wide source
	Keys     int                // keys that isolation has at a time; zero means 1024

	carried *settled // circuit of the generation before
}

type settled struct {
	settings CircuitBreaker
	core     *resilience.Breaker
}

// circuit returns the breaker of the generation before if its settings are the same, so that a reload keeps an open
// circuit open.
func (d *Deps) circuit(c *CircuitBreaker) (*resilience.Breaker, error) {
	if d.carried != nil && d.carried.settings == *c {
		return d.carried.core, nil
	}
	cfg := resilience.BreakerConfig{
		Name: c.Name, Failures: c.FailureThreshold, SuccessThreshold: c.SuccessThreshold, BreakFor: c.Break,
		Hub: d.Hub,
	}
	if d.Breakers != nil {
		return d.Breakers.Get(c.Name, cfg)
	}
	return resilience.NewBreaker(cfg)
}

// Options has what a document cannot say about calls that return a T.
type Options[T any] struct {
	Deps
	Transient resilience.Classifier[T]     // finds the failures for retry and hedge; nil means the policies' default, every error
	Overload  resilience.Classifier[T]     // finds the failures for the circuit breaker; nil means the same default
	Bind      resilience.Bind[T]           // ties the policies to the life of a value; nil means that they end with the call
	Discard   func(T)                      // frees a value that nobody gets; nil means that nothing needs to be freed
	Key       func(context.Context) string // returns the key by which calls are isolated; nil is an error if the document has BulkheadIsolation
	Status    func(T) int                  // returns the status of a value, which the document's fallback compares; nil means that only errors are replaced
	// Fallback is the resilience.FallbackConfig.Action. Nil is an error if the document has the section Fallback.
	Fallback func(ctx context.Context, v T, err error) (T, error)

	newRetry func(resilience.RetryConfig[T]) (*resilience.Retry[T], error) // nil means resilience.NewRetry
}

// Policies has the policies of one document, and is itself a policy made of all of them in the default order. It is
// safe for concurrent use.
type Policies[T any] struct {
	Fallback  resilience.Policy[T] // of the section Fallback; like all below, nil if the document has no such section
	Retry     resilience.Policy[T] // of Retry
	Hedge     resilience.Policy[T] // of Hedging
	Breaker   resilience.Policy[T] // of CircuitBreaker
	Isolation resilience.Policy[T] // of BulkheadIsolation
	Bulkhead  resilience.Policy[T] // of Bulkhead
	Timeout   resilience.Policy[T] // of Timeout, for each attempt

	Circuit *resilience.Breaker // the breaker behind Breaker, for health checks; nil if there is none

	o       Options[T]
	retried bool
	whole   resilience.Policy[T]
	pools   []io.Closer // bulkheads, which their policies do not close
}

var _ resilience.Policy[int] = (*Policies[int])(nil)

// Bind builds the policies of a document. An error names the section and what is missing.
func Bind[T any](m *Model, o Options[T]) (*Policies[T], error) {
	p := &Policies[T]{o: o, retried: m.Retry != nil}
	err := section(nil, "Fallback", m.Fallback, &p.Fallback, p.fallback)
	err = section(err, "Retry", m.Retry, &p.Retry, p.retry)
	err = section(err, "Hedging", m.Hedging, &p.Hedge, p.hedge)
	err = section(err, "CircuitBreaker", m.CircuitBreaker, &p.Breaker, p.breaker)
	err = section(err, "BulkheadIsolation", m.BulkheadIsolation, &p.Isolation, p.isolation)
	err = section(err, "Bulkhead", m.Bulkhead, &p.Bulkhead, p.bulkhead)
	err = section(err, "Timeout", m.Timeout, &p.Timeout, p.timeout)
	// The default order, outermost first. Package resilience has the reasons.
	p.whole = resilience.Wrap(p.Fallback, p.Retry, p.Hedge, p.Breaker, p.Isolation, p.Bulkhead, p.Timeout)
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func section[S, T any](before error, name string, s *S, into *resilience.Policy[T], build func(*S) (resilience.Policy[T], error)) error {
	if before != nil || s == nil {
		return before
	}
	p, err := build(s)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	*into = p
	return nil
}

// Execute runs fn under all policies of the document.
func (p *Policies[T]) Execute(ctx context.Context, fn func(context.Context) (T, error)) (T, error) {
	return p.whole.Execute(ctx, fn)
}

// Close closes every policy: later and waiting calls fail with [resilience.ErrClosed]. It leaves the circuit, which may
// be shared, as it is.
func (p *Policies[T]) Close() error {
	errs := make([]error, 0, 1+len(p.pools))
	for _, pool := range p.pools {
		errs = append(errs, pool.Close()) // first, because callers that wait in a bulkhead are within all policies around it
	}
	return errors.Join(append(errs, p.whole.Close())...)
}

func (p *Policies[T]) retry(r *Retry) (resilience.Policy[T], error) {
	cfg := resilience.RetryConfig[T]{
		Name: p.o.Name, MaxAttempts: r.MaxRetries + 1, Forever: r.Forever, Backoff: r.Backoff.schedule(), Random: p.o.Random,
		Classify: p.o.Transient, Budget: p.o.Budget, Discard: p.o.Discard, Hub: p.o.Hub,
	}
	if r.Forever {
		cfg.MaxAttempts = 0
	}
	if p.o.newRetry != nil {
		return p.o.newRetry(cfg)
	}
	return resilience.NewRetry(cfg)
}

func (b *Backoff) schedule() backoff.Schedule {
	s := backoff.Exponential(b.Base, b.MaxDelay)
	switch b.Type {
	case BackoffNone:
		return backoff.Constant(0)
	case BackoffDecorrelated:
		return backoff.Decorrelated(b.Base, b.MaxDelay)
	case BackoffConstant:
		s = backoff.Constant(b.Base)
	case BackoffLinear:
		s = backoff.Linear(b.Base, b.MaxDelay)
	case BackoffExponential:
	}
	if b.Jitter {
		return backoff.Jittered(s)
	}
	return s
}

// hedge makes the policy of Hedging. If there is a retry around it, the retry counts the ordinary calls for the budget.
func (p *Policies[T]) hedge(h *Hedging) (resilience.Policy[T], error) {
	budget := p.o.Budget
	if p.retried {
		budget = budget.Inner()
	}
	return resilience.NewHedge(resilience.HedgeConfig[T]{
		Name: p.o.Name, Delay: h.After, MaxAttempts: 1 + h.MaxAttempts, Budget: budget,
		Classify: p.o.Transient, Bind: p.o.Bind, Discard: p.o.Discard, Hub: p.o.Hub,
	})
}

func (p *Policies[T]) breaker(c *CircuitBreaker) (_ resilience.Policy[T], err error) {
	if p.Circuit, err = p.o.circuit(c); err != nil {
		return nil, err
	}
	return resilience.NewCircuitBreaker(p.Circuit, resilience.CircuitBreakerConfig[T]{Classify: p.o.Overload, Bind: p.o.Bind})
}

// places returns the configuration of a bulkhead. In a document, a timeout of zero means that nobody waits; in the
// policy it would mean no bound.
func (d *Deps) places(concurrency, queue int, timeout time.Duration) resilience.BulkheadConfig {
	if timeout == 0 {
		queue = 0
	}
	return resilience.BulkheadConfig{
		Name: d.Name, MaxConcurrency: concurrency, MaxQueue: queue, QueueTimeout: timeout, MaxKeys: d.Keys, Hub: d.Hub,
	}
}

func (p *Policies[T]) bulkhead(b *Bulkhead) (resilience.Policy[T], error) {
	core, err := resilience.NewBulkhead(p.o.places(b.MaxConcurrency, b.MaxQueue, b.QueueTimeout))
	if err != nil {
		return nil, err
	}
	p.pools = append(p.pools, core)
	return resilience.NewBulkheadPolicy(core, p.o.Bind)
}

func (p *Policies[T]) isolation(b *BulkheadIsolation) (resilience.Policy[T], error) {
	if p.o.Key == nil {
		return nil, errors.New("a document cannot say what to isolate by: give Options.Key, or remove the section")
	}
	core, err := resilience.NewIsolation(p.o.places(b.MaxConcurrency, b.MaxQueue, b.QueueTimeout))
	if err != nil {
		return nil, err
	}
	p.pools = append(p.pools, core)
	return resilience.NewIsolationPolicy(core, p.o.Key, p.o.Bind)
}

func (p *Policies[T]) timeout(t *Timeout) (resilience.Policy[T], error) {
	return resilience.NewTimeout(resilience.TimeoutConfig[T]{
		Name: p.o.Name, After: t.Limit, Bind: p.o.Bind, Discard: p.o.Discard, Hub: p.o.Hub,
	})
}

// fallback makes the policy of Fallback, which replaces every error, and values with one of the document's statuses.
func (p *Policies[T]) fallback(f *Fallback) (resilience.Policy[T], error) {
	if p.o.Fallback == nil {
		return nil, errors.New("a document cannot say what to return instead: give Options.Fallback, or remove the section")
	}
	return resilience.NewFallback(resilience.FallbackConfig[T]{
		Name: p.o.Name, Action: p.o.Fallback, Discard: p.o.Discard, Hub: p.o.Hub,
		When: func(v T, err error) bool {
			return err != nil || p.o.Status != nil && slices.Contains(f.StatusCodes, p.o.Status(v))
		},
	})
}

// BindAll builds the policies of several documents and registers each under its name, for [resilience.Lookup] with T.
// options is called once for each name; nil means the zero Options. The registry closes the policies. An error names
// the document; then everything built is closed.
func BindAll[T any](models map[string]*Model, options func(name string) Options[T]) (*resilience.Registry, error) {
	r := new(resilience.Registry)
	for _, name := range slices.Sorted(maps.Keys(models)) {
		var o Options[T]
		if options != nil {
			o = options(name)
		}
		p, err := Bind(models[name], o)
		if err == nil {
			if err = resilience.Register[T](r, name, p); err != nil { // the registry closes only what it has taken
				err = errors.Join(err, p.Close())
			}
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", name, err), r.Close())
		}
	}
	return r, nil
}
