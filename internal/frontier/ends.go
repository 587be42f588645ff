package frontier

import (
	"container/heap"
	"slices"
	"time"

	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// Freed says that the slot of a lease is free again: its request is over, after the time
// it took, or was not made, when took is zero.
func (f *Frontier) Freed(now time.Time, l *Lease, took time.Duration) {
	if l.freed {
		return
	}
	l.freed = true
	l.Started()
	f.held = time.Time{} // there may be room again
	h := l.host
	h.free(l)
	if l.aside {
		f.asideOut--
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
	f.offer(h, now, now)
}

// Heard says that the host has answered the request of a lease, whatever the answer. A
// host that is forgotten and found again has to be heard again.
func (f *Frontier) Heard(l *Lease) {
	l.host.heard = true
	l.host.proven = l.host.proven || l.Kind != Robots
}

// Outcome says what became of the request of a lease, and whether it was an answer given
// willingly. What is neither that nor overload says nothing of the host, nor does a failure
// that was the URL's own.
func (f *Frontier) Outcome(l *Lease, class outcome.Class, served bool) {
	h := l.host
	switch {
	case served && l.Kind != Robots: // robots.txt is served by hosts that refuse all else
		h.note(l, true)
		if l.since > 0 {
			h.bad.own = 0
			h.bad.limits = h.bad.limits || l.Returns > 0
		}
	case served || l.Kind == Robots && !class.Overload():
	case l.Own && class != outcome.ServerError:
		h.bad.row = min(h.bad.row+1, manyInRow)
		if l.OwnFailures == 0 {
			h.bad.own = min(h.bad.own+1, manyOwn)
		}
	case class.Overload() || l.Kind == Control:
		h.note(l, false)
		h.record().trouble = class
	}
}

// Done acknowledges a lease: its outcome is recorded, and its URL is visited.
func (f *Frontier) Done(now time.Time, l *Lease) {
	f.finish(l)
	h := l.host
	if f.vault != nil && l.ID != 0 && !h.parted {
		delete(f.vault.away, l.ID)
		h.gone(&l.Item)
		l.Visit.Refused = l.Refused != nil
		f.vault.Done(l.ID, l.Visit)
	}
	f.review(h, now)
}

// Retry queues the URL of a lease again after a failure of which it is not known whose it
// was, not before an instant. A try is spent.
func (f *Frontier) Retry(now time.Time, l *Lease, notBefore time.Time) {
	it := f.again(now, l)
	it.Attempt++
	f.spent(l.host, &it)
	f.enqueue(l.host, it, now, notBefore)
}

// NotNow queues the URL of a lease again after a failure that was the host's, not before an
// instant. No try is spent.
func (f *Frontier) NotNow(now time.Time, l *Lease, notBefore time.Time) {
	it, h := f.again(now, l), l.host
	h.refused = true
	if it.Forbidden > 0 {
		h.bad.trouble = outcome.ClientError
	}
	if it.Returns < 1<<16-1 {
		it.Returns++
	}
	f.enqueue(h, it, now, notBefore)
}

// spent has the store know of a try that cost the URL something. A "not now" costs nothing,
// and is forgotten with the process.
func (f *Frontier) spent(h *host, it *Item) {
	if f.vault != nil && it.ID != 0 && !h.parted {
		f.vault.Spent(it)
	}
}

// again ends a lease whose URL failed and comes back.
func (f *Frontier) again(now time.Time, l *Lease) Item {
	f.finish(l)
	h, it := l.host, l.Item
	h.note(l, false)
	h.refused = false
	f.learned(h)
	if b := h.bad; b.since.IsZero() {
		b.since = now
	}
	if it.Kind != Robots {
		it.since = h.served + 1
	}
	return it
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
		h.later = slices.DeleteFunc(h.later, func(it delayed) bool {
			if it.Kind == Robots || it.Returns == 0 {
				return false
			}
			lease(h, &it.Item)
			return true
		})
		heap.Init(&h.later)
		if h.bad == nil {
			continue
		}
		for b := h.bad; len(b.failed) > 0; b.failed = b.failed[:len(b.failed)-1] {
			lease(h, &b.failed[len(b.failed)-1].Item)
		}
	}
	if len(out) == 0 {
		f.abandoning = 0 // what has come back since is found the next time
	}
	return out
}

// Return queues the URL of a lease that came to nothing, and nothing is held against the
// host or the URL. asked says whether a request was made all the same.
func (f *Frontier) Return(now time.Time, l *Lease, asked bool) {
	f.finish(l)
	it := l.Item
	if it.Kind == Control {
		return
	}
	if asked && it.Returns < 1<<16-1 {
		it.Returns++
	}
	f.enqueue(l.host, it, now, now)
}

// finish ends a lease once; ending it twice is a mistake in the program that would
// make the count of what is left wrong, and the end of the crawl with it.
func (f *Frontier) finish(l *Lease) {
	if l.finished {
		panic("frontier: a lease of " + l.URL.String() + " ended twice")
	}
	l.finished = true
	l.host.open--
	f.counts.leased.Add(-1)
}
