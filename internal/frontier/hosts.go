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

// nameOf is the name under which the limiter paces a URL's host: http://a.test:443 is https://a.test.
func nameOf(u canonical.URL) string { return ratelimit.Domain(u.Host()) }

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
	r.bytes += n * it.size()
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

// host is the queue of one host and its place in the schedule. Fields that scheduling reads come first, for the CPU
// cache.
type host struct {
	name string
	turn
	slotTimes
	slotUse

	queue   priorityQueue
	over    *overflow // nil for a host all of whose URLs are in memory
	retries *retries  // nil for a host that never had any
	history attribution.Host
	out     []*Lease // its leases that hold a slot, oldest first
	lease   int64    // by which it is this process's, of a shared store
	tenure  *Tenure  // likewise, and until when
	open    int32    // its leases not yet acknowledged
	place   int32    // on the roll
	pageCounts
	idle     bool // is in Frontier.idle
	excluded bool // nothing is to be asked of it
	leaving  bool // it is to be given back
	parted   bool // it was given back, or lost: it is another process's
	manyTold bool // the pacer knows that there are at least manyQueued
	foreign  bool // URLs of it may be inactive in the store: it is here for a robots.txt alone
}

type turn struct {
	at      time.Time // its key in the schedule; the true instant is asked for when it comes up
	order   uint64    // breaks ties: first come, first served
	index   int32     // in the schedule; -1 when not there
	why     ratelimit.Limit
	kept    uint8     // rests since the last request that was made, as there was no place for one
	reason  string    // a gate's reason, when that is what the host waits for
	keptTil time.Time // it rests until then
}

type slotTimes struct {
	service  time.Duration // smoothed
	first    uint32        // when its first slot was taken, by Frontier.tenths
	latest   uint32        // and when the latest was freed
	answered bool          // has freed a slot at least once
	proven   bool          // has answered a request that was not for robots.txt
	late     bool          // the latest request, or one under way, waited for longer than SlowAfter
}

type slotUse struct {
	handed  atomic.Int32 // leases whose holder has not asked for its permit
	slots   int32        // how many leases it may have out, once it is proven
	holding int32        // leases that hold one of Config.Slots
	class   hostClass    // the one its leases are counted in
	quick   bool         // counted in Frontier.quick
	inLine  bool
}

type pageCounts struct {
	known int32 // ever accepted, for MaxPagesPerHost
	pages int32 // of them, those that are visited or were leased
	asked int32 // leased, retries not counted
}

func (h *host) queued() int { return h.fresh() + h.retries.len() }

// fresh is how many of them have not been asked for yet.
func (h *host) fresh() int {
	if h.over == nil {
		return h.queue.len()
	}
	return h.queue.len() + h.over.urls
}

// busy reports whether the host may not be forgotten. A slot may be freed after its URL is done.
func (h *host) busy() bool { return h.queued() > 0 || h.open > 0 || len(h.out) > 0 }

func (h *host) free(l *Lease) {
	if i := slices.Index(h.out, l); i >= 0 {
		h.out = slices.Delete(h.out, i, i+1)
	}
}

// full reports whether the host has as many leases out as it may: one until it has answered.
func (h *host) full() bool {
	return len(h.out) >= int(h.slots) || len(h.out) > 0 && !h.proven
}

// held takes in how long a lease held its slot, as a moving average of weight 0.3.
func (h *host) held(d time.Duration) {
	if !h.answered {
		h.answered, h.service = true, d
		return
	}
	h.service += (d - h.service) * 3 / 10
}

// due is the heap of the retry to lease next, or nil. A retry goes when the host has answered another URL since, or
// has no others.
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

// peek is the item to be leased next; nil when nothing is due at now.
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

// schedule is a [heap.Interface] of hosts by the instant at which they come up.
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

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
