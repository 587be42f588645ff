package frontier

import "time"

// A limit refuses whoever comes at the wrong moment; a page that always answers 429 is
// refused whatever the moment. To whoever cannot see URLs both look alike, and the second
// would be paced like the first: down to nothing. So a URL that was refused stands back,
// and is tried again when the host has served many others at its pace. It is a suspect
// then: refused once more between two that are served, it is the URL that is refused. One
// at a time, so that each is judged by others.

// Blame is whose affair a suspect's refusal was.
type Blame uint8

// The ways to judge it.
const (
	BlameOpen Blame = iota // nobody has been asked since
	BlameHost              // others were refused too, or there are none to compare with, or not before an order ends
	BlameURL               // what was sent before and after it was served
)

// watch makes a suspect of a lease of a page that many others have passed. Where other
// URLs were refused too there is a limit, or there are several such pages: whoever is met
// by a limit twice is less likely to be met by it three times, so the second refusal is
// the host's there, and a strike. A suspect too is a page that is known to be refused by
// itself and has no others left to be compared with.
func (f *Frontier) watch(l *Lease) {
	h := l.host
	l.failedAt = h.failedAt
	if l.Kind == Robots || l.since == 0 {
		return
	}
	shown := h.bad.refusals == 1 || l.Strikes > 0
	if h.alone(&l.Item) || shown && h.passed(&l.Item) && !h.failing() {
		l.Suspect, h.bad.suspect = true, l
	}
}

// alone reports whether a URL that is known to be refused by itself has only such as may be
// like it left for company.
func (h *host) alone(it *Item) bool { return it.Strikes > 0 && h.fresh()+len(h.later) == 0 }

// Blame judges the refusal of a suspect by what is known now. While it is [BlameOpen] the
// lease stays out; its slot is freed. It does not stay out while an order, such as a quota
// that is used up, keeps the others in the queue: that may last for a day, in which a
// crawl with nothing else to do could not end.
func (f *Frontier) Blame(l *Lease) Blame {
	h := l.host
	switch {
	case h.failedAt != l.failedAt:
		return BlameHost
	case h.servedAt > l.seq:
		return BlameURL
	case len(h.out) > 0 || h.fresh() > 0 && !h.ordered():
		return BlameOpen
	case h.alone(&l.Item):
		return BlameURL // shown before, and nobody is left to show it again
	}
	return BlameHost
}

// Refused queues the URL of a suspect again, not before an instant, since it is the URL
// that was refused. It is a strike, and nothing is held against the host.
func (f *Frontier) Refused(now time.Time, l *Lease, notBefore time.Time) {
	f.finish(now, l)
	f.refusedAgain(l.host, l.Item, true, now, notBefore)
}
