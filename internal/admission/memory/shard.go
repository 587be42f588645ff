package memory

import (
	"hash/maphash"
	"strings"
	"sync"

	"github.com/treadlight/crawl/internal/admission"
)

const (
	// sweepStep is how many slots each new key looks at for one that may be forgotten.
	// With more than one the sweep goes round faster than keys come in.
	sweepStep = 4

	// sweepFull is how many it looks at when there is no place. A key that nobody asks
	// for any more is found after a few tries, and a flood of keys costs each no more
	// than some microseconds.
	sweepFull = 256

	// evictSample is how many it looks at for one that has used less than a new one.
	evictSample = 64

	// keepFor is how long a key stays that may be forgotten, while there is place. It
	// spares one that comes back, as most do within a minute, being made again.
	keepFor = admission.Micros(60e6)

	// usualPlans is for how many plans a decision needs no memory.
	usualPlans = 8
)

// shard is a part of the keys, with its lock.
type shard struct {
	mu       sync.Mutex // guards what follows but max, deny and seed
	table    table
	hand     int       // the slot the sweep has come to
	sketches []*sketch // of keys without a place; none until there are some
	closed   bool
	max      int  // keys
	deny     bool // keys without a place
	seed     maphash.Seed
	_        [64]byte // keeps the locks of two shards out of one cache line
}

// takeLocked is the decision, which it writes to res. It is not ok if the shard is closed
// or has no place for the key.
func (s *shard) takeLocked(hash uint64, key string, plans []admission.Plan, now admission.Micros, n int64, res *admission.Result) bool {
	at := s.table.find(hash, key)
	if at < 0 {
		return s.takeNewLocked(hash, key, plans, now, n, res)
	}
	slot := &s.table.slots[at]
	if first := &slot.first; len(plans) == 1 && first.is(&plans[0]) {
		plans[0].Charge(&first.state, now, n, res)
		if res.Allowed && n > 0 {
			first.until, first.share = until(now, res), shareOf(res)
		}
		return true
	}
	slot.takeAll(plans, now, n, res)
	return true
}

// takeNewLocked decides for a key that is not known. It becomes known only if it is charged.
// It begins with what the sketches have of it: that may be somebody else's, but not less than
// its own.
func (s *shard) takeNewLocked(hash uint64, key string, plans []admission.Plan, now admission.Micros, n int64, res *admission.Result) bool {
	if s.closed {
		return false
	}
	fresh := slot{hash: hash, key: key}
	if len(s.sketches) > 0 {
		s.recallLocked(&fresh, plans, now)
	}
	fresh.takeAll(plans, now, n, res)
	if !res.Allowed || n == 0 {
		return true
	}
	switch {
	case s.makeRoomLocked(now) || !s.deny && s.evictLocked(fresh.weight(now), now):
		fresh.key = strings.Clone(key) // which may be part of a whole header
		s.table.insert(fresh)
	case s.deny:
		return false
	default:
		s.spillLocked(&fresh, now)
	}
	return true
}

// evictLocked takes the key out of the table, of some, that has used the least of its plans, if
// that is less than the share given, and keeps what it has used in the sketches. So those who
// ask often have exact accounts, and a flood of keys is of those who do not.
func (s *shard) evictLocked(share uint16, now admission.Micros) bool {
	mask := len(s.table.slots) - 1
	least, at := share, -1
	for i := range min(evictSample, mask+1) {
		j := (s.hand + i) & mask
		if slot := &s.table.slots[j]; slot.taken() {
			if w := slot.weight(now); w < least {
				least, at = w, j
			}
		}
	}
	if at < 0 {
		return false
	}
	s.spillLocked(&s.table.slots[at], now)
	s.table.remove(at)
	return true
}

// spillLocked keeps what a key has used in the sketches.
func (s *shard) spillLocked(slot *slot, now admission.Micros) {
	s.spillAccountLocked(slot.hash, &slot.first, now)
	for i := range slot.more {
		s.spillAccountLocked(slot.hash, &slot.more[i], now)
	}
}

func (s *shard) spillAccountLocked(hash uint64, a *account, now admission.Micros) {
	if now < a.until {
		s.sketchOf(a.class, now).raise(hash^maphash.String(s.seed, a.plan), a.share)
	}
}

// recallLocked has a new key begin with what the sketches have of it.
func (s *shard) recallLocked(slot *slot, plans []admission.Plan, now admission.Micros) {
	for i := range plans {
		p := &plans[i]
		class := classOf(p)
		used := tokensOf(s.sketchOf(class, now).share(slot.hash^maphash.String(s.seed, p.Name)), p)
		if used == 0 {
			continue
		}
		a := account{plan: p.Name, window: p.Window != 0, class: class, state: p.Fresh(now)}
		var r admission.Result
		p.Charge(&a.state, now, used, &r)
		a.until, a.share = until(now, &r), shareOf(&r)
		slot.set(&a, now)
	}
}

// makeRoomLocked sweeps a little and reports whether there is room for one more key.
func (s *shard) makeRoomLocked(now admission.Micros) bool {
	s.sweepLocked(now-keepFor, sweepStep)
	if s.table.n >= s.max {
		s.sweepLocked(now, sweepFull)
	}
	return s.table.n < s.max
}

// sweepLocked looks at so many slots for keys that might have been forgotten at now.
func (s *shard) sweepLocked(now admission.Micros, slots int) {
	mask := len(s.table.slots) - 1
	for range min(slots, mask+1) {
		s.hand &= mask
		if at := &s.table.slots[s.hand]; at.taken() && at.over(now) {
			s.table.remove(s.hand) // which may move another one here
			continue
		}
		s.hand++
	}
}

func (s *shard) remove(hash uint64, key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.table.find(hash, key)
	if i >= 0 {
		s.table.remove(i)
	}
	return i >= 0
}

func (s *shard) keys() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := make([]string, 0, s.table.n)
	for i := range s.table.slots {
		if at := &s.table.slots[i]; at.taken() {
			keys = append(keys, at.key)
		}
	}
	return keys
}

func (s *shard) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.table.n
}

func (s *shard) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed, s.table, s.hand, s.sketches = true, table{}, 0, nil
}
