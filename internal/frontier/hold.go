package frontier

import (
	"container/heap"
	"time"

	"github.com/treadlight/crawl/internal/ratelimit"
)

// forAll reports whether a limit is one of all hosts together, so that no other host may
// be asked earlier than the one that met it.
func forAll(l ratelimit.Limit) bool {
	return l == ratelimit.LimitGlobal || l == ratelimit.LimitGlobalConcurrency || l == ratelimit.LimitGlobalBytes
}

// hold leaves a host in its place until all hosts may be asked again, and spares the
// others the question: of ten thousand that are due, each would ask at every token, and
// be put behind those who asked after it. Release ends it, since what was waited for may
// be a place among the requests that are out.
func (f *Frontier) hold(h *host, called bool, until time.Time, why ratelimit.Limit) {
	heap.Push(&f.due, h)
	if called {
		f.nextUp = h
	}
	f.held, f.heldBy = until, why
}
