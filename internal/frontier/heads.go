package frontier

import (
	"fmt"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/frontier/seen"
	"github.com/treadlight/crawl/internal/ratelimit"
)

// Memory holds the first URLs of each active host. The store holds all of them as queued, and does not know which are
// in memory.

const (
	// headMin and headMax bound the URLs of one host in memory. A load takes as long as a commit, some milliseconds.
	headMin, headMax = 4, 4096
	// maxLoads is how many loads may be outstanding at a time, each for another host.
	maxLoads = 256
	// activateMost is how many hosts are activated at a time.
	activateMost = 1024
	// maxAway is how many URLs of one host may wait for another try, as in an outage, before no more of its URLs are
	// loaded.
	maxAway = 1024
)

type overflow struct {
	urls    int
	bound   Place              // URLs behind it are in the store alone; all others of the host are in memory
	loading bool               // a load of the first of them is outstanding, or is in toRefill
	missed  Place              // the first URL put behind bound since the load was requested; zero means none
	done    map[int64]struct{} // IDs of URLs behind bound that were away and are done since the load was requested
}

type backlog struct {
	timetable
	seen       seen.Set // the known URLs, if whole
	store      Storage
	whole      bool                // all known URLs are in memory: there is no Store
	shared     bool                // see Left.Shared
	headMost   int                 // the most URLs of a host in memory
	last       int64               // largest ID assigned
	away       map[int64]struct{}  // IDs of URLs in memory that are leased or wait for another try
	loads      int                 // outstanding loads
	toRefill   []*host             // hosts whose load waits until fewer loads are outstanding
	inactive   int64               // number of URLs of inactive hosts
	activating bool                // a request for hosts is outstanding
	interim    map[string]HostLeft // per host, the URLs put as inactive since that request
	forgot     bool                // hosts were dropped from memory of which the store has more
	resting    resting             // what is known of inactive hosts that refuse requests
}

// host finds or makes a host. It returns nil if there is no room: if all MaxHosts have work or a page budget to keep,
// or if there are inactive hosts, since the host may be one of them. A host that was dropped from memory begins again
// as a new one, for which more caution applies.
func (b *backlog) host(name string) *host {
	h := b.hosts[name]
	if h != nil && !h.foreign {
		return h
	}
	if b.inactive > 0 || b.forgot && b.cfg.MaxPagesPerHost > 0 {
		return nil
	}
	if h != nil {
		h.foreign = false // no URL of the host is inactive
		return h
	}
	if len(b.hosts) >= b.cfg.MaxHosts && !b.forget() {
		return nil
	}
	return b.adopt(name)
}

// robotsHost finds or makes the host of a redirected robots.txt. It makes one even if there is no room, because hosts
// in memory wait for the file.
func (b *backlog) robotsHost(name string) *host {
	if h := b.hosts[name]; h != nil {
		return h
	}
	var h *host
	if !b.shared { // of a shared store another process may hold the host
		h = b.host(name)
	}
	if h == nil && !b.whole {
		h = b.adopt(name)
		h.foreign = true
	}
	return h
}

// forget drops the host that has been without work the longest, and reports whether there was one.
func (b *backlog) forget() bool {
	if b.whole && b.cfg.MaxPagesPerHost > 0 || b.activating {
		return false // the answer of the store may include the host
	}
	for len(b.idle) > 0 {
		if h := b.unidle(); h != nil {
			b.drop(h)
			b.forgot = !b.whole
			return true
		}
	}
	return false
}

// head returns how many URLs of a host may be in memory.
func (b *backlog) head() int {
	return min(max(b.cfg.Resident/max(1, len(b.hosts)), headMin), b.headMost)
}

func (b *backlog) admit(h *host, it *Item) {
	if o := h.over; o != nil && !it.Place().Before(o.bound) {
		o.urls++
		if o.loading && (o.missed == Place{} || it.Place().Before(o.missed)) {
			o.missed = it.Place()
		}
		return
	}
	h.queue.push(*it)
	b.bytes += it.size()
	if h.queue.len() <= b.head() {
		return
	}
	// The last item leaves memory. That is the new one, unless its rank is lower than that of others.
	worst := h.queue.popBack()
	b.bytes -= len(worst.URL.String())
	if h.over == nil {
		h.over = new(overflow)
	}
	h.over.urls++
	h.over.bound = h.queue.back().Place()
}

func (b *backlog) refill(h *host) {
	if h.over == nil || h.over.loading || 2*h.queue.len() > b.head() || h.retries.len() >= maxAway {
		return
	}
	h.over.loading = true
	if b.loads < maxLoads {
		b.ask(h)
	} else {
		b.toRefill = append(b.toRefill, h)
	}
}

func (b *backlog) ask(h *host) {
	h.over.missed, h.over.done = Place{}, nil
	b.loads++
	b.store.Load(h.name, h.over.bound, b.head())
}

// gone records that a loaded URL is done, since the answer to an outstanding load may still contain it.
func (h *host) gone(it *Item) {
	o := h.over
	if o == nil || !o.loading || !o.bound.Before(it.Place()) {
		return
	}
	if o.done == nil {
		o.done = make(map[int64]struct{})
	}
	o.done[it.ID] = struct{}{}
}

// loaded takes in the URLs of an answer, up to the first one that is no longer next: a URL that goes before it may have
// been put since the request.
func (b *backlog) loaded(h *host, a *Answer) error {
	o := h.over
	o.loading = false
	if a.Behind == o.bound {
		for i := range a.Items {
			it := &a.Items[i]
			if (o.missed != Place{}) && !it.Place().Before(o.missed) {
				break
			}
			b.accept(h, it)
		}
		if !a.More && o.missed == (Place{}) && o.urls != 0 {
			return fmt.Errorf("%d URLs of %s are not where they were put", o.urls, h.name)
		}
	}
	if o.urls == 0 {
		h.over = nil
	}
	b.refill(h)
	return nil
}

func (b *backlog) accept(h *host, it *Item) {
	o := h.over
	o.bound = it.Place()
	_, away := b.away[it.ID]
	if _, done := o.done[it.ID]; away || done {
		return // the URL was in memory all the time
	}
	o.urls--
	if it.Kind == Page && !it.None() {
		h.pages++ // an earlier process has requested the page
	}
	it.Since = 0 // Since counts pages served since the host entered memory
	h.queue.push(*it)
	b.bytes += it.size()
}

// lodge puts a URL whose host has no room in memory.
func (b *backlog) lodge(name string, it *Item, fp uint64) {
	b.store.Put(name, it, fp, true)
	b.inactive++
	b.resting.found(name)
	if b.activating {
		more := b.interim[name]
		more.Queued++
		if it.Kind == Page {
			more.Pages++
		}
		b.interim[name] = more
	}
}

// activate requests inactive hosts if there is room for them or if room can be made.
func (b *backlog) activate(now time.Time) {
	if b.inactive == 0 || b.activating {
		return
	}
	for range activateMost {
		if len(b.hosts)+activateMost <= b.cfg.MaxHosts || !b.forget() {
			break
		}
	}
	if len(b.hosts) >= b.cfg.MaxHosts {
		b.exchange(now)
	}
	if room := min(b.cfg.MaxHosts-len(b.hosts), activateMost); room > 0 {
		b.activating = true
		b.store.Activate(room)
	}
}

// enter takes a host that was inactive into memory. It returns nil if the host is there already.
func (b *backlog) enter(left *HostLeft) *host {
	h := b.hosts[left.Name]
	switch {
	case h == nil:
		h = b.adopt(left.Name)
	case !h.foreign:
		return nil
	}
	h.foreign, h.known, h.pages, h.lease, h.tenure = false, int32(left.Pages), int32(left.Visited), left.Lease, left.Tenure
	h.history.Visited = left.Visited > 0
	return h
}

// activated takes in hosts that were inactive. The store may return a host twice, if URLs were put while the host was
// being activated.
func (b *backlog) activated(now time.Time, a *Answer) error {
	b.activating = false
	for _, left := range a.Hosts {
		more := b.interim[left.Name]
		left.Queued += more.Queued
		left.Pages += more.Pages
		if left.Queued == 0 {
			continue
		}
		if h := b.enter(&left); h != nil {
			h.over = &overflow{urls: left.Queued, bound: firstPlace}
			b.resting.remove(left.Name)
			b.inactive -= int64(left.Queued)
			b.offer(h, now, now)
		}
	}
	if !a.More && len(b.interim) == 0 && b.inactive > 0 {
		return fmt.Errorf("%d URLs of hosts that had no room are not where they were put", b.inactive)
	}
	clear(b.interim)
	return nil
}

// A host that refuses requests for long gives up its place in memory to an inactive one. All its URLs are in the store,
// and the pacer knows its demand. The frontier notes until when the host refuses, so that it is not activated in vain.

const (
	// deactivateFrom is the shortest wait for which a host is exchanged, since an exchange costs some commits.
	deactivateFrom = time.Minute
	// deactivateEvery is how often hosts are searched for an exchange: a search takes a tenth of a second for a million
	// hosts.
	deactivateEvery = 10 * time.Second
	// maxResting bounds the entries of inactive hosts, at some 30 MB; at the bound there are no further exchanges.
	maxResting = 1 << 18
)

type rest struct {
	until   time.Time
	queued  int64
	ordered bool // as in Blockage
}

type resting struct {
	hosts     map[string]rest
	queued    int64     // number of URLs of these hosts
	unordered int       // number of hosts that are not ordered
	first     time.Time // no request may be sent to any of these hosts before; zero means that there is none
	next      time.Time // no exchange takes place before
	stuck     bool      // all hosts in memory refuse requests, so any of them may give up its place
}

func newResting() resting { return resting{hosts: make(map[string]rest)} }

func (r *resting) add(name string, host rest) {
	r.hosts[name] = host
	r.queued += host.queued
	if !host.ordered {
		r.unordered++
	}
	r.first = clock.Earlier(r.first, host.until)
}

func (r *resting) found(name string) {
	if host, ok := r.hosts[name]; ok {
		host.queued++
		r.hosts[name] = host
		r.queued++
	}
}

func (r *resting) remove(name string) {
	host, ok := r.hosts[name]
	if !ok {
		return
	}
	delete(r.hosts, name)
	r.queued -= host.queued
	if !host.ordered {
		r.unordered--
	}
}

func (r *resting) over(now time.Time) bool {
	if r.first.IsZero() || now.Before(r.first) {
		return false
	}
	r.first = time.Time{} // the host that it stems from may have been activated since
	for _, host := range r.hosts {
		r.first = clock.Earlier(r.first, host.until)
	}
	return !r.first.IsZero() && !now.Before(r.first)
}

// exchange deactivates hosts that refuse requests for long.
func (b *backlog) exchange(now time.Time) {
	r := &b.resting
	if now.Before(r.next) || b.inactive == r.queued && !r.over(now) || len(r.hosts) >= maxResting {
		return
	}
	going := b.refusing(now, activateMost, r.stuck)
	r.stuck = false
	for _, h := range going {
		n := int64(h.queued())
		for _, it := range b.unload(h) {
			b.store.Spent(h.name, it)
			delete(b.away, it.ID)
		}
		b.inactive += n
		r.add(h.name, rest{h.at, n, h.ordered()})
		b.store.Deactivate(h.name, time.Time{})
	}
}

// refusing lists up to most hosts that may give up their places, and defers the next search for a while.
func (b *backlog) refusing(now time.Time, most int, stuck bool) (going []*host) {
	b.resting.next = now.Add(deactivateEvery)
	least := now.Add(deactivateFrom)
	if stuck {
		least = now.Add(1)
	}
	for i := len(b.due) - 1; i >= 0 && len(going) < most; i-- { // the later hosts are near the end of the heap
		h := b.due[i]
		if h != b.nextUp && !h.at.Before(least) && h.mayDeactivate(stuck) && (!b.shared || !h.excluded) {
			going = append(going, h)
		}
	}
	return going
}

// mayDeactivate reports whether a scheduled host refuses requests, has no work under way, and loses nothing by leaving
// memory. What the store lacks, such as the not-before time of a retry, forbids it unless stuck is set.
func (h *host) mayDeactivate(stuck bool) bool {
	byOrder := h.why != ratelimit.LimitNone || h.reason != "" && h.reason != retrying // from the pacer or the gate
	return h.blocked() && (stuck || byOrder) && h.open == 0 && len(h.out) == 0 && !h.foreign &&
		(h.over == nil || !h.over.loading) && !h.retries.robots()
}

// sooner returns the instant at which to look for room again, if that is before wake; otherwise wake.
func (b *backlog) sooner(wake time.Time) time.Time {
	if b.inactive == 0 || b.activating || len(b.resting.hosts) >= maxResting {
		return wake
	}
	at := b.resting.next
	if b.inactive == b.resting.queued {
		at = maxTime(at, b.resting.first)
	}
	if at.IsZero() {
		return at
	}
	return clock.Earlier(wake, at)
}

// Revise makes the frontier ask the pacer again about all hosts that wait for it. Next does so piece by piece, as a
// hundred thousand hosts take a second.
func (b *backlog) Revise(now time.Time) {
	b.held = time.Time{}
	b.resting = newResting()
	b.revising = len(b.roll)
	b.reviseSome(now)
}
