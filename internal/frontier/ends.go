package frontier

import (
	"container/heap"
	"slices"
	"time"

	"github.com/treadlight/crawl/internal/frontier/attribution"
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

// Done is the end of a URL that was visited, or refused: its record is written. A frontier
// without a store does not need the visit.
func Done(v *Visit) Disposition { return Disposition{how: done, visit: v} }

// GiveUp is the end of a URL of the frontier's own asking: nobody asks for it again, and nothing
// is stored.
func GiveUp() Disposition { return Disposition{} }

// RetryAt queues the URL again after a failure, not before an instant.
func RetryAt(at time.Time, d attribution.Decision) Disposition {
	return Disposition{how: retryAt, at: at, decision: d}
}

// WaitHost queues the URL again, for which no request was made. Nothing is held against the host
// or the URL. With full there was no place for the request in a queue of our own: then the host
// pauses a while, as without a permit spent nothing else would slow it down.
func WaitHost(full bool) Disposition { return Disposition{how: waitHost, full: full} }

// Release says that the slot of a lease is free again: its request is over, after the time
// it took and with an outcome, or was not made, when took is zero.
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
		f.giveBack(l)
	}
	h.latest = f.tenths(now)
	if took > 0 {
		h.held(took)
		h.late = l.waited
		h.kept = 0
		if f.fleet != nil {
			f.fleet.jammed = time.Time{}
		}
	}
	h.proven = h.proven || o.Answered() && l.Kind != Robots
	h.history.Ended(&l.Evidence, &l.Tries, &o)
	f.offer(h, now, now)
}

// End acknowledges a lease. To end it twice is a mistake in the program that would
// make the count of what is left wrong, and the end of the crawl with it.
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
		if l.Kind != Control {
			f.enqueue(h, l.Item, now, until)
		}
	}
}

// visited has the store know of what became of a URL.
func (f *Frontier) visited(l *Lease, v *Visit) {
	h := l.host
	if f.stored == nil || l.ID == 0 || h.parted {
		return
	}
	delete(f.stored.away, l.ID)
	h.gone(&l.Item)
	var visit Visit
	if v != nil {
		visit = *v
	}
	visit.Refused = l.Refused != nil
	f.stored.Done(l.ID, visit)
}

// retry queues a URL again that was asked for. The store is to know of an attempt; what the host
// is to blame for is forgotten with the process.
func (f *Frontier) retry(now time.Time, l *Lease, d Disposition) {
	if l.Kind == Control {
		return
	}
	h, it, decision := l.host, l.Item, d.decision
	h.history.Retried(&l.Evidence, &decision, now)
	if decision.Whose == attribution.OfHost || decision.Whose == attribution.Either {
		f.learned(h)
	}
	it.Tries = decision.Tries
	if it.Attempt != l.Attempt {
		f.spent(h, it)
	}
	f.enqueue(h, it, now, d.at)
}

// spent has the store know of the tries of a URL. It takes a copy, or each retry would have one.
func (f *Frontier) spent(h *host, it Item) {
	if f.stored != nil && it.ID != 0 && !h.parted {
		f.stored.Spent(&it)
	}
}

// Abandon leases about so many URLs that were asked for and wait to be asked again: for the end
// of a crawl that keeps no state. Such a lease holds no slot and ends with Done. None are left
// when it returns none.
func (f *Frontier) Abandon(now time.Time, most int) (out []*Lease) {
	lease := func(h *host, it *Item) {
		f.queue(it, -1)
		h.open++
		f.counts.leased.Add(1)
		out = append(out, &Lease{Item: *it, host: h, at: now, started: true, freed: true})
	}
	for ; f.abandoning < len(f.roll.hosts) && len(out) < most; f.abandoning++ {
		h := f.roll.hosts[f.abandoning]
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
