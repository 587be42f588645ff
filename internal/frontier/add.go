package frontier

import (
	"bytes"
	"container/heap"
	"strings"
	"time"

	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/web/canonical"
)

// Fingerprint is the identity of a URL in this frontier.
func (f *Frontier) Fingerprint(it *Item) uint64 { return it.URL.Fingerprint(f.cfg.Key) }

// Add offers a URL, whose fingerprint the caller has computed (it costs CPU time that the frontier's goroutine need
// not spend).
func (f *Frontier) Add(now time.Time, it Item, fp uint64) Added {
	if f.Known(fp) {
		return Seen
	}
	if f.fleet != nil {
		return f.put(now, &it, fp)
	}
	if f.counts.known.Load() >= int64(f.cfg.MaxURLs) || f.bytes >= usualLength*f.cfg.MaxURLs {
		return Full
	}
	name := nameOf(it.URL)
	h := f.host(name)
	if h == nil && f.stored == nil {
		return HostsFull
	}
	if h != nil && it.Kind == Page && f.cfg.MaxPagesPerHost > 0 && int(h.known) >= f.cfg.MaxPagesPerHost {
		f.review(h, now)
		return HostPages
	}
	f.last++
	it.ID, it.Queued = f.last, now
	f.counts.known.Add(1)
	f.counts.queued.Add(1)
	switch {
	case h == nil:
		f.lodge(name, &it, fp)
		return Queued
	case f.stored != nil:
		f.stored.Put(name, &it, fp, false)
	default:
		f.seen.Add(fp)
	}
	if it.Kind == Page {
		h.known++
	}
	if it.Wait > 0 {
		f.counts.queued.Add(-1) // enqueue counts it
		if f.stored != nil {
			f.stored.away[it.ID] = struct{}{}
		}
		f.enqueue(h, it, now, now.Add(it.Wait))
		return Queued
	}
	f.admit(h, &it)
	f.offer(h, now, now)
	return Queued
}

// Expect says that a fingerprint is about to be asked for or added. To expect those of all links of a page before the
// first of them is added makes Add quicker in a large crawl, and changes nothing.
func (f *Frontier) Expect(fp uint64) { f.seen.Expect(fp) }

// Known reports whether a URL of that fingerprint has been accepted.
func (f *Frontier) Known(fp uint64) bool {
	if f.stored != nil {
		return f.stored.Known(fp)
	}
	return f.seen.Has(fp)
}

// AddRobots queues a robots.txt request ahead of everything else of its host, and without asking whether it has been
// seen: it is how a redirect of robots.txt is followed.
func (f *Frontier) AddRobots(now time.Time, it Item) bool {
	h := f.robotsHost(nameOf(it.URL))
	if h == nil {
		return false
	}
	it.Kind, it.Queued = Robots, now
	f.enqueue(h, it, now, now.Add(it.Wait))
	return true
}

// queue counts an item that joins (1) or leaves (-1) a queue in memory.
func (f *Frontier) queue(it *Item, n int) {
	f.counts.queued.Add(int64(n))
	f.bytes += n * len(it.URL.String())
}

// enqueue queues an item that may not be leased before an instant.
func (f *Frontier) enqueue(h *host, it Item, now, notBefore time.Time) {
	if h.parted {
		f.giveUpRobots(&it, now)
		return // it is asked again by who has the host next
	}
	h.delay(it, notBefore)
	f.queue(&it, 1)
	f.offer(h, now, notBefore)
}

// offer puts a host into the schedule, no later than at. Hosts at their PerHost bound stay out until a slot is freed,
// those that wait for a slot until their class has a slot.
func (f *Frontier) offer(h *host, now, at time.Time) {
	if h.parted {
		return
	}
	f.settle(h, now)
	if h.queued() == 0 || h.inLine || h.full() {
		return
	}
	if h.excluded {
		at = now.Add(excludedFor)
		h.why, h.reason = ratelimit.LimitNone, byOperator
	}
	if h.index >= 0 {
		if at.Before(h.at) {
			h.at = at
			heap.Fix(&f.due, int(h.index))
		}
		return
	}
	h.at = at
	f.order++
	h.order = f.order
	heap.Push(&f.due, h)
}

// UsualSitemap is where a sitemap is looked for that nobody has told of.
const UsualSitemap = "/sitemap.xml"

// asPage tells the fingerprint of a URL that was asked for as a sitemap from that of the page.
const asPage = 0x9e3779b97f4a7c15

// IsUsual reports whether a sitemap is looked for there.
func IsUsual(u canonical.URL) bool { return strings.EqualFold(u.Path(), UsualSitemap) }

// EndsAsUsual reports whether the text of a canonical URL ends as one for which [IsUsual] holds, which few others do.
func EndsAsUsual(url []byte) bool {
	at := len(url) - len(UsualSitemap)
	return at > 0 && bytes.EqualFold(url[at:], []byte(UsualSitemap)) && bytes.Count(url, []byte("/")) == 3
}

// AsPage is the fingerprint under which a page is known at whose URL, of that fingerprint, a sitemap was looked for.
func AsPage(fp uint64) uint64 { return fp ^ asPage }

// MaxGuesses bounds the places that are remembered, one of a host with a sitemap. A link to one that is not is not
// followed: it has no record, as if nobody had linked to it.
const MaxGuesses = 1 << 16

// Guess is what a crawl knows of a place where a sitemap usually is, and has to know again when it is resumed.
type Guess struct {
	URL    canonical.URL // of the place
	Absent bool          // there is no sitemap
	// Link is the first link of a page to there since the URL was known, as far as it counts for what it leads to:
	// Depth, Hops, Seed, FoundOn and Referrer. Nil: there was none.
	Link *Item
}

// Linked tells a store of several processes of a link to a page whose URL this process knows already, and reports
// whether there is such a store: another process may have looked for a sitemap there, and have found none.
func (f *Frontier) Linked(now time.Time, it Item, fp uint64) bool {
	if f.fleet != nil {
		f.put(now, &it, fp)
	}
	return f.fleet != nil
}
