package frontier

import (
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit"
)

// Update is what a shared store reports without a request.
type Update struct {
	Ready  bool       // there may be hosts to activate
	Grown  []HostLeft // hosts of this process that got Queued more URLs; zero means an unknown number
	Lost   []HostLeft // hosts that this process no longer holds by that Lease, with all their URLs
	Wanted []string   // hosts of this process that other processes would take
	// Poorest is the smallest number of hosts that any process has which would take some of Wanted.
	Poorest int
}

const (
	// sweepFirst and sweepMost bound the pause between two requests for hosts while the store has none; the pause
	// doubles each time.
	sweepFirst, sweepMost = 50 * time.Millisecond, 2 * time.Second
	// jammedFor is how long no hosts are requested after a request found no place in our own queue.
	jammedFor = 30 * time.Second
	lingerFor = 2 * time.Second
	// yieldEvery is how often hosts are given to other processes; by the next time those given before are being worked
	// on.
	yieldEvery = time.Second
	// evenEvery is how often hosts are given away only to even out their number. It is long enough for the counts of
	// other processes to reflect the last time.
	evenEvery = 10 * time.Second
	// evenFrom is how many times as many hosts as another process a process must have to give some away: each host
	// given away costs one more robots.txt request.
	evenFrom = 3
	// evenLeast is how many URLs a host must have left to be given away; with fewer it is not worth learning its pace
	// again.
	evenLeast = 16
	// sharedMax bounds the URLs of a host in memory, since all of them have to be given back with the host.
	sharedMax = 256
	leaseOver = "lease: to be renewed"
)

type fleet struct {
	backlog
	askAt     time.Time // hosts are not requested before this instant
	pause     time.Duration
	spent     bool      // this process had nothing left to do the last time that it could request hosts
	found     bool      // a URL was put since hosts were requested last
	complete  bool      // at the last request for hosts no process had a URL, and none was put since; true if alone
	none      bool      // the last request for hosts got none, and no URL was put since; true if alone
	elsewhere time.Time // when a host comes up that no process held at the last request; zero means that none was known
	leaving   []*host   // hosts to be given back when the last of their leases has ended
	surplus   int       // how many more hosts may be given away because they wait for a slot here
	yielded   time.Time
	excess    int // how many more hosts may be given away because other processes have fewer
	evened    time.Time
	spared    time.Time // hosts are not requested before this instant: those given away are for others
}

// put adds a URL to the store. The store decides whether it is new and which process holds its host.
func (f *fleet) put(now time.Time, it *Item, fp uint64) Added {
	it.Queued = now
	f.complete, f.none, f.found = false, false, true
	f.counts.known.Add(1)
	f.store.Put(nameOf(it.URL), it, fp, true)
	return Queued
}

// Over reports whether nothing is left to do: for this process or, with a shared store, for all processes.
func (f *fleet) Over() bool { return f.drained() && f.complete }

// drained reports whether this process has nothing left to do.
func (f *fleet) drained() bool {
	c := f.counts.load()
	return c.Queued+c.Leased == 0
}

// sweep requests hosts if this process may take more; it is called when no URL that this process has can be leased now.
// It returns when to look again.
func (f *fleet) sweep(now, wake time.Time) time.Time {
	f.partIdle(now, lingerFor)
	if len(f.hosts) >= f.cfg.MaxHosts {
		f.partIdle(now, 0) // other hosts may have something to do
		if !now.Before(f.resting.next) {
			for _, h := range f.refusing(now, f.cfg.Slots, false) {
				f.part(h, now) // these have nothing to do for long either
			}
		}
	}
	spent := f.drained()
	if spent && !f.spent { // this may be the end of the job
		f.askAt, f.pause, f.spared = now, 0, time.Time{}
	}
	f.spent = spent
	room := min(f.cfg.MaxHosts-len(f.hosts), f.cfg.Slots) // few at a time, as other processes want some too
	if f.othersAhead(classNew) {
		room = 0 // hosts wait for a slot here, as new ones would: leave them to other processes
	}
	next := maxTime(f.askAt, f.spared)
	if !f.jammed.IsZero() {
		room, next = min(room, 1), maxTime(next, f.jammed) // one host shows whether there is place again
	}
	if !f.activating && room > 0 && !now.Before(next) {
		f.activating, f.found = true, false
		f.store.Activate(room)
	}
	soon := now.Add(time.Millisecond)
	if !f.activating && room > 0 {
		wake = clock.Earlier(wake, maxTime(next, soon))
	}
	if len(f.hosts) >= f.cfg.MaxHosts {
		wake = clock.Earlier(wake, maxTime(f.resting.next, soon))
	}
	return clock.Earlier(wake, f.idleFrom(lingerFor))
}

func (f *fleet) swept(now time.Time, a *Answer) {
	f.activating = false
	for _, left := range a.Hosts {
		if left.Tenure.Ended() {
			continue // an Update may have reported the loss already
		}
		if h := f.hosts[left.Name]; h != nil && !h.foreign {
			f.leave(h, now) // it was held by another lease, which was lost
		}
		if h := f.enter(&left); h != nil {
			f.expect(h, left.Queued)
			f.offer(h, now, now)
		}
	}
	if len(a.Hosts) > 0 {
		f.pause, f.askAt, f.complete, f.none = 0, now, false, false
		if !a.More {
			f.pause, f.askAt = sweepFirst, now.Add(sweepFirst)
		}
		return
	}
	f.complete, f.none = a.Complete && !f.found, !f.found // the answer may not include a URL found since the request
	f.elsewhere = time.Time{}
	if a.Due > 0 {
		f.elsewhere = now.Add(a.Due)
	}
	f.pause = min(max(2*f.pause, sweepFirst), sweepMost)
	f.askAt = now.Add(f.pause)
	if at := now.Add(a.Next); a.Next > 0 && at.Before(f.askAt) {
		f.askAt = at
	}
}

func (f *fleet) expect(h *host, n int) {
	if h.over == nil {
		h.over = new(overflow)
	}
	f.counts.queued.Add(int64(n - h.over.urls))
	if h.over.urls = n; n == 0 && !h.over.loading {
		h.over = nil
	}
}

// arrived takes the URLs of an answer into memory. From then on this process has them.
func (f *fleet) arrived(now time.Time, a *Answer) {
	h := f.hosts[a.Host]
	if h == nil || h.lease != a.Lease || h.foreign {
		return // the host was lost meanwhile
	}
	if h.over != nil {
		h.over.loading = false
	}
	for i := range a.Items {
		h.queue.push(a.Items[i])
		f.queue(&a.Items[i], 1)
	}
	f.expect(h, a.Left)
	f.offer(h, now, now)
}

func (f *fleet) updated(now time.Time, n Update) {
	if n.Ready {
		f.askAt, f.pause, f.none = now, 0, false
	}
	for _, lost := range n.Lost {
		if h := f.hosts[lost.Name]; h != nil && !h.foreign && h.lease == lost.Lease {
			f.leave(h, now)
		}
	}
	for _, left := range n.Grown {
		h := f.hosts[left.Name]
		if h == nil || h.foreign {
			continue
		}
		more := left.Queued
		if more == 0 && h.fresh() == 0 {
			more = 1 // the next answer says how many there are
		}
		if h.over != nil {
			more += h.over.urls
		}
		if h.over != nil || more > 0 {
			f.expect(h, more)
		}
		f.offer(h, now, now)
	}
	f.yield(now, n.Wanted, n.Poorest)
}

// yield marks hosts to be given to other processes: half of the waiting ones, if hosts wait here for a slot or for a
// place in our own queue. Every evenEvery it also gives half of its surplus to a process with far fewer hosts.
func (f *fleet) yield(now time.Time, names []string, poorest int) {
	if len(names) == 0 || f.held.After(now) {
		return
	}
	if !now.Before(f.yielded.Add(yieldEvery)) {
		f.yielded, f.surplus = now, (f.waitsForSlot(now)+f.waitsForPlace(now)+1)/2
	}
	if has := max(0, len(f.hosts)-len(f.idle)-len(f.leaving)); !now.Before(f.evened.Add(evenEvery)) && has >= evenFrom*(poorest+1) {
		f.evened, f.excess = now, (has-poorest)/2
	}
	for _, name := range names {
		if f.surplus == 0 && f.excess == 0 {
			return
		}
		h := f.hosts[name]
		if h == nil || h.foreign || h.excluded || h.leaving || h == f.nextUp || h.queued() == 0 {
			continue
		}
		switch {
		case f.surplus > 0:
			f.surplus--
		case h.queued() < evenLeast || h.index >= 0 && h.blocked() && h.at.After(now.Add(evenEvery)):
			continue // its next holder would be done before it knows the pace, or could send it nothing
		default:
			f.excess--
			f.spared = now.Add(2 * sweepMost) // other processes request hosts by then
		}
		h.leaving = true
		f.leaving = append(f.leaving, h)
	}
}

func (f *fleet) waitsForSlot(now time.Time) (n int) {
	n = f.waiting[classNew] + f.waiting[classSlow] - len(f.leaving)
	if 8*f.sharing.out < 7*f.cfg.Slots {
		return max(n, 0)
	}
	for _, h := range f.due {
		if len(h.out) == 0 && !h.at.After(now) {
			n++
		}
	}
	return max(n, 0)
}

func (f *fleet) waitsForPlace(now time.Time) (n int) {
	if !f.keeping {
		return 0
	}
	for _, h := range f.due {
		if h.keptTil.After(now) && !h.leaving {
			n++
		}
	}
	f.keeping = n > 0
	return n
}

func (f *fleet) partLeaving(now time.Time) {
	stay := f.leaving[:0]
	for _, h := range f.leaving {
		switch {
		case h.parted:
		case h.open > 0 || len(h.out) > 0 || h.over != nil && h.over.loading:
			stay = append(stay, h)
		default:
			f.part(h, now)
		}
	}
	clear(f.leaving[len(stay):])
	f.leaving = stay
}

// partIdle gives back the hosts that have had no URL for a while. Hosts that have work again are only removed from the
// list of idle hosts, since they may be busy for ever.
func (f *fleet) partIdle(now time.Time, while time.Duration) {
	for len(f.idle) > 0 && (f.idle[0].busy() || !f.idleFrom(while).After(now)) {
		switch h := f.unidle(); {
		case h == nil:
		case h.foreign:
			f.drop(h)
			h.parted = true
		default:
			f.part(h, now)
		}
	}
}

func (f *fleet) part(h *host, now time.Time) {
	at, _ := f.cfg.Pacer.ReadyAt(h.name, 0, 0)
	at = maxTime(maxTime(at, h.keptTil), now)
	if h.index >= 0 && !h.excluded && h.blocked() {
		at = maxTime(at, h.at)
	}
	f.leave(h, now)
	f.store.Deactivate(h.name, at)
}

// leave drops a host from memory with all its URLs. Leases of the host that are still open become void: its next holder
// requests their URLs again.
func (f *fleet) leave(h *host, now time.Time) {
	f.counts.queued.Add(-int64(h.queued()))
	away := f.unload(h)
	h.parted = true
	for _, it := range away {
		f.giveUpRobots(it, now)
	}
}

// outOfLease reports whether no request may be sent to a host, because it is to be given back or because its lease must
// be renewed first. In the second case it schedules the host again.
func (f *fleet) outOfLease(h *host, now time.Time) bool {
	if h.leaving {
		return true // partLeaving gives it back when the last of its leases has ended
	}
	if !h.tenure.Over(now) {
		return false
	}
	h.why, h.reason = ratelimit.LimitNone, leaseOver
	f.offer(h, now, now.Add(sweepFirst))
	return true
}
