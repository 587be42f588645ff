package frontier

// seenSet is a set of 64-bit fingerprints by open addressing: 8 bytes a slot, at
// most three quarters of the slots used, no pointers for the collector to follow.
// With n URLs the chance that any two share a fingerprint is about n²/2⁶⁵: 3 in
// 1,000,000 at ten million URLs.
type seenSet struct {
	slots []uint64 // a power of two of them; zero marks an empty one
	n     int
	zero  bool   // whether the fingerprint zero is in the set
	read  uint64 // by expect, for it to be no idle reading
}

// expect brings the slot of fp near. A large set is in no cache, and each look at it waits for
// the memory; a processor waits for many slots at a time if nothing is to be done between them.
func (s *seenSet) expect(fp uint64) {
	if len(s.slots) > 0 {
		s.read ^= s.slots[fp&uint64(len(s.slots)-1)]
	}
}

// add puts fp into the set and reports whether it is new.
func (s *seenSet) add(fp uint64) bool {
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

// has reports whether fp is in the set.
func (s *seenSet) has(fp uint64) bool {
	if fp == 0 {
		return s.zero
	}
	return len(s.slots) > 0 && s.slots[s.find(fp)] == fp
}

// find is the slot of fp, or the empty slot where it belongs. Fingerprints are
// uniform, so their low bits are as good a start as any.
func (s *seenSet) find(fp uint64) int {
	mask := uint64(len(s.slots) - 1)
	i := fp & mask
	for s.slots[i] != 0 && s.slots[i] != fp {
		i = (i + 1) & mask
	}
	return int(i)
}

func (s *seenSet) grow() {
	old := s.slots
	s.slots = make([]uint64, max(64, 2*len(old)))
	for _, fp := range old {
		if fp != 0 {
			s.slots[s.find(fp)] = fp
		}
	}
}

func (s *seenSet) len() int {
	if s.zero {
		return s.n + 1
	}
	return s.n
}
