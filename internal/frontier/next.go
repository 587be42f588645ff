package frontier

import (
	"errors"
	"math"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/treadlight/crawl/internal/ratelimit"
)

// Frontier holds the URLs of a crawl that are not yet visited, and decides which is leased next. Make it with New. It
// consists of layers, each of which uses only those below: leases (this type), coordination of several processes
// (fleet), URLs in the store (backlog), when each host comes up (timetable), slots (sharing), and the hosts in memory
// (roster).
type Frontier struct {
	fleet
	demand     func(domain string, urls int) // reports to the pacer how many URLs of a host wait; nil without SetDemand
	abandoning int                           // how many hosts of roll, from the first, Abandon has visited
}

// New returns a frontier without URLs in memory. An error names the field of cfg that is wrong.
func New(cfg Config) (*Frontier, error) {
	if cfg.Pacer == nil {
		return nil, errors.New("frontier: Pacer is nil: give it the rate limiter")
	}
	f := new(Frontier)
	if p, ok := cfg.Pacer.(interface{ SetDemand(domain string, urls int) }); ok {
		f.demand = p.SetDemand
	}
	f.cfg, f.store, f.shared, f.last, f.headMost = cfg.withDefaults(), cfg.Store, cfg.Left.Shared, cfg.Left.LastID, headMax
	f.complete, f.none = !f.shared, !f.shared
	f.hosts = make(map[string]*host)
	f.away, f.interim, f.resting = make(map[int64]struct{}), make(map[string]HostLeft), newResting()
	f.total, f.extra = f.cfg.Slots, f.cfg.ExtraSlots
	f.counts.known.Store(cfg.Left.Known)
	switch {
	case f.store == nil:
		f.store, f.whole, f.headMost, f.cfg.Resident = memory{&f.seen}, true, math.MaxInt, math.MaxInt
	case f.shared:
		f.headMost, f.cfg.MaxPagesPerHost = sharedMax, 0 // the store enforces the page bound
	default:
		f.inactive, f.forgot = cfg.Left.Queued, cfg.Left.Known > 0
		f.counts.queued.Store(cfg.Left.Queued)
	}
	return f, nil
}

// Counts returns the number of URLs in each state. It may be called from any goroutine.
func (f *Frontier) Counts() Counts { return f.counts.load() }

// Take takes in an answer of the store. An error means that the store has lost URLs, and the crawl cannot continue.
func (f *Frontier) Take(now time.Time, a Answer) (err error) {
	switch {
	case a.Update != nil:
		f.updated(now, a.Update())
		return nil
	case a.Host == "" && f.shared:
		f.swept(now, &a)
		return nil
	case a.Host == "":
		return f.activated(now, &a)
	}
	f.loads--
	if f.shared {
		f.arrived(now, &a)
	} else if h := f.hosts[a.Host]; h != nil && h.over != nil {
		err = f.loaded(h, &a)
		f.offer(h, now, now)
	}
	for f.loads < maxLoads && len(f.toRefill) > 0 {
		h := f.toRefill[0]
		f.toRefill[0] = nil
		f.toRefill = f.toRefill[1:]
		if !h.parted {
			f.ask(h)
		}
	}
	return err
}

// Next leases a URL of the host that comes up first. If there is none, it returns nil and the instant at which to call
// again; zero means that only Release, End, Add, Take, Wake, Include or Revise can change the result. The caller must
// keep the number of leases that hold a slot within Config.Slots. It costs O(log hosts).
func (f *Frontier) Next(now time.Time) (*Lease, time.Time) {
	if f.shared {
		f.partLeaving(now)
	} else {
		f.activate(now)
	}
	f.reviseSome(now)
	l, wake := f.next(now)
	switch {
	case l != nil:
	case f.shared:
		wake = f.sweep(now, wake)
	default:
		wake = f.sooner(wake)
	}
	if l == nil && f.revising > 0 {
		wake = now
	}
	return l, wake
}

// next leases a URL of the host in memory that comes up first.
func (f *Frontier) next(now time.Time) (*Lease, time.Time) {
	for {
		h, wake := f.first(now)
		if h == nil {
			return nil, wake
		}
		if l := f.lease(h, now); l != nil {
			return l, time.Time{}
		}
	}
}

// lease leases the next URL of a host that has come up. If none can be leased now, it schedules the host later or makes
// it wait for a slot, and returns nil.
func (f *Frontier) lease(h *host, now time.Time) *Lease {
	called := h == f.nextUp
	if called {
		f.nextUp = nil
	}
	if f.kept(h, now) || f.outOfLease(h, now) {
		return nil
	}
	it := f.upNext(h, now)
	f.refill(h)
	if it == nil {
		h.why, h.reason = ratelimit.LimitNone, retrying
		if h.over != nil {
			h.reason = loading
		}
		if due := h.retries.due(); !due.IsZero() {
			f.offer(h, now, due)
		}
		return nil
	}
	if n := len(h.out); h.history.Controlled() && n > 0 && h.out[n-1].Kind == Control {
		h.why, h.reason = ratelimit.LimitNone, retrying
		return nil // a failure beside a control request would count against the host; Release offers it again
	}
	v := f.check(it, now)
	switch v.Pass {
	case Refuse:
		return f.refuse(h, now, v.Refusal)
	case Wait:
		f.awaitRules(h, now, &v)
		return nil
	}
	f.settle(h, now)
	if f.mustWait(h, called) {
		return nil
	}
	at, why := f.cfg.Pacer.ReadyAt(h.name, int(h.handed.Load()), int(f.handed.Load()))
	if at.After(now) {
		f.later(h, called, now, at, why)
		return nil
	}
	if v.Pass == Go && f.isolate(h, it, now) {
		return nil
	}
	l := &Lease{extra: h.class == classStalled && f.roomExtra(), Tenure: h.tenure, host: h, all: &f.handed, at: now, due: h.at}
	if v.Pass == Ask {
		l.Item, l.Cause = robotsItem(it, now), it.URL
	} else if control := f.control(h, it, now); control != nil {
		l.Item = *control
	} else {
		l.Item = f.pop(h, now)
	}
	if h.retries != nil {
		h.retries.quietUntil = time.Time{}
	}
	if n := h.queued(); f.demand != nil && (n < manyQueued || !h.manyTold) {
		f.demand(h.name, n)
		h.manyTold = n >= manyQueued
	}
	f.grant(l, now)
	return l
}

func (f *Frontier) check(it *Item, now time.Time) (v Verdict) {
	if it.Kind != Robots && f.cfg.Gate != nil {
		v = f.cfg.Gate.Check(it, now)
	}
	return v
}

func (f *Frontier) awaitRules(h *host, now time.Time, v *Verdict) {
	h.why, h.reason = ratelimit.LimitNone, v.Reason
	if !v.Until.IsZero() {
		f.offer(h, now, maxTime(v.Until, now.Add(time.Millisecond)))
	} else if h.retries.robots() {
		f.offer(h, now, h.retries.later[0].notBefore) // robots.txt was redirected, and is requested then
	}
}

// upNext returns the item to lease next, or nil if nothing is due at now. It drops pages beyond the page bound of their
// host, which were found while the host was inactive, when their turn comes.
func (f *Frontier) upNext(h *host, now time.Time) *Item {
	for {
		it := h.peek(now)
		if it == nil || f.cfg.MaxPagesPerHost == 0 || it.Kind != Page || !it.None() || int(h.pages) < f.cfg.MaxPagesPerHost {
			return it
		}
		it = new(f.pop(h, now))
		h.known--
		h.gone(it)
		delete(f.away, it.ID)
		f.store.Done(h.name, it, Visit{At: now, Class: HostPages.String(), Refused: true})
		f.settle(h, now)
	}
}

func (f *Frontier) pop(h *host, now time.Time) Item {
	it := h.pop(now)
	f.queue(&it, -1)
	if !f.whole && !f.shared && it.ID != 0 {
		f.away[it.ID] = struct{}{}
	}
	return it
}

// robotsItem returns the request for the robots.txt that applies to it.
func robotsItem(it *Item, now time.Time) Item {
	origin := it.URL.Origin()
	u, err := it.URL.Resolve("/robots.txt")
	if err != nil {
		// This cannot happen: a canonical URL always has a root to resolve against.
		panic("frontier: resolve /robots.txt against " + it.URL.String() + ": " + err.Error())
	}
	return Item{URL: u, Origin: origin, Kind: Robots, Queued: now, Found: Found{Depth: it.Depth}}
}

// refuse leases a URL that must not be fetched. Such a lease needs no slot and does not count against the page budget.
func (f *Frontier) refuse(h *host, now time.Time, why *Refusal) *Lease {
	l := &Lease{Item: f.pop(h, now), Refused: why, host: h, at: now, started: true, freed: true}
	h.open++
	if l.Kind == Page {
		h.known--
	}
	f.counts.leased.Add(1)
	f.offer(h, now, now)
	return l
}

// manyQueued is the number of queued URLs of a host from which on the pacer is told only once that there are so many.
const manyQueued = 100

func (f *Frontier) grant(l *Lease, now time.Time) {
	h := l.host
	l.Evidence = h.history.Begin(l.subject(), &l.Tries)
	if l.Evidence.Number() == 1 {
		h.first = f.tenths(now)
	}
	h.out = append(h.out, l)
	f.young = append(f.young, l)
	h.open++
	if l.extra {
		f.extraOut++
		f.lastOverdue = false
	} else {
		f.hold(h, 1)
	}
	h.handed.Add(1)
	f.handed.Add(1)
	h.why, h.reason = ratelimit.LimitNone, ""
	if l.first() {
		h.asked++
	}
	if l.Kind == Page && l.None() {
		h.pages++
	}
	f.counts.leased.Add(1)
	f.offer(h, now, now)
}

// first reports whether the lease is the first of a page: retries, robots.txt and sitemaps do not count as URLs of a host.
func (l *Lease) first() bool { return l.Kind == Page && l.Attempt == 0 && l.Returns == 0 }

// Fingerprint returns the fingerprint of an item in this frontier.
func (f *Frontier) Fingerprint(it *Item) uint64 { return it.Fingerprint(f.cfg.Key) }

// Fingerprint returns the fingerprint of the item in a crawl of that key.
func (it *Item) Fingerprint(key uint64) uint64 {
	return Identity(it.URL.Fingerprint(key), it.URL.String(), it.Request, it.Kind)
}

// asSitemap distinguishes the fingerprint of a sitemap at UsualSitemap from that of a page there.
const asSitemap = 0x9e3779b97f4a7c15

// Identity returns the fingerprint of an item, given the fingerprint and the text of its URL. The first line of request
// makes it another resource than the URL alone. A sitemap is looked for at the usual place of every origin, so such an
// item differs from a page there that others link to.
func Identity(url uint64, text, request string, kind Kind) uint64 {
	identity, _, _ := strings.Cut(request, "\n")
	if identity == "" {
		if kind == Sitemap && isUsual(text) {
			url ^= asSitemap
		}
		return url
	}
	var d xxhash.Digest
	d.ResetWithSeed(url)
	_, _ = d.WriteString(identity) // a hash never returns an error
	return d.Sum64()
}

// Add offers a URL, and returns what became of it. The caller computes the fingerprint, outside of the frontier's
// goroutine.
func (f *Frontier) Add(now time.Time, it Item, fp uint64) Added {
	if f.Known(fp) {
		return Seen
	}
	if f.shared {
		return f.put(now, &it, fp)
	}
	if f.counts.known.Load() >= int64(f.cfg.MaxURLs) || f.bytes >= usualLength*f.cfg.MaxURLs {
		return Full
	}
	name := nameOf(it.URL)
	h := f.host(name)
	if h == nil && f.whole {
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
	if h == nil {
		f.lodge(name, &it, fp)
		return Queued
	}
	f.store.Put(name, &it, fp, false)
	if it.Kind == Page {
		h.known++
	}
	if it.Wait > 0 {
		f.counts.queued.Add(-1) // enqueue counts it
		if !f.whole {
			f.away[it.ID] = struct{}{}
		}
		f.enqueue(h, it, now, now.Add(it.Wait))
		return Queued
	}
	f.admit(h, &it)
	f.offer(h, now, now)
	return Queued
}

// Expect announces a fingerprint that is about to be looked up or added, which makes its lookup quicker. It changes
// nothing else.
func (f *Frontier) Expect(fp uint64) { f.seen.Expect(fp) }

// Known reports whether a URL of that fingerprint has been accepted.
func (f *Frontier) Known(fp uint64) bool { return f.store.Known(fp) }

// AddRobots queues the request of a robots.txt after a redirect, ahead of all other URLs of its host and whether or not
// it was requested before. It reports false if there is no room for the host.
func (f *Frontier) AddRobots(now time.Time, it Item) bool {
	h := f.robotsHost(nameOf(it.URL))
	if h == nil {
		return false
	}
	it.Kind, it.Queued = Robots, now
	f.enqueue(h, it, now, now.Add(it.Wait))
	return true
}

// UsualSitemap is the path where a sitemap is looked for if nothing names one.
const UsualSitemap = "/sitemap.xml"

// isUsual reports whether a canonical URL has the path UsualSitemap.
func isUsual(url string) bool {
	at := len(url) - len(UsualSitemap)
	return at > 0 && strings.EqualFold(url[at:], UsualSitemap) && strings.Count(url, "/") == 3
}
