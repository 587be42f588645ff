package breaker

import (
	"slices"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// wide is what only a few breakers need: several probes at a time, and an open time
// that differs from one trip to the next. An engine keeps a breaker for every host
// it knows and wants neither, so there it costs a nil pointer.
type wide struct {
	slots   int
	openFor time.Duration // of the current open time
	leases  []lease       // probes that are out, the oldest first
}

// lease is the slot of one probe.
type lease struct {
	probe uint32
	at    clock.Instant
}

// NewWide returns a closed breaker that lets up to slots probes out at the same time
// while it is half-open; slots below 1 mean 1. Each has a slot of its own, which is
// lost and lent again after [Config.ProbeTimeout] like the only one of [New].
// [Breaker.TicketAt] is for breakers with one slot.
func NewWide(cfg *Config, slots int) Breaker {
	b := New(cfg)
	slots = max(slots, 1)
	b.wide = &wide{slots: slots, openFor: cfg.OpenFor, leases: make([]lease, 0, slots)}
	return b
}

// SetOpenFor makes the open time that the last trip began last for d instead of
// [Config.OpenFor]; a d below 0 means 0. It does nothing to a breaker that is not open,
// nor to one that does not come from [NewWide].
func (b *Breaker) SetOpenFor(d time.Duration) {
	if b.wide != nil && b.state == Open {
		b.wide.openFor = max(d, 0)
	}
}

// Counts reports whether a result with the ticket would count: whether the state is
// the one it was given in.
func (b *Breaker) Counts(t Ticket) bool { return t.generation == b.generation }

// Generation numbers the times between changes of state. A ticket counts only in
// the generation it was given in.
func (b *Breaker) Generation() uint32 { return b.generation }

// TicketOf is the ticket that a breaker closed in that generation gives, for owners
// who let calls of a closed breaker pass without taking their lock.
func TicketOf(generation uint32) Ticket { return Ticket{generation: generation} }

// oldestProbe is when the probe that is out for the longest went out. It is not out
// if there is a free slot.
func (b *Breaker) oldestProbe() (sent clock.Instant, out bool) {
	if b.wide == nil {
		return b.probeAt, b.out
	}
	if len(b.wide.leases) < b.wide.slots {
		return 0, false
	}
	return b.wide.leases[0].at, true
}

// lend gives a slot to the latest probe: a free one, or that of the oldest, which
// is lost by now.
func (b *Breaker) lend(now clock.Instant) {
	if b.wide == nil {
		b.out, b.probeAt = true, now
		return
	}
	w := b.wide
	if len(w.leases) == w.slots {
		w.leases = slices.Delete(w.leases, 0, 1)
	}
	w.leases = append(w.leases, lease{b.probe, now})
}

// free ends the lease of the probe, if it still has one.
func (w *wide) free(probe uint32) {
	for i := range w.leases {
		if w.leases[i].probe == probe {
			w.leases = slices.Delete(w.leases, i, i+1)
			return
		}
	}
}
