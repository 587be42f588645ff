package limit

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
)

// DefaultMaxKeys is how many keys a [Keyed] has a limiter for. A token bucket, its place
// in the table and the name of a host take some 250 bytes, so this is 16 megabytes.
const DefaultMaxKeys = 1 << 16

// defaultIdleAfter keeps those keys that come back while their neighbours' requests are
// still under way: what it costs is memory, and what it saves is making them again.
const defaultIdleAfter = time.Minute

// Overflow is what becomes of a key for which there is no place. The zero Overflow is
// [OverflowShare].
type Overflow uint8

// The overflows.
const (
	OverflowShare Overflow = iota // all such keys share one limiter: slower for each of them, a way round for none
	OverflowDeny                  // they are refused with ErrTooManyKeys
)

// KeyedConfig says what each key gets and how many keys there may be.
type KeyedConfig[K comparable] struct {
	Name  string // by which errors call it. Zero means the kind, or "keyed" if New is set.
	Limit Spec   // what each key gets, unless New is set. Zero is an error.
	// New, if set, makes the limiter of a key. It is called with no lock held, now and then
	// for a limiter that is not used after all. Those it made are closed when they are
	// dropped. Zero means Limit for all keys.
	New     func(key K) (Weighted, error)
	MaxKeys int // how many keys have a limiter at a time. Zero means DefaultMaxKeys.
	// IdleAfter is for how long a key must not have been asked for before it may be
	// forgotten while there is place; beyond MaxKeys it does not count. Zero means a minute.
	IdleAfter time.Duration
	Overflow  Overflow // what the others get. Zero means that they share one limiter, which New makes for the zero key.
}

// Keyed is a limiter per key, for no more than so many keys. It forgets a key only while
// its limiter is full and nobody waits, holds a permit or is on the way to it: then a
// new one would decide the same, so forgetting is no way round a limit. Each new key
// looks at some others that may be forgotten; there is no goroutine. When there are
// MaxKeys, room for one more is looked for in 256 slots of the table; if all keys there still
// count, Overflow decides.
//
// Permits that come back are had by AcquireRelease: there is no Release by key, for it
// could meet another limiter than the one that granted. All methods are safe for
// concurrent use.
type Keyed[K comparable] struct {
	cfg      KeyedConfig[K]
	make     func(key K) (Weighted, error)
	hash     func(key K) uint64
	set      *settings // for its clock, by which keys are idle
	overflow Weighted  // nil if it denies
	shards   []shard[K]
	shift    uint // of a hash, to the index of its shard
	keys     atomic.Int64
	closed   atomic.Bool
}

// NewKeyed returns a Keyed without keys. The options are those of the limiters that
// Limit describes; of those that New makes, only the clock by which they are idle.
func NewKeyed[K comparable](cfg KeyedConfig[K], opts ...Option) (*Keyed[K], error) {
	if cfg.MaxKeys < 0 {
		return nil, fieldError("MaxKeys", cfg.MaxKeys, "set it to 1 or more, or leave it out for the default")
	}
	if cfg.Overflow > OverflowDeny {
		return nil, fieldError("Overflow", uint8(cfg.Overflow), "set it to OverflowShare or OverflowDeny")
	}
	if cfg.IdleAfter < 0 {
		return nil, fieldError("IdleAfter", cfg.IdleAfter, "set it to more than 0, or leave it out for the default")
	}
	if cfg.MaxKeys == 0 {
		cfg.MaxKeys = DefaultMaxKeys
	}
	if cfg.IdleAfter == 0 {
		cfg.IdleAfter = defaultIdleAfter
	}
	k := &Keyed[K]{cfg: cfg, make: cfg.New, hash: hasher[K]()}
	if err := k.equip(opts); err != nil {
		return nil, err
	}
	k.split()
	return k, nil
}

// equip settles who makes the limiters.
func (k *Keyed[K]) equip(opts []Option) error {
	if k.make == nil {
		b, err := newBuilder(k.cfg.Limit, append([]Option{WithName(k.cfg.Name)}, opts...))
		if err != nil {
			return fmt.Errorf("limit: %w", err)
		}
		k.set = b.set
		k.make = func(K) (Weighted, error) { return b.build(), nil }
	} else {
		set, err := newSettings("keyed", 0, append([]Option{WithName(k.cfg.Name)}, opts...))
		if err != nil {
			return err
		}
		k.set = set
	}
	if k.cfg.Overflow == OverflowDeny {
		return nil
	}
	var zero K
	shared, err := k.make(zero)
	if err != nil {
		return fmt.Errorf("limiter that the keys beyond MaxKeys share: %w", err)
	}
	k.overflow = shared
	return nil
}

// maxShards are so many that processors seldom meet at one, and keysPerShard so few keys
// that a further shard does not pay.
const (
	maxShards    = 256
	keysPerShard = 256
)

// split makes a power of two of shards, none of them for too few keys to be worth it.
func (k *Keyed[K]) split() {
	width := bits.Len(uint(min(maxShards, k.cfg.MaxKeys/keysPerShard)))
	if width > 0 {
		width-- // to the power of two below
	}
	k.shards = make([]shard[K], 1<<width)
	k.shift = uint(64 - width)
}

// hasher is the runtime's hash with a seed of its own: keys are often chosen by strangers,
// who must not be able to choose where in the table they come.
func hasher[K comparable]() func(K) uint64 {
	seed := maphash.MakeSeed()
	if h, ok := any(func(key string) uint64 { return maphash.String(seed, key) }).(func(K) uint64); ok {
		return h
	}
	return func(key K) uint64 { return maphash.Comparable(seed, key) }
}

// TryAcquire takes a permit of key's limiter if there is one now and nobody waits for it.
func (k *Keyed[K]) TryAcquire(key K) bool { return k.TryAcquireN(key, 1) }

// TryAcquireN takes n permits of key's limiter if they are there now and nobody waits.
func (k *Keyed[K]) TryAcquireN(key K, n int64) bool {
	hash := k.hash(key)
	sh := k.shardOf(hash)
	sh.mu.Lock()
	if s := sh.table.find(hash, key); s != nil {
		if !s.touched { // or the cache line would have to be written back for nothing
			s.touched = true
		}
		ok := s.limiter.TryAcquireN(n)
		sh.mu.Unlock()
		return ok
	}
	sh.mu.Unlock()
	l, err := k.pin(hash, key)
	if err != nil {
		return false
	}
	defer k.unpin(hash, key, l)
	return l.TryAcquireN(n)
}

// Acquire waits for a permit of key's limiter; see [Limiter].
func (k *Keyed[K]) Acquire(ctx context.Context, key K) error {
	return k.AcquireTimeout(ctx, key, 1, Never)
}

// AcquireN waits for n permits of key's limiter; see [Weighted].
func (k *Keyed[K]) AcquireN(ctx context.Context, key K, n int64) error {
	return k.AcquireTimeout(ctx, key, n, Never)
}

// AcquireTimeout waits for n permits of key's limiter, and for d at most; see [Weighted].
// Beside its errors there are ErrTooManyKeys and those of KeyedConfig.New.
func (k *Keyed[K]) AcquireTimeout(ctx context.Context, key K, n int64, d time.Duration) error {
	hash := k.hash(key)
	l, err := k.pin(hash, key)
	if err != nil {
		return err
	}
	defer k.unpin(hash, key, l)
	return l.AcquireTimeout(ctx, n, d)
}

// AcquireRelease acquires n permits of key's limiter within d and returns the function
// that gives them back; see the function of this name.
func (k *Keyed[K]) AcquireRelease(ctx context.Context, key K, n int64, d time.Duration) (release func(), err error) {
	hash := k.hash(key)
	l, err := k.pin(hash, key)
	if err != nil {
		return nil, err
	}
	defer k.unpin(hash, key, l)
	if t, ok := l.(ticketer); ok {
		return t.acquireTicket(ctx, n, max(d, 0))
	}
	if err := l.AcquireTimeout(ctx, n, d); err != nil {
		return nil, err
	}
	return sync.OnceFunc(func() { l.ReleaseN(n) }), nil
}

// Wait is how long until TryAcquireN(key, n) could succeed as things stand; see
// [Weighted]. It makes no limiter: a key without one is told what a new one would say,
// or, if there is no place for it, the shared one; or Never.
func (k *Keyed[K]) Wait(key K, n int64) time.Duration {
	hash := k.hash(key)
	if l := k.find(hash, key); l != nil {
		defer k.unpin(hash, key, l)
		return l.Wait(n)
	}
	if k.closed.Load() {
		return Never
	}
	if k.keys.Load() >= int64(k.cfg.MaxKeys) {
		if k.overflow == nil {
			return Never
		}
		return k.overflow.Wait(n)
	}
	l, err := k.make(key)
	if err != nil {
		return Never
	}
	defer l.Close() //nolint:errcheck // it is always nil
	return l.Wait(n)
}

// Statistics is the snapshot of key's limiter, if it has one. It makes none.
func (k *Keyed[K]) Statistics(key K) (Statistics, bool) {
	hash := k.hash(key)
	l := k.find(hash, key)
	if l == nil {
		return Statistics{}, false
	}
	defer k.unpin(hash, key, l)
	return l.Statistics(), true
}

// Len is how many keys have a limiter.
func (k *Keyed[K]) Len() int { return int(k.keys.Load()) }

// Close closes all limiters, and with them fails whoever waits. Later calls fail with
// ErrClosed. It may be called again; its error joins those of limiters made by New.
func (k *Keyed[K]) Close() error {
	k.closed.Store(true)
	var errs []error
	for i := range k.shards {
		errs = append(errs, k.shards[i].close()...)
	}
	if k.overflow != nil {
		errs = append(errs, k.overflow.Close())
	}
	return errors.Join(errs...)
}
