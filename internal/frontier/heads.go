package frontier

import (
	"fmt"
	"time"

	"github.com/treadlight/crawl/internal/ratelimit"
)

// Memory holds the first URLs of each active host; the store has all of them as queued, and is not told which are in
// memory.

const (
	// headMin and headMax bound the URLs of one host in memory: a load takes a commit, some milliseconds.
	headMin, headMax = 4, 4096
	// maxLoads is how many hosts wait for the store at a time.
	maxLoads = 256
	// activateMost is how many hosts are activated at a time.
	activateMost = 1024
	// maxAway is how many URLs of one host may wait for another try before no more are loaded, as in an outage.
	maxAway = 1024
)

// overflow is what a host has in the store and not in memory.
type overflow struct {
	left    int                // URLs
	others  int                // of them, those that are no pages
	bound   Place              // they are behind it, and all others of the host are not
	loading bool               // the store was asked for the first of them, or is to be
	missed  Place              // the first that the store did not have when it was asked; zero for none
	done    map[int64]struct{} // since it was asked, of those behind bound that were away
}

// storageQueue is the frontier's side of a store.
type storageQueue struct {
	Storage
	away       map[int64]struct{} // URLs in memory that are leased or wait for another try
	loads      int                // questions for URLs that are out
	toRefill   []*host            // hosts for which there is a question to ask
	inactive   int64              // URLs of inactive hosts
	activating bool               // the question for hosts is out
	interim    map[string]interim // URLs that were put as inactive since
	forgot     bool               // hosts were forgotten of which the store knows more
	resting    resting            // of the inactive hosts
}

// interim is what was put for a host while the store was asked for it.
type interim struct{ urls, others int }

// Take takes in an answer of the store. An error says that the store has lost URLs, and the crawl cannot go on.
func (f *Frontier) Take(now time.Time, a Answer) (err error) {
	switch {
	case a.Update != nil:
		f.updated(now, a.Update())
		return nil
	case a.Host == "" && f.fleet != nil:
		f.swept(now, &a)
		return nil
	case a.Host == "":
		return f.activated(now, &a)
	}
	f.stored.loads--
	if f.fleet != nil {
		f.arrived(now, &a)
	} else if h := f.hosts[a.Host]; h != nil && h.over != nil {
		err = f.loaded(h, now, &a)
		f.offer(h, now, now)
	}
	for f.stored.loads < maxLoads && len(f.stored.toRefill) > 0 {
		h := f.stored.toRefill[0]
		f.stored.toRefill[0] = nil
		f.stored.toRefill = f.stored.toRefill[1:]
		if !h.parted {
			f.ask(h)
		}
	}
	return err
}

// head is how many URLs of a host are in memory at most.
func (f *Frontier) head() int {
	most := headMax
	if f.fleet != nil {
		most = sharedMax
	}
	return min(max(f.cfg.Resident/max(1, len(f.hosts)), headMin), most)
}

func (f *Frontier) admit(h *host, it *Item) {
	if o := h.over; o != nil && !it.Place().Before(o.bound) {
		o.add(it)
		if o.loading && (o.missed == Place{} || it.Place().Before(o.missed)) {
			o.missed = it.Place()
		}
		return
	}
	h.queue.push(*it)
	f.bytes += len(it.URL.String())
	if f.stored == nil || h.queue.len() <= f.head() {
		return
	}
	// The last one goes, which was the new one but for ranks.
	worst := h.queue.popBack()
	f.bytes -= len(worst.URL.String())
	if h.over == nil {
		h.over = new(overflow)
	}
	h.over.add(&worst)
	h.over.bound = h.queue.back().Place()
}

func (o *overflow) add(it *Item) {
	o.left++
	if it.Kind != Page {
		o.others++
	}
}

func (f *Frontier) refill(h *host) {
	if h.over == nil || h.over.loading || 2*h.queue.len() > f.head() || h.retries.len() >= maxAway {
		return
	}
	h.over.loading = true
	if f.stored.loads < maxLoads {
		f.ask(h)
	} else {
		f.stored.toRefill = append(f.stored.toRefill, h)
	}
}

func (f *Frontier) ask(h *host) {
	h.over.missed, h.over.done = Place{}, nil
	f.stored.loads++
	f.stored.Load(h.name, h.over.bound, f.head())
}

// gone notes that a loaded URL is done. An answer under way may still have it.
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

// loaded takes in the URLs of an answer that are still next: since the question a better one may have been put.
func (f *Frontier) loaded(h *host, now time.Time, a *Answer) error {
	o := h.over
	o.loading = false
	if a.Behind == o.bound {
		for i := range a.Items {
			it := &a.Items[i]
			if (o.missed != Place{}) && !it.Place().Before(o.missed) {
				break
			}
			f.accept(h, now, it)
		}
		if !a.More && o.missed == (Place{}) && o.left != 0 {
			return fmt.Errorf("%d URLs of %s are not where they were put", o.left, h.name)
		}
	}
	if o.left == 0 {
		h.over = nil
	}
	f.refill(h)
	return nil
}

func (f *Frontier) accept(h *host, now time.Time, it *Item) {
	o := h.over
	o.bound = it.Place()
	_, away := f.stored.away[it.ID]
	if _, done := o.done[it.ID]; away || done {
		return // it was in memory all the time
	}
	pages := o.left - o.others
	o.left--
	if it.Kind != Page {
		o.others--
	}
	if f.cfg.MaxPagesPerHost > 0 && it.Kind == Page && pages <= int(h.known-h.returned)-f.cfg.MaxPagesPerHost {
		// The host was found beyond its budget while it was inactive.
		h.known--
		f.counts.queued.Add(-1)
		f.stored.Done(h.name, it, Visit{At: now, Class: HostPages.String(), Refused: true})
		return
	}
	it.Since = 0 // that counts from what the host served since it is known
	h.queue.push(*it)
	f.bytes += len(it.URL.String())
}

func (f *Frontier) lodge(name string, it *Item, fp uint64) {
	v := f.stored
	v.Put(name, it, fp, true)
	v.inactive++
	v.resting.found(name)
	if v.activating {
		n := v.interim[name]
		n.urls++
		if it.Kind != Page {
			n.others++
		}
		v.interim[name] = n
	}
}

func (f *Frontier) activate(now time.Time) {
	v := f.stored
	if v == nil || v.inactive == 0 || v.activating {
		return
	}
	for range activateMost {
		if len(f.hosts)+activateMost <= f.cfg.MaxHosts || !f.forget() {
			break
		}
	}
	if len(f.hosts) >= f.cfg.MaxHosts {
		f.exchange(now)
	}
	if room := min(f.cfg.MaxHosts-len(f.hosts), activateMost); room > 0 {
		v.activating = true
		v.Activate(room)
	}
}

// activated takes in hosts that were inactive. A host may come twice, if URLs were put while it was being activated.
func (f *Frontier) activated(now time.Time, a *Answer) error {
	v := f.stored
	v.activating = false
	for _, left := range a.Hosts {
		more := v.interim[left.Name]
		left.Queued += more.urls
		left.Others += more.others
		left.Pages += more.urls - more.others
		h := f.hosts[left.Name]
		if h != nil && !h.foreign || left.Queued == 0 {
			continue
		}
		if h == nil {
			h = f.adopt(left.Name)
		}
		h.foreign, h.known, h.returned = false, int32(left.Pages), int32(left.Returned)
		h.history.Visited = left.Pages > left.Queued-left.Others
		h.over = &overflow{left: left.Queued, others: left.Others, bound: firstPlace}
		v.resting.remove(left.Name)
		v.inactive -= int64(left.Queued)
		f.offer(h, now, now)
	}
	if !a.More && len(v.interim) == 0 && v.inactive > 0 {
		return fmt.Errorf("%d URLs of hosts that had no room are not where they were put", v.inactive)
	}
	clear(v.interim)
	return nil
}

// A host that refuses to be asked for long gives its place in memory to an inactive one. All its URLs are in the
// store, and the pacer knows its demand. Until when it refuses is noted here, so that it is not activated in vain.

const (
	// deactivateFrom is the shortest wait for which a host is exchanged, at the cost of some commits.
	deactivateFrom = time.Minute
	// deactivateEvery is how often hosts are searched for an exchange: a tenth of a second for a million.
	deactivateEvery = 10 * time.Second
	// maxResting bounds the notes of inactive hosts, at some 30 MB; beyond it there are no exchanges.
	maxResting = 1 << 18
)

type rest struct {
	until   time.Time
	queued  int64
	ordered bool // see Blockage
}

type resting struct {
	hosts     map[string]rest
	queued    int64     // URLs of them
	unordered int       // hosts that are not ordered
	first     time.Time // none of them may be asked before; zero if there are none
	next      time.Time // no exchange before
	stuck     bool      // all hosts in memory refuse, and so any of them may give way
}

func newResting() resting { return resting{hosts: make(map[string]rest)} }

func (r *resting) add(name string, host rest) {
	r.hosts[name] = host
	r.queued += host.queued
	if !host.ordered {
		r.unordered++
	}
	r.first = earlier(r.first, host.until)
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
	r.first = time.Time{} // it may have been of one that was activated since
	for _, host := range r.hosts {
		r.first = earlier(r.first, host.until)
	}
	return !r.first.IsZero() && !now.Before(r.first)
}

func (f *Frontier) exchange(now time.Time) {
	v := f.stored
	r := &v.resting
	if now.Before(r.next) || v.inactive == r.queued && !r.over(now) || len(r.hosts) >= maxResting {
		return
	}
	r.next = now.Add(deactivateEvery)
	least := now.Add(deactivateFrom)
	if r.stuck {
		least = now.Add(1)
	}
	var going []*host
	for i := len(f.due) - 1; i >= 0 && len(going) < activateMost; i-- { // the later ones are at the end
		if h := f.due[i]; h != f.nextUp && !h.at.Before(least) && h.mayDeactivate(r.stuck) {
			going = append(going, h)
		}
	}
	r.stuck = false
	for _, h := range going {
		f.deactivate(h)
	}
}

// mayDeactivate reports whether a scheduled host refuses to be asked and has nothing that the store lacks, such as the
// not-before time of a retry, unless many hosts refuse.
func (h *host) mayDeactivate(stuck bool) bool {
	byOrder := h.why != ratelimit.LimitNone || h.reason != "" && h.reason != retrying // of the pacer or the gate
	return h.blocked() && (stuck || byOrder) && h.open == 0 && len(h.out) == 0 && !h.foreign &&
		(h.over == nil || !h.over.loading) && !h.retries.robots()
}

func (f *Frontier) deactivate(h *host) {
	v, n := f.stored, int64(h.queued())
	for _, it := range f.unload(h) {
		v.Spent(h.name, it)
		delete(v.away, it.ID)
	}
	v.inactive += n
	v.resting.add(h.name, rest{h.at, n, h.ordered()})
	v.Deactivate(h.name, time.Time{})
}

// sooner is the instant to look again for room, if there is one before wake.
func (f *Frontier) sooner(wake time.Time) time.Time {
	v := f.stored
	if v == nil || v.inactive == 0 || v.activating || len(v.resting.hosts) >= maxResting {
		return wake
	}
	at := v.resting.next
	if v.inactive == v.resting.queued {
		at = maxTime(at, v.resting.first)
	}
	if at.IsZero() {
		return at
	}
	return earlier(wake, at)
}
