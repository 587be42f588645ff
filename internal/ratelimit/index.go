package ratelimit

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
)

// identity stands for a domain's name in an index: two independent hashes of 64 bits.
// The tag is keyed by a secret of the process, so nobody can find two names that
// share both; by chance a million names do with a probability of about 1e-27.
type identity struct{ tag, check uint64 }

func (l *AdaptiveRateLimiter) identify(domain string) identity {
	return identity{l.tagOf(domain), xxhash.Sum64String(domain)}
}

// tagOf has the low bit set, since a tag of zero marks an empty slot. It is the keyed
// one, or somebody could choose names that crowd into a few slots.
func (l *AdaptiveRateLimiter) tagOf(domain string) uint64 { return maphash.String(l.seed, domain) | 1 }

// index finds a shard's states without a lock and with two reads from memory: a slot
// and the state it points to. It stands beside the LRU, which knows their order and
// their names. Only those who hold the shard's lock for writing change it.
type index struct {
	table atomic.Pointer[table]
	used  int // slots whose tag is set, of live and of removed states
	live  int
}

// table is an open-addressing hash table. Tags are only ever set, so that a search
// which began before a removal still ends; what was removed goes when the table is
// copied to a new one.
type table struct{ slots []slot } // a power of two of them

type slot struct {
	tag   atomic.Uint64
	state atomic.Pointer[state] // nil if removed
}

// indexShift drops the bit that every tag has set.
const indexShift = 1

// get finds a state, or nil. It may be called without any lock; the state may then be
// evicted before its own lock is taken, which the caller finds out by state.dead.
func (x *index) get(id identity) *state {
	t := x.table.Load()
	if t == nil {
		return nil
	}
	mask := uint64(len(t.slots) - 1)
	for i := id.tag >> indexShift & mask; ; i = (i + 1) & mask {
		switch sl := &t.slots[i]; sl.tag.Load() {
		case 0:
			return nil
		case id.tag:
			if s := sl.state.Load(); s != nil && s.check == id.check {
				return s
			}
		}
	}
}

// appendAll adds the states to a list. The shard's lock must be held for reading.
func (x *index) appendAll(list []*state) []*state {
	t := x.table.Load()
	if t == nil {
		return list
	}
	for i := range t.slots {
		if s := t.slots[i].state.Load(); s != nil {
			list = append(list, s)
		}
	}
	return list
}

// put adds a state that is not in the index.
func (x *index) put(tag uint64, s *state) {
	t := x.table.Load()
	if t == nil || 4*(x.used+1) > 3*len(t.slots) {
		t = x.rebuild(t)
	}
	t.put(tag, s)
	x.used++
	x.live++
}

func (t *table) put(tag uint64, s *state) {
	mask := uint64(len(t.slots) - 1)
	i := tag >> indexShift & mask
	for t.slots[i].tag.Load() != 0 {
		i = (i + 1) & mask
	}
	// The state first: whoever sees the tag must find it.
	t.slots[i].state.Store(s)
	t.slots[i].tag.Store(tag)
}

// rebuild copies the live states to a table that they fill to a half at most: it lasts
// until as many as are half of them are added, and has 21 to 64 bytes for each.
func (x *index) rebuild(old *table) *table {
	size := 16
	for size < 2*(x.live+1) {
		size *= 2
	}
	t := &table{slots: make([]slot, size)}
	if old != nil {
		for i := range old.slots {
			if s := old.slots[i].state.Load(); s != nil {
				t.put(old.slots[i].tag.Load(), s)
			}
		}
	}
	x.used = x.live
	x.table.Store(t)
	return t
}

// remove takes a state out.
func (x *index) remove(tag uint64, s *state) {
	t := x.table.Load()
	mask := uint64(len(t.slots) - 1)
	for i := tag >> indexShift & mask; t.slots[i].tag.Load() != 0; i = (i + 1) & mask {
		if t.slots[i].state.Load() == s {
			t.slots[i].state.Store(nil)
			x.live--
			return
		}
	}
}

// useOrder keeps a shard's states by their use, the longest unused first, roughly: see shard.
// Its links are in the states, since a list and a map beside them would cost each domain a
// hundred bytes more. The shard's lock guards it, the links included.
type useOrder struct {
	oldest *state // nil while there is none; the newest is the one before it, in a ring
	n      int
}

// add makes s, which is in no order, the newest.
func (o *useOrder) add(s *state) {
	o.n++
	if o.oldest == nil {
		o.oldest, s.newer, s.older = s, s, s
		return
	}
	newest := o.oldest.older
	s.older, s.newer = newest, o.oldest
	newest.newer, o.oldest.older = s, s
}

// renew makes the oldest the newest. There must be one.
func (o *useOrder) renew() { o.oldest = o.oldest.newer }

// remove takes s out, which is in this order.
func (o *useOrder) remove(s *state) {
	if o.n--; o.n == 0 {
		o.oldest, s.newer, s.older = nil, nil, nil
		return
	}
	if o.oldest == s {
		o.oldest = s.newer
	}
	s.older.newer, s.newer.older = s.newer, s.older
	s.newer, s.older = nil, nil
}

// list is all of them, the oldest first.
func (o *useOrder) list() []*state {
	all := make([]*state, 0, o.n)
	for s := o.oldest; len(all) < o.n; s = s.newer {
		all = append(all, s)
	}
	return all
}
