package memory

// table is a hash table by linear probing. It is not a map because what a decision needs
// then lies beside the key, in one look, and because the sweep can walk in it.
//
// An index into it is good until the next insert or remove.
type table struct {
	slots []slot // a power of two
	n     int    // taken, of which there are three quarters at most
}

// find is the index of the key's slot, or -1.
func (t *table) find(hash uint64, key string) int {
	if t.n == 0 {
		return -1
	}
	mask := uint64(len(t.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		s := &t.slots[i]
		if s.hash == hash && s.key == key && s.taken() {
			return int(i)
		}
		if !s.taken() {
			return -1
		}
	}
}

// insert puts a slot in whose key is not there yet.
func (t *table) insert(s slot) {
	if t.n >= len(t.slots)/4*3 {
		t.grow()
	}
	t.n++
	t.put(s)
}

func (t *table) put(s slot) {
	mask := uint64(len(t.slots) - 1)
	i := s.hash & mask
	for t.slots[i].taken() {
		i = (i + 1) & mask
	}
	t.slots[i] = s
}

func (t *table) grow() {
	old := t.slots
	t.slots = make([]slot, max(8, 2*len(old)))
	for i := range old {
		if old[i].taken() {
			t.put(old[i])
		}
	}
}

// remove frees the slot at i and moves those behind it up that were pushed past it, so
// that every search still ends at a free slot.
func (t *table) remove(i int) {
	mask := len(t.slots) - 1
	for j := i; ; {
		t.slots[i] = slot{}
		for {
			j = (j + 1) & mask
			if !t.slots[j].taken() {
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
