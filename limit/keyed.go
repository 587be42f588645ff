package limit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/store/keytable"
)

const (
	// DefaultMaxKeys is the default of [KeyedConfig.MaxKeys]. A token bucket takes about 250 bytes with its place in
	// the table and the name of a host, so this is 16 megabytes.
	DefaultMaxKeys = 1 << 16

	// defaultIdleAfter keeps those keys that come back while their neighbours' requests are under way.
	defaultIdleAfter = time.Minute

	// sweepScan is how many slots each new key looks at for one that may be forgotten, so many that
	// the sweep empties the table faster than new keys fill it; and evictScan when there is no place:
	// some ten microseconds, which is all that a flood of keys can cost.
	sweepScan = 4
	evictScan = 256
)

// Overflow is what happens to a key for which there is no room. The zero Overflow is [OverflowShare].
type Overflow uint8

// The values of Overflow.
const (
	OverflowShare Overflow = iota // all such keys share one limiter: it is slower for each of them, and no way round the limit
	OverflowDeny                  // calls with such keys fail with ErrTooManyKeys
)

// KeyedConfig configures a [Keyed].
type KeyedConfig[K comparable] struct {
	Name  string // name in errors. Zero means the kind, or "keyed" if New is set.
	Limit Spec   // the limiter of each key, unless New is set. Zero is an error.
	// New, if set, makes the limiter of a key. It is called without a lock, and sometimes for a limiter that is then
	// not used. Limiters that it made are closed when they are dropped. Nil means Limit for all keys.
	New func(key K) (Weighted, error)
	// MaxKeys is how many keys may have a limiter at a time. From 512 keys on they are spread over parts by a hash, and
	// a part may be full when a few percent of MaxKeys are still free. Zero means DefaultMaxKeys.
	MaxKeys int
	// IdleAfter is how long a key must be unused before it may be forgotten while there is room. Zero means a minute.
	IdleAfter time.Duration
	Overflow  Overflow // what happens to keys beyond MaxKeys. Zero means that they share one limiter, which New makes for the zero key.
}

// Keyed has one limiter per key, for a bounded number of keys. It forgets a key only while its limiter is full and no
// caller waits, holds a permit or is about to use it: a new limiter would decide the same, so forgetting is no way
// round a limit. Each new key looks at a few others that may be forgotten; there is no goroutine.
//
// Permits of a concurrency limit are released by the function of AcquireRelease. There is no Release by key, because
// the key's limiter may have been replaced since. All methods are safe for concurrent use.
type Keyed[K comparable] struct {
	cfg      KeyedConfig[K]
	make     func(key K) (Weighted, error)
	hash     func(key K) uint64
	set      *settings // for its clock, by which keys are idle
	overflow Weighted  // nil if it denies
	shards   []shard[K]
	shift    uint // of a hash, to the index of its shard
	closed   atomic.Bool
}

type shard[K comparable] struct {
	mu    sync.Mutex
	table keytable.Table[K, held]
	max   int     // keys
	_     [8]byte // to 64 bytes: two shards do not share a cache line
}

// held is a key's limiter. With a string for its key, a slot is one cache line.
type held struct {
	limiter Weighted
	seen    clock.Instant // the sweep before which it was last touched
	pins    int32         // calls on the way to the limiter
	touched bool          // since the sweep last came by
	_       [8]byte
}

// NewKeyed returns a Keyed without keys. The options apply to the limiters that Limit describes; to those that New
// makes only the clock applies, by which they are idle.
func NewKeyed[K comparable](cfg KeyedConfig[K], opts ...Option) (*Keyed[K], error) {
	switch {
	case cfg.MaxKeys < 0:
		return nil, fieldError("MaxKeys", cfg.MaxKeys, "set it to 1 or more, or leave it out for the default")
	case cfg.Overflow > OverflowDeny:
		return nil, fieldError("Overflow", uint8(cfg.Overflow), "set it to OverflowShare or OverflowDeny")
	case cfg.IdleAfter < 0:
		return nil, fieldError("IdleAfter", cfg.IdleAfter, "set it to more than 0, or leave it out for the default")
	}
	cfg.MaxKeys = cmp.Or(cfg.MaxKeys, DefaultMaxKeys)
	cfg.IdleAfter = cmp.Or(cfg.IdleAfter, defaultIdleAfter)
	k := &Keyed[K]{cfg: cfg, make: cfg.New, hash: keytable.Hasher[K]()}
	if err := k.equip(append([]Option{WithName(cfg.Name)}, opts...)); err != nil {
		return nil, err
	}
	n, shift := keytable.Shards(cfg.MaxKeys)
	k.shards, k.shift = make([]shard[K], n), shift
	for i := range k.shards {
		k.shards[i].max = (cfg.MaxKeys + i) / n
	}
	return k, nil
}

// equip settles who makes the limiters.
func (k *Keyed[K]) equip(opts []Option) (err error) {
	if k.make == nil {
		if k.set, err = newSettings(k.cfg.Limit, opts); err != nil {
			return fmt.Errorf("limit: %w", err)
		}
		k.make = func(K) (Weighted, error) { return k.set.build(), nil }
	} else {
		k.set = &settings{spec: Spec{Kind: "keyed"}}
		if err := k.set.apply(opts); err != nil {
			return err
		}
	}
	if k.cfg.Overflow == OverflowShare {
		var zero K
		if k.overflow, err = k.make(zero); err != nil {
			return fmt.Errorf("limiter that the keys beyond MaxKeys share: %w", err)
		}
	}
	return nil
}

// shardOf goes by the upper bits of the hash; the table goes by the lower ones.
func (k *Keyed[K]) shardOf(hash uint64) *shard[K] { return &k.shards[hash>>k.shift] }

// find is key's limiter, pinned, or nil.
func (sh *shard[K]) find(hash uint64, key K) Weighted {
	i := sh.table.Find(hash, key)
	if i < 0 {
		return nil
	}
	h := &sh.table.At(i).Value
	h.pins++
	h.touched = true
	return h.limiter
}

// seekLocked is the limiter for a key, pinned; or nil if there is a place for one.
func (k *Keyed[K]) seekLocked(sh *shard[K], hash uint64, key K) (Weighted, error) {
	l := sh.find(hash, key)
	switch {
	case l != nil:
		return l, nil
	case k.closed.Load(): // which Close sets before it comes for the lock
		return nil, fmt.Errorf("acquire %s: %w", k.set.name, ErrClosed)
	case k.makeRoomLocked(sh):
		return nil, nil
	case k.overflow == nil:
		return nil, &Error{Name: k.set.name, Algorithm: string(k.set.spec.Kind), Err: ErrTooManyKeys}
	}
	return k.overflow, nil
}

// makeRoomLocked drops what is idle among a few, and, if there is no place for one more, the
// first of many that may be dropped.
func (k *Keyed[K]) makeRoomLocked(sh *shard[K]) bool {
	now := clock.Instant(k.set.clk.Since(k.set.epoch))
	sh.table.Sweep(sweepScan, false, func(s *keytable.Slot[K, held]) bool {
		return s.Value.idle(now) >= k.cfg.IdleAfter && s.Value.drop()
	})
	return sh.table.Len() < sh.max ||
		sh.table.Sweep(evictScan, true, func(s *keytable.Slot[K, held]) bool { return s.Value.drop() }) > 0
}

// idle is how long the key has not been asked for, at least. That calls leave a mark and the
// sweep tells the time saves them a look at the clock.
func (h *held) idle(now clock.Instant) time.Duration {
	if h.touched {
		h.touched, h.seen = false, now
	}
	return now.Sub(h.seen)
}

// drop closes a limiter if a new one would decide just what it does.
func (h *held) drop() bool {
	if h.pins > 0 {
		return false
	}
	if st := h.limiter.Statistics(); st.Available < st.Max || st.Queued > 0 || st.InUse > 0 {
		return false
	}
	h.limiter.Close() //nolint:errcheck // nobody is left to be told: those on their way have it pinned
	return true
}

// TryAcquire takes a permit of key's limiter if one is there and no caller waits.
func (k *Keyed[K]) TryAcquire(key K) bool { return k.TryAcquireN(key, 1) }

// TryAcquireN takes n permits of key's limiter if they are there and no caller waits.
func (k *Keyed[K]) TryAcquireN(key K, n int64) bool {
	hash := k.hash(key)
	sh := k.shardOf(hash)
	sh.mu.Lock()
	if i := sh.table.Find(hash, key); i >= 0 {
		h := &sh.table.At(i).Value
		if !h.touched { // or the cache line would have to be written back for nothing
			h.touched = true
		}
		ok := h.limiter.TryAcquireN(n)
		sh.mu.Unlock()
		return ok
	}
	sh.mu.Unlock()
	p, err := k.Pin(key)
	if err != nil {
		return false
	}
	defer p.Unpin()
	return p.Limiter.TryAcquireN(n)
}

// Acquire waits for a permit of key's limiter; see [Limiter].
func (k *Keyed[K]) Acquire(ctx context.Context, key K) error {
	return k.AcquireTimeout(ctx, key, 1, Never)
}

// AcquireN waits for n permits of key's limiter; see [Weighted].
func (k *Keyed[K]) AcquireN(ctx context.Context, key K, n int64) error {
	return k.AcquireTimeout(ctx, key, n, Never)
}

// AcquireTimeout waits at most d for n permits of key's limiter; see [Weighted]. It also fails with ErrTooManyKeys and
// with the errors of KeyedConfig.New.
func (k *Keyed[K]) AcquireTimeout(ctx context.Context, key K, n int64, d time.Duration) error {
	p, err := k.Pin(key)
	if err != nil {
		return err
	}
	defer p.Unpin()
	return p.Limiter.AcquireTimeout(ctx, n, d)
}

// AcquireRelease acquires n permits of key's limiter within d and returns the function that releases them, as the
// function [AcquireRelease] does.
func (k *Keyed[K]) AcquireRelease(ctx context.Context, key K, n int64, d time.Duration) (release func(), err error) {
	p, err := k.Pin(key)
	if err != nil {
		return nil, err
	}
	defer p.Unpin()
	if t, ok := p.Limiter.(ticketer); ok {
		return t.acquireTicket(ctx, n, max(d, 0))
	}
	if err := p.Limiter.AcquireTimeout(ctx, n, d); err != nil {
		return nil, err
	}
	return sync.OnceFunc(func() { p.Limiter.ReleaseN(n) }), nil
}

// known is key's limiter, pinned, or the zero Pinned; and whether there is no place for one more.
func (k *Keyed[K]) known(key K) (p Pinned[K], full bool) {
	hash := k.hash(key)
	sh := k.shardOf(hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if l := sh.find(hash, key); l != nil {
		return Pinned[K]{l, k, hash, key}, false
	}
	return p, sh.table.Len() >= sh.max
}

// Wait is how long it takes until TryAcquireN(key, n) can succeed; see [Weighted]. It makes no limiter: for a key
// without one it is the wait of a new limiter; if there is no room, that of the shared limiter, or Never.
func (k *Keyed[K]) Wait(key K, n int64) time.Duration {
	p, full := k.known(key)
	defer p.Unpin()
	switch {
	case p.Limiter != nil:
		return p.Limiter.Wait(n)
	case k.closed.Load() || full && k.overflow == nil:
		return Never
	case full:
		return k.overflow.Wait(n)
	}
	l, err := k.make(key)
	if err != nil {
		return Never
	}
	defer l.Close() //nolint:errcheck // it is always nil
	return l.Wait(n)
}

// Statistics returns the snapshot of key's limiter; ok is false if there is none.
func (k *Keyed[K]) Statistics(key K) (s Statistics, ok bool) {
	p, _ := k.known(key)
	defer p.Unpin()
	if p.Limiter == nil {
		return s, false
	}
	return p.Limiter.Statistics(), true
}

// Len is the number of keys that have a limiter.
func (k *Keyed[K]) Len() (n int) {
	for i := range k.shards {
		k.shards[i].mu.Lock()
		n += k.shards[i].table.Len()
		k.shards[i].mu.Unlock()
	}
	return n
}

// Remove forgets key, whatever it has used, and reports whether it had a limiter. That limiter is closed: callers that
// wait fail with ErrClosed, and its permits can still be released.
func (k *Keyed[K]) Remove(key K) bool { return k.remove(key, nil) }

// RemoveWhere removes all keys for which match returns true, as [Keyed.Remove] does, and returns their number. match is
// called without a lock. Keys that are added meanwhile may be missed.
func (k *Keyed[K]) RemoveWhere(match func(key K, l Limiter) bool) (removed int) {
	for i := range k.shards {
		var keys []K
		var limiters []Weighted
		k.shards[i].mu.Lock()
		for _, s := range k.shards[i].table.All() {
			keys, limiters = append(keys, s.Key), append(limiters, s.Value.limiter)
		}
		k.shards[i].mu.Unlock()
		for j, key := range keys {
			if match(key, limiters[j]) && k.remove(key, limiters[j]) {
				removed++
			}
		}
	}
	return removed
}

// remove removes key if its limiter is only, or any if that is nil.
func (k *Keyed[K]) remove(key K, only Weighted) bool {
	hash := k.hash(key)
	sh := k.shardOf(hash)
	sh.mu.Lock()
	i := sh.table.Find(hash, key)
	if i < 0 || k.closed.Load() || only != nil && sh.table.At(i).Value.limiter != only {
		sh.mu.Unlock()
		return false
	}
	l := sh.table.At(i).Value.limiter
	sh.table.Remove(i)
	sh.mu.Unlock()
	l.Close() //nolint:errcheck // that of New's may fail, which is no news of the key
	return true
}

// Sweep forgets every key whose limiter is full and unused, and returns their number. It is optional: it frees memory
// earlier than new keys would.
func (k *Keyed[K]) Sweep() (dropped int) {
	for i := range k.shards {
		sh := &k.shards[i]
		sh.mu.Lock()
		for n := 1; n > 0; dropped += n { // again, as what is removed makes others move
			n = sh.table.Sweep(math.MaxInt, false, func(s *keytable.Slot[K, held]) bool { return s.Value.drop() })
		}
		sh.mu.Unlock()
	}
	return dropped
}

// Close closes all limiters; waiting and later calls fail with ErrClosed. It may be called again. Its error joins those
// of closing limiters that New made.
func (k *Keyed[K]) Close() error {
	k.closed.Store(true)
	var errs []error
	for i := range k.shards {
		sh := &k.shards[i]
		sh.mu.Lock()
		for _, s := range sh.table.All() { // they stay in their places: who comes finds them closed
			errs = append(errs, s.Value.limiter.Close())
		}
		sh.mu.Unlock()
	}
	if k.overflow != nil {
		errs = append(errs, k.overflow.Close())
	}
	return errors.Join(errs...)
}

// Pinned is the limiter of a key of a [Keyed] that is not forgotten until Unpin: for callers that use one key very
// often, and for permits that must be released to the limiter that granted them. The zero Pinned has none.
type Pinned[K comparable] struct {
	// Limiter is the key's limiter, or one that keys share; nil in the zero Pinned.
	Limiter Weighted

	from *Keyed[K]
	hash uint64
	key  K
}

// Pin returns the limiter of a key, or makes it; it is not forgotten until Unpin. Errors are ErrTooManyKeys, ErrClosed
// and those of KeyedConfig.New.
func (k *Keyed[K]) Pin(key K) (p Pinned[K], err error) {
	hash := k.hash(key)
	sh := k.shardOf(hash)
	sh.mu.Lock()
	l, err := k.seekLocked(sh, hash, key)
	sh.mu.Unlock()
	if err != nil {
		return p, err
	}
	if l == nil {
		if l, err = k.add(sh, hash, key); err != nil {
			return p, err
		}
	}
	return Pinned[K]{l, k, hash, key}, nil
}

// add makes the limiter of a key, pinned, unless somebody was faster.
func (k *Keyed[K]) add(sh *shard[K], hash uint64, key K) (Weighted, error) {
	made, err := k.make(key)
	if err != nil {
		return nil, fmt.Errorf("make the limiter of key %v: %w", key, err)
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if l, err := k.seekLocked(sh, hash, key); l != nil || err != nil {
		made.Close() //nolint:errcheck // it has never been used
		return l, err
	}
	sh.table.Insert(hash, key, held{limiter: made, pins: 1, touched: true})
	return made, nil
}

// Unpin ends a Pin: the Keyed may forget the limiter again. Call it once for each Pin. For the zero Pinned it does
// nothing.
func (p Pinned[K]) Unpin() {
	if p.from == nil {
		return
	}
	sh := p.from.shardOf(p.hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if i := sh.table.Find(p.hash, p.key); i >= 0 && sh.table.At(i).Value.limiter == p.Limiter { // it may be shared, or removed
		sh.table.At(i).Value.pins--
	}
}
