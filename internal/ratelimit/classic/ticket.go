package classic

import "sync/atomic"

// ticket is the release of n permits that works once; every further call is reported.
func ticket(n int64, release func(n int64, ticket bool), over func(n int64)) func() {
	var used atomic.Bool
	return func() {
		if used.Swap(true) {
			over(n)
			return
		}
		release(n, true)
	}
}
