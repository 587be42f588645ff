// Package keytable is a hash table for bounded maps whose keys come from outside. It can be swept, a few slots at a
// time, for entries that may be forgotten.
package keytable

import (
	"hash/maphash"
	"iter"
	"math/bits"
)

// Slot is a place in a [Table]. It is free if Hash is 0.
type Slot[K comparable, V any] struct {
	Hash  uint64
	Key   K
	Value V
}

// Table is a hash table with linear probing. The zero Table is empty. Indices, and pointers to a Slot, are valid until
// the next insert or remove. It is not safe for concurrent use, and never shrinks.
type Table[K comparable, V any] struct {
	slots []Slot[K, V] // the length is a power of two
	n     int          // taken slots, at most three quarters
	hand  int          // the slot that the sweep examines next
}

// Len returns the number of keys.
func (t *Table[K, V]) Len() int { return t.n }

// At returns the slot at an index from [Table.Find] or [Table.All].
func (t *Table[K, V]) At(i int) *Slot[K, V] { return &t.slots[i] }

// Find returns the index of a key, or a negative number if it is not in the table. The hash must not be 0.
func (t *Table[K, V]) Find(hash uint64, key K) int {
	if t.n == 0 {
		return -1
	}
	mask := uint64(len(t.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		s := &t.slots[i]
		if s.Hash == hash && s.Key == key {
			return int(i)
		}
		if s.Hash == 0 {
			return -1
		}
	}
}

// Insert adds a key, which must not be in the table.
func (t *Table[K, V]) Insert(hash uint64, key K, value V) {
	if t.n >= len(t.slots)/4*3 {
		old := t.slots
		t.slots = make([]Slot[K, V], max(8, 2*len(old)))
		for i := range old {
			if old[i].Hash != 0 {
				t.put(old[i])
			}
		}
	}
	t.n++
	t.put(Slot[K, V]{hash, key, value})
}

func (t *Table[K, V]) put(s Slot[K, V]) {
	mask := uint64(len(t.slots) - 1)
	i := s.Hash & mask
	for t.slots[i].Hash != 0 {
		i = (i + 1) & mask
	}
	t.slots[i] = s
}

// Remove frees the slot at i. It moves following entries up that were pushed past it by collisions, so that every
// search still ends at a free slot.
func (t *Table[K, V]) Remove(i int) {
	mask := len(t.slots) - 1
	for j := i; ; {
		t.slots[i] = Slot[K, V]{}
		for {
			j = (j + 1) & mask
			if t.slots[j].Hash == 0 {
				t.n--
				return
			}
			// The entry at j may move to i unless its home slot lies between them.
			if home := int(t.slots[j].Hash) & mask; (j-home)&mask >= (j-i)&mask {
				break
			}
		}
		t.slots[i], i = t.slots[j], j
	}
}

// All yields the taken slots with their indices.
func (t *Table[K, V]) All() iter.Seq2[int, *Slot[K, V]] {
	return t.Ahead(len(t.slots))
}

// Ahead yields the taken slots among the next n that the sweep will examine.
func (t *Table[K, V]) Ahead(n int) iter.Seq2[int, *Slot[K, V]] {
	return func(yield func(int, *Slot[K, V]) bool) {
		mask := len(t.slots) - 1
		for i := range min(n, len(t.slots)) {
			at := (t.hand + i) & mask
			if s := &t.slots[at]; s.Hash != 0 && !yield(at, s) {
				return
			}
		}
	}
}

// Sweep examines the next n slots, beginning where it ended before, and removes those for which over returns true, or
// only the first of them. It returns how many it removed.
func (t *Table[K, V]) Sweep(n int, first bool, over func(*Slot[K, V]) bool) (removed int) {
	for n = min(n, len(t.slots)); n > 0; n-- {
		t.hand &= len(t.slots) - 1
		if s := &t.slots[t.hand]; s.Hash == 0 || !over(s) {
			t.hand++
			continue
		}
		t.Remove(t.hand) // Remove may move another entry to this slot
		if removed++; first {
			break
		}
	}
	return removed
}

const (
	// maxShards is so many that processors rarely meet at the same shard, and keysPerShard so few that a further shard
	// would not pay.
	maxShards    = 256
	keysPerShard = 256
)

// Shards returns into how many parts, a power of two, a table for that many keys is divided, and by how much a hash is
// shifted right to get the index of its part.
func Shards(keys int) (n int, shift uint) {
	width := max(0, bits.Len(uint(min(maxShards, keys/keysPerShard)))-1)
	return 1 << width, uint(64 - width)
}

// Hasher returns the runtime's hash function with a seed of its own, so that strangers cannot choose where their keys
// are stored. The hash is never 0.
func Hasher[K comparable]() func(K) uint64 {
	seed := maphash.MakeSeed()
	if h, ok := any(func(key string) uint64 { return max(1, maphash.String(seed, key)) }).(func(K) uint64); ok {
		return h
	}
	return func(key K) uint64 { return max(1, maphash.Comparable(seed, key)) }
}
