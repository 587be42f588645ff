package frontier

import (
	"container/heap"
	"slices"
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// host is the queue of one host and its place in the schedule. What a look at the schedule
// reads comes first: among a hundred thousand hosts each is cold when it comes up.
type host struct {
	name     string
	at       time.Time // its key in the schedule; the true instant is asked for when it comes up
	order    uint64    // breaks ties: first come, first served
	handed   atomic.Int32
	index    int32 // in the schedule; -1 when not there
	why      ratelimit.Limit
	lane     lane // the one its leases are counted in
	answered bool // has freed a slot at least once
	heard    bool // has answered a request with a status
	proven   bool // and one that was not for robots.txt
	late     bool // the latest request, or one under way, waited for longer than SlowAfter
	quick    bool // counted in Frontier.quick
	refused  bool // its last failure was a "not now", and nothing that came later was served
	parked   bool
	idle     bool  // is in Frontier.idle
	barred   bool  // nothing is to be asked of it
	leaving  bool  // it is to be given back
	parted   bool  // it was given back, or lost: it is another process's
	lease    int64 // by which it is this process's, of a shared store
	place    int32 // on the roll
	blind    bool  // URLs of it may lie dormant in the store: it is here for a robots.txt alone
	met      bool  // pages of it were visited before this process had it

	queue    ladder
	over     *overflow // nil for a host all of whose URLs are in memory
	later    laterHeap // retries and returned URLs, by not-before time
	bad      *bad      // nil for a host that never failed nor refused
	out      []*Lease  // its leases that hold a slot, oldest first
	slots    int32     // how many leases it may have out, once it is proven
	holding  int32     // of those in out, the ones that hold one of Config.Slots
	open     int32     // its leases not yet acknowledged
	known    int32     // pages ever accepted, for MaxPagesPerHost
	first    uint32    // when its first slot was taken, by Frontier.tenths
	latest   uint32    // and when the latest was freed
	returned int32     // HostLeft.Returned: those that are refused again leave known, and not this
	asked    int32     // pages leased, retries not counted
	served   int32     // pages answered willingly, whatever they were
	seq      uint32    // leases with a slot so far
	servedAt uint32    // Lease.seq of the latest of them that was served
	failedAt uint32    // and of the latest that failed
	service  time.Duration
	reason   string    // a gate's reason, when that is what the host waits for
	keptTil  time.Time // it rests until then, as there was no place for a request
	kept     uint8     // such rests since the last request that was made
}

// bad is what there is to know of a host that has failed or refused. It stands apart,
// because of a million hosts most never do, and each is a cache line shorter for it.
type bad struct {
	failed     laterHeap     // URLs that failed, by not-before time: others go first
	failures   int32         // requests in a row that failed
	trouble    outcome.Class // of the last of them
	own        uint8         // URLs that failed on their own; manyOwn at most
	row        uint8         // failures in a row, those of URLs on their own included; manyInRow at most
	limits     bool          // a URL that it had refused was answered later
	controlled bool          // the last request was a Control
	since      time.Time     // when it failed first since it answered last; zero: it answers
	quietTill  time.Time     // until when it has its pause before a URL goes alone; zero for none
}

// record is the host's bad, made if need be.
func (h *host) record() *bad {
	if h.bad == nil {
		h.bad = new(bad)
	}
	return h.bad
}

// failed is how many URLs wait that failed.
func (h *host) failed() int {
	if h.bad == nil {
		return 0
	}
	return len(h.bad.failed)
}

// queued is how many URLs wait, wherever they are.
func (h *host) queued() int { return h.fresh() + len(h.later) + h.failed() }

// fresh is how many of them have not been asked for yet.
func (h *host) fresh() int {
	if h.over == nil {
		return h.queue.len()
	}
	return h.queue.len() + h.over.left
}

// failing reports whether the latest request that says anything was a failure. What was
// sent before that failure and served after it says nothing of the time since.
func (h *host) failing() bool { return h.failedAt > h.servedAt }

// note takes in what a request says of its host, once.
func (h *host) note(l *Lease, served bool) {
	if l.noted {
		return
	}
	l.noted = true
	if !served {
		b := h.record()
		b.failures++
		b.row = min(b.row+1, manyInRow)
		h.failedAt = max(h.failedAt, l.seq)
		return
	}
	h.served++
	if h.bad != nil {
		h.bad.failures, h.bad.row, h.bad.controlled, h.bad.since = 0, 0, false, time.Time{}
	}
	h.servedAt = max(h.servedAt, l.seq)
	if !h.failing() {
		h.refused = false
	}
}

// busy reports whether anything is left to do with the host; only one that is not may
// be forgotten. A slot may be freed after its URL is done.
func (h *host) busy() bool { return h.queued() > 0 || h.open > 0 || len(h.out) > 0 }

// free takes a lease from those that hold a slot.
func (h *host) free(l *Lease) {
	if i := slices.Index(h.out, l); i >= 0 {
		h.out = slices.Delete(h.out, i, i+1)
	}
}

// full reports whether the host has as many leases out as it may. One that has not answered
// yet has one, so that those that are slow or dead cost a slot each.
func (h *host) full() bool {
	return len(h.out) >= int(h.slots) || len(h.out) > 0 && !h.proven
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

// due is the instant from which the host has something to offer, given that nothing is
// due yet.
func (h *host) due() (at time.Time) {
	if len(h.later) > 0 {
		at = h.later[0].notBefore
	}
	if h.failed() > 0 && (at.IsZero() || h.bad.failed[0].notBefore.Before(at)) {
		at = h.bad.failed[0].notBefore
	}
	return at
}

// from is one of a host's queues.
type from uint8

const (
	fromNone from = iota // nothing is due
	fromFIFO
	fromLater
	fromFailed
)

// next is where the item to be leased next stands. What failed goes when the host has answered
// another URL since, or has no others: so the trial after a pause is another URL than the one
// that brought it.
func (h *host) next(now time.Time) from {
	later, failed := h.later.isDue(now), h.failed() > 0 && h.bad.failed.isDue(now)
	switch fresh := h.queue.len() > 0; {
	case later && (!fresh || !h.failing() || h.later[0].Kind == Robots):
		return fromLater
	case failed && (!fresh || h.answersOthers(&h.bad.failed[0].Item) && h.bad.row == 0):
		return fromFailed
	case fresh:
		return fromFIFO
	}
	return fromNone
}

// peek is the item to be leased next; nil when nothing is due at now.
func (h *host) peek(now time.Time) *Item {
	switch h.next(now) {
	case fromLater:
		return &h.later[0].Item
	case fromFailed:
		return &h.bad.failed[0].Item
	case fromFIFO:
		return h.queue.front()
	case fromNone:
	}
	return nil
}

// pop removes what peek showed.
func (h *host) pop(now time.Time) Item {
	switch h.next(now) {
	case fromLater:
		return heap.Pop(&h.later).(delayed).Item
	case fromFailed:
		return heap.Pop(&h.bad.failed).(delayed).Item
	case fromFIFO, fromNone:
	}
	return h.queue.pop()
}

// delayed is an item that may not be leased before an instant.
type delayed struct {
	Item
	notBefore time.Time
}

// laterHeap is a [heap.Interface] by notBefore.
type laterHeap []delayed

func (h laterHeap) Len() int { return len(h) }

// isDue reports whether there is an item whose time has come.
func (h laterHeap) isDue(now time.Time) bool { return len(h) > 0 && !h[0].notBefore.After(now) }

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
