package frontier

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// roll lists the hosts in memory, how much each has to do, and how long it took so far. A host is several cold cache
// lines; the numbers lie in one piece, so that to find the busiest among a hundred thousand
// hosts takes a tenth of a millisecond and nobody who waits for the frontier notices.
type roll struct {
	hosts []*host  // in no order
	work  []uint64 // of each: the URLs queued, and in the lower half the time taken
}

// workOf is what the roll has of a host.
func workOf(h *host) uint64 { return uint64(uint32(h.queued()))<<32 | uint64(h.taken()) }

// tenths is the time since the first lease of all, in tenths of a second: no crawl takes the
// thirteen years that it has room for.
func (f *Frontier) tenths(now time.Time) uint32 {
	if f.since.IsZero() {
		f.since = now
	}
	return uint32(min(max(0, now.Sub(f.since)/(100*time.Millisecond)), math.MaxUint32))
}

// taken is how long a host took, from its first request to the end of its latest, in tenths of
// a second.
func (h *host) taken() uint32 { return max(h.latest, h.first) - h.first }

func (r *roll) add(h *host) {
	h.place = int32(len(r.hosts))
	r.hosts, r.work = append(r.hosts, h), append(r.work, workOf(h))
}

// remove has the last host take the place of the one that goes.
func (r *roll) remove(h *host) {
	last := len(r.hosts) - 1
	r.hosts[h.place], r.work[h.place] = r.hosts[last], r.work[last]
	r.hosts[h.place].place = h.place
	r.hosts[last] = nil
	r.hosts, r.work = r.hosts[:last], r.work[:last]
}

// note takes in that a host's work may have changed.
func (r *roll) note(h *host) { r.work[h.place] = workOf(h) }

// ranked is a place on the roll.
type ranked struct {
	work  uint64
	place int
}

// top are the hosts with the most work, the most first; of those that have as much as the
// last of them, some. It looks at no host.
func (r *roll) top(limit int) []ranked {
	if limit <= 0 {
		return nil
	}
	top := make([]ranked, 0, min(limit, len(r.work))+1)
	for place, work := range r.work {
		if len(top) == limit {
			if work <= top[limit-1].work {
				continue
			}
			top = top[:limit-1]
		}
		at, _ := slices.BinarySearchFunc(top, work, func(a ranked, work uint64) int { return cmp.Compare(work, a.work) })
		top = slices.Insert(top, at, ranked{work, place})
	}
	return top
}

// Hosts lists up to limit hosts: those with the most queued first, then those that took the
// longest, which are what held up a crawl that is over. It looks at those hosts alone, and at a
// number for each of the others.
func (f *Frontier) Hosts(now time.Time, limit int) []HostState {
	top := f.roll.top(limit)
	states := make([]HostState, len(top))
	for i := range top {
		states[i] = f.describe(f.roll.hosts[top[i].place], now)
	}
	slices.SortStableFunc(states, func(a, b HostState) int {
		return cmp.Or(cmp.Compare(b.Queued, a.Queued), cmp.Compare(b.TakenSeconds, a.TakenSeconds), cmp.Compare(b.Pages, a.Pages), cmp.Compare(a.Host, b.Host))
	})
	return states
}
