package limit

import (
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// forecast plays the line through on a copy of the state: everyone in it is served as
// soon as it can be, one after the other. Those who give up later only make it better.
type forecast struct {
	alg  algorithm
	from clock.Instant
	at   time.Duration // after from: when the last of the line was served, or Never
}

// forecastLocked leaves out skip, whom the caller plays through himself.
func (c *core) forecastLocked(skip *waiter) forecast {
	f := forecast{alg: c.alg.clone(), from: c.last}
	for w := range c.line.all() {
		if w != skip {
			f.serve(f.wait(w.n), w.n)
		}
	}
	return f
}

// wait is how long after from there is room for n.
func (f *forecast) wait(n int64) time.Duration {
	if f.at == Never {
		return Never
	}
	at := f.from.Add(f.at)
	if at < f.from { // past the end of time
		return Never
	}
	return addWaits(f.at, f.alg.wait(at, n))
}

// serve grants n at the wait that was found for it, or later.
func (f *forecast) serve(at time.Duration, n int64) {
	if f.at = at; at == Never || f.from.Add(at) < f.from {
		f.at = Never
		return
	}
	f.alg.take(f.from.Add(at), n)
}
