package frontier

import (
	"iter"
	"maps"
	"time"
)

// Walk visits the hosts in memory a few at a time, so that however many there are, no visit
// keeps the frontier's owner for long. A host that comes or goes meanwhile may be seen or
// not; none is seen twice. Every call must come from the frontier's owner, as all that a
// [Frontier] does, and Stop must be called in the end.
type Walk struct {
	f    *Frontier
	next func() (string, *host, bool)
	stop func()
}

// Walk begins a walk, in no order.
func (f *Frontier) Walk() *Walk {
	next, stop := iter.Pull2(maps.All(f.hosts))
	return &Walk{f, next, stop}
}

// Next describes up to n further hosts. Fewer mean that there are no more.
func (w *Walk) Next(now time.Time, n int) []HostState {
	list := make([]HostState, 0, n)
	for len(list) < n {
		_, h, ok := w.next()
		if !ok {
			break
		}
		list = append(list, w.f.describe(h, now))
	}
	return list
}

// Stop ends a walk, which may have ended by itself.
func (w *Walk) Stop() { w.stop() }
