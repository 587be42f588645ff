package frontier

import (
	"cmp"
	"container/heap"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl/internal/frontier/attribution"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/web/canonical"
)

// nameOf returns the name under which the limiter paces a URL's host; http://a.test:443 and https://a.test have the
// same.
func nameOf(u canonical.URL) string { return ratelimit.Domain(u.Host()) }

type roster struct {
	exclusions

	cfg    Config
	hosts  map[string]*host // at most MaxHosts
	idle   []*host          // hosts without work, oldest first; entries may be out of date
	since  time.Time        // time of the first lease; zero before it
	counts counts
	bytes  int // of the URLs queued in memory

	// roll lists the hosts again, in no order; work holds for each the URLs queued and the time taken, in one piece of
	// memory, so that finding the busiest of a hundred thousand hosts takes 0.1 ms.
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
	h.excluded = r.excludes(name)
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

// note records that the work or the time of a host has changed.
func (r *roster) note(h *host) {
	r.work[h.place] = workOf(h)
	if !h.busy() && !h.idle {
		h.idle = true
		r.idle = append(r.idle, h)
	}
}

// idleFrom returns the instant at which the host that has been without work the longest will have been so for a while.
// Zero means that there is no such host.
func (r *roster) idleFrom(while time.Duration) time.Time {
	if len(r.idle) == 0 {
		return time.Time{}
	}
	return r.since.Add(time.Duration(r.idle[0].latest) * tenth).Add(while)
}

// unidle removes the host that has been without work the longest from idle and returns it. It returns nil if the host
// has work again or is no longer in memory.
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

// queue counts an item that joins (n = 1) or leaves (n = -1) a queue in memory.
func (r *roster) queue(it *Item, n int) {
	r.counts.queued.Add(int64(n))
	r.bytes += n * it.size()
}

const tenth = 100 * time.Millisecond

// tenths returns the time since the first lease in tenths of a second; a uint32 has room for thirteen years.
func (r *roster) tenths(now time.Time) uint32 {
	if r.since.IsZero() {
		r.since = now
	}
	return uint32(min(max(0, now.Sub(r.since)/tenth), math.MaxUint32))
}

// workOf returns the number of queued URLs of a host in the upper half and the time taken in the lower half.
func workOf(h *host) uint64 { return uint64(uint32(h.queued()))<<32 | uint64(h.taken()) }

// taken returns the time from the host's first request to the end of its latest, in tenths of a second.
func (h *host) taken() uint32 { return max(h.latest, h.first) - h.first }

type ranked struct {
	work  uint64
	place int
}

// top lists the limit hosts with the most work, in descending order.
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

// host is the queue of one host and its place in the schedule. The fields that scheduling reads come first, for the CPU
// cache.
type host struct {
	name string
	turn
	slotTimes
	slotUse

	queue   priorityQueue
	over    *overflow // nil if all URLs of the host are in memory
	retries *retries  // nil if the host never had any
	history attribution.Host
	out     []*Lease // leases whose requests are not over, oldest first
	lease   int64    // of a shared store: the lease by which this process holds the host
	tenure  *Tenure  // of a shared store: how long this process holds the host
	open    int32    // leases that have not ended
	place   int32    // index in roll and work
	pageCounts
	idle     bool // is in roster.idle
	excluded bool // the operator has stopped requests to it
	leaving  bool // is to be given back
	parted   bool // was given back or lost: another process may hold it
	manyTold bool // the pacer knows that at least manyQueued URLs wait
	foreign  bool // is in memory for a robots.txt alone: URLs of it may be inactive in the store
}

type turn struct {
	at      time.Time // the host's key in the schedule; the exact instant is computed when the host comes up
	order   uint64    // breaks ties: first come, first served
	index   int32     // index in the schedule; -1 when not in it
	why     ratelimit.Limit
	kept    uint8     // number of pauses since the last request that was made, because there was no place for one
	reason  string    // the gate's reason, if the host waits for the gate
	keptTil time.Time // the pause ends then
}

type slotTimes struct {
	service  time.Duration // smoothed time that a lease holds its slot
	first    uint32        // when its first slot was taken, as roster.tenths
	latest   uint32        // when its latest slot was freed, likewise
	answered bool          // has freed a slot after a request at least once
	proven   bool          // has answered a request other than for robots.txt
	late     bool          // the latest request, or one in flight, waited for its first byte for longer than SlowAfter
}

type slotUse struct {
	handed  atomic.Int32 // leases whose holder has not requested its permit yet
	slots   int32        // how many leases it may have in flight, once it is proven
	holding int32        // leases that hold one of Config.Slots
	class   hostClass    // the class in which its slots are counted
	quick   bool         // is counted in sharing.quick
	inLine  bool         // waits in sharing.lines for a slot
}

type pageCounts struct {
	known int32 // pages ever accepted, for MaxPagesPerHost
	pages int32 // those of them that are visited or were leased
	asked int32 // URLs leased, retries not counted
}

func (h *host) queued() int { return h.fresh() + h.retries.len() }

// fresh returns how many of the queued URLs have not been requested yet.
func (h *host) fresh() int {
	if h.over == nil {
		return h.queue.len()
	}
	return h.queue.len() + h.over.urls
}

// busy reports whether the host must stay in memory. A slot may be freed after its URL is done.
func (h *host) busy() bool { return h.queued() > 0 || h.open > 0 || len(h.out) > 0 }

func (h *host) free(l *Lease) {
	if i := slices.Index(h.out, l); i >= 0 {
		h.out = slices.Delete(h.out, i, i+1)
	}
}

// full reports whether the host has as many requests in flight as it may. Until it is proven it may have one.
func (h *host) full() bool {
	return len(h.out) >= int(h.slots) || len(h.out) > 0 && !h.proven
}

// held records how long a lease held its slot, in a moving average of weight 0.3.
func (h *host) held(d time.Duration) {
	if !h.answered {
		h.answered, h.service = true, d
		return
	}
	h.service += (d - h.service) * 3 / 10
}

// due returns the heap that has the retry to lease next, or nil if no retry is to go now. If fresh URLs are in memory,
// a failed URL goes only once the host has answered another URL since, and other retries only while the host is not
// failing.
func (h *host) due(now time.Time) *laterHeap {
	r, fresh := h.retries, h.queue.len() > 0
	switch {
	case r == nil:
		return nil
	case r.later.isDue(now) && (!fresh || !h.history.Failing() || r.robots()):
		return &r.later
	case r.failed.isDue(now) && (!fresh || h.history.RetryNow(&r.failed[0].Tries)):
		return &r.failed
	}
	return nil
}

// peek returns the item to lease next, or nil if nothing is due at now.
func (h *host) peek(now time.Time) *Item {
	if due := h.due(now); due != nil {
		return &(*due)[0].Item
	}
	if h.queue.len() == 0 {
		return nil
	}
	return h.queue.front()
}

func (h *host) pop(now time.Time) Item {
	if due := h.due(now); due != nil {
		return heap.Pop(due).(delayed).Item
	}
	return h.queue.pop()
}

// schedule is a [heap.Interface] of hosts, ordered by the instant at which they come up.
type schedule []*host

func (s schedule) Len() int { return len(s) }
func (s schedule) Less(i, j int) bool {
	if !s[i].at.Equal(s[j].at) {
		return s[i].at.Before(s[j].at)
	}
	return s[i].order < s[j].order
}

func (s schedule) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].index, s[j].index = int32(i), int32(j)
}

func (s *schedule) Push(x any) {
	h := x.(*host)
	h.index = int32(len(*s))
	*s = append(*s, h)
}

func (s *schedule) Pop() any {
	old := *s
	h := old[len(old)-1]
	old[len(old)-1] = nil
	*s = old[:len(old)-1]
	h.index = -1
	return h
}

func maxTime(a, b time.Time) time.Time {
	return slices.MaxFunc([]time.Time{a, b}, time.Time.Compare)
}
