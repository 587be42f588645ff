package frontier

import (
	"container/heap"
	"slices"
	"time"

	"github.com/treadlight/crawl/internal/frontier/attribution"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/web/canonical"
)

// Disposition is how a lease ends. Make it with Done, RetryAt, GiveUp or WaitHost.
type Disposition struct {
	how      how
	full     string // for waitHost: why the request could not leave this process; empty: it was given back
	visit    *Visit
	at       time.Time
	decision attribution.Decision
}

type how uint8

const (
	giveUp how = iota
	done
	retryAt
	waitHost
)

// Done is the disposition of a URL that was visited or refused; its record must be written before. Without a store v
// may be nil.
func Done(v *Visit) Disposition { return Disposition{how: done, visit: v} }

// GiveUp is the disposition of the frontier's own requests (robots.txt, control): the URL is not queued again, and
// nothing is stored.
func GiveUp() Disposition { return Disposition{} }

// RetryAt queues the URL again after a failure, not to be leased before an instant.
func RetryAt(at time.Time, d attribution.Decision) Disposition {
	return Disposition{how: retryAt, at: at, decision: d}
}

// WaitHost queues the URL again when no request was made; neither the host nor the URL is charged. If full says why the
// request could not leave this process, such as for a queue or a proxy, the host pauses, since no spent permit slows it
// down.
func WaitHost(full string) Disposition { return Disposition{how: waitHost, full: full} }

// Release frees the slot of a lease when its request is over. It gives how long the request took and its outcome; took
// is zero if no request was made.
func (f *Frontier) Release(now time.Time, l *Lease, took time.Duration, o attribution.Outcome) {
	if l.freed {
		return
	}
	l.freed = true
	l.Started()
	f.held = time.Time{} // a limit of all hosts may have room again
	h := l.host
	h.free(l)
	if l.extra {
		f.extraOut--
	} else {
		f.hold(h, -1)
	}
	h.latest = f.tenths(now)
	if took > 0 {
		h.held(took)
		h.late = l.waited
		h.kept = 0
		f.jammed = time.Time{}
	}
	h.proven = h.proven || o.Answered() && l.Kind != Robots
	h.history.Ended(&l.Evidence, &l.Tries, &o)
	f.offer(h, now, now)
}

// Overdue records that a lease has waited for its first byte for SlowAfter. It reports whether the lease now holds an
// extra slot instead of a normal one; if not, it may be called again.
func (f *Frontier) Overdue(now time.Time, l *Lease) (extra bool) {
	l.waited, l.host.late = true, true
	if f.setAside(l) {
		f.held = time.Time{} // a limit on requests in flight may have room again
	}
	f.review(l.host, now)
	return l.extra
}

// End ends a lease. It must be called exactly once per lease, and panics at the second call, which would falsify the
// count of what is left.
func (f *Frontier) End(now time.Time, l *Lease, d Disposition) {
	if l.finished {
		panic("frontier: a lease of " + l.URL.String() + " ended twice")
	}
	l.finished = true
	h := l.host
	h.open--
	f.counts.leased.Add(-1)
	switch d.how {
	case giveUp:
		f.review(h, now)
	case done:
		f.visited(l, d.visit)
		f.review(h, now)
	case retryAt:
		f.retry(now, l, d)
	case waitHost:
		until := now
		if d.full != "" {
			until, f.jam = f.keep(h, now), d.full
		}
		if l.Kind == Page && l.None() {
			h.pages-- // the page was not requested
		}
		if l.first() {
			h.asked--
		}
		if l.Kind != Control {
			f.enqueue(h, l.Item, now, until)
		}
	}
}

func (f *Frontier) visited(l *Lease, v *Visit) {
	h := l.host
	if l.ID == 0 || h.parted {
		return
	}
	delete(f.away, l.ID)
	h.gone(&l.Item)
	var visit Visit
	if v != nil {
		visit = *v
	}
	visit.Refused = l.Refused != nil
	f.store.Done(h.name, &l.Item, visit)
}

func (f *Frontier) retry(now time.Time, l *Lease, d Disposition) {
	if l.Kind == Control {
		return
	}
	h, it, decision := l.host, l.Item, d.decision
	h.history.Retried(&l.Evidence, &decision, now)
	it.Tries = decision.Tries
	if it.ID != 0 && !h.parted && !f.whole {
		spent := it // a copy only for this case: taking the address of it would move each retry to the heap
		f.store.Spent(h.name, &spent)
	}
	f.enqueue(h, it, now, d.at)
}

// Abandon leases about most of the URLs that wait for another try, at the end of a crawl that keeps no state. Such a
// lease holds no slot and ends with Done. If it returns none, no such URL is left.
func (f *Frontier) Abandon(now time.Time, most int) (out []*Lease) {
	lease := func(h *host, it *Item) {
		f.queue(it, -1)
		h.open++
		f.counts.leased.Add(1)
		out = append(out, &Lease{Item: *it, host: h, at: now, started: true, freed: true})
	}
	for ; f.abandoning < len(f.roll) && len(out) < most; f.abandoning++ {
		h := f.roll[f.abandoning]
		if h.retries == nil {
			continue
		}
		h.retries.later = slices.DeleteFunc(h.retries.later, func(it delayed) bool {
			if it.Kind == Robots || it.Returns == 0 {
				return false
			}
			lease(h, &it.Item)
			return true
		})
		heap.Init(&h.retries.later)
		for i := range h.retries.failed {
			lease(h, &h.retries.failed[i].Item)
		}
		h.retries.failed = nil
	}
	if len(out) == 0 {
		f.abandoning = 0 // the next call finds URLs that were queued again since
	}
	return out
}

// retries holds the URLs of a host that have a not-before time. Most hosts have none, and a nil pointer.
type retries struct {
	later  laterHeap // URLs that came back without a failure, or that are to be requested later
	failed laterHeap // URLs that failed: other URLs go before them
	// quietUntil is when the pause of the host before an isolated retry ends; zero means that there is no pause.
	quietUntil time.Time
}

const (
	// quiet is how long the host pauses before an isolated retry: most limits count by the second.
	quiet = time.Second
	// longestQuiet bounds that pause if the host's own pace demands a longer one.
	longestQuiet = 30 * time.Second
)

func (r *retries) len() int {
	if r == nil {
		return 0
	}
	return len(r.later) + len(r.failed)
}

// robots reports whether one of them is a robots.txt, which goes before all others.
func (r *retries) robots() bool { return r != nil && len(r.later) > 0 && r.later[0].Kind == Robots }

// due returns the earliest not-before time. Zero means that there are no retries.
func (r *retries) due() (at time.Time) {
	if r == nil {
		return at
	}
	for _, heap := range []laterHeap{r.later, r.failed} {
		if len(heap) > 0 && (at.IsZero() || heap[0].notBefore.Before(at)) {
			at = heap[0].notBefore
		}
	}
	return at
}

func (h *host) delay(it Item, notBefore time.Time) {
	if h.retries == nil {
		h.retries = new(retries)
	}
	to := &h.retries.later
	if it.Since > 0 {
		to = &h.retries.failed
	}
	heap.Push(to, delayed{it, notBefore})
}

func (r *retries) all() (items []*Item) {
	if r == nil {
		return nil
	}
	for _, heap := range []laterHeap{r.later, r.failed} {
		for i := range heap {
			items = append(items, &heap[i].Item)
		}
	}
	return items
}

type delayed struct {
	Item
	notBefore time.Time
}

// laterHeap is a [heap.Interface], ordered by notBefore.
type laterHeap []delayed

func (h laterHeap) Len() int { return len(h) }

func (h laterHeap) isDue(now time.Time) bool { return len(h) > 0 && !h[0].notBefore.After(now) }

// Less puts robots.txt in front, since all other URLs may be waiting for it.
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

// isolate reports whether a URL is to be retried alone and must wait, until no other request of the host is in flight
// and the host has paused. In that case it schedules the host, or Release does.
func (f *Frontier) isolate(h *host, it *Item, now time.Time) bool {
	if !h.history.Isolated(&it.Tries) {
		return false
	}
	h.why, h.reason = ratelimit.LimitNone, retrying
	if len(h.out) > 0 {
		return true // Release offers the host again
	}
	r := h.retries
	if r.quietUntil.IsZero() {
		at, why := f.cfg.Pacer.ReadyAt(h.name, int(h.handed.Load())+1, int(f.handed.Load())+1)
		if why == ratelimit.LimitBreaker { // it counts the one ahead as a trial with its whole timeout; there is none
			at, _ = f.cfg.Pacer.ReadyAt(h.name, int(h.handed.Load()), int(f.handed.Load()))
		}
		r.quietUntil = maxTime(now.Add(quiet), at)
		if longest := now.Add(longestQuiet); r.quietUntil.After(longest) {
			r.quietUntil = longest // this is not a pace but a quota that is nearly used up
		}
	}
	if r.quietUntil.After(now) {
		f.offer(h, now, r.quietUntil)
		return true
	}
	return false
}

// control returns a page for a control request of the host: the referrer of the item, if that is of the same host, else
// the host's root page. It returns nil if no control request is wanted or possible.
func (f *Frontier) control(h *host, it *Item, now time.Time) *Item {
	if it.Kind == Robots || !h.history.WantsControl(&it.Tries, h.fresh() > 0, f.cfg.NoRetries, now) {
		return nil
	}
	u, err := canonical.Parse(it.Referrer)
	if err != nil || nameOf(u) != h.name || u.Path() == "/robots.txt" || u == it.URL {
		if u, err = it.URL.Resolve("/"); err != nil || u == it.URL {
			return nil
		}
	}
	c := &Item{URL: u, Kind: Control, Queued: now, Found: Found{Depth: it.Depth}}
	if f.check(c, now).Pass != Go {
		return nil
	}
	return c
}
