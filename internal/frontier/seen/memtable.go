package seen

import "slices"

// firstSlots is where a memtable starts, so that a small crawl holds a small one.
const firstSlots = 1024

// memtable is a set of fingerprints by open addressing, at most three quarters full, without
// pointers for the collector to follow. One that is sealed does not change any more, and may
// be read from several goroutines.
type memtable struct {
	slots []uint64 // a power of two of them; zero marks an empty one
	n     int
	zero  bool // whether the fingerprint zero is in the set
	span
}

// newMemtable is empty and covers what comes after a row.
func newMemtable(slots int, after int64) *memtable {
	return &memtable{slots: make([]uint64, max(slots, firstSlots)), span: span{after, after}}
}

// add puts fp, which may not be in the set yet, into it.
func (m *memtable) add(fp uint64, id int64) {
	m.last = id
	m.n++
	if fp == 0 {
		m.zero = true
		return
	}
	if 4*m.n > 3*len(m.slots) {
		m.grow()
	}
	m.slots[m.find(fp)] = fp
}

func (m *memtable) has(fp uint64) bool {
	if fp == 0 {
		return m.zero
	}
	return m.slots[m.find(fp)] == fp
}

// find is the slot of fp, or the empty one where it belongs. Fingerprints are uniform, so
// their low bits are as good a start as any.
func (m *memtable) find(fp uint64) int {
	mask := uint64(len(m.slots) - 1)
	i := fp & mask
	for m.slots[i] != 0 && m.slots[i] != fp {
		i = (i + 1) & mask
	}
	return int(i)
}

func (m *memtable) grow() {
	old := m.slots
	m.slots = make([]uint64, 2*len(old))
	for _, fp := range old {
		if fp != 0 {
			m.slots[m.find(fp)] = fp
		}
	}
}

// sorted is a copy of the fingerprints in ascending order.
func (m *memtable) sorted() []uint64 {
	fps := make([]uint64, 0, m.n)
	if m.zero {
		fps = append(fps, 0)
	}
	for _, fp := range m.slots {
		if fp != 0 {
			fps = append(fps, fp)
		}
	}
	slices.Sort(fps)
	return fps
}

// bytes is the memory it holds.
func (m *memtable) bytes() int64 { return 8 * int64(len(m.slots)) }
