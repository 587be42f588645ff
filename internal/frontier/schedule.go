package frontier

import (
	"container/heap"
	"errors"
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl/internal/frontier/seen"
	"github.com/treadlight/crawl/internal/ratelimit"
)

// Frontier is the URLs of a crawl that are not yet visited, and which is next. Make it with New.
type Frontier struct {
	cfg      Config
	seen     seen.Set            // empty if there is a store
	stored   *storageQueue       // nil if there is none
	fleet    *fleet              // nil if one process has all hosts
	last     int64               // the largest ID given
	since    time.Time           // of the first lease; zero before
	bytes    int                 // of the URLs queued in memory
	hosts    map[string]*host    // at most MaxHosts
	excluded map[string]struct{} // hosts of which nothing is to be asked: at most maxExcluded
	roll     roll
	idle     []*host // hosts without work, oldest first; entries may be out of date
	due      schedule
	order    uint64

	sharing
	revising   int  // hosts, from the first on the roll, that Revise has not come to
	abandoning int  // hosts, from the first on the roll, that Abandon has come to
	keeping    bool // hosts may rest as there was no place for a request

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
	f := &Frontier{cfg: cfg.withDefaults(), hosts: make(map[string]*host), last: cfg.Left.LastID, excluded: make(map[string]struct{})}
	f.total, f.extra = f.cfg.Slots, f.cfg.ExtraSlots
	if cfg.Store != nil {
		f.stored = &storageQueue{
			Storage: cfg.Store, away: make(map[int64]struct{}), interim: make(map[string]interim),
			inactive: cfg.Left.Queued, forgot: cfg.Left.Known > 0, resting: newResting(),
		}
		f.counts.known.Store(cfg.Left.Known)
		if cfg.Owner != nil {
			f.fleet = &fleet{Ownership: cfg.Owner}
			f.stored.inactive, f.stored.forgot = 0, false
			return f, nil
		}
		f.counts.queued.Store(cfg.Left.Queued)
	}
	return f, nil
}

// Counts is the number of URLs in each state. It may be called from any goroutine.
func (f *Frontier) Counts() Counts { return f.counts.load() }

// Wake has a host looked at again, because what it waited for may have come.
func (f *Frontier) Wake(now time.Time, name string) {
	if h := f.hosts[ratelimit.Domain(name)]; h != nil {
		f.offer(h, now, now)
	}
}

// revised is how many hosts are looked at again in one go: half a millisecond, with what the pacer takes for each.
const revised = 64

// Revise has all hosts that wait for the pacer looked at again, piece by piece in Next, as a hundred thousand take a
// second.
func (f *Frontier) Revise(now time.Time) {
	f.held = time.Time{}
	if f.stored != nil {
		f.stored.resting = newResting()
	}
	f.revising = len(f.roll.hosts)
	f.reviseSome(now)
}

// reviseSome goes from the end of the roll to its beginning, as a host that is removed is replaced by the last.
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

// Next leases the URL of the host that comes up first. Without one it returns nil and the instant at which to ask
// again; zero means that only Release, End, Add, Wake, Include or Revise can change the answer. The caller keeps the
// leases with a slot within Config.Slots. It costs O(log hosts).
func (f *Frontier) Next(now time.Time) (*Lease, time.Time) {
	if f.fleet != nil {
		f.partLeaving(now)
	} else {
		f.activate(now)
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
		f.callNext(now)
		if len(f.due) == 0 {
			return nil, time.Time{}
		}
		h := f.due[0]
		if h.at.After(now) {
			if h.excluded { // and so are all behind it
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

// lease takes the next URL of a host that has come up, or schedules the host later or has it wait for a slot.
func (f *Frontier) lease(h *host, now time.Time) *Lease {
	called := h == f.nextUp
	if called {
		f.nextUp = nil
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
	if !f.classOpen(h.class) || h.class != classFast && !called && f.othersAhead(h.class) {
		h.inLine = true
		f.lines[h.class] = append(f.lines[h.class], h)
		f.waiting[h.class]++
		return nil
	}
	at, why := f.cfg.Pacer.ReadyAt(h.name, int(h.handed.Load()), int(f.handed.Load()))
	if at.After(now) {
		h.why, h.reason = why, ""
		switch why {
		case ratelimit.LimitGlobal, ratelimit.LimitGlobalConcurrency, ratelimit.LimitGlobalBytes:
			f.hold(h, called, at, why)
		default:
			f.offer(h, now, at)
		}
		return nil
	}
	if v.Pass == Go && f.isolate(h, it, now) {
		return nil
	}
	l := &Lease{extra: h.class == classStalled && f.roomExtra(), Foreign: h.foreign, host: h, all: &f.handed, at: now, due: h.at}
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
	f.out(l, now)
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

func (f *Frontier) pop(h *host, now time.Time) Item {
	it := h.pop(now)
	f.queue(&it, -1)
	if f.stored != nil && f.fleet == nil && it.ID != 0 {
		f.stored.away[it.ID] = struct{}{}
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

// out gives a lease its slot.
func (f *Frontier) out(l *Lease, now time.Time) {
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
		h.holding++
		if h.class != classFast {
			f.slowOut++
		}
		if f.fleet != nil {
			f.fleet.busy++
		}
	}
	h.handed.Add(1)
	f.handed.Add(1)
	h.why, h.reason = ratelimit.LimitNone, ""
	if l.Kind != Robots && l.Kind != Control && l.Attempt == 0 && l.Returns == 0 {
		h.asked++
	}
	f.counts.leased.Add(1)
	f.offer(h, now, now)
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// hold leaves a host in its place until all hosts may be asked again, so that ten thousand due hosts do not each ask
// at every token. Release ends it, as the limit may be on requests in flight.
func (f *Frontier) hold(h *host, called bool, until time.Time, why ratelimit.Limit) {
	heap.Push(&f.due, h)
	if called {
		f.nextUp = h
	}
	f.held, f.heldBy = until, why
}

// Bounds of the pause, doubling, of a host whose request had no place: the time of a page, up to where a thousand
// waiting hosts cost three hundred looks a second.
const (
	keepFirst  = 100 * time.Millisecond
	keepDouble = 5
)

// keep has a host pause for whose request there was no place, and returns until when.
func (f *Frontier) keep(h *host, now time.Time) time.Time {
	if f.fleet != nil {
		f.fleet.jammed = now.Add(jammedFor)
	}
	if !h.keptTil.After(now) { // several that were refused together are one
		h.keptTil = now.Add(keepFirst << min(h.kept, keepDouble))
		h.kept = min(h.kept, keepDouble) + 1
		f.keeping = true
	}
	return h.keptTil
}

// kept reports whether a host rests, and has it looked at again when it does not.
func (f *Frontier) kept(h *host, now time.Time) bool {
	if !h.keptTil.After(now) {
		return false
	}
	h.why, h.reason = ratelimit.LimitNone, retrying
	f.offer(h, now, h.keptTil)
	return true
}
