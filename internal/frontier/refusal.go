package frontier

import (
	"math"
	"time"

	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/internal/web/canonical"
)

// A host that limits rates and a page that refuses every request give the same answer, and a
// host that is down fails like a page that is broken. Whose failure one was is decided here,
// when a URL that failed is leased again, from what the host answered to other URLs:
//
//   - The first failure of a URL is taken for the host's: the limiter hears of it.
//   - The URL is leased again when the host has answered another one since. It goes alone, with
//     nothing else under way and after a pause, so that no limit can be the reason. If it fails
//     again, that is its own failure ([Lease.Own]): a try is spent, and the host is not slowed.
//   - A failure while the host answers nothing is the host's and spends no try, for a day.
//   - Where no other URL is left to ask, one that the host has answered before is asked for
//     again ([Control]).
//
// A host where several URLs failed on their own, and none of them was ever answered later,
// serves some URLs and refuses others: there a failure between two answers is the URL's from
// the first on, and nothing goes alone. A host that has answered a URL later which it had
// refused has a limit: there a URL goes alone only after its third failure.
const (
	// quiet is how long nothing is sent to the host before a URL goes alone: limits are most
	// often counted by the second.
	quiet = time.Second
	// longestQuiet bounds that where the host's own pace asks for more.
	longestQuiet = 30 * time.Second
	// manyOwn is how many URLs that fail on their own show that a host has such URLs, and how
	// many failures in a row are the host's again all the same: then a control shows which it is.
	manyOwn = 4
	// manyInRow is how many failures in a row bring a control of a host that has a limit or is
	// out of order.
	manyInRow = 6
	// longOutage is for how long a host fails at least before the first control, and
	// longRefusal for how long it refuses, unless it is known to have URLs that fail on their
	// own: most outages are shorter. A control takes the place of a trial, and costs the host a
	// page that it served before.
	longOutage  = time.Minute
	longRefusal = 15 * time.Second
)

// answersOthers reports whether the host has answered since a URL failed, and answered last.
func (h *host) answersOthers(it *Item) bool {
	return it.since > 0 && h.served >= it.since && !h.failing()
}

// selective reports whether the host is known to refuse some URLs and to serve the others.
func (b *bad) selective() bool { return b.own >= manyOwn && !b.limits && b.row < manyOwn }

// own reports whether a failure of the URL would be its own, if it is leased now.
func (h *host) own(it *Item) bool {
	b := h.bad
	switch {
	case b == nil || it.Kind == Robots || h.failing():
		return false
	case b.selective(), it.OwnFailures > 0:
		return true
	}
	return h.answersOthers(it) && b.row == 0 && (!b.limits || it.Returns > 2)
}

// alone reports whether a URL that failed waits for the requests under way and a pause. Failures
// that no limit gives need neither.
func (h *host) alone(it *Item) bool {
	return it.Returns > 0 && !h.bad.selective() && h.own(it)
}

// standAside keeps a URL that is to go alone back until nothing else is under way and the host
// had its pause. It reports whether it did.
func (f *Frontier) standAside(h *host, it *Item, now time.Time) bool {
	if it.since == 0 || !h.alone(it) {
		return false
	}
	h.why, h.reason = ratelimit.LimitNone, retrying
	if len(h.out) > 0 {
		return true // Freed offers the host again
	}
	b := h.bad
	if b.quietTill.IsZero() {
		at, _ := f.cfg.Pacer.ReadyAt(h.name, int(h.handed.Load())+1, int(f.handed.Load())+1)
		b.quietTill = maxTime(now.Add(quiet), at)
		if longest := now.Add(longestQuiet); b.quietTill.After(longest) {
			b.quietTill = longest // it is no pace but a quota that is about to be used up
		}
	}
	if b.quietTill.After(now) {
		f.offer(h, now, b.quietTill)
		return true
	}
	return false
}

// controlOut reports whether a control is under way. Nothing else is leased then: what is sent
// beside it and fails would say that the host fails still.
func (h *host) controlOut() bool {
	return h.bad != nil && h.bad.controlled && len(h.out) > 0 && h.out[len(h.out)-1].Kind == Control
}

// control is a URL that the host has answered before, to be leased in the place of another
// that could not show whose failure the last ones were; nil for none. While there are URLs that
// were not asked for yet those are the better trials, unless many in a row have failed.
func (f *Frontier) control(h *host, it *Item, now time.Time) *Item {
	b := h.bad
	enough, after := uint8(2), longOutage
	refuses := b.trouble == outcome.Throttled || b.trouble == outcome.Unavailable || b.trouble == outcome.ClientError
	if refuses && b.trouble != outcome.Unavailable { // which an outage gives too
		after = longRefusal
	}
	switch {
	case h.fresh() > 0 && b.own == 0 && (b.since.IsZero() || now.Sub(b.since) < after):
		return nil
	case h.fresh() > 0 && (b.limits || !refuses && b.own < manyOwn):
		enough = manyInRow
	case h.fresh() > 0 && b.own == 0, b.own >= manyOwn && !b.limits:
		enough = manyOwn
	case it.since > 0 && (!h.failing() || h.fresh() == 0 && f.cfg.Once):
		enough = 1
	}
	if h.served == 0 || b.controlled || b.row < enough || it.OwnFailures > 0 && !h.failing() {
		return nil
	}
	u, err := canonical.Parse(it.Referrer)
	if err != nil || nameOf(u) != h.name || u.Path() == "/robots.txt" || u == it.URL {
		if u, err = it.URL.Resolve("/"); err != nil || u == it.URL {
			return nil
		}
	}
	c := &Item{URL: u, Kind: Control, Queued: now, Depth: it.Depth}
	if f.cfg.Gate != nil && f.cfg.Gate.Check(c, now).Pass != Go {
		return nil
	}
	return c
}

// FailedOwn queues a URL again whose failure was its own, not before an instant. So many tries
// of it are spent now.
func (f *Frontier) FailedOwn(now time.Time, l *Lease, tries int, notBefore time.Time) {
	f.finish(l)
	h, it := l.host, l.Item
	it.Attempt = uint8(min(tries, math.MaxUint8))
	it.OwnFailures++
	it.since = h.served + 1
	f.spent(h, &it)
	f.enqueue(h, it, now, notBefore)
}
