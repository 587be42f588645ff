package limit

import (
	"fmt"
	"sync"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// shard is a part of a Keyed's keys under one lock.
type shard[K comparable] struct {
	mu    sync.Mutex // guards what follows
	table table[K]
	hand  int      // of the sweep, in table.slots
	_     [16]byte // to 64 bytes, so that two shards do not share a cache line
}

// What a new key pays for keeping the number of keys down. Four slots are two or three
// keys, and so the sweep empties the table faster than new keys fill it. At the limit it
// is worth looking further, but not at everything: 256 slots take some ten microseconds,
// which is all that a flood of keys can cost.
const (
	sweepScan = 4
	evictScan = 256
)

// shardOf goes by the upper bits of the hash; the table goes by the lower ones.
func (k *Keyed[K]) shardOf(hash uint64) *shard[K] {
	if len(k.shards) == 1 {
		return &k.shards[0]
	}
	return &k.shards[hash>>k.shift]
}

// find returns key's limiter, pinned, or nil.
func (k *Keyed[K]) find(hash uint64, key K) Weighted {
	sh := k.shardOf(hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.pin(hash, key)
}

// pin is find under the shard's lock.
func (sh *shard[K]) pin(hash uint64, key K) Weighted {
	s := sh.table.find(hash, key)
	if s == nil {
		return nil
	}
	s.pins++
	s.touched = true
	return s.limiter
}

// unpin is for those whom pin or find gave l.
func (k *Keyed[K]) unpin(hash uint64, key K, l Weighted) {
	if l == k.overflow {
		return
	}
	sh := k.shardOf(hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if s := sh.table.find(hash, key); s != nil && s.limiter == l { // or it was removed
		s.pins--
	}
}

// pin returns key's limiter, made if need be, which is not dropped until unpin.
func (k *Keyed[K]) pin(hash uint64, key K) (Weighted, error) {
	if l := k.find(hash, key); l != nil {
		return l, nil
	}
	if k.closed.Load() {
		return nil, k.errClosed()
	}
	if !k.reserve(hash) {
		if k.overflow == nil {
			return nil, &Error{Name: k.set.name, Algorithm: string(k.set.kind), Err: ErrTooManyKeys}
		}
		return k.overflow, nil
	}
	l, err := k.make(key)
	if err != nil {
		k.keys.Add(-1)
		return nil, fmt.Errorf("make the limiter of key %v: %w", key, err)
	}
	return k.insert(hash, key, l)
}

func (k *Keyed[K]) errClosed() error { return fmt.Errorf("acquire %s: %w", k.set.name, ErrClosed) }

// reserve counts a key that is about to come, having dropped another if it must.
func (k *Keyed[K]) reserve(hash uint64) bool {
	home := k.shardOf(hash)
	k.drop(home, sweepScan, false)
	if k.keys.Add(1) <= int64(k.cfg.MaxKeys) {
		return true
	}
	left := evictScan
	for i := 0; i < len(k.shards) && left > 0; i++ {
		// The shards that follow home: those of the hashes that differ in the upper bits.
		sh := k.shardOf(hash + uint64(i)<<k.shift)
		looked, dropped := k.drop(sh, left, true)
		if dropped > 0 {
			return true
		}
		left -= max(1, looked)
	}
	k.keys.Add(-1)
	return false
}

// drop looks at up to scan slots and drops the keys it may: the first, whenever it was
// asked for, or all that are idle.
func (k *Keyed[K]) drop(sh *shard[K], scan int, first bool) (looked, dropped int) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := k.now()
	for scan = min(scan, len(sh.table.slots)); looked < scan; looked++ {
		if sh.hand >= len(sh.table.slots) {
			sh.hand = 0
		}
		idle := sh.table.slots[sh.hand].idle(now) >= k.cfg.IdleAfter
		if !first && !idle || !k.forget(sh, sh.hand) {
			sh.hand++
			continue
		}
		if dropped++; first { // the hand stays: another may have moved into the slot
			break
		}
	}
	return looked, dropped
}

func (k *Keyed[K]) now() clock.Instant { return clock.Instant(k.set.clk.Since(k.set.epoch)) }

// idle is how long the key has not been asked for, at least. That calls leave a mark
// and the sweep tells the time saves them a look at the clock.
func (s *slot[K]) idle(now clock.Instant) time.Duration {
	if s.touched {
		s.touched, s.seen = false, now
	}
	return now.Sub(s.seen)
}

// forget drops the key in slot i, if there is one of which a new limiter would decide
// just what its own does.
func (k *Keyed[K]) forget(sh *shard[K], i int) bool {
	s := &sh.table.slots[i]
	if s.limiter == nil || s.pins > 0 {
		return false
	}
	if st := s.limiter.Statistics(); st.Available < st.Max || st.Queued > 0 || st.InUse > 0 {
		return false
	}
	// Nobody can be about to use it: those on their way have it pinned.
	s.limiter.Close() //nolint:errcheck // nobody is left to be told
	sh.table.remove(i)
	k.keys.Add(-1)
	return true
}

// insert gives key its limiter, unless somebody was faster.
func (k *Keyed[K]) insert(hash uint64, key K, l Weighted) (Weighted, error) {
	sh := k.shardOf(hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	// Close walks the shards after it has set closed, so under this lock either it is seen
	// here, or Close will see what is put in.
	other, closed := sh.pin(hash, key), k.closed.Load()
	if other == nil && !closed {
		sh.table.insert(slot[K]{hash: hash, key: key, limiter: l, pins: 1, touched: true})
		return l, nil
	}
	k.keys.Add(-1)
	l.Close() //nolint:errcheck // it has never been used
	if other == nil {
		return nil, k.errClosed()
	}
	return other, nil
}

// Remove forgets key, whatever it has used, and reports whether it had a limiter. That is
// closed: who waits there fails with ErrClosed, and permits that are out come back to it.
func (k *Keyed[K]) Remove(key K) bool {
	hash := k.hash(key)
	return k.remove(hash, key, nil)
}

// RemoveWhere removes, as [Keyed.Remove] does, all keys of which match is true, and says how
// many. match is called with no lock held; keys that come meanwhile may be missed.
func (k *Keyed[K]) RemoveWhere(match func(key K, l Limiter) bool) int {
	removed := 0
	for i := range k.shards {
		for _, s := range k.shards[i].taken() {
			if match(s.key, s.limiter) && k.remove(s.hash, s.key, s.limiter) {
				removed++
			}
		}
	}
	return removed
}

// remove removes key if its limiter is only, or any if that is nil.
func (k *Keyed[K]) remove(hash uint64, key K, only Weighted) bool {
	sh := k.shardOf(hash)
	sh.mu.Lock()
	i := sh.table.index(hash, key)
	if i < 0 || k.closed.Load() || only != nil && sh.table.slots[i].limiter != only {
		sh.mu.Unlock()
		return false
	}
	l := sh.table.slots[i].limiter
	sh.table.remove(i)
	k.keys.Add(-1)
	sh.mu.Unlock()
	l.Close() //nolint:errcheck // that of New's may fail, which is no news of the key
	return true
}

// taken is the slots in use.
func (sh *shard[K]) taken() []slot[K] {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	all := make([]slot[K], 0, sh.table.n)
	for _, s := range sh.table.slots {
		if s.limiter != nil {
			all = append(all, s)
		}
	}
	return all
}

// close closes all limiters and leaves them in their places: who comes finds them closed.
func (sh *shard[K]) close() (errs []error) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for i := range sh.table.slots {
		if l := sh.table.slots[i].limiter; l != nil {
			errs = append(errs, l.Close())
		}
	}
	return errs
}

// Sweep drops every key whose limiter is full and not in use, and returns how many.
// Nothing needs it; it gives memory back earlier than new keys would.
func (k *Keyed[K]) Sweep() (dropped int) {
	for i := range k.shards {
		dropped += k.sweep(&k.shards[i])
	}
	return dropped
}

// sweep looks at a slot again when it has freed it: another key may have moved in.
func (k *Keyed[K]) sweep(sh *shard[K]) (dropped int) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for i := range sh.table.slots {
		for k.forget(sh, i) {
			dropped++
		}
	}
	return dropped
}

// Pinned is the limiter of a key of a [Keyed], held in its place: for those who come back
// to one key so often that finding it each time would cost more than the limiter, and for
// permits that are to be given back to the limiter they came from. The zero Pinned holds
// nothing.
type Pinned[K comparable] struct {
	// Limiter is the key's; nil in the zero Pinned. It may be one that keys share.
	Limiter Weighted

	from *Keyed[K]
	hash uint64
	key  K
}

// Pin finds or makes the limiter of a key, which is not forgotten until Unpin. Its errors
// are ErrTooManyKeys, ErrClosed and those of KeyedConfig.New.
func (k *Keyed[K]) Pin(key K) (Pinned[K], error) {
	hash := k.hash(key)
	l, err := k.pin(hash, key)
	if err != nil {
		return Pinned[K]{}, err
	}
	return Pinned[K]{l, k, hash, key}, nil
}

// Unpin lets the limiter go, which its Keyed then forgets when that makes no difference.
// It is called once for each Pin; of the zero Pinned it does nothing.
func (p Pinned[K]) Unpin() {
	if p.from != nil {
		p.from.unpin(p.hash, p.key, p.Limiter)
	}
}
