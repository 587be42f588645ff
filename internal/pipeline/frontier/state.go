package frontier

import (
	"cmp"
	"slices"
	"time"

	"github.com/treadlight/crawl/internal/ratelimit"
)

// HostState is one host of the frontier and why it is not being asked.
type HostState struct {
	Host      string    `json:"host"`
	Queued    int       `json:"queued"`
	InFlight  int       `json:"in_flight"`
	Pages     int       `json:"pages"`            // pages leased so far
	ServiceMS float64   `json:"service_ms"`       // smoothed time a request holds its slot
	Reason    string    `json:"reason,omitempty"` // what it waits for; empty when it waits for nothing
	Until     time.Time `json:"until,omitzero"`   // when it is looked at again; zero when that depends on an event
	Blocked   bool      `json:"blocked"`          // the host itself said "not now", or is down
}

// Blocking reports whether a limit is a refusal of the host, not its pace.
func Blocking(l ratelimit.Limit) bool {
	return l == ratelimit.LimitRetryAfter || l == ratelimit.LimitBreaker
}

// Blocked reports whether nothing is out and every host with work refuses to be asked,
// and until when the first of them does.
func (f *Memory) Blocked(now time.Time) (until time.Time, ok bool) {
	if f.counts.leased.Load() > 0 || len(f.due) == 0 || f.counts.queued.Load() == 0 {
		return time.Time{}, false
	}
	// The first host in the schedule comes up before all others: while it is blocked
	// and waits, so does the rest.
	first := f.due[0]
	if !first.at.After(now) || !first.blocked() {
		return time.Time{}, false
	}
	return first.at, true
}

// blocked reports whether a host that waits does so because it refuses to be asked, and
// not just to keep its pace.
func (h *host) blocked() bool {
	return h.refused || Blocking(h.why) || h.reason != "" && h.reason != "retry"
}

// Hosts lists up to limit hosts: those with the most queued first, then those with the
// most pages. It costs time in proportion to the hosts known.
func (f *Memory) Hosts(now time.Time, limit int) []HostState {
	top := make([]*host, 0, max(limit, 0)+1)
	for _, h := range f.hosts {
		if len(top) == limit && (limit == 0 || byWork(h, top[limit-1]) >= 0) {
			continue
		}
		at, _ := slices.BinarySearchFunc(top, h, byWork)
		top = slices.Insert(top, at, h)
		top = top[:min(len(top), limit)]
	}
	states := make([]HostState, len(top))
	for i, h := range top {
		states[i] = f.describe(h, now)
	}
	return states
}

func byWork(a, b *host) int {
	return cmp.Or(cmp.Compare(b.queued(), a.queued()), cmp.Compare(b.leased, a.leased), cmp.Compare(a.name, b.name))
}

func (f *Memory) describe(h *host, now time.Time) HostState {
	w := HostState{
		Host: h.name, Queued: h.queued(), InFlight: len(h.out),
		Pages: int(h.leased), ServiceMS: h.service.Seconds() * 1e3,
	}
	switch {
	case w.Queued == 0:
	case h.parked:
		w.Reason = "slow: waits for one of the slots that slow hosts share"
	case w.InFlight >= f.cfg.PerHost:
		w.Reason = "per_host_max"
	case h.index < 0:
		w.Reason, w.Blocked = h.reason, h.blocked()
	case h.at.After(now):
		w.Until, w.Blocked = h.at, h.blocked()
		w.Reason = h.reason
		if w.Reason == "" {
			w.Reason = h.why.String()
		}
	}
	return w
}
