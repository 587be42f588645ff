package seen

import (
	"math/bits"
	"slices"
)

// Set is a set of fingerprints in memory, by open addressing: 8 bytes a slot, at most three quarters of the slots used,
// and no pointers for the garbage collector to follow. The zero Set is empty. It is not safe for concurrent use.
type Set struct {
	slots []uint64 // a power of two of them; zero marks an empty one
	n     int
	zero  bool   // whether the fingerprint zero is in the set
	read  uint64 // written by Expect, so that the compiler cannot drop its read
}

// firstSlots is the number of slots of the smallest set, so that a small crawl holds a small one.
const firstSlots = 64

// Expect brings the slot of fp into the CPU cache, for a lookup soon. The slots of a large set are in no cache, but a
// processor can wait for many of them at a time if no other work lies between the reads.
func (s *Set) Expect(fp uint64) {
	if len(s.slots) > 0 {
		s.read ^= s.slots[fp&uint64(len(s.slots)-1)]
	}
}

// Add puts fp into the set and reports whether it is new.
func (s *Set) Add(fp uint64) bool {
	if fp == 0 {
		added := !s.zero
		s.zero = true
		return added
	}
	if 4*(s.n+1) > 3*len(s.slots) {
		s.grow()
	}
	i := s.find(fp)
	if s.slots[i] == fp {
		return false
	}
	s.slots[i] = fp
	s.n++
	return true
}

// Has reports whether fp is in the set.
func (s *Set) Has(fp uint64) bool {
	if fp == 0 {
		return s.zero
	}
	return len(s.slots) > 0 && s.slots[s.find(fp)] == fp
}

// Len returns the number of fingerprints.
func (s *Set) Len() int {
	if s.zero {
		return s.n + 1
	}
	return s.n
}

// find returns the index of the slot that holds fp, or of the empty slot where it belongs. Fingerprints are uniformly
// distributed, so their low bits are as good a start as any.
func (s *Set) find(fp uint64) int {
	mask := uint64(len(s.slots) - 1)
	i := fp & mask
	for s.slots[i] != 0 && s.slots[i] != fp {
		i = (i + 1) & mask
	}
	return int(i)
}

func (s *Set) grow() {
	old := s.slots
	s.slots = make([]uint64, max(firstSlots, 2*len(old)))
	for _, fp := range old {
		if fp != 0 {
			s.slots[s.find(fp)] = fp
		}
	}
}

func (s *Set) sorted() []uint64 {
	fps := make([]uint64, 0, s.Len())
	if s.zero {
		fps = append(fps, 0)
	}
	for _, fp := range s.slots {
		if fp != 0 {
			fps = append(fps, fp)
		}
	}
	slices.Sort(fps)
	return fps
}

func (s *Set) bytes() int64 { return 8 * int64(len(s.slots)) }

const (
	// bitsPerFP gives a filter a false positive rate of one in 240. A lower rate would not show: the reads for
	// fingerprints that are in the run prevail.
	bitsPerFP = 12
	// lineWords is the number of words of the part of a filter that one fingerprint touches, which is one cache line
	// (Putze, Sanders, Singler 2007). One bit is set in each word; these 8 bits come next to the best number, 12·ln 2.
	lineWords = 8
	// golden is 2⁶⁴ divided by the golden ratio (Knuth, TAOCP 3, 6.4).
	golden = 0x9e3779b97f4a7c15
)

type bloom []uint64

// bloomWords returns the number of words of the filter for n fingerprints.
func bloomWords(n int64) int64 { return lineWords * (n*bitsPerFP/(64*lineWords) + 1) }

// line returns the cache line for fp, and a number whose lower 48 bits select one bit of each word. Lines are in the
// order of the fingerprints, so that a sorted run fills them one after the other.
func (b bloom) line(fp uint64) (*[lineWords]uint64, uint64) {
	i, _ := bits.Mul64(fp, uint64(len(b)/lineWords))
	return (*[lineWords]uint64)(b[i*lineWords:]), fp * golden >> 16
}

func (b bloom) add(fp uint64) {
	line, h := b.line(fp)
	for i := range line {
		line[i] |= 1 << (h & 63)
		h >>= 6
	}
}

// has reports whether fp may be in the run; if it returns false, fp is not. It looks at all eight words, since a branch
// after each would be mispredicted every other time.
func (b bloom) has(fp uint64) bool {
	line, h := b.line(fp)
	all := uint64(1)
	for _, word := range line {
		all &= word >> (h & 63)
		h >>= 6
	}
	return all == 1
}
