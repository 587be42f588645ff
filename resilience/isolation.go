package resilience

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/limit"
)

// KeyFunc says which pool a call belongs to, a host for example. It must be safe for
// concurrent use.
type KeyFunc func(ctx context.Context) string

// IsolationConfig says what each key of an [Isolation] may have, and how many keys
// there may be.
type IsolationConfig struct {
	Name           string        // in errors and events; zero means none
	MaxConcurrency int           // calls at a time and key, 1 or more; zero is an error
	MaxQueue       int           // callers that may wait for a place of a key; zero means none
	QueueTimeout   time.Duration // after which one that waits is refused; zero means its context decides
	MaxKeys        int           // pools at a time; zero means 1024
	Clock          clock.Clock   // zero means the system clock
	Hub            *Hub          // hears of refusals; zero means nobody does
}

// maxPools is the usual bound on keys: 375 bytes each as measured, and more hosts than one
// process talks to at the same time.
const maxPools = 1024

// Isolation is a [Bulkhead] for each key, so that one callee that hangs takes only those
// with it who call it. A pool is made when its key comes first. It is idle when nobody
// is in it or waits; what is idle holds nothing but figures, so when a key more than
// there may be comes, the pool that has been idle for the longest goes. If none is idle
// the newcomer is refused. All methods are safe for concurrent use.
type Isolation struct {
	cfg  IsolationConfig // never changes after NewIsolation
	pool BulkheadConfig  // of each

	mu      sync.Mutex // guards what follows
	pools   map[string]*pool
	order   list.List        // of *pool: of those without users, the one idle for the longest comes first
	busy    int              // pools with users
	gone    BulkheadSnapshot // the totals of pools that have gone
	evicted uint64
	refused uint64
	closed  bool
}

// pool is one key's. Its users are callers that hold a place or ask for one.
type pool struct {
	*Bulkhead
	owner *Isolation
	key   string
	users int // guarded by the isolation's lock
	at    *list.Element
}

// NewIsolation returns an isolation without keys, or an error that names the field to mend.
func NewIsolation(cfg IsolationConfig) (*Isolation, error) {
	setDefault(&cfg.MaxKeys, maxPools)
	if cfg.MaxKeys < 0 {
		return nil, fmt.Errorf("isolation: MaxKeys = %d: want 1 or more", cfg.MaxKeys)
	}
	each := BulkheadConfig{
		Name: cfg.Name, MaxConcurrency: cfg.MaxConcurrency, MaxQueue: cfg.MaxQueue,
		QueueTimeout: cfg.QueueTimeout, Clock: cfg.Clock, Hub: cfg.Hub,
	}
	if err := each.settle(); err != nil {
		return nil, fmt.Errorf("isolation: %w", err)
	}
	return &Isolation{cfg: cfg, pool: each, pools: map[string]*pool{}}, nil
}

// Release gives a place back, and counts its user out.
func (p *pool) Release() {
	p.Bulkhead.Release()
	p.owner.leave(p)
}

// Slot is a place in a pool.
type Slot struct{ pool *pool } // nil once it was given back

// Acquire takes a place in the pool of the key; the errors are those of
// [Bulkhead.Acquire], with the key. Give the slot back once; a second Release on the
// same variable does nothing.
func (i *Isolation) Acquire(ctx context.Context, key string) (Slot, error) {
	p, err := i.acquire(ctx, key)
	return Slot{p}, err
}

// acquire is Acquire with the pool itself for a slot.
func (i *Isolation) acquire(ctx context.Context, key string) (*pool, error) {
	p, err := i.enter(key)
	if err != nil {
		return nil, err
	}
	entered := false
	defer func() { // also if a clock or a context panics
		if !entered {
			i.leave(p)
		}
	}()
	if err := p.acquire(ctx, key); err != nil {
		return nil, err
	}
	entered = true
	return p, nil
}

// Release gives the place back.
func (s *Slot) Release() {
	if p := s.pool; p != nil {
		s.pool = nil
		p.Release()
	}
}

// enter finds or makes the pool of the key, which from then on is not idle.
func (i *Isolation) enter(key string) (*pool, error) {
	i.mu.Lock()
	p, evicted, err := i.enterLocked(key)
	i.mu.Unlock()
	if evicted != nil {
		i.addGone(evicted)
	}
	if errors.Is(err, limit.ErrTooManyKeys) {
		return nil, i.pool.refuse(key, err, limit.Statistics{})
	}
	return p, err
}

func (i *Isolation) enterLocked(key string) (p, evicted *pool, err error) {
	if i.closed {
		return nil, nil, ErrClosed
	}
	if p = i.pools[key]; p != nil {
		if p.users++; p.users == 1 {
			i.busy++
		}
		return p, nil, nil
	}
	if len(i.pools) >= i.cfg.MaxKeys {
		if i.busy == len(i.pools) {
			i.refused++
			return nil, nil, limit.ErrTooManyKeys
		}
		e := i.order.Front()
		for e.Value.(*pool).users > 0 {
			e = e.Next()
		}
		evicted = i.order.Remove(e).(*pool)
		delete(i.pools, evicted.key)
		i.evicted++
	}
	b, err := newBulkhead(i.pool)
	if err != nil {
		return nil, evicted, err
	}
	p = &pool{Bulkhead: b, owner: i, key: key, users: 1}
	p.at = i.order.PushBack(p)
	i.pools[key] = p
	i.busy++
	return p, evicted, nil
}

// addGone adds up what a pool has been that is in no map any more, and has no users.
func (i *Isolation) addGone(p *pool) {
	s := p.Snapshot()
	i.mu.Lock()
	i.gone.add(s)
	i.mu.Unlock()
}

func (i *Isolation) leave(p *pool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if p.users--; p.users == 0 {
		i.busy--
		i.order.MoveToBack(p.at)
	}
}

// Close sends away those who wait, and all who come later, with [ErrClosed]. Slots can
// still be given back. It may be called again.
func (i *Isolation) Close() error {
	i.mu.Lock()
	i.closed = true
	pools := maps.Clone(i.pools) // none is added any more, and closing wakes their waiters
	i.mu.Unlock()
	var errs []error
	for _, p := range pools {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}

// IsolationSnapshot is an isolation at about one instant: each pool is of one, all of
// them are not.
type IsolationSnapshot struct {
	Name    string                      `json:"name"`
	MaxKeys int                         `json:"max_keys"`
	Busy    int                         `json:"busy"`    // pools that are not idle
	Evicted uint64                      `json:"evicted"` // idle pools forgotten
	Refused uint64                      `json:"refused"` // calls for a key too many
	Total   BulkheadSnapshot            `json:"total"`   // over all keys there have been
	Pools   map[string]BulkheadSnapshot `json:"pools"`   // by key
}

// Snapshot is a copy, at most as large as there may be keys.
func (i *Isolation) Snapshot() IsolationSnapshot {
	i.mu.Lock()
	s := IsolationSnapshot{
		Name: i.cfg.Name, MaxKeys: i.cfg.MaxKeys, Busy: i.busy,
		Evicted: i.evicted, Refused: i.refused, Total: i.gone,
	}
	pools := maps.Clone(i.pools)
	i.mu.Unlock()
	s.Total.Name, s.Total.MaxConcurrency, s.Total.MaxQueue = i.cfg.Name, i.cfg.MaxConcurrency, i.cfg.MaxQueue
	s.Pools = make(map[string]BulkheadSnapshot, len(pools))
	for key, p := range pools {
		one := p.Snapshot()
		s.Pools[key] = one
		s.Total.add(one)
	}
	return s
}

func (s *BulkheadSnapshot) add(o BulkheadSnapshot) {
	s.InFlight += o.InFlight
	s.Queued += o.Queued
	s.Acquired += o.Acquired
	s.Rejected += o.Rejected
	s.Cancelled += o.Cancelled
	s.OverReleased += o.OverReleased
}

// IsolationPolicyConfig configures an [IsolationPolicy].
type IsolationPolicyConfig[T any] struct {
	Key  KeyFunc // of a call; nil is an error
	Bind Bind[T] // of the value to the place; nil means that the call ends with Execute
}

// IsolationPolicy is the [Policy] in front of an [Isolation], which others may share.
type IsolationPolicy[T any] struct {
	gate
	core *Isolation
	cfg  IsolationPolicyConfig[T]
}

// NewIsolationPolicy returns the policy. The core stays the caller's: Close ends the
// policy and leaves the core as it is.
func NewIsolationPolicy[T any](core *Isolation, cfg IsolationPolicyConfig[T]) (*IsolationPolicy[T], error) {
	switch {
	case core == nil:
		return nil, errors.New("isolation policy: core = nil: want one of NewIsolation")
	case cfg.Key == nil:
		return nil, errors.New("isolation policy: Key = nil: want a function that names the pool of a call")
	}
	return &IsolationPolicy[T]{core: core, cfg: cfg}, nil
}

// Isolation is the core.
func (p *IsolationPolicy[T]) Isolation() *Isolation { return p.core }

// Execute runs fn in a place of the pool of its key, as a [BulkheadPolicy] does.
func (p *IsolationPolicy[T]) Execute(ctx context.Context, fn func(context.Context) (T, error)) (T, error) {
	if p.shut() {
		return refuse[T](ErrClosed)
	}
	place, err := p.core.acquire(ctx, p.cfg.Key(ctx))
	if err != nil {
		return refuse[T](err)
	}
	return hold(ctx, fn, p.cfg.Bind, place)
}
