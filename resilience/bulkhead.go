package resilience

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/limit"
)

// BulkheadConfig says how many calls may go on at the same time and how many may wait.
type BulkheadConfig struct {
	Name           string        // in errors and events; zero means none
	MaxConcurrency int           // calls at a time, 1 or more; zero is an error
	MaxQueue       int           // callers that may wait for a place; zero means none
	QueueTimeout   time.Duration // after which one that waits is refused; zero means its context decides
	Clock          clock.Clock   // zero means the system clock
	Hub            *Hub          // hears of refusals; zero means nobody does
}

func (c *BulkheadConfig) settle() error {
	switch {
	case c.MaxConcurrency < 1:
		return fmt.Errorf("bulkhead: MaxConcurrency = %d: want 1 or more", c.MaxConcurrency)
	case c.MaxQueue < 0:
		return fmt.Errorf("bulkhead: MaxQueue = %d: want 0 (nobody waits) or more", c.MaxQueue)
	case c.QueueTimeout < 0:
		return fmt.Errorf("bulkhead: QueueTimeout = %v: want 0 (no bound) or more", c.QueueTimeout)
	}
	if c.Clock == nil {
		c.Clock = clock.System()
	}
	return nil
}

// Bulkhead bounds how many calls go on at a time, so that a callee that hangs takes so
// many callers with it and no more. Those who wait are served in their order. It is the
// core that policies and transports share, over the concurrency limiter of package
// limit. All methods are safe for concurrent use.
type Bulkhead struct {
	cfg   BulkheadConfig // never changes after NewBulkhead
	limit *limit.Concurrency
}

// NewBulkhead returns an empty bulkhead, or an error that names the field to mend.
func NewBulkhead(cfg BulkheadConfig) (*Bulkhead, error) {
	if err := cfg.settle(); err != nil {
		return nil, err
	}
	return newBulkhead(cfg)
}

func newBulkhead(cfg BulkheadConfig) (*Bulkhead, error) {
	limit, err := limit.NewConcurrency(limit.ConcurrencyConfig{Max: int64(cfg.MaxConcurrency)},
		limit.WithName(cfg.Name), limit.WithClock(cfg.Clock), limit.WithQueueLimit(cfg.MaxQueue))
	if err != nil {
		return nil, fmt.Errorf("bulkhead: %w", err)
	}
	return &Bulkhead{cfg: cfg, limit: limit}, nil
}

// TryAcquire takes a place if there is one now and nobody waits for it.
func (b *Bulkhead) TryAcquire() bool { return b.limit.TryAcquire() }

// Acquire takes a place, and waits for one if it may. It fails with a [BulkheadError] if
// there is none in time, with [ErrClosed], and with why ctx has ended: one that has ended
// already never takes a place.
func (b *Bulkhead) Acquire(ctx context.Context) error { return b.acquire(ctx, "") }

// acquire is Acquire for the pool of a key.
func (b *Bulkhead) acquire(ctx context.Context, key string) error {
	wait := limit.Never
	if b.cfg.QueueTimeout > 0 {
		wait = b.cfg.QueueTimeout
	}
	err := b.limit.AcquireTimeout(ctx, 1, wait)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, limit.ErrClosed):
		return ErrClosed
	case ctx.Err() != nil && !errors.Is(err, limit.ErrQueueFull):
		return callerErr(ctx) // the caller has left, nobody has sent it away
	}
	return b.cfg.refuse(key, err, b.limit.Statistics())
}

func (c *BulkheadConfig) refuse(key string, err error, s limit.Statistics) error {
	if c.Hub.Wants() {
		c.Hub.Emit(BulkheadEvent{At: c.Clock.Now(), Name: c.Name, Key: key, InFlight: s.InUse, Queued: s.Queued})
	}
	return &BulkheadError{Name: c.Name, Key: key, Err: err}
}

// Release gives a place back, once for each that was taken. One too many while nothing
// is out is counted and does no harm.
func (b *Bulkhead) Release() { b.limit.Release() }

// Close sends away those who wait, and all who come later, with [ErrClosed]. Places that
// are taken can still be given back. It may be called again.
func (b *Bulkhead) Close() error { return b.limit.Close() }

// BulkheadSnapshot is a bulkhead at one instant.
type BulkheadSnapshot struct {
	Name           string `json:"name"`
	MaxConcurrency int    `json:"max_concurrency"`
	MaxQueue       int    `json:"max_queue"`
	InFlight       int64  `json:"in_flight"`
	Queued         int64  `json:"queued"`
	Acquired       uint64 `json:"acquired"`  // places taken, ever
	Rejected       uint64 `json:"rejected"`  // callers sent away at once
	Cancelled      uint64 `json:"cancelled"` // callers that left the queue, by themselves or by its timeout
	OverReleased   uint64 `json:"over_released"`
}

// Snapshot is a copy of one instant.
func (b *Bulkhead) Snapshot() BulkheadSnapshot {
	s := b.limit.Statistics()
	return BulkheadSnapshot{
		Name: b.cfg.Name, MaxConcurrency: b.cfg.MaxConcurrency, MaxQueue: b.cfg.MaxQueue,
		InFlight: s.InUse, Queued: s.Queued, Acquired: s.Acquired, Rejected: s.Rejected,
		Cancelled: s.Cancelled, OverReleased: s.OverReleased,
	}
}

// BulkheadPolicyConfig configures a [BulkheadPolicy].
type BulkheadPolicyConfig[T any] struct {
	Bind Bind[T] // of the value to the place; nil means that the call ends with Execute
}

// BulkheadPolicy is the [Policy] in front of a [Bulkhead], which others may share.
type BulkheadPolicy[T any] struct {
	gate
	core *Bulkhead
	cfg  BulkheadPolicyConfig[T]
}

// NewBulkheadPolicy returns the policy. The core stays the caller's: Close ends the
// policy and leaves the core as it is.
func NewBulkheadPolicy[T any](core *Bulkhead, cfg BulkheadPolicyConfig[T]) (*BulkheadPolicy[T], error) {
	if core == nil {
		return nil, errors.New("bulkhead policy: core = nil: want one of NewBulkhead")
	}
	return &BulkheadPolicy[T]{core: core, cfg: cfg}, nil
}

// Bulkhead is the core.
func (p *BulkheadPolicy[T]) Bulkhead() *Bulkhead { return p.core }

// Execute runs fn in a place of the bulkhead; the errors are those of its Acquire. The
// place is free again when fn returns, panics or exits, or with a Bind when the life of
// its value is over.
func (p *BulkheadPolicy[T]) Execute(ctx context.Context, fn func(context.Context) (T, error)) (T, error) {
	if p.shut() {
		return refuse[T](ErrClosed)
	}
	if err := p.core.Acquire(ctx); err != nil {
		return refuse[T](err)
	}
	return hold(ctx, fn, p.cfg.Bind, p.core)
}

func hold[T any](ctx context.Context, fn func(context.Context) (T, error), bind Bind[T], place interface{ Release() }) (T, error) {
	held := true
	defer func() {
		if held {
			place.Release()
		}
	}()
	v, err := fn(ctx)
	if err != nil || bind == nil {
		return v, err
	}
	v = bind(v, func(error) { place.Release() })
	held = false
	return v, nil
}
