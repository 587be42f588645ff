//go:build !linux

package render

// memory is not known here: a browser is bounded by the heap of its scripts, and by its pages.
func memory(int) int64 { return 0 }
