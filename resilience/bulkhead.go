package resilience

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/treadlight/crawl/limit"
)

// BulkheadConfig says how many calls may be in flight and how many may wait.
type BulkheadConfig struct {
	Name           string        // name of the bulkhead in errors and events; may be empty
	MaxConcurrency int           // calls in flight, 1 or more; zero is an error
	MaxQueue       int           // callers that may wait for a place; zero means none
	QueueTimeout   time.Duration // how long a caller may wait until it is refused; zero means until its context ends
	MaxKeys        int           // keys of an [Isolation] at a time, unused by a [Bulkhead]; zero means 1024
	Hub            *Hub          // receives a [BulkheadEvent] for each refusal; nil means no events
}

// maxPools is more hosts than one process talks to at the same time.
const maxPools = 1024

func (c *BulkheadConfig) settle() error {
	switch {
	case c.MaxConcurrency < 1:
		return fmt.Errorf("bulkhead: MaxConcurrency = %d: want 1 or more", c.MaxConcurrency)
	case c.MaxQueue < 0:
		return fmt.Errorf("bulkhead: MaxQueue = %d: want 0 (nobody waits) or more", c.MaxQueue)
	case c.QueueTimeout < 0:
		return fmt.Errorf("bulkhead: QueueTimeout = %v: want 0 (no bound) or more", c.QueueTimeout)
	case c.MaxKeys < 0:
		return fmt.Errorf("bulkhead: MaxKeys = %d: want 1 or more", c.MaxKeys)
	}
	c.MaxKeys = cmp.Or(c.MaxKeys, maxPools)
	return nil
}

func (c *BulkheadConfig) options() []limit.Option {
	return []limit.Option{limit.WithName(c.Name), limit.WithQueueLimit(c.MaxQueue)}
}

func (c *BulkheadConfig) wait() time.Duration {
	if c.QueueTimeout > 0 {
		return c.QueueTimeout
	}
	return limit.Never
}

// refusal translates an error of the bulkhead's limiter into the bulkhead's own.
func (c *BulkheadConfig) refusal(ctx context.Context, key string, err error, standing func() limit.Statistics) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, limit.ErrClosed):
		return ErrClosed
	case ctx.Err() != nil && !errors.Is(err, limit.ErrQueueFull) && !errors.Is(err, limit.ErrTooManyKeys):
		return callerErr(ctx) // the caller has left: that is no refusal
	}
	if c.Hub.Wants() {
		s := standing()
		c.Hub.Emit(BulkheadEvent{At: now(), Name: c.Name, Key: key, InFlight: s.InUse, Queued: s.Queued})
	}
	return &BulkheadError{Name: c.Name, Key: key, Err: err}
}

// Bulkhead bounds the calls in flight. Callers that wait get places in their order. Policies and transports may share a
// Bulkhead. All methods are safe for concurrent use.
type Bulkhead struct {
	cfg   BulkheadConfig // never changes after NewBulkhead
	limit *limit.Concurrency
}

// NewBulkhead returns a bulkhead with all places free. An error names the wrong field.
func NewBulkhead(cfg BulkheadConfig) (*Bulkhead, error) {
	if err := cfg.settle(); err != nil {
		return nil, err
	}
	limit, err := limit.NewConcurrency(limit.ConcurrencyConfig{Max: int64(cfg.MaxConcurrency)}, cfg.options()...)
	if err != nil {
		return nil, fmt.Errorf("bulkhead: %w", err)
	}
	return &Bulkhead{cfg: cfg, limit: limit}, nil
}

// TryAcquire takes a place if one is free and nobody waits. It reports whether it did.
func (b *Bulkhead) TryAcquire() bool { return b.limit.TryAcquire() }

// Acquire takes a place, and waits for one if the configuration allows. It fails with a [*BulkheadError] if it gets
// none in time, with [ErrClosed], or with the cause of ctx. If ctx has ended it never takes a place.
func (b *Bulkhead) Acquire(ctx context.Context) error {
	return b.cfg.refusal(ctx, "", b.limit.AcquireTimeout(ctx, 1, b.cfg.wait()), b.limit.Statistics)
}

// Release gives a place back. Call it once for each place taken. A further call while no place is taken is counted and
// does no harm.
func (b *Bulkhead) Release() { b.limit.Release() }

// Statistics returns how many places were taken and refused so far, and how many callers have a place or wait now.
func (b *Bulkhead) Statistics() limit.Statistics { return b.limit.Statistics() }

// Close makes waiting and later callers fail with [ErrClosed]. Places taken can still be given back. It may be called
// again.
func (b *Bulkhead) Close() error { return b.limit.Close() }

// Isolation is a [Bulkhead] for each key. Keys without calls may be forgotten. If there are MaxKeys keys with calls, a
// new key is refused. All methods are safe for concurrent use.
type Isolation struct {
	cfg   BulkheadConfig // never changes after NewIsolation
	limit *limit.Keyed[string]
}

// NewIsolation returns an isolation without keys. An error names the wrong field.
func NewIsolation(cfg BulkheadConfig) (*Isolation, error) {
	if err := cfg.settle(); err != nil {
		return nil, fmt.Errorf("isolation: %w", err)
	}
	limit, err := limit.NewKeyed(limit.KeyedConfig[string]{
		Name: cfg.Name, Limit: limit.Spec{Kind: limit.KindConcurrency, Permits: int64(cfg.MaxConcurrency)},
		MaxKeys: cfg.MaxKeys, Overflow: limit.OverflowDeny,
	}, cfg.options()...)
	if err != nil {
		return nil, fmt.Errorf("isolation: %w", err)
	}
	return &Isolation{cfg: cfg, limit: limit}, nil
}

// Acquire takes a place of the key's bulkhead. Call release once to give it back. Errors are those of
// [Bulkhead.Acquire].
func (i *Isolation) Acquire(ctx context.Context, key string) (release func(), err error) {
	release, err = i.limit.AcquireRelease(ctx, key, 1, i.cfg.wait())
	return release, i.cfg.refusal(ctx, key, err, func() limit.Statistics { return i.Statistics(key) })
}

// Statistics returns those of the key's bulkhead, or zero if there is none.
func (i *Isolation) Statistics(key string) limit.Statistics {
	s, _ := i.limit.Statistics(key)
	return s
}

// Len returns the number of keys that have a bulkhead.
func (i *Isolation) Len() int { return i.limit.Len() }

// Close makes waiting and later callers fail with [ErrClosed]. Places taken can still be given back. It may be called
// again.
func (i *Isolation) Close() error { return i.limit.Close() }

// BulkheadPolicy is the [Policy] of a [Bulkhead] or an [Isolation]. Close leaves these as they are.
type BulkheadPolicy[T any] struct {
	gate
	acquire func(ctx context.Context) (release func(), err error)
	bind    Bind[T]
}

// NewBulkheadPolicy returns the policy of core. With a nil bind the place is given back when Execute returns.
func NewBulkheadPolicy[T any](core *Bulkhead, bind Bind[T]) (*BulkheadPolicy[T], error) {
	if core == nil {
		return nil, errors.New("bulkhead policy: core = nil: want one of NewBulkhead")
	}
	release := core.Release
	return &BulkheadPolicy[T]{
		acquire: func(ctx context.Context) (func(), error) { return release, core.Acquire(ctx) }, bind: bind,
	}, nil
}

// NewIsolationPolicy returns the policy of core, in which key returns the key of a call from its context. key must be
// safe for concurrent use. With a nil bind the place is given back when Execute returns.
func NewIsolationPolicy[T any](core *Isolation, key func(context.Context) string, bind Bind[T]) (*BulkheadPolicy[T], error) {
	switch {
	case core == nil:
		return nil, errors.New("isolation policy: core = nil: want one of NewIsolation")
	case key == nil:
		return nil, errors.New("isolation policy: key = nil: want a function that names the pool of a call")
	}
	return &BulkheadPolicy[T]{
		acquire: func(ctx context.Context) (func(), error) { return core.Acquire(ctx, key(ctx)) }, bind: bind,
	}, nil
}

// Execute takes a place and runs fn. If it gets no place, its errors are those of Acquire. It gives the place back when
// fn returns, panics or exits or, with a Bind, at the end of the value's life.
func (p *BulkheadPolicy[T]) Execute(ctx context.Context, fn func(context.Context) (T, error)) (T, error) {
	if p.shut() {
		return refuse[T](ErrClosed)
	}
	release, err := p.acquire(ctx)
	if err != nil {
		return refuse[T](err)
	}
	held := true
	defer func() {
		if held {
			release()
		}
	}()
	v, err := fn(ctx)
	if err != nil || p.bind == nil {
		return v, err
	}
	v = p.bind(v, func(error) { release() })
	held = false
	return v, nil
}
