package frontier

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit"
)

// HostState describes one host of the frontier and why no request is sent to it.
type HostState struct {
	Host      string  `json:"host"`
	Queued    int     `json:"queued"`
	InFlight  int     `json:"in_flight"`
	Pages     int     `json:"pages"`      // pages requested so far, whatever their status; neither robots.txt nor sitemaps
	ServiceMS float64 `json:"service_ms"` // smoothed time for which a request holds its slot
	// TakenSeconds is the time from the first request to the end of the latest one since the host is in memory, in
	// steps of a tenth of a second.
	TakenSeconds float64   `json:"taken_seconds"`
	Reason       string    `json:"reason,omitempty"`   // what the host waits for; empty means nothing
	Until        time.Time `json:"until,omitzero"`     // when the host is scheduled next; zero means on an event
	Failures     int       `json:"failures,omitempty"` // consecutive failures
	Trouble      string    `json:"trouble,omitempty"`  // outcome class of the last of them; empty means no failure
	Blocked      bool      `json:"blocked"`            // the host refuses requests for now, or is down
	Excluded     bool      `json:"barred,omitempty"`   // the operator has stopped requests to it
}

// Blocking reports whether a limit is a refusal of the host or a used-up quota, and not just its pace.
func Blocking(l ratelimit.Limit) bool {
	return l == ratelimit.LimitRetryAfter || l == ratelimit.LimitBreaker || l == ratelimit.LimitQuota
}

// Blockage says how far the hosts of a frontier refuse requests.
type Blockage struct {
	// Whole is whether every host with work refuses requests.
	Whole bool
	// Until is when the first of them may be requested from again.
	Until time.Time
	// Ordered is whether the hosts demand the wait until Until, as by Retry-After or an open breaker.
	Ordered bool
	// Excluded is whether all of them are excluded by the operator, so that none of them refuses anything. Until has no
	// meaning then.
	Excluded bool

	// The following fields are set only when several processes share the store:

	Idle   bool // no host of this process has work, and it could acquire no other
	Unsure bool // hosts or URLs may still come from the store, so that nothing else is known
}

// Idleness says how far a process has nothing to do, so that several processes can agree on the end of a job. The zero
// Idleness means that the process has work.
type Idleness struct {
	Blockage               // Whole or Idle, and never Unsure
	Since    time.Time     // when a page was served to it last, or when it ran out of work if that was later
	Patience time.Duration // how long hosts may refuse before they are given up
	Reason   string        // which hosts refuse, for people; set if Whole
}

// Still reports whether the process has nothing to do.
func (i *Idleness) Still() bool { return i.Whole || i.Idle }

// Blocked reports whether every host with work refuses requests. The result is valid only while nothing is leased. It
// costs O(hosts with work).
func (f *Frontier) Blocked(now time.Time) Blockage {
	unsure := Blockage{Unsure: f.shared}
	if f.loads > 0 || f.activating && !f.shared || f.revising > 0 {
		return unsure // other hosts are about to come up, or what they wait for may be over
	}
	b := Blockage{Whole: len(f.due) > 0, Ordered: true}
	for _, h := range f.due {
		if !h.at.After(now) || !h.blocked() {
			return Blockage{}
		}
		b.Ordered = b.Ordered && h.ordered()
	}
	if len(f.hosts) < f.cfg.MaxHosts && (!f.none || !f.elsewhere.IsZero() && !f.elsewhere.After(now)) {
		return unsure // there may be hosts that this process has not requested yet
	}
	if !b.Whole {
		b.Idle = f.drained()
		return b
	}
	b.Until = clock.Earlier(f.due[0].at, f.elsewhere)
	if r := &f.resting; f.inactive > 0 {
		if f.inactive > r.queued && len(r.hosts) < maxResting {
			r.stuck = true // let any host in memory make room for the others
			return Blockage{}
		}
		b.Until = clock.Earlier(b.Until, r.first)
		b.Ordered = b.Ordered && r.unordered == 0
	}
	b.Excluded = b.Until.Sub(now) > excludedFor/2
	return b
}

// ordered reports whether the host waits for something that it demands itself (such as Retry-After or an open breaker)
// or for robots rules that it does not deliver.
func (h *host) ordered() bool {
	return Blocking(h.why) || h.reason != "" && h.reason != retrying && h.reason != loading
}

// blocked reports whether a waiting host waits because it refuses requests, and not just to keep its pace.
func (h *host) blocked() bool { return h.history.Refuses() || h.ordered() }

// retrying is the reason of a host that has only URLs waiting for another try. Reasons other than retrying and loading
// come from a gate.
const retrying = "retry"

// loading is the reason of a host whose URLs are being loaded from the store.
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
		switch w.Reason = h.reason; {
		case h.keptTil.After(now):
			w.Reason = f.jam
		case w.Reason == "":
			w.Reason = h.why.String()
		}
	case f.held.After(now):
		w.Until, w.Reason = f.held, f.heldBy.String()
	}
	return w
}

// Host describes one host. It reports false if the host is neither in memory nor excluded.
func (f *Frontier) Host(now time.Time, name string) (HostState, bool) {
	h, ok := f.hosts[name]
	if !ok && f.excludes(name) {
		return HostState{Host: name, Reason: byOperator, Excluded: true}, true
	} else if !ok {
		return HostState{}, false
	}
	return f.describe(h, now), true
}

// Hosts lists up to limit hosts: first those with the most URLs queued, among equals those that took the longest. Each
// of the other hosts costs one comparison.
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

// All yields the hosts in memory, in no particular order. Between two of them the frontier may be used, so that its
// owner is not blocked for long; a host that is added or removed meanwhile may be missed, and none is yielded twice.
func (f *Frontier) All(now func() time.Time) iter.Seq[HostState] {
	return func(yield func(HostState) bool) {
		for _, h := range f.hosts {
			if !yield(f.describe(h, now())) {
				return
			}
		}
	}
}
