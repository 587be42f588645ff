package frontier

import (
	"container/heap"
	"errors"
	"time"

	"github.com/treadlight/crawl/internal/ratelimit"
)

// Memory is a frontier that lives and dies with the process.
type Memory struct {
	cfg   Config
	seen  seenSet
	bytes int              // of the URLs queued
	hosts map[string]*host // at most MaxHosts
	idle  []*host          // hosts without work, oldest first; entries may be out of date
	due   schedule
	order uint64

	parked  [laneSlow + 1][]*host // hosts that wait for a slot of their lane, first come first
	slowOut int                   // slots held by hosts of the new and slow lanes
	quick   int                   // quick hosts that have work queued or out

	counts counts
}

// NewMemory returns an empty frontier. The error names the field of cfg that is wrong.
func NewMemory(cfg Config) (*Memory, error) {
	if cfg.Pacer == nil {
		return nil, errors.New("frontier: Pacer is nil: give it the rate limiter")
	}
	return &Memory{cfg: cfg.withDefaults(), hosts: make(map[string]*host)}, nil
}

// Counts is the number of URLs in each state. It may be called from any goroutine.
func (f *Memory) Counts() Counts { return f.counts.load() }

// Empty reports whether nothing is queued and nothing leased: the crawl is complete.
func (f *Memory) Empty() bool { return f.counts.queued.Load() == 0 && f.counts.leased.Load() == 0 }

// Fingerprint is the identity of a URL in this frontier.
func (f *Memory) Fingerprint(it *Item) uint64 { return it.URL.Fingerprint(f.cfg.Key) }

// Add offers a URL, whose fingerprint the caller has computed (it costs CPU time that
// the frontier's goroutine need not spend).
func (f *Memory) Add(now time.Time, it Item, fp uint64) Added {
	if f.seen.has(fp) {
		return Seen
	}
	if f.seen.len() >= f.cfg.MaxURLs || f.bytes >= usualLength*f.cfg.MaxURLs {
		return Full
	}
	h := f.host(it.URL.Host())
	if h == nil {
		return HostsFull
	}
	if f.cfg.MaxPagesPerHost > 0 && int(h.known) >= f.cfg.MaxPagesPerHost {
		f.settle(h, now)
		return HostPages
	}
	f.seen.add(fp)
	h.known++
	f.counts.known.Add(1)
	it.Queued = now
	h.fifo.push(it)
	f.queue(&it, 1)
	f.offer(h, now, now)
	return Queued
}

// AddRobots queues a robots.txt request ahead of everything else of its host, and
// without asking whether it has been seen: it is how a redirect of robots.txt is followed.
func (f *Memory) AddRobots(now time.Time, it Item) bool {
	h := f.host(it.URL.Host())
	if h == nil {
		return false
	}
	it.Kind, it.Queued = Robots, now
	f.enqueue(h, it, now, now)
	return true
}

// queue counts an item that joins (1) or leaves (-1) a queue.
func (f *Memory) queue(it *Item, n int) {
	f.counts.queued.Add(int64(n))
	f.bytes += n * len(it.URL.String())
}

// enqueue queues an item that may not be leased before an instant.
func (f *Memory) enqueue(h *host, it Item, now, notBefore time.Time) {
	heap.Push(&h.later, delayed{it, notBefore})
	f.queue(&it, 1)
	f.offer(h, now, notBefore)
}

// host finds or makes the host of a name. It is nil when MaxHosts are known and every
// one has work, or would lose its page budget by being forgotten. A forgotten host
// begins again as a new one, which is the more careful way to treat it.
func (f *Memory) host(name string) *host {
	if h := f.hosts[name]; h != nil {
		return h
	}
	if len(f.hosts) >= f.cfg.MaxHosts && !f.forget() {
		return nil
	}
	h := &host{name: name, index: -1}
	f.hosts[name] = h
	f.counts.hosts.Store(int64(len(f.hosts)))
	return h
}

// forget drops the host that has been without work the longest.
func (f *Memory) forget() bool {
	if f.cfg.MaxPagesPerHost > 0 {
		return false
	}
	for len(f.idle) > 0 {
		h := f.idle[0]
		f.idle[0] = nil
		f.idle = f.idle[1:]
		h.idle = false
		if h.queued() == 0 && len(h.out) == 0 {
			delete(f.hosts, h.name)
			return true
		}
	}
	return false
}

// settle keeps the books of a host after its work changed or time has passed: the lane
// in which its slots are counted, whether it is a quick one with work, and whether it
// may be forgotten.
func (f *Memory) settle(h *host, now time.Time) {
	if ln := h.laneAt(now); ln != h.lane {
		switch {
		case h.lane == laneQuick:
			f.slowOut += len(h.out)
		case ln == laneQuick:
			f.slowOut -= len(h.out)
			h.parked = false // its entry among the parked is skipped when it comes up
		}
		h.lane = ln
	}
	busy := h.queued() > 0 || len(h.out) > 0
	if quick := busy && h.lane == laneQuick; quick != h.quick {
		h.quick = quick
		if quick {
			f.quick++
		} else {
			f.quick--
		}
	}
	if !busy && !h.idle {
		h.idle = true
		f.idle = append(f.idle, h)
	}
}

// offer puts a host into the schedule, no later than at. Hosts at their PerHost bound
// stay out until a slot is freed, parked ones until their lane has a slot.
func (f *Memory) offer(h *host, now, at time.Time) {
	f.settle(h, now)
	if h.queued() == 0 || h.parked || len(h.out) >= f.cfg.PerHost {
		return
	}
	if h.index >= 0 {
		if at.Before(h.at) {
			h.at = at
			heap.Fix(&f.due, h.index)
		}
		return
	}
	h.at = at
	f.order++
	h.order = f.order
	heap.Push(&f.due, h)
}

// Wake has a host looked at again, because what it waited for may have come.
func (f *Memory) Wake(now time.Time, name string) {
	if h := f.hosts[name]; h != nil {
		f.offer(h, now, now)
	}
}

// Next leases the URL of the host that comes up first. Without one it returns nil and
// the instant at which to ask again; a zero instant means that only a Freed, Retry,
// Return, Add or Wake can change the answer. The caller keeps the number of leases
// with a slot within Config.Slots. It costs O(log hosts).
func (f *Memory) Next(now time.Time) (*Lease, time.Time) {
	for {
		f.unpark(now)
		if len(f.due) == 0 {
			return nil, time.Time{}
		}
		h := f.due[0]
		if h.at.After(now) {
			return nil, h.at
		}
		heap.Pop(&f.due)
		if l := f.lease(h, now); l != nil {
			return l, time.Time{}
		}
	}
}

// lease takes the next URL of a host that has come up, or puts the host where it has
// to wait: into the schedule at a later instant, or aside for a slot.
func (f *Memory) lease(h *host, now time.Time) *Lease {
	it, ok := h.peek(now)
	if !ok {
		if h.queued() > 0 {
			h.why, h.reason = ratelimit.LimitNone, "retry"
			f.offer(h, now, h.due(now))
		}
		return nil
	}
	v := Verdict{Pass: Go}
	if it.Kind == Page && f.cfg.Gate != nil {
		v = f.cfg.Gate.Check(it.URL, now)
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
	if !f.laneOpen(h.lane) {
		h.parked = true
		f.parked[h.lane] = append(f.parked[h.lane], h)
		return nil
	}
	at, why := f.cfg.Pacer.ReadyAt(h.name, int(h.handed.Load()))
	if at.After(now) {
		h.why, h.reason = why, ""
		f.offer(h, now, at)
		return nil
	}
	l := &Lease{host: h, at: now}
	if v.Pass == Ask {
		l.Item = robotsItem(it, now)
	} else {
		l.Item = h.pop(now)
		f.queue(&l.Item, -1)
	}
	f.out(l, now)
	return l
}

// robotsItem asks for the rules under which it falls.
func robotsItem(it *Item, now time.Time) Item {
	origin := it.URL.Origin()
	u, err := it.URL.Resolve("/robots.txt")
	if err != nil {
		// A canonical URL always has a root to resolve against.
		panic("frontier: resolve /robots.txt against " + it.URL.String() + ": " + err.Error())
	}
	return Item{URL: u, Origin: origin, Kind: Robots, Queued: now}
}

// refuse leases a URL that needs no slot because it must not be fetched. It does not
// count against the host's page budget.
func (f *Memory) refuse(h *host, now time.Time, why *Refusal) *Lease {
	l := &Lease{Item: h.pop(now), Refused: why, host: h, at: now, started: true, freed: true}
	h.known--
	f.queue(&l.Item, -1)
	f.counts.leased.Add(1)
	f.offer(h, now, now)
	return l
}

// out gives a lease its slot.
func (f *Memory) out(l *Lease, now time.Time) {
	h := l.host
	h.out = append(h.out, l)
	h.handed.Add(1)
	h.why, h.reason = ratelimit.LimitNone, ""
	if h.lane != laneQuick {
		f.slowOut++
	}
	if l.Kind == Page && l.Attempt == 0 && l.Returns == 0 {
		h.leased++
	}
	f.counts.leased.Add(1)
	f.offer(h, now, now)
}

// laneOpen reports whether a host of the lane may take one more slot.
func (f *Memory) laneOpen(ln lane) bool {
	half := max(1, f.cfg.Slots/2)
	switch ln {
	case laneNew:
		return f.slowOut < half
	case laneSlow:
		return f.slowOut < half || f.quick == 0
	}
	return true
}

// unpark returns to the schedule the first host of each lane that has a slot again.
func (f *Memory) unpark(now time.Time) {
	for _, ln := range [...]lane{laneNew, laneSlow} {
		for len(f.parked[ln]) > 0 && f.laneOpen(ln) {
			h := f.parked[ln][0]
			f.parked[ln][0] = nil
			f.parked[ln] = f.parked[ln][1:]
			if h.parked { // and did not leave by itself, having become quick
				h.parked = false
				f.offer(h, now, now)
				break
			}
		}
	}
}

// Freed says that the slot of a lease is free again: its fetch is over, or was not begun.
func (f *Memory) Freed(now time.Time, l *Lease) {
	if l.freed {
		return
	}
	l.freed = true
	l.Started()
	h := l.host
	h.free(l)
	if h.lane != laneQuick {
		f.slowOut--
	}
	h.held(now.Sub(l.at))
	f.offer(h, now, now)
}

// Done acknowledges a lease: its outcome is recorded, and its URL is visited.
func (f *Memory) Done(now time.Time, l *Lease) {
	f.finish(l)
	if h := l.host; l.Refused == nil {
		h.failing, h.refused = false, false
	}
	f.settle(l.host, now)
}

// Retry queues the URL of a lease again, not before an instant. A try is spent unless
// the host said "not now" or the fetch was never begun.
func (f *Memory) Retry(now time.Time, l *Lease, notBefore time.Time, spend bool) {
	f.finish(l)
	l.host.failing, l.host.refused = true, !spend
	it := l.Item
	if spend {
		it.Attempt++
	} else if it.Returns < 1<<16-1 {
		it.Returns++
	}
	f.enqueue(l.host, it, now, notBefore)
}

// finish ends a lease once; ending it twice is a mistake in the program that would
// make the count of what is left wrong, and the end of the crawl with it.
func (f *Memory) finish(l *Lease) {
	if l.finished {
		panic("frontier: a lease of " + l.URL.String() + " ended twice")
	}
	l.finished = true
	f.counts.leased.Add(-1)
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
