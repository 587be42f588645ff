package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// heapRoom is how much garbage there may be at least before it is collected. Go lets a heap
// double, which is right for a large one; the ten megabytes of a small crawl are gone through
// several times a second. A heap that is larger than this doubles as always.
const heapRoom = 32 << 20

// leastHeap is what Go lets grow by its percentage where less is in use.
const leastHeap = 4 << 20

// giveRoom has the garbage collector wait for heapRoom, and reports whether it does: what the
// user says of the heap in GOGC stands. GOMEMLIMIT bounds this too, as it bounds everything.
func giveRoom(lookup func(string) (string, bool)) bool {
	if _, set := lookup("GOGC"); set {
		return false
	}
	debug.SetGCPercent(gcPercent(leastHeap))
	onceCollected()
	return true
}

// onceCollected adapts the percentage to what the next collection leaves, and so on for ever.
func onceCollected() {
	type unheld struct{ _ *unheld } // a pointer: what has none may share its memory with what lives
	runtime.AddCleanup(new(unheld), func(struct{}) {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		debug.SetGCPercent(gcPercent(live[0].Value.Uint64()))
		onceCollected()
	}, struct{}{})
}

// gcPercent is by how many hundredths of it a heap may grow of which so many bytes are in use.
func gcPercent(live uint64) int {
	return int(max(100, 100*heapRoom/max(live, leastHeap)))
}
