package frontier

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/web/canonical"
)

// nameOf is the name under which the limiter paces a URL's host: http://a.test:443 is https://a.test.
func nameOf(u canonical.URL) string { return ratelimit.Domain(u.Host()) }

// roster is the hosts in memory, and how much they have.
type roster struct {
	cfg      Config
	hosts    map[string]*host    // at most MaxHosts
	excluded map[string]struct{} // hosts of which nothing is to be asked: at most maxExcluded
	idle     []*host             // hosts without work, oldest first; entries may be out of date
	since    time.Time           // of the first lease; zero before
	counts   counts
	bytes    int // of the URLs queued in memory

	// The hosts once more, in no order, in one piece of memory with the work and time taken of each, so that finding
	// the busiest of a hundred thousand takes 0.1 ms.
	roll []*host
	work []uint64
}

func (r *roster) adopt(name string) *host {
	n := r.cfg.PerHost
	if r.cfg.InFlight != nil {
		if own := r.cfg.InFlight(name); own > 0 {
			n = min(n, own)
		}
	}
	h := &host{name: name, turn: turn{index: -1}, slotUse: slotUse{slots: int32(n)}, place: int32(len(r.roll))}
	_, h.excluded = r.excluded[name]
	r.hosts[name] = h
	r.roll, r.work = append(r.roll, h), append(r.work, workOf(h))
	r.counts.hosts.Store(int64(len(r.hosts)))
	return h
}

func (r *roster) drop(h *host) {
	last := len(r.roll) - 1
	r.roll[h.place], r.work[h.place] = r.roll[last], r.work[last]
	r.roll[h.place].place = h.place
	r.roll[last] = nil
	r.roll, r.work = r.roll[:last], r.work[:last]
	delete(r.hosts, h.name)
	r.counts.hosts.Store(int64(len(r.hosts)))
}

// note takes in that the work or the time of a host has changed.
func (r *roster) note(h *host) {
	r.work[h.place] = workOf(h)
	if !h.busy() && !h.idle {
		h.idle = true
		r.idle = append(r.idle, h)
	}
}

// idleFrom is from when on the host that has been without work the longest has been so for a while; zero: there is
// none.
func (r *roster) idleFrom(while time.Duration) time.Time {
	if len(r.idle) == 0 {
		return time.Time{}
	}
	return r.since.Add(time.Duration(r.idle[0].latest) * tenth).Add(while)
}

// unidle takes that host out of idle. Nil: it has work again, or is not here any more.
func (r *roster) unidle() *host {
	h := r.idle[0]
	r.idle[0] = nil
	r.idle = r.idle[1:]
	h.idle = false
	if h.busy() || r.hosts[h.name] != h {
		return nil
	}
	return h
}

// queue counts an item that joins (1) or leaves (-1) a queue in memory.
func (r *roster) queue(it *Item, n int) {
	r.counts.queued.Add(int64(n))
	r.bytes += n * len(it.URL.String())
}

const tenth = 100 * time.Millisecond

// tenths is the time since the first lease, in tenths of a second; it has room for thirteen years.
func (r *roster) tenths(now time.Time) uint32 {
	if r.since.IsZero() {
		r.since = now
	}
	return uint32(min(max(0, now.Sub(r.since)/tenth), math.MaxUint32))
}

// workOf is the URLs queued of a host, and in the lower half the time taken.
func workOf(h *host) uint64 { return uint64(uint32(h.queued()))<<32 | uint64(h.taken()) }

// taken is how long a host took, from its first request to the end of its latest, in tenths of a second.
func (h *host) taken() uint32 { return max(h.latest, h.first) - h.first }

type ranked struct {
	work  uint64
	place int
}

// top lists the hosts with the most work, the most first.
func (r *roster) top(limit int) []ranked {
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
