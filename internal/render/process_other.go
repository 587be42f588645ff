//go:build !linux

package render

// memory returns zero, as memory is not measured here. A browser is bounded by the heap of its scripts and by its
// number of pages.
func memory(int) int64 { return 0 }
