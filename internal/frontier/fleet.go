package frontier

import (
	"container/heap"
	"strings"
	"time"

	"github.com/treadlight/crawl/internal/ratelimit"
)

// Update is what a shared store tells without having been asked.
type Update struct {
	Ready  bool       // hosts may be there to be activated
	Grown  []HostLeft // hosts of ours that got so many more URLs; zero: some
	Lost   []string   // hosts that are not ours any more, all their URLs with them
	Wanted []string   // hosts of ours that others would take
	// Poorest is the fewest hosts that a process has which wants some of Wanted.
	Poorest int
}

const (
	// sweepFirst and sweepMost bound the pause, doubling, between requests to the store for hosts while it has none.
	sweepFirst, sweepMost = 50 * time.Millisecond, 2 * time.Second
	// jammedFor is how long no hosts are asked for after a request found no place.
	jammedFor = 30 * time.Second
	lingerFor = 2 * time.Second
	// yieldEvery is how often hosts are given to others; by then those given before are being worked on.
	yieldEvery = time.Second
	// evenEvery is how often hosts are given away only to even out; it outlasts the news of before the last time.
	evenEvery = 10 * time.Second
	// evenFrom is the factor by which one must have more hosts than another to give some: each costs a robots.txt
	// more.
	evenFrom = 3
	// evenLeast is how many URLs a host must have left to be given away, to be worth learning its pace again.
	evenLeast = 16
	// sharedMax bounds the URLs of a host in memory: what is here has to be given back with the host.
	sharedMax = 256
	leaseOver = "lease: to be renewed"
)

type fleet struct {
	Ownership
	next     time.Time // no question for hosts before
	pause    time.Duration
	idle     bool      // nothing was left here when hosts were last to be asked for
	found    bool      // a URL was put since hosts were asked for last
	complete bool      // no process had any URL left when that was asked last, and none was put since
	none     bool      // no host was to be had when that was asked last, and no URL was put since
	due      time.Time // when a host comes up that no process had then; zero: none was known
	dry      []parted  // hosts without URLs, the first to go first
	busy     int       // slots that are held
	leaving  []*host   // hosts to be given back when the last of their leases has ended
	surplus  int       // hosts that may be given to others yet, as they wait for a slot here
	yielded  time.Time
	excess   int // hosts that may be given to others yet, as those have fewer
	evened   time.Time
	spared   time.Time // no host is asked for before: those that were given are for others
	jammed   time.Time // nor before this, as there is no place for a request; zero: one was made since
}

type parted struct {
	h    *host
	till time.Time
}

// Over reports whether nothing is left to do: for this process, or with a shared store for all of them.
func (f *Frontier) Over() bool {
	c := f.counts.load()
	return c.Queued+c.Leased == 0 && (f.fleet == nil || f.fleet.complete)
}

func (f *Frontier) put(now time.Time, it *Item, fp uint64) Added {
	it.Queued = now
	f.fleet.complete, f.fleet.none, f.fleet.found = false, false, true
	f.counts.known.Add(1)
	f.stored.Put(nameOf(it.URL), it, fp, true)
	return Queued
}

// sweep asks for hosts, as nothing that this process has can be leased now, and returns when to look again.
func (f *Frontier) sweep(now, wake time.Time) time.Time {
	fl, v := f.fleet, f.stored
	f.partDry(now, now)
	if len(f.hosts) >= f.cfg.MaxHosts {
		f.partDry(now, now.Add(lingerFor)) // others may have something to do
		f.makePlace(now)
	}
	c := f.counts.load()
	idle := c.Queued+c.Leased == 0
	if idle && !fl.idle { // it may be the end
		fl.next, fl.pause, fl.spared = now, 0, time.Time{}
	}
	fl.idle = idle
	room := min(f.cfg.MaxHosts-len(f.hosts), f.cfg.Slots) // few at a time, as others want some
	if f.othersAhead(classNew) {
		room = 0 // hosts wait for a slot here, and so would those that come: others may have them
	}
	next := maxTime(fl.next, fl.spared)
	if !fl.jammed.IsZero() {
		room, next = min(room, 1), maxTime(next, fl.jammed) // with one it is seen whether there is place again
	}
	if !v.activating && room > 0 && !now.Before(next) {
		v.activating, fl.found = true, false
		v.Activate(room)
	}
	soon := now.Add(time.Millisecond)
	if !v.activating && room > 0 {
		wake = earlier(wake, maxTime(next, soon))
	}
	if len(f.hosts) >= f.cfg.MaxHosts {
		wake = earlier(wake, maxTime(v.resting.next, soon))
	}
	if len(fl.dry) > 0 {
		wake = earlier(wake, fl.dry[0].till)
	}
	return wake
}

func (f *Frontier) swept(now time.Time, a *Answer) {
	fl := f.fleet
	f.stored.activating = false
	for _, left := range a.Hosts {
		h := f.hosts[left.Name]
		if h != nil && !h.foreign || fl.Until(left.Name).IsZero() {
			continue // it was lost since
		}
		if h == nil {
			h = f.adopt(left.Name)
		}
		h.foreign, h.known, h.lease = false, int32(left.Pages), left.Lease
		h.history.Visited = left.Pages > left.Queued
		f.expect(h, left.Queued)
		f.offer(h, now, now)
	}
	if len(a.Hosts) > 0 {
		fl.pause, fl.next, fl.complete, fl.none = 0, now, false, false
		if !a.More {
			fl.pause, fl.next = sweepFirst, now.Add(sweepFirst)
		}
		return
	}
	fl.complete, fl.none = a.Complete && !fl.found, !fl.found // the answer may not know of it
	fl.due = time.Time{}
	if a.Due > 0 {
		fl.due = now.Add(a.Due)
	}
	fl.pause = min(max(2*fl.pause, sweepFirst), sweepMost)
	fl.next = now.Add(fl.pause)
	if at := now.Add(a.Next); a.Next > 0 && at.Before(fl.next) {
		fl.next = at
	}
}

func (f *Frontier) expect(h *host, n int) {
	was := 0
	if h.over != nil {
		was = h.over.left
	}
	f.counts.queued.Add(int64(n - was))
	switch {
	case h.over != nil:
		h.over.left = n
	case n > 0:
		h.over = &overflow{left: n}
	}
	if n == 0 && h.over != nil && !h.over.loading {
		h.over = nil
	}
}

// arrived takes the URLs of an answer into memory. They are this process's from then on.
func (f *Frontier) arrived(now time.Time, a *Answer) {
	h := f.hosts[a.Host]
	if h == nil || h.lease != a.Lease || h.foreign {
		return // it was lost meanwhile
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
	f.review(h, now)
}

func (f *Frontier) updated(now time.Time, n Update) {
	if n.Ready {
		f.fleet.next, f.fleet.pause, f.fleet.none = now, 0, false
	}
	for _, name := range n.Lost {
		if h := f.hosts[name]; h != nil && !h.foreign {
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
			more = 1 // the next answer tells how many
		}
		if h.over != nil {
			more += h.over.left
		}
		if h.over != nil || more > 0 {
			f.expect(h, more)
		}
		f.offer(h, now, now)
	}
	f.yield(now, n.Wanted, n.Poorest)
}

// yield gives half of the waiting hosts to others, if more wait for a slot or a place here than have one. Seldom, it
// also gives half of its surplus to an idle process with far fewer hosts.
func (f *Frontier) yield(now time.Time, names []string, poorest int) {
	fl := f.fleet
	if len(names) == 0 || f.held.After(now) {
		return
	}
	if !now.Before(fl.yielded.Add(yieldEvery)) {
		fl.yielded, fl.surplus = now, (f.waitsForSlot(now)+f.waitsForPlace(now)+1)/2
	}
	if has := max(0, len(f.hosts)-len(fl.dry)-len(fl.leaving)); !now.Before(fl.evened.Add(evenEvery)) && has >= evenFrom*(poorest+1) {
		fl.evened, fl.excess = now, (has-poorest)/2
	}
	for _, name := range names {
		if fl.surplus == 0 && fl.excess == 0 {
			return
		}
		h := f.hosts[name]
		if h == nil || h.foreign || h.excluded || h.leaving || h == f.nextUp || h.queued() == 0 {
			continue
		}
		switch {
		case fl.surplus > 0:
			fl.surplus--
		case h.queued() < evenLeast || h.index >= 0 && h.blocked() && h.at.After(now.Add(evenEvery)):
			continue // the next has hardly found its pace when it is done, or nothing to ask of it
		default:
			fl.excess--
			fl.spared = now.Add(2 * sweepMost) // others ask by then
		}
		h.leaving = true
		fl.leaving = append(fl.leaving, h)
	}
}

func (f *Frontier) waitsForSlot(now time.Time) (n int) {
	n = f.waiting[classNew] + f.waiting[classSlow] - len(f.fleet.leaving)
	if 8*f.fleet.busy < 7*f.cfg.Slots {
		return max(n, 0)
	}
	for _, h := range f.due {
		if len(h.out) == 0 && !h.at.After(now) {
			n++
		}
	}
	return max(n, 0)
}

func (f *Frontier) waitsForPlace(now time.Time) (n int) {
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

func (f *Frontier) partLeaving(now time.Time) {
	stay := f.fleet.leaving[:0]
	for _, h := range f.fleet.leaving {
		switch {
		case h.parted:
		case h.open > 0 || len(h.out) > 0 || h.over != nil && h.over.loading:
			stay = append(stay, h)
		default:
			f.part(h, now)
		}
	}
	clear(f.fleet.leaving[len(stay):])
	f.fleet.leaving = stay
}

// makePlace gives hosts back that refuse to be asked for long, for others to have their places.
func (f *Frontier) makePlace(now time.Time) {
	r := &f.stored.resting
	if now.Before(r.next) {
		return
	}
	r.next = now.Add(deactivateEvery)
	var going []*host
	for i := len(f.due) - 1; i >= 0 && len(going) < f.cfg.Slots; i-- {
		if h := f.due[i]; h != f.nextUp && !h.excluded && !h.at.Before(now.Add(deactivateFrom)) && h.mayDeactivate(false) {
			going = append(going, h)
		}
	}
	for _, h := range going {
		f.part(h, now)
	}
}

// partDry gives back the hosts that have had no URL for a while, at an instant.
func (f *Frontier) partDry(now, till time.Time) {
	fl := f.fleet
	for len(fl.dry) > 0 && !fl.dry[0].till.After(till) {
		h := fl.dry[0].h
		fl.dry[0] = parted{}
		fl.dry = fl.dry[1:]
		h.idle = false
		if f.hosts[h.name] != h || h.busy() {
			continue
		}
		if h.foreign {
			f.drop(h)
			h.parted = true
			continue
		}
		f.part(h, now)
	}
}

func (f *Frontier) part(h *host, now time.Time) {
	at, _ := f.cfg.Pacer.ReadyAt(h.name, 0, 0)
	at = maxTime(maxTime(at, h.keptTil), now)
	if h.index >= 0 && !h.excluded && h.blocked() {
		at = maxTime(at, h.at)
	}
	f.leave(h, now)
	f.stored.Deactivate(h.name, at)
}

// leave moves a host out of memory with all its URLs. Leases that are out are void: the next owner asks again.
func (f *Frontier) leave(h *host, now time.Time) {
	f.counts.queued.Add(-int64(h.queued()))
	away := f.unload(h)
	h.parted = true
	for _, it := range away {
		f.giveUpRobots(it, now)
	}
}

// unload takes a host out of memory with all its URLs, and returns those that wait for another try.
func (f *Frontier) unload(h *host) (away []*Item) {
	if h.index >= 0 {
		heap.Remove(&f.due, int(h.index))
	}
	f.leaveLine(h)
	if f.nextUp == h {
		f.nextUp = nil
	}
	for h.queue.len() > 0 {
		it := h.queue.pop()
		f.bytes -= len(it.URL.String())
	}
	away = h.retries.all()
	for _, it := range away {
		f.bytes -= len(it.URL.String())
	}
	h.retries, h.over = nil, nil
	if h.quick {
		h.quick = false
		f.quick--
	}
	f.drop(h)
	return away
}

// giveUpRobots gives a robots.txt up that cannot be asked for any more, and has whoever waits for it ask anew.
func (f *Frontier) giveUpRobots(it *Item, now time.Time) {
	if it.Kind != Robots || f.cfg.RobotsGivenUp == nil {
		return
	}
	f.cfg.RobotsGivenUp(it.Origin, now)
	_, host, _ := strings.Cut(it.Origin, "://")
	f.Wake(now, host)
}

// outOfLease reports whether a host must not be asked, as it is to be given back or its lease is about to end, and
// schedules another look.
func (f *Frontier) outOfLease(h *host, now time.Time) bool {
	if f.fleet == nil || h.foreign {
		return false
	}
	if h.leaving {
		return true // it is given back when the last of its leases has ended
	}
	if now.Before(f.fleet.Until(h.name)) {
		return false
	}
	h.why, h.reason = ratelimit.LimitNone, leaseOver
	f.offer(h, now, now.Add(sweepFirst))
	return true
}
