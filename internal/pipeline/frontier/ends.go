package frontier

import (
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
// willingly. What is neither that nor overload says nothing of the host. It is not called
// for the refusal of a suspect before it is known whose it was.
func (f *Frontier) Outcome(l *Lease, class outcome.Class, served bool) {
	switch {
	case class.Overload():
		l.host.note(l, false)
		l.host.record().trouble = class
	case served && l.Kind != Robots: // robots.txt is served by hosts that refuse all else
		l.host.note(l, true)
		if l.Forbidden > 0 {
			l.host.record().lifted = true
		}
	}
}

// Done acknowledges a lease: its outcome is recorded, and its URL is visited.
func (f *Frontier) Done(now time.Time, l *Lease) {
	f.finish(now, l)
	h := l.host
	if f.vault != nil && l.ID != 0 && !h.parted {
		delete(f.vault.away, l.ID)
		h.gone(&l.Item)
		l.Visit.Refused = l.Refused != nil
		f.vault.Done(l.ID, l.Visit)
	}
	f.review(h, now)
}

// Retry queues the URL of a lease again after a failure, not before an instant. A try
// is spent.
func (f *Frontier) Retry(now time.Time, l *Lease, notBefore time.Time) {
	it := f.again(now, l)
	it.Attempt++
	f.spent(l.host, &it)
	f.enqueue(l.host, it, now, notBefore)
}

// NotNow queues the URL of a lease again after the host refused the moment, not before an
// instant. No try is spent, but when the host goes on to serve others it is a strike.
func (f *Frontier) NotNow(now time.Time, l *Lease, notBefore time.Time) {
	it, h := f.again(now, l), l.host
	h.refused = true
	strike := h.passed(&it) || h.alone(&it)
	f.refusedAgain(h, it, strike, now, notBefore)
}

// refusedAgain queues a URL that met a "not now".
func (f *Frontier) refusedAgain(h *host, it Item, strike bool, now, notBefore time.Time) {
	if it.Returns < 1<<16-1 {
		it.Returns++
	}
	if strike {
		it.Strikes++
		f.spent(h, &it)
	}
	if it.since == 0 {
		b := h.record()
		b.refusals++
		b.strikeAfter = f.cfg.StrikeAfter
	}
	if strike || it.since == 0 {
		it.since = h.served + 1
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
	f.finish(now, l)
	l.host.note(l, false)
	l.host.refused = false
	f.learned(l.host)
	return l.Item
}

// Return queues the URL of a lease that came to nothing, and nothing is held against the
// host or the URL. asked says whether a request was made all the same.
func (f *Frontier) Return(now time.Time, l *Lease, asked bool) {
	f.finish(now, l)
	it := l.Item
	if asked && it.Returns < 1<<16-1 {
		it.Returns++
	}
	f.enqueue(l.host, it, now, now)
}

// finish ends a lease once; ending it twice is a mistake in the program that would
// make the count of what is left wrong, and the end of the crawl with it.
func (f *Frontier) finish(now time.Time, l *Lease) {
	if l.finished {
		panic("frontier: a lease of " + l.URL.String() + " ended twice")
	}
	l.finished = true
	l.host.open--
	if l.Suspect {
		l.host.bad.suspect = nil
		f.offer(l.host, now, now) // the next one may have waited for this
	}
	f.counts.leased.Add(-1)
}
