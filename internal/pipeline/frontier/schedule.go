package frontier

import (
	"container/heap"
	"errors"
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// Frontier is the URLs of a crawl that are not yet visited, and which is next. Make it
// with New.
type Frontier struct {
	cfg    Config
	seen   seenSet             // empty if there is a store
	vault  *vault              // nil if there is none
	fleet  *fleet              // nil if the vault is not shared
	last   int64               // the largest ID given
	since  time.Time           // of the first lease; zero before
	bytes  int                 // of the URLs queued in memory
	hosts  map[string]*host    // at most MaxHosts
	barred map[string]struct{} // hosts of which nothing is to be asked: at most maxBarred
	roll   roll
	idle   []*host // hosts without work, oldest first; entries may be out of date
	due    schedule
	order  uint64

	parked   [laneSlow + 1][]*host // hosts that wait for a slot of their lane, first come first; some have left
	waiting  [laneSlow + 1]int     // how many of them still wait
	called   *host                 // the parked host whose turn it is, until it comes up; nil for none
	lastLane lane                  // of the last one called
	revising int                   // hosts, from the first on the roll, that Revise has not come to
	slowOut  int                   // slots held by hosts of the new and slow lanes
	quick    int                   // quick hosts that have work queued or out

	held   time.Time // no host may be asked before; in the past if that is not so
	heldBy ratelimit.Limit
	handed atomic.Int32 // leases of all hosts whose holder has not asked for its permit
	counts counts
}

// New returns an empty frontier. The error names the field of cfg that is wrong.
func New(cfg Config) (*Frontier, error) {
	if cfg.Pacer == nil {
		return nil, errors.New("frontier: Pacer is nil: give it the rate limiter")
	}
	f := &Frontier{cfg: cfg.withDefaults(), hosts: make(map[string]*host), last: cfg.Left.LastID, barred: make(map[string]struct{})}
	if cfg.Store != nil {
		f.vault = &vault{
			Store: cfg.Store, away: make(map[int64]struct{}), interim: make(map[string]interim),
			dormant: cfg.Left.Queued, forgot: cfg.Left.Known > 0, resting: newResting(),
		}
		f.counts.known.Store(cfg.Left.Known)
		if shared, ok := cfg.Store.(Shared); ok {
			f.fleet = &fleet{Shared: shared}
			f.vault.dormant, f.vault.forgot = 0, false
			return f, nil
		}
		f.counts.queued.Store(cfg.Left.Queued)
	}
	return f, nil
}

// Counts is the number of URLs in each state. It may be called from any goroutine.
func (f *Frontier) Counts() Counts { return f.counts.load() }

// Fingerprint is the identity of a URL in this frontier.
func (f *Frontier) Fingerprint(it *Item) uint64 { return it.URL.Fingerprint(f.cfg.Key) }

// Add offers a URL, whose fingerprint the caller has computed (it costs CPU time that
// the frontier's goroutine need not spend).
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
	if h == nil && f.vault == nil {
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
	case f.vault != nil:
		f.vault.Put(name, &it, fp, false)
	default:
		f.seen.add(fp)
	}
	if it.Kind == Page {
		h.known++
	}
	f.admit(h, &it)
	f.offer(h, now, now)
	return Queued
}

// Known reports whether a URL of that fingerprint has been accepted.
func (f *Frontier) Known(fp uint64) bool {
	if f.vault != nil {
		return f.vault.Known(fp)
	}
	return f.seen.has(fp)
}

// AddRobots queues a robots.txt request ahead of everything else of its host, and
// without asking whether it has been seen: it is how a redirect of robots.txt is followed.
func (f *Frontier) AddRobots(now time.Time, it Item) bool {
	h := f.robotsHost(nameOf(it.URL))
	if h == nil {
		return false
	}
	it.Kind, it.Queued = Robots, now
	f.enqueue(h, it, now, now)
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
		f.forsake(&it, now)
		return // it is asked again by who has the host next
	}
	if it.since > 0 {
		heap.Push(&h.bad.shy, delayed{it, notBefore})
	} else {
		heap.Push(&h.later, delayed{it, notBefore})
	}
	f.queue(&it, 1)
	f.offer(h, now, notBefore)
}

// offer puts a host into the schedule, no later than at. Hosts at their PerHost bound
// stay out until a slot is freed, parked ones until their lane has a slot.
func (f *Frontier) offer(h *host, now, at time.Time) {
	if h.parted {
		return
	}
	f.settle(h, now)
	if h.queued() == 0 || h.parked || len(h.out) >= int(h.slots) {
		return
	}
	if h.barred {
		at = now.Add(barredFor)
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

// Wake has a host looked at again, because what it waited for may have come.
func (f *Frontier) Wake(now time.Time, name string) {
	if h := f.hosts[ratelimit.Domain(name)]; h != nil {
		f.offer(h, now, now)
	}
}

// revised is how many hosts are looked at again in one go: half a millisecond, with what the
// pacer takes for each.
const revised = 64

// Revise has all hosts that wait for the pacer looked at again, because it may say
// otherwise now. Among a hundred thousand that takes a second, so that Next does it piece by
// piece, and asks to be called again at once until it is done.
func (f *Frontier) Revise(now time.Time) {
	f.held = time.Time{}
	if f.vault != nil {
		f.vault.resting = newResting()
	}
	f.revising = len(f.roll.hosts)
	f.reviseSome(now)
}

// reviseSome goes on with it, from the end of the roll to its beginning: whoever takes the
// place of a host that goes has been looked at, or comes up later.
func (f *Frontier) reviseSome(now time.Time) {
	f.revising = min(f.revising, len(f.roll.hosts))
	for n := 0; n < revised && f.revising > 0; n++ {
		f.revising--
		if h := f.roll.hosts[f.revising]; h.index >= 0 && h.reason == "" && h.at.After(now) {
			h.at = now
			heap.Fix(&f.due, int(h.index))
		}
	}
}

// Next leases the URL of the host that comes up first. Without one it returns nil and
// the instant at which to ask again; a zero instant means that only a Freed, Retry,
// NotNow, Return, Add, Wake, Unbar or Revise can change the answer. The caller keeps the number of leases
// with a slot within Config.Slots. It costs O(log hosts).
func (f *Frontier) Next(now time.Time) (*Lease, time.Time) {
	if f.fleet != nil {
		f.partLeaving(now)
	} else {
		f.rouse(now)
	}
	f.reviseSome(now)
	l, wake := f.next(now)
	switch {
	case l != nil:
	case f.fleet != nil:
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
		f.unpark(now)
		if len(f.due) == 0 {
			return nil, time.Time{}
		}
		h := f.due[0]
		if h.at.After(now) {
			if h.barred { // and so are all behind it
				return nil, time.Time{}
			}
			return nil, h.at
		}
		if f.held.After(now) {
			return nil, f.held
		}
		heap.Pop(&f.due)
		if l := f.lease(h, now); l != nil {
			return l, time.Time{}
		}
	}
}

// lease takes the next URL of a host that has come up, or puts the host where it has
// to wait: into the schedule at a later instant, or aside for a slot.
func (f *Frontier) lease(h *host, now time.Time) *Lease {
	called := h == f.called
	if called {
		f.called = nil
	}
	if f.kept(h, now) || f.outOfLease(h, now) {
		return nil
	}
	it := h.peek(now)
	f.refill(h)
	if it == nil {
		h.why, h.reason = ratelimit.LimitNone, retrying
		if h.over != nil {
			h.reason = loading
		}
		if due := h.due(); !due.IsZero() {
			f.offer(h, now, due)
		}
		return nil
	}
	v := Verdict{Pass: Go}
	if it.Kind != Robots && f.cfg.Gate != nil {
		v = f.cfg.Gate.Check(it, now)
	}
	switch v.Pass {
	case Refuse:
		return f.refuse(h, now, v.Refusal)
	case Wait:
		h.why, h.reason = ratelimit.LimitNone, v.Reason
		if !v.Until.IsZero() {
			f.offer(h, now, maxTime(v.Until, now.Add(time.Millisecond)))
		}
		return nil
	}
	f.settle(h, now)
	if !f.laneOpen(h.lane) || h.lane != laneQuick && !called && f.othersAhead() {
		f.park(h)
		return nil
	}
	at, why := f.cfg.Pacer.ReadyAt(h.name, int(h.handed.Load()), int(f.handed.Load()))
	if at.After(now) {
		h.why, h.reason = why, ""
		if forAll(why) {
			f.hold(h, called, at, why)
		} else {
			f.offer(h, now, at)
		}
		return nil
	}
	l := &Lease{Unheard: !h.heard, Guest: h.blind, Forbids: h.forbids(), Met: h.met, host: h, all: &f.handed, at: now, due: h.at}
	if v.Pass == Ask {
		l.Item, l.Cause = robotsItem(it, now), it.URL
	} else {
		l.Item = f.pop(h, now)
		f.watch(l)
	}
	f.out(l, now)
	return l
}

// pop takes the next URL of a host out of its queue.
func (f *Frontier) pop(h *host, now time.Time) Item {
	it := h.pop(now)
	f.queue(&it, -1)
	if f.vault != nil && f.fleet == nil && it.ID != 0 {
		f.vault.away[it.ID] = struct{}{}
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
	return Item{URL: u, Origin: origin, Kind: Robots, Queued: now, Depth: it.Depth}
}

// refuse leases a URL that needs no slot because it must not be fetched. It does not
// count against the host's page budget.
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

// out gives a lease its slot.
func (f *Frontier) out(l *Lease, now time.Time) {
	h := l.host
	h.seq++
	l.seq = h.seq
	if h.seq == 1 {
		h.first = f.tenths(now)
	}
	h.out = append(h.out, l)
	h.open++
	if f.fleet != nil {
		f.fleet.busy++
	}
	h.handed.Add(1)
	f.handed.Add(1)
	h.why, h.reason = ratelimit.LimitNone, ""
	if h.lane != laneQuick {
		f.slowOut++
	}
	if l.Kind != Robots && l.Attempt == 0 && l.Returns == 0 {
		h.asked++
	}
	f.counts.leased.Add(1)
	f.offer(h, now, now)
}

// Freed says that the slot of a lease is free again: its request is over, after the time
// it took, or was not made, when took is zero.
func (f *Frontier) Freed(now time.Time, l *Lease, took time.Duration) {
	if l.freed {
		return
	}
	l.freed = true
	l.Started()
	if f.fleet != nil {
		f.fleet.busy--
	}
	f.held = time.Time{} // there may be room again
	h := l.host
	h.free(l)
	h.latest = f.tenths(now)
	if h.lane != laneQuick {
		f.slowOut--
	}
	if took > 0 {
		h.held(took)
		h.kept = 0
	}
	f.offer(h, now, now)
}

// Heard says that the host has answered the request of a lease, whatever the answer. A
// host that is forgotten and found again has to be heard again.
func (f *Frontier) Heard(l *Lease) { l.host.heard = true }

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

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
