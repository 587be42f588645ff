package frontier

import (
	"container/heap"
	"time"

	"github.com/treadlight/crawl/internal/ratelimit"
)

// A host that refuses to be asked for a day would keep its place in memory for a day, and
// those that are inactive behind it would wait as long, though they refuse nothing. So it
// gives its place to one of them: all its URLs are in the store, and what it has ordered is
// the pacer's to remember. It is inactive then like any other, and comes up when it is its
// turn; until when it refuses is noted here, so that nobody makes room for it before.

const (
	// deactivateFrom is the shortest wait for which a host gives its place away: to take in another
	// costs some commits, and to take it in again as many.
	deactivateFrom = time.Minute
	// deactivateEvery is how often hosts are looked through for those that may. Among a million
	// that is a tenth of a second's work.
	deactivateEvery = 10 * time.Second
	// maxResting bounds what is noted of inactive hosts, at some 30 MB. When so many refuse,
	// there are no more exchanges until some of them have been activated.
	maxResting = 1 << 18
)

// rest is what is known of an inactive host that refuses to be asked.
type rest struct {
	until   time.Time
	queued  int64
	ordered bool // see Blockage
}

// resting are the inactive hosts of which it is known that they refuse to be asked.
type resting struct {
	hosts     map[string]rest
	queued    int64     // URLs of them
	unordered int       // hosts that are not ordered
	first     time.Time // none of them may be asked before; zero if there are none
	next      time.Time // no exchange before
	stuck     bool      // all hosts in memory refuse, and so any of them may give way
}

func newResting() resting { return resting{hosts: make(map[string]rest)} }

func (r *resting) add(name string, host rest) {
	r.hosts[name] = host
	r.queued += host.queued
	if !host.ordered {
		r.unordered++
	}
	if r.first.IsZero() || host.until.Before(r.first) {
		r.first = host.until
	}
}

// found counts a URL that was put, if its host rests.
func (r *resting) found(name string) {
	if host, ok := r.hosts[name]; ok {
		host.queued++
		r.hosts[name] = host
		r.queued++
	}
}

// remove takes out a host that is activated.
func (r *resting) remove(name string) {
	host, ok := r.hosts[name]
	if !ok {
		return
	}
	delete(r.hosts, name)
	r.queued -= host.queued
	if !host.ordered {
		r.unordered--
	}
}

// over reports whether one of them may be asked again.
func (r *resting) over(now time.Time) bool {
	if r.first.IsZero() || now.Before(r.first) {
		return false
	}
	r.first = time.Time{} // it may have been of one that was activated since
	for _, host := range r.hosts {
		if r.first.IsZero() || host.until.Before(r.first) {
			r.first = host.until
		}
	}
	return !r.first.IsZero() && !now.Before(r.first)
}

// exchange has hosts give their places away if others want them.
func (f *Frontier) exchange(now time.Time) {
	v := f.stored
	r := &v.resting
	if now.Before(r.next) || v.inactive == r.queued && !r.over(now) || len(r.hosts) >= maxResting {
		return
	}
	r.next = now.Add(deactivateEvery)
	least := now.Add(deactivateFrom)
	if r.stuck {
		least = now.Add(1)
	}
	var going []*host
	for i := len(f.due) - 1; i >= 0 && len(going) < activateMost; i-- { // the later ones are at the end
		if h := f.due[i]; h != f.nextUp && !h.at.Before(least) && h.mayDeactivate(r.stuck) {
			going = append(going, h)
		}
	}
	r.stuck = false
	for _, h := range going {
		f.deactivate(h)
	}
}

// mayDeactivate reports whether a host of the schedule refuses to be asked and has nothing that
// the store does not know. A URL's time for another try is such a thing, unless the host is
// one of many that refuse.
func (h *host) mayDeactivate(stuck bool) bool {
	byOrder := h.why != ratelimit.LimitNone || h.reason != "" && h.reason != retrying // of the pacer or the gate
	return h.blocked() && (stuck || byOrder) && h.open == 0 && len(h.out) == 0 && !h.foreign &&
		(h.over == nil || !h.over.loading) && !h.retries.robots()
}

// deactivate moves a host out of memory.
func (f *Frontier) deactivate(h *host) {
	v, n := f.stored, int64(h.queued())
	heap.Remove(&f.due, int(h.index))
	for h.queue.len() > 0 {
		it := h.queue.pop()
		f.bytes -= len(it.URL.String())
	}
	h.retries.all(func(it *Item) {
		v.Spent(it)
		delete(v.away, it.ID)
		f.bytes -= len(it.URL.String())
	})
	if h.quick {
		f.quick--
	}
	f.drop(h)
	v.inactive += n
	v.resting.add(h.name, rest{h.at, n, h.ordered()})
	v.Deactivate(h.name, time.Time{})
}

// sooner is the instant to look again for room, if there is one before wake.
func (f *Frontier) sooner(wake time.Time) time.Time {
	v := f.stored
	if v == nil || v.inactive == 0 || v.activating || len(v.resting.hosts) >= maxResting {
		return wake
	}
	at := v.resting.next
	if v.inactive == v.resting.queued {
		at = maxTime(at, v.resting.first)
	}
	if wake.IsZero() || at.Before(wake) {
		return at
	}
	return wake
}
