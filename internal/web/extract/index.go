package extract

import "math"

// index finds a position by a 64-bit hash. It is a hash table without the keys: with
// 10,000 links on a page, two of them share a seeded 64-bit hash once in 10^11 pages,
// and what is lost then is one link.
type index struct {
	slots []slot // a power of two of them, at most half full
	used  int
	round uint32 // of the slots that are taken; never 0 once there are slots
}

type slot struct {
	hash  uint64
	at    int32
	round uint32 // in which it was taken: in another one it is free
}

const (
	minSlots = 512  // 8 KB, for up to 256 links: most pages
	maxSlots = 4096 // kept from page to page: 64 KB, which few pages need
)

// reset empties the index: a new round begins, and no slot is of it. To clear them all for
// each page costs as much as to look for its links.
func (x *index) reset() {
	if len(x.slots) == 0 || len(x.slots) > maxSlots || x.round == math.MaxUint32 {
		*x = index{slots: make([]slot, minSlots)}
	}
	x.used = 0
	x.round++
}

// find returns the position stored under hash, or -1 and the slot to store it in,
// which is valid until the next call of set.
func (x *index) find(hash uint64) (free *slot, at int) {
	mask := uint64(len(x.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		s := &x.slots[i]
		if s.round != x.round {
			s.hash = hash // harmless while it is free
			return s, -1
		}
		if s.hash == hash {
			return s, int(s.at)
		}
	}
}

// set stores a position in the slot that find returned.
func (x *index) set(s *slot, at int) {
	s.at, s.round = int32(at), x.round
	if x.used++; 2*x.used >= len(x.slots) {
		x.grow()
	}
}

// grow doubles the table, so that a search looks at two slots on average.
func (x *index) grow() {
	old := x.slots
	x.slots = make([]slot, 2*len(old))
	for _, s := range old {
		if s.round == x.round {
			free, _ := x.find(s.hash)
			free.at, free.round = s.at, s.round
		}
	}
}
