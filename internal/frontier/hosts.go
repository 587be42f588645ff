package frontier

import (
	"cmp"
	"container/heap"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/web/canonical"
)

// nameOf is the name under which the limiter paces a URL's host: http://a.test:443 is https://a.test.
func nameOf(u canonical.URL) string { return ratelimit.Domain(u.Host()) }

// host finds or makes a host. It is nil without room: when all MaxHosts have work or a page budget to keep, or when
// there are inactive hosts, of which it may be one. A forgotten host begins again as a new one, which is more careful.
func (f *Frontier) host(name string) *host {
	h := f.hosts[name]
	if h != nil && !h.foreign {
		return h
	}
	if v := f.stored; v != nil && (v.inactive > 0 || v.forgot && f.cfg.MaxPagesPerHost > 0) {
		return nil
	}
	if h != nil {
		h.foreign = false // nothing is inactive
		return h
	}
	if len(f.hosts) >= f.cfg.MaxHosts && !f.forget() {
		return nil
	}
	return f.adopt(name)
}

// robotsHost finds or makes the host of a moved robots.txt, even without room, as hosts in memory wait for the file.
func (f *Frontier) robotsHost(name string) *host {
	if h := f.hosts[name]; h != nil {
		return h
	}
	var h *host
	if f.fleet == nil { // or it may be another process's
		h = f.host(name)
	}
	if h == nil && f.stored != nil {
		h = f.adopt(name)
		h.foreign = true
	}
	return h
}

func (f *Frontier) adopt(name string) *host {
	h := &host{name: name, turn: turn{index: -1}, slotUse: slotUse{slots: f.slots(name)}}
	_, h.excluded = f.excluded[name]
	f.hosts[name] = h
	f.roll.add(h)
	f.counts.hosts.Store(int64(len(f.hosts)))
	return h
}

// forget drops the host that has been without work the longest.
func (f *Frontier) forget() bool {
	if f.stored == nil && f.cfg.MaxPagesPerHost > 0 || f.stored != nil && f.stored.activating {
		return false // the store's answer may tell of it
	}
	for len(f.idle) > 0 {
		h := f.idle[0]
		f.idle[0] = nil
		f.idle = f.idle[1:]
		h.idle = false
		if !h.busy() && f.hosts[h.name] == h {
			f.drop(h)
			if f.stored != nil {
				f.stored.forgot = true
			}
			return true
		}
	}
	return false
}

func (f *Frontier) drop(h *host) {
	delete(f.hosts, h.name)
	f.roll.remove(h)
	f.counts.hosts.Store(int64(len(f.hosts)))
}

func (f *Frontier) slots(name string) int32 {
	n := f.cfg.PerHost
	if f.cfg.InFlight != nil {
		if own := f.cfg.InFlight(name); own > 0 {
			n = min(n, own)
		}
	}
	return int32(n)
}

// roll lists the hosts in memory with their work and time taken, in one piece of memory, so that finding the busiest
// of a hundred thousand takes 0.1 ms.
type roll struct {
	hosts []*host  // in no order
	work  []uint64 // of each: the URLs queued, and in the lower half the time taken
}

func workOf(h *host) uint64 { return uint64(uint32(h.queued()))<<32 | uint64(h.taken()) }

// tenths is the time since the first lease, in tenths of a second; it has room for thirteen years.
func (f *Frontier) tenths(now time.Time) uint32 {
	if f.since.IsZero() {
		f.since = now
	}
	return uint32(min(max(0, now.Sub(f.since)/(100*time.Millisecond)), math.MaxUint32))
}

// taken is how long a host took, from its first request to the end of its latest, in tenths of a second.
func (h *host) taken() uint32 { return max(h.latest, h.first) - h.first }

func (r *roll) add(h *host) {
	h.place = int32(len(r.hosts))
	r.hosts, r.work = append(r.hosts, h), append(r.work, workOf(h))
}

func (r *roll) remove(h *host) {
	last := len(r.hosts) - 1
	r.hosts[h.place], r.work[h.place] = r.hosts[last], r.work[last]
	r.hosts[h.place].place = h.place
	r.hosts[last] = nil
	r.hosts, r.work = r.hosts[:last], r.work[:last]
}

func (r *roll) note(h *host) { r.work[h.place] = workOf(h) }

type ranked struct {
	work  uint64
	place int
}

// top lists the hosts with the most work, the most first.
func (r *roll) top(limit int) []ranked {
	if limit <= 0 {
		return nil
	}
	top := make([]ranked, 0, min(limit, len(r.work))+1)
	for place, work := range r.work {
		if len(top) == limit {
			if work <= top[limit-1].work {
				continue
			}
			top = top[:limit-1]
		}
		at, _ := slices.BinarySearchFunc(top, work, func(a ranked, work uint64) int { return cmp.Compare(work, a.work) })
		top = slices.Insert(top, at, ranked{work, place})
	}
	return top
}

// Hosts lists up to limit hosts: those with the most queued first, then those that took the longest. It costs a number
// for each of the others.
func (f *Frontier) Hosts(now time.Time, limit int) []HostState {
	top := f.roll.top(limit)
	states := make([]HostState, len(top))
	for i := range top {
		states[i] = f.describe(f.roll.hosts[top[i].place], now)
	}
	slices.SortStableFunc(states, func(a, b HostState) int {
		return cmp.Or(cmp.Compare(b.Queued, a.Queued), cmp.Compare(b.TakenSeconds, a.TakenSeconds), cmp.Compare(b.Pages, a.Pages), cmp.Compare(a.Host, b.Host))
	})
	return states
}

// Walk visits the hosts in memory a few at a time, to keep the frontier's owner free. A host that comes or goes
// meanwhile may be missed; none is seen twice. Every call must come from the frontier's owner, and end with Stop.
type Walk struct {
	f    *Frontier
	next func() (string, *host, bool)
	stop func()
}

// Walk begins a walk, in no order.
func (f *Frontier) Walk() *Walk {
	next, stop := iter.Pull2(maps.All(f.hosts))
	return &Walk{f, next, stop}
}

// Next describes up to n further hosts. Fewer mean that there are no more.
func (w *Walk) Next(now time.Time, n int) []HostState {
	list := make([]HostState, 0, n)
	for len(list) < n {
		_, h, ok := w.next()
		if !ok {
			break
		}
		list = append(list, w.f.describe(h, now))
	}
	return list
}

// Stop ends a walk, which may have ended by itself.
func (w *Walk) Stop() { w.stop() }

// An excluded host counts as one that refuses to be asked for a hundred years, so it gives up its place in memory.

const (
	// maxExcluded bounds the hosts that are excluded, some 100 bytes each. More are a matter of the scope.
	maxExcluded = 1 << 12
	excludedFor = 100 * 365 * 24 * time.Hour
	byOperator  = "blocked by the operator"
)

// ErrTooManyExcluded is what [Frontier.Exclude] returns when as many hosts are excluded as may.
var ErrTooManyExcluded = fmt.Errorf("%d hosts are blocked already: unblock one of them, or exclude them by the scope", maxExcluded)

// Exclude stops leases of a host, known or not, until Include. Leases that are out go on. Its URLs stay queued, and do
// not keep a crawl alive: see [Blockage].
func (f *Frontier) Exclude(now time.Time, name string) error {
	name = ratelimit.Domain(name)
	if _, ok := f.excluded[name]; ok {
		return nil
	}
	if len(f.excluded) >= maxExcluded {
		return ErrTooManyExcluded
	}
	f.excluded[name] = struct{}{}
	h := f.hosts[name]
	if h == nil {
		return nil
	}
	h.excluded = true
	f.leaveLine(h)
	if f.nextUp == h {
		f.nextUp = nil
	}
	if h.index >= 0 {
		h.at, h.why, h.reason = now.Add(excludedFor), ratelimit.LimitNone, byOperator
		heap.Fix(&f.due, int(h.index))
	}
	f.offer(h, now, now)
	return nil
}

// Include has a host asked again that was excluded. It reports whether it was.
func (f *Frontier) Include(now time.Time, name string) bool {
	name = ratelimit.Domain(name)
	if _, ok := f.excluded[name]; !ok {
		return false
	}
	delete(f.excluded, name)
	if h := f.hosts[name]; h != nil {
		h.excluded, h.reason = false, ""
		f.offer(h, now, now)
	} else if f.stored != nil {
		f.stored.resting.remove(name)
	}
	return true
}
