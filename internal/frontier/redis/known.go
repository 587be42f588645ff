package redis

import "sync/atomic"

// known are fingerprints of URLs that are surely in the store: a table of which each place
// keeps the fingerprint that came last. What it has forgotten costs a trip.
type known struct{ slots []atomic.Uint64 }

func newKnown(n int) known {
	size := 1
	for size < n {
		size *= 2
	}
	return known{make([]atomic.Uint64, size)}
}

func (k *known) at(fp uint64) *atomic.Uint64 { return &k.slots[fp&uint64(len(k.slots)-1)] }

// has reports whether fp is known. Zero never is.
func (k *known) has(fp uint64) bool { return fp != 0 && k.at(fp).Load() == fp }

func (k *known) add(fp uint64) { k.at(fp).Store(fp) }

// forget takes a fingerprint out whose URL is not in the store.
func (k *known) forget(fp uint64) { k.at(fp).CompareAndSwap(fp, 0) }

// clear takes all out.
func (k *known) clear() {
	for i := range k.slots {
		k.slots[i].Store(0)
	}
}
