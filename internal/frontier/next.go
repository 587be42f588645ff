package frontier

import (
	"errors"
	"math"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/treadlight/crawl/internal/ratelimit"
)

// Frontier is the URLs of a crawl that are not yet visited, and which is next. Make it with New. Each part of it uses
// those below alone: the leases, here; what several processes agree on (fleet); what lies in the store (backlog); when
// each host comes up (timetable), by the slots (sharing); and the hosts in memory (roster).
type Frontier struct {
	fleet
	demand     func(domain string, urls int) // tells the pacer how many URLs wait; nil if it does not listen
	abandoning int                           // hosts, from the first on the roll, that Abandon has come to
}

// New returns an empty frontier. The error names the field of cfg that is wrong.
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
	f.hosts, f.excluded = make(map[string]*host), make(map[string]struct{})
	f.away, f.interim, f.resting = make(map[int64]struct{}), make(map[string]HostLeft), newResting()
	f.total, f.extra = f.cfg.Slots, f.cfg.ExtraSlots
	f.counts.known.Store(cfg.Left.Known)
	switch {
	case f.store == nil:
		f.store, f.whole, f.headMost, f.cfg.Resident = memory{&f.seen}, true, math.MaxInt, math.MaxInt
	case f.shared:
		f.headMost, f.cfg.MaxPagesPerHost = sharedMax, 0 // which is the store's to keep
	default:
		f.inactive, f.forgot = cfg.Left.Queued, cfg.Left.Known > 0
		f.counts.queued.Store(cfg.Left.Queued)
	}
	return f, nil
}

// Counts is the number of URLs in each state. It may be called from any goroutine.
func (f *Frontier) Counts() Counts { return f.counts.load() }

// Take takes in an answer of the store. An error says that the store has lost URLs, and the crawl cannot go on.
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

// Next leases the URL of the host that comes up first. Without one it returns nil and the instant at which to ask
// again; zero means that only Release, End, Add, Wake, Include or Revise can change the answer. The caller keeps the
// leases with a slot within Config.Slots. It costs O(log hosts).
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

// next leases the URL of the host that comes up first of those in memory.
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

// lease takes the next URL of a host that has come up, or schedules the host later or has it wait for a slot.
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
		return nil // what is sent beside a control request would say that the host fails still; Release offers the host again
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
		f.offer(h, now, h.retries.later[0].notBefore) // the rules have moved, and are asked for then
	}
}

// upNext is the item to be leased next; nil when nothing is due at now. Pages beyond the bound of their host, which were
// found while it was inactive, are dropped when their turn comes.
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

// robotsItem asks for the rules under which it falls.
func robotsItem(it *Item, now time.Time) Item {
	origin := it.URL.Origin()
	u, err := it.URL.Resolve("/robots.txt")
	if err != nil {
		// A canonical URL always has a root to resolve against.
		panic("frontier: resolve /robots.txt against " + it.URL.String() + ": " + err.Error())
	}
	return Item{URL: u, Origin: origin, Kind: Robots, Queued: now, Found: Found{Depth: it.Depth}}
}

// refuse leases a URL that must not be fetched: it needs no slot and does not count against the page budget.
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

// manyQueued is how many URLs of a host are so many that the pacer need not be told each time how many there are.
const manyQueued = 100

func (f *Frontier) grant(l *Lease, now time.Time) {
	h := l.host
	l.Evidence = h.history.Begin(l.subject(), &l.Tries)
	if l.Evidence.Number() == 1 {
		h.first = f.tenths(now)
	}
	h.out = append(h.out, l)
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
	if l.Kind != Robots && l.Kind != Control && l.Attempt == 0 && l.Returns == 0 {
		h.asked++
	}
	if l.Kind == Page && l.None() {
		h.pages++
	}
	f.counts.leased.Add(1)
	f.offer(h, now, now)
}

// Fingerprint is the identity of a URL in this frontier.
func (f *Frontier) Fingerprint(it *Item) uint64 { return it.Fingerprint(f.cfg.Key) }

// Fingerprint is the identity of an item in a crawl of a key.
func (it *Item) Fingerprint(key uint64) uint64 {
	return Identity(it.URL.Fingerprint(key), it.URL.String(), it.Request, it.Kind)
}

// asSitemap tells the fingerprint of a sitemap at the usual place from that of a page there.
const asSitemap = 0x9e3779b97f4a7c15

// Identity is the fingerprint of an item, by that of its URL. What is asked for besides the URL makes it another
// resource. A sitemap is looked for at the usual place of every origin, so it is not the page there that others link to.
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
	_, _ = d.WriteString(identity) // a hash has nowhere to fail
	return d.Sum64()
}

// Add offers a URL. The caller has computed the fingerprint outside of the frontier's goroutine.
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

// Expect announces a fingerprint that is about to be asked for or added, so that its lookup is quicker. It changes
// nothing else.
func (f *Frontier) Expect(fp uint64) { f.seen.Expect(fp) }

// Known reports whether a URL of that fingerprint has been accepted.
func (f *Frontier) Known(fp uint64) bool { return f.store.Known(fp) }

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

// isUsual reports whether that is the place of the canonical URL of that text.
func isUsual(url string) bool {
	at := len(url) - len(UsualSitemap)
	return at > 0 && strings.EqualFold(url[at:], UsualSitemap) && strings.Count(url, "/") == 3
}
