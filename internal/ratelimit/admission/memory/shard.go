package memory

import (
	"strings"
	"sync"

	"github.com/treadlight/crawl/internal/ratelimit/admission"
)

const (
	// sweepStep is how many slots each new key looks at for one that may be forgotten.
	// With more than one the sweep goes round faster than keys come in.
	sweepStep = 4

	// sweepFull is how many it looks at when there is no place. A key that nobody asks
	// for any more is found after a few tries, and a flood of keys costs each no more
	// than some microseconds.
	sweepFull = 256

	// keepFor is how long a key stays that may be forgotten, while there is place. It
	// spares one that comes back, as most do within a minute, being made again.
	keepFor = admission.Micros(60e6)

	// usualPlans is for how many plans a decision needs no memory.
	usualPlans = 8
)

// shard is a part of the keys, with its lock.
type shard struct {
	mu     sync.Mutex // guards what follows but max
	table  table
	hand   int // the slot the sweep has come to
	closed bool
	max    int      // keys
	_      [64]byte // keeps the locks of two shards out of one cache line
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
			first.until = until(now, res)
		}
		return true
	}
	slot.takeAll(plans, now, n, res)
	return true
}

// takeNewLocked decides for a key that is not known. It becomes known only if it is charged.
func (s *shard) takeNewLocked(hash uint64, key string, plans []admission.Plan, now admission.Micros, n int64, res *admission.Result) bool {
	if s.closed {
		return false
	}
	fresh := slot{hash: hash, key: key}
	fresh.takeAll(plans, now, n, res)
	if !fresh.taken() {
		return true
	}
	if !s.makeRoomLocked(now) {
		return false
	}
	fresh.key = strings.Clone(key) // which may be part of a whole header
	s.table.insert(fresh)
	return true
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
	s.closed, s.table, s.hand = true, table{}, 0
}
