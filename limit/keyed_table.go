package limit

import "github.com/treadlight/crawl/internal/clock"

// slot is a key and its limiter, if it has one. What is kept about it here spares the
// limiter's memory a visit.
type slot[K comparable] struct {
	hash    uint64
	key     K
	limiter Weighted      // nil if the slot is free
	seen    clock.Instant // the sweep before which it was last touched
	pins    int32         // calls on the way to the limiter
	touched bool          // since the sweep last came by
	_       [8]byte       // with a string for its key, a slot is one cache line
}

// table is a hash table by linear probing. It is not a map because a lookup in a large
// one is nothing but waiting for memory: here the slot is found by one look, and the key
// and the limiter are fetched side by side; and because the sweep can walk in it.
//
// A pointer into it is good until the next insert or remove.
type table[K comparable] struct {
	slots []slot[K] // a power of two
	n     int       // taken, of which there are three quarters at most
}

// find ends at the key or at the first free slot: there always is one.
func (t *table[K]) find(hash uint64, key K) *slot[K] {
	if i := t.index(hash, key); i >= 0 {
		return &t.slots[i]
	}
	return nil
}

// index is where find found it, or below zero.
func (t *table[K]) index(hash uint64, key K) int {
	if t.n == 0 {
		return -1
	}
	mask := uint64(len(t.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		s := &t.slots[i]
		if s.limiter == nil {
			return -1
		}
		if s.hash == hash && s.key == key {
			return int(i)
		}
	}
}

// insert puts a slot in whose key is not there yet.
func (t *table[K]) insert(s slot[K]) {
	if t.n >= len(t.slots)/4*3 {
		t.grow()
	}
	t.n++
	t.put(s)
}

// put puts a slot in where there is a free one, from its home on.
func (t *table[K]) put(s slot[K]) {
	mask := uint64(len(t.slots) - 1)
	i := s.hash & mask
	for t.slots[i].limiter != nil {
		i = (i + 1) & mask
	}
	t.slots[i] = s
}

// grow doubles the table. It never shrinks: the keys that made it large may come again,
// and MaxKeys bounds it.
func (t *table[K]) grow() {
	old := t.slots
	t.slots = make([]slot[K], max(8, 2*len(old)))
	for i := range old {
		if old[i].limiter != nil {
			t.put(old[i])
		}
	}
}

// remove frees the slot at i and moves those behind it up that were pushed past it, so
// that every search still ends at a free slot.
func (t *table[K]) remove(i int) {
	mask := len(t.slots) - 1
	for j := i; ; {
		t.slots[i] = slot[K]{}
		for {
			j = (j + 1) & mask
			if t.slots[j].limiter == nil {
				t.n--
				return
			}
			// The one at j may move to i unless its own place lies between them.
			if home := int(t.slots[j].hash) & mask; (j-home)&mask >= (j-i)&mask {
				break
			}
		}
		t.slots[i], i = t.slots[j], j
	}
}
