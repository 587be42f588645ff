package frontier

import (
	"container/heap"
	"slices"
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl/internal/ratelimit"
)

// host is the queue of one host and its place in the schedule.
type host struct {
	name   string
	fifo   fifo
	later  laterHeap // retries and returned URLs, by not-before time
	handed atomic.Int32
	at     time.Time // its key in the schedule; the true instant is asked for when it comes up
	order  uint64    // breaks ties: first come, first served
	index  int       // in the schedule; -1 when not there
	why    ratelimit.Limit
	reason string // a gate's reason, when that is what the host waits for

	out      []*Lease // its leases that hold a slot, oldest first
	open     int32    // its leases not yet acknowledged
	known    int32    // URLs ever accepted, for MaxPagesPerHost
	asked    int32    // pages leased, retries not counted
	done     int32    // URLs visited
	service  time.Duration
	answered bool // has freed a slot at least once
	heard    bool // has answered a request with a status
	lane     lane // the one its leases are counted in
	quick    bool // counted in Memory.quick
	failing  bool // its last answer was a failure to be repeated
	refused  bool // and that failure was a "not now"
	parked   bool
	idle     bool // is in Memory.idle
}

func (h *host) queued() int { return h.fifo.len() + len(h.later) }

// busy reports whether anything is left to do with the host; only one that is not may
// be forgotten.
func (h *host) busy() bool { return h.queued() > 0 || h.open > 0 }

// free takes a lease from those that hold a slot.
func (h *host) free(l *Lease) {
	if i := slices.Index(h.out, l); i >= 0 {
		h.out = slices.Delete(h.out, i, i+1)
	}
}

// held takes in how long a lease held its slot. The weight of 0.3 forgives a host
// its one slow page within a handful of quick ones.
func (h *host) held(d time.Duration) {
	if !h.answered {
		h.answered, h.service = true, d
		return
	}
	h.service += (d - h.service) * 3 / 10
}

// due is the instant from which the host has something to offer, given that it has.
func (h *host) due(now time.Time) time.Time {
	if h.fifo.len() > 0 || h.later[0].notBefore.Before(now) {
		return now
	}
	return h.later[0].notBefore
}

// next reports whether the item to be leased next is a retry whose time has come, and
// whether there is any item at all. A retry goes first, being the older, unless the
// host's last answer was a failure: then the next try is better spent on another URL,
// or one URL would use up its tries on an outage of the host.
func (h *host) next(now time.Time) (retry, ok bool) {
	due := len(h.later) > 0 && !h.later[0].notBefore.After(now)
	fresh := h.fifo.len() > 0
	return due && (!fresh || !h.failing || h.later[0].Kind == Robots), due || fresh
}

// peek is the item to be leased next. ok is false when nothing is due at now.
func (h *host) peek(now time.Time) (it *Item, ok bool) {
	retry, ok := h.next(now)
	switch {
	case !ok:
		return nil, false
	case retry:
		return &h.later[0].Item, true
	}
	return h.fifo.front(), true
}

// pop removes what peek showed.
func (h *host) pop(now time.Time) Item {
	if retry, _ := h.next(now); retry {
		return heap.Pop(&h.later).(delayed).Item
	}
	return h.fifo.pop()
}

// fifo is a queue over a slice: popped places in front are reclaimed when they make
// up half of it, so that pushing and popping cost O(1) on average.
type fifo struct {
	items []Item
	head  int
}

func (q *fifo) len() int     { return len(q.items) - q.head }
func (q *fifo) front() *Item { return &q.items[q.head] }
func (q *fifo) push(it Item) { q.items = append(q.items, it) }

func (q *fifo) pop() Item {
	it := q.items[q.head]
	q.items[q.head] = Item{}
	q.head++
	switch {
	case q.head == len(q.items):
		// A drained queue gives its memory back: most hosts are never busy again.
		q.items, q.head = nil, 0
	case q.head > 64 && 2*q.head > len(q.items):
		q.items = append(make([]Item, 0, q.len()+64), q.items[q.head:]...)
		q.head = 0
	}
	return it
}

// delayed is an item that may not be leased before an instant.
type delayed struct {
	Item
	notBefore time.Time
}

// laterHeap is a [heap.Interface] by notBefore.
type laterHeap []delayed

func (h laterHeap) Len() int { return len(h) }

// Less puts robots.txt in front: all other URLs may be waiting for it.
func (h laterHeap) Less(i, j int) bool {
	if a, b := h[i].Kind == Robots, h[j].Kind == Robots; a != b {
		return a
	}
	return h[i].notBefore.Before(h[j].notBefore)
}

func (h laterHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *laterHeap) Push(x any)   { *h = append(*h, x.(delayed)) }
func (h *laterHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = delayed{}
	*h = old[:len(old)-1]
	return last
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
	s[i].index, s[j].index = i, j
}

func (s *schedule) Push(x any) {
	h := x.(*host)
	h.index = len(*s)
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
