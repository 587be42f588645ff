package frontier

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/treadlight/crawl/internal/ratelimit"
)

// HostState is one host of the frontier and why it is not being asked.
type HostState struct {
	Host      string  `json:"host"`
	Queued    int     `json:"queued"`
	InFlight  int     `json:"in_flight"`
	Pages     int     `json:"pages"`      // pages leased so far
	ServiceMS float64 `json:"service_ms"` // smoothed time a request holds its slot
	// TakenSeconds is the time from the first request to the end of the latest, in tenths, since the host is in
	// memory.
	TakenSeconds float64   `json:"taken_seconds"`
	Reason       string    `json:"reason,omitempty"`   // what it waits for; empty when it waits for nothing
	Until        time.Time `json:"until,omitzero"`     // when it is looked at again; zero when that depends on an event
	Failures     int       `json:"failures,omitempty"` // requests in a row that failed
	Trouble      string    `json:"trouble,omitempty"`  // the class of the last of them; empty when there is none
	Blocked      bool      `json:"blocked"`            // the host itself said "not now", or is down
	Excluded     bool      `json:"barred,omitempty"`   // nothing is asked of it, as the operator wants
}

// Blocking reports whether a limit is a refusal of the host or a used-up quota, not its pace.
func Blocking(l ratelimit.Limit) bool {
	return l == ratelimit.LimitRetryAfter || l == ratelimit.LimitBreaker || l == ratelimit.LimitQuota
}

// Blockage is how far the hosts of a frontier refuse to be asked.
type Blockage struct {
	// Whole is whether every host with work refuses.
	Whole bool
	// Until is when the first of them may be asked again.
	Until time.Time
	// Ordered says that the host demands Until, as by Retry-After or an open breaker.
	Ordered bool
	// Excluded is whether all of them are excluded, so that none of them refuses anything. Until has no meaning then.
	Excluded bool

	// Of several processes alone:

	Idle   bool // no host of this process has work, and there was none to be had
	Unsure bool // hosts or URLs may be on their way, so that nothing else is known
}

// Idleness is how far a process has nothing to do, for several to agree on the end of a job. Zero: it has work.
type Idleness struct {
	Blockage               // Whole or Idle, and never Unsure
	Since    time.Time     // when it was served a page last, or came to have nothing to do after that
	Patience time.Duration // for how long hosts may refuse before they are given up
	Reason   string        // which hosts refuse, for people; of one that is Whole
}

// Still reports whether the process has nothing to do.
func (i *Idleness) Still() bool { return i.Whole || i.Idle }

// Blocked reports whether every host with work refuses to be asked. Valid only while nothing is leased; O(hosts with
// work).
func (f *Frontier) Blocked(now time.Time) Blockage {
	unsure := Blockage{Unsure: f.shared}
	if f.loads > 0 || f.activating && !f.shared || f.revising > 0 {
		return unsure // others are about to come up, or what they wait for may be over
	}
	b := Blockage{Whole: len(f.due) > 0, Ordered: true}
	for _, h := range f.due {
		if !h.at.After(now) || !h.blocked() {
			return Blockage{}
		}
		b.Ordered = b.Ordered && h.ordered()
	}
	if len(f.hosts) < f.cfg.MaxHosts && (!f.none || !f.elsewhere.IsZero() && !f.elsewhere.After(now)) {
		return unsure // hosts may be there that this process has not asked for yet
	}
	if !b.Whole {
		b.Idle = f.drained()
		return b
	}
	b.Until = earlier(f.due[0].at, f.elsewhere)
	if r := &f.resting; f.inactive > 0 {
		if f.inactive > r.queued && len(r.hosts) < maxResting {
			r.stuck = true // let others be asked
			return Blockage{}
		}
		b.Until = earlier(b.Until, r.first)
		b.Ordered = b.Ordered && r.unordered == 0
	}
	b.Excluded = b.Until.Sub(now) > excludedFor/2
	return b
}

// ordered reports whether what a host waits for is an order, or rules it cannot give.
func (h *host) ordered() bool {
	return Blocking(h.why) || h.reason != "" && h.reason != retrying && h.reason != loading
}

// blocked reports whether a host that waits does so because it refuses to be asked, and not just to keep its pace.
func (h *host) blocked() bool { return h.history.Refuses() || h.ordered() }

// retrying is the reason of a host that has only URLs waiting for another try; other reasons are a gate's.
const retrying = "retry"

// loading is the reason of a host whose URLs are on their way from the store.
const loading = "loading"

func (f *Frontier) describe(h *host, now time.Time) HostState {
	w := HostState{
		Host: h.name, Queued: h.queued(), InFlight: len(h.out),
		Pages: int(h.asked), ServiceMS: h.service.Seconds() * 1e3,
		TakenSeconds: float64(h.taken()) / 10,
	}
	if n, class := h.history.InRow(); n > 0 {
		w.Failures, w.Trouble = n, class.String()
	}
	w.Excluded = h.excluded
	switch {
	case h.excluded:
		w.Reason = byOperator
	case w.Queued == 0:
	case h.inLine:
		w.Reason = "slow: waits for one of the slots that slow hosts share"
	case w.InFlight > 0 && !h.proven:
		w.Reason = "its first answer is awaited"
	case w.InFlight >= f.cfg.PerHost:
		w.Reason = "per_host_max"
	case w.InFlight >= int(h.slots):
		w.Reason = "max_in_flight"
	case h.index < 0:
		w.Reason, w.Blocked = h.reason, h.blocked()
	case h.at.After(now):
		w.Until, w.Blocked = h.at, h.blocked()
		w.Reason = h.reason
		if w.Reason == "" {
			w.Reason = h.why.String()
		}
	case f.held.After(now):
		w.Until, w.Reason = f.held, f.heldBy.String()
	}
	return w
}

// Host describes one host, if it is in memory or excluded.
func (f *Frontier) Host(now time.Time, name string) (HostState, bool) {
	h, ok := f.hosts[name]
	if _, excluded := f.excluded[name]; !ok && excluded {
		return HostState{Host: name, Reason: byOperator, Excluded: true}, true
	} else if !ok {
		return HostState{}, false
	}
	return f.describe(h, now), true
}

// Hosts lists up to limit hosts: those with the most queued first, then those that took the longest. It costs a number
// for each of the others.
func (f *Frontier) Hosts(now time.Time, limit int) []HostState {
	top := f.top(limit)
	states := make([]HostState, len(top))
	for i := range top {
		states[i] = f.describe(f.roll[top[i].place], now)
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
