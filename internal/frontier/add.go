package frontier

import (
	"bytes"
	"strings"
	"time"

	"github.com/treadlight/crawl/internal/web/canonical"
)

// Fingerprint is the identity of a URL in this frontier.
func (f *Frontier) Fingerprint(it *Item) uint64 { return it.URL.Fingerprint(f.cfg.Key) }

// Add offers a URL. The caller has computed the fingerprint outside of the frontier's goroutine.
func (f *Frontier) Add(now time.Time, it Item, fp uint64) Added {
	if f.Known(fp) {
		return Seen
	}
	if f.owner != nil {
		return f.put(now, &it, fp)
	}
	if f.counts.known.Load() >= int64(f.cfg.MaxURLs) || f.bytes >= usualLength*f.cfg.MaxURLs {
		return Full
	}
	name := nameOf(it.URL)
	h := f.host(name)
	if h == nil && f.store == nil {
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
	case f.store != nil:
		f.store.Put(name, &it, fp, false)
	default:
		f.seen.Add(fp)
	}
	if it.Kind == Page {
		h.known++
	}
	if it.Wait > 0 {
		f.counts.queued.Add(-1) // enqueue counts it
		if f.store != nil {
			f.away[it.ID] = struct{}{}
		}
		f.enqueue(h, it, now, now.Add(it.Wait))
		return Queued
	}
	f.admit(h, &it)
	f.offer(h, now, now)
	return Queued
}

// Expect announces a fingerprint that is about to be asked for or added, so that its lookup is quicker. It changes
// nothing else.
func (f *Frontier) Expect(fp uint64) { f.seen.Expect(fp) }

// Known reports whether a URL of that fingerprint has been accepted.
func (f *Frontier) Known(fp uint64) bool {
	if f.store != nil {
		return f.store.Known(fp)
	}
	return f.seen.Has(fp)
}

// AddRobots queues a robots.txt request ahead of all else of its host, seen before or not: a redirect of robots.txt.
func (f *Frontier) AddRobots(now time.Time, it Item) bool {
	h := f.robotsHost(nameOf(it.URL))
	if h == nil {
		return false
	}
	it.Kind, it.Queued = Robots, now
	f.enqueue(h, it, now, now.Add(it.Wait))
	return true
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

// MaxGuesses bounds the guessed sitemaps that are remembered. A link to one that is not remembered is not followed.
const MaxGuesses = 1 << 16

// Guess is what a crawl knows of a place where a sitemap usually is, and has to know again when it is resumed.
type Guess struct {
	URL    canonical.URL // of the place
	Absent bool          // there is no sitemap
	// Link is the first link to the URL since it was known, or nil. Depth, Hops, Seed, FoundOn and Referrer count.
	Link *Item
}

// Linked tells a shared store of a link to a URL that this process knows, as another process may have found no sitemap
// there. It reports whether there is such a store.
func (f *Frontier) Linked(now time.Time, it Item, fp uint64) bool {
	if f.owner != nil {
		f.put(now, &it, fp)
	}
	return f.owner != nil
}
