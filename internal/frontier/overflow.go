package frontier

import (
	"fmt"
	"time"
)

// What there is no room for in memory lies in the store: of each host the URLs behind a
// place, of hosts beyond the room for them everything. Which is where is known here alone;
// to the store all of them are queued, and it is not told when one comes into memory.

const (
	// headMin and headMax bound the URLs of one host in memory. A question to the store
	// takes as long as a commit, some milliseconds, and a host that may be asked a thousand
	// times a second should not wait for it.
	headMin, headMax = 4, 4096
	// maxLoads is how many hosts wait for their URLs from the store at a time; others wait
	// for their turn here, where it costs nothing.
	maxLoads = 256
	// rouseMost is how many hosts are roused at a time.
	rouseMost = 1024
	// maxAway is how many URLs of one host may wait for another try before no more of its
	// others are loaded: an outage would else bring a whole host into memory, URL by URL.
	maxAway = 1024
)

// overflow is what a host has in the store and not in memory.
type overflow struct {
	left    int                // URLs
	asides  int                // of them, those that are no pages
	bound   Place              // they are behind it, and all others of the host are not
	loading bool               // the store was asked for the first of them, or is to be
	missed  Place              // the first that the store did not have when it was asked; zero for none
	done    map[int64]struct{} // since it was asked, of those behind bound that were away
}

// vault is the frontier's side of a store.
type vault struct {
	Storage
	away    map[int64]struct{} // URLs in memory that are leased or wait for another try
	loads   int                // questions for URLs that are out
	hungry  []*host            // hosts for which there is one to ask
	dormant int64              // URLs of dormant hosts
	rousing bool               // the question for hosts is out
	interim map[string]interim // URLs that were put as dormant since
	forgot  bool               // hosts were forgotten of which the store knows more
	resting resting            // of the dormant hosts
}

// interim is what was put for a host while the store was asked for it.
type interim struct{ urls, asides int }

// Take takes in what the store was asked for. The error says that the store has fewer URLs
// than it was given: there is no crawl to go on with, but all that it has is good.
func (f *Frontier) Take(now time.Time, a Answer) (err error) {
	switch {
	case a.News != nil:
		f.hear(now, a.News())
		return nil
	case a.Host == "" && f.fleet != nil:
		f.swept(now, &a)
		return nil
	case a.Host == "":
		return f.roused(now, &a)
	}
	f.vault.loads--
	if f.fleet != nil {
		f.arrived(now, &a)
	} else if h := f.hosts[a.Host]; h != nil && h.over != nil {
		err = f.loaded(h, now, &a)
		f.offer(h, now, now)
	}
	for f.vault.loads < maxLoads && len(f.vault.hungry) > 0 {
		h := f.vault.hungry[0]
		f.vault.hungry[0] = nil
		f.vault.hungry = f.vault.hungry[1:]
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

// admit takes a new URL of a host into memory, or leaves it in the store.
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
	if f.vault == nil || h.queue.len() <= f.head() {
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

// add counts a URL that lies in the store.
func (o *overflow) add(it *Item) {
	o.left++
	if it.Kind != Page {
		o.asides++
	}
}

// refill asks for more URLs of a host that has few in memory and others in the store.
func (f *Frontier) refill(h *host) {
	if h.over == nil || h.over.loading || 2*h.queue.len() > f.head() || h.retries.len() >= maxAway {
		return
	}
	h.over.loading = true
	if f.vault.loads < maxLoads {
		f.ask(h)
	} else {
		f.vault.hungry = append(f.vault.hungry, h)
	}
}

func (f *Frontier) ask(h *host) {
	h.over.missed, h.over.done = Place{}, nil
	f.vault.loads++
	f.vault.Load(h.name, h.over.bound, f.head())
}

// gone notes that a URL which was away is done. The answer that is under way may have it
// still, if better ones have moved the bound before its place.
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

// loaded takes the URLs of an answer into memory, as far as they are next. They are not
// when a better one was put since the question, or went back to the store.
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

// accept takes the next URL of the store into memory.
func (f *Frontier) accept(h *host, now time.Time, it *Item) {
	o := h.over
	o.bound = it.Place()
	_, away := f.vault.away[it.ID]
	if _, done := o.done[it.ID]; away || done {
		return // it was in memory all the time
	}
	pages := o.left - o.asides
	o.left--
	if it.Kind != Page {
		o.asides--
	}
	if f.cfg.MaxPagesPerHost > 0 && it.Kind == Page && pages <= int(h.known-h.returned)-f.cfg.MaxPagesPerHost {
		// The host was found beyond its budget while it was dormant.
		h.known--
		f.counts.queued.Add(-1)
		f.vault.Done(it.ID, Visit{At: now, Class: HostPages.String(), Refused: true})
		return
	}
	it.Since = 0 // that counts from what the host served since it is known
	h.queue.push(*it)
	f.bytes += len(it.URL.String())
}

// lodge stores a new URL for whose host there is no room in memory.
func (f *Frontier) lodge(name string, it *Item, fp uint64) {
	v := f.vault
	v.Put(name, it, fp, true)
	v.dormant++
	v.resting.found(name)
	if v.rousing {
		n := v.interim[name]
		n.urls++
		if it.Kind != Page {
			n.asides++
		}
		v.interim[name] = n
	}
}

// rouse asks for dormant hosts if there is room for any, or can be made.
func (f *Frontier) rouse(now time.Time) {
	v := f.vault
	if v == nil || v.dormant == 0 || v.rousing {
		return
	}
	for range rouseMost {
		if len(f.hosts)+rouseMost <= f.cfg.MaxHosts || !f.forget() {
			break
		}
	}
	if len(f.hosts) >= f.cfg.MaxHosts {
		f.exchange(now)
	}
	if room := min(f.cfg.MaxHosts-len(f.hosts), rouseMost); room > 0 {
		v.rousing = true
		v.Rouse(room)
	}
}

// roused takes in hosts that were dormant. One that is known is told of a second time, as
// URLs of it were put while it was being roused; they have been counted then.
func (f *Frontier) roused(now time.Time, a *Answer) error {
	v := f.vault
	v.rousing = false
	for _, left := range a.Hosts {
		more := v.interim[left.Name]
		left.Queued += more.urls
		left.Asides += more.asides
		left.Pages += more.urls - more.asides
		h := f.hosts[left.Name]
		if h != nil && !h.blind || left.Queued == 0 {
			continue
		}
		if h == nil {
			h = f.adopt(left.Name)
		}
		h.blind, h.known, h.returned = false, int32(left.Pages), int32(left.Returned)
		h.history.Visited = left.Pages > left.Queued-left.Asides
		h.over = &overflow{left: left.Queued, asides: left.Asides, bound: firstPlace}
		v.resting.remove(left.Name)
		v.dormant -= int64(left.Queued)
		f.offer(h, now, now)
	}
	if !a.More && len(v.interim) == 0 && v.dormant > 0 {
		return fmt.Errorf("%d URLs of hosts that had no room are not where they were put", v.dormant)
	}
	clear(v.interim)
	return nil
}
