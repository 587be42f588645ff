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
	full     bool // for waitHost
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

// Done ends a URL that was visited or refused, after its record was written. Without a store v may be nil.
func Done(v *Visit) Disposition { return Disposition{how: done, visit: v} }

// GiveUp is the end of a URL of the frontier's own asking: nobody asks for it again, and nothing is stored.
func GiveUp() Disposition { return Disposition{} }

// RetryAt queues the URL again after a failure, not before an instant.
func RetryAt(at time.Time, d attribution.Decision) Disposition {
	return Disposition{how: retryAt, at: at, decision: d}
}

// WaitHost queues the URL again without a request made, at no charge to host or URL. With full, our own queue had no
// place, and the host pauses, as no spent permit slows it down.
func WaitHost(full bool) Disposition { return Disposition{how: waitHost, full: full} }

// Release frees the slot of a lease after its request, which took so long and had an outcome; zero took: none was
// made.
func (f *Frontier) Release(now time.Time, l *Lease, took time.Duration, o attribution.Outcome) {
	if l.freed {
		return
	}
	l.freed = true
	l.Started()
	f.held = time.Time{} // there may be room again
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

// Overdue says that a lease has waited for its first byte for SlowAfter. It reports whether the lease holds an extra
// slot in place of a normal one, and may be called again.
func (f *Frontier) Overdue(now time.Time, l *Lease) (extra bool) {
	l.waited, l.host.late = true, true
	if f.setAside(l) {
		f.held = time.Time{} // for all that is known
	}
	f.review(l.host, now)
	return l.extra
}

// End acknowledges a lease, exactly once: a second End would make the count of what is left wrong.
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
		if d.full {
			until = f.keep(h, now)
		}
		if l.Kind == Page && l.None() {
			h.pages-- // it was not asked for
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
		spent := it // or each retry would have a copy that lives on
		f.store.Spent(h.name, &spent)
	}
	f.enqueue(h, it, now, d.at)
}

// Abandon leases about most URLs that wait for another try, at the end of a crawl that keeps no state. Such a lease
// holds no slot and ends with Done. None are left when it returns none.
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
		f.abandoning = 0 // what has come back since is found the next time
	}
	return out
}

// retries are the URLs of a host with a not-before time; nil is empty, as for most hosts.
type retries struct {
	later  laterHeap // URLs that came back, or are to be asked for later
	failed laterHeap // URLs that failed: others go first
	// quietUntil is until when the host has its pause before an isolated retry; zero for none.
	quietUntil time.Time
}

const (
	// quiet is the pause of the host before an isolated retry: most limits count by the second.
	quiet = time.Second
	// longestQuiet bounds that where the host's own pace asks for more.
	longestQuiet = 30 * time.Second
)

func (r *retries) len() int {
	if r == nil {
		return 0
	}
	return len(r.later) + len(r.failed)
}

// robots reports whether one of them is a robots.txt, which goes first.
func (r *retries) robots() bool { return r != nil && len(r.later) > 0 && r.later[0].Kind == Robots }

// due is the instant from which one of them may be leased; zero if there are none.
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

// laterHeap is a [heap.Interface] by notBefore.
type laterHeap []delayed

func (h laterHeap) Len() int { return len(h) }

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

// isolate keeps a URL to be retried alone back until nothing else is under way and the host had its pause.
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
		if why == ratelimit.LimitBreaker { // the one ahead would be a trial, with all the time that it has: there is none
			at, _ = f.cfg.Pacer.ReadyAt(h.name, int(h.handed.Load()), int(f.handed.Load()))
		}
		r.quietUntil = maxTime(now.Add(quiet), at)
		if longest := now.Add(longestQuiet); r.quietUntil.After(longest) {
			r.quietUntil = longest // it is no pace but a quota that is about to be used up
		}
	}
	if r.quietUntil.After(now) {
		f.offer(h, now, r.quietUntil)
		return true
	}
	return false
}

// control returns a URL that the host has answered before, for a control request, or nil.
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
