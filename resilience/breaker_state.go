package resilience

import (
	"time"

	"github.com/treadlight/crawl/internal/ratelimit/breaker"
)

// State is where the breaker stands now: one whose open time is over is half-open,
// whether or not a call has come since; an isolated one is open.
func (b *Breaker) State() breaker.State {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stateLocked()
}

func (b *Breaker) stateLocked() breaker.State {
	if b.isolated {
		return breaker.Open
	}
	return b.machine.State(b.nowLocked())
}

// Healthy reports whether the breaker is closed. Half-open is not healthy: nothing but a
// probe passes, and nobody knows yet how it ends.
func (b *Breaker) Healthy() bool { return b.State() == breaker.Closed }

// Trip opens the breaker as enough failures would. One that is open already is open for
// its whole time again.
func (b *Breaker) Trip() {
	b.force(func() { b.machine.Trip(b.nowLocked()) })
	b.lengthen()
}

// Isolate holds the breaker open until Reset, whatever the time: for a callee that is
// known to be away. Refusals then say no time to try again.
func (b *Breaker) Isolate() {
	b.force(func() {
		b.isolated = true
		b.machine.Trip(b.nowLocked())
	})
}

// Reset closes the breaker, ends an isolation and forgets what led to either. The totals
// of the snapshot stay.
func (b *Breaker) Reset() {
	b.force(func() {
		b.isolated = false
		b.machine.Reset(b.nowLocked())
		b.lookback.reset()
	})
}

func (b *Breaker) force(change func()) {
	b.mu.Lock()
	change()
	b.noteLocked(b.last, true)
	b.mu.Unlock()
	b.emit()
}

// BreakerSnapshot is a breaker at one instant. Durations are in nanoseconds in JSON.
type BreakerSnapshot struct {
	Name       string        `json:"name"`
	State      breaker.State `json:"state"`
	Isolated   bool          `json:"isolated"`
	Since      time.Time     `json:"since"`       // of the last change that a call or a hand made; the making if there was none
	RetryAfter time.Duration `json:"retry_after"` // until a call may pass if none comes back before; zero when one may now, or when it is not known

	// What a closed breaker weighs; of one that is not, what it weighed last.
	Window      string  `json:"window"`
	Calls       int     `json:"calls"`        // in the window; zero for the consecutive one
	Failures    int     `json:"failures"`     // among them, or in a row
	FailureRate float64 `json:"failure_rate"` // of them
	SlowRate    float64 `json:"slow_rate"`

	Trips  int           `json:"trips"`  // since it was last closed
	Totals BreakerCounts `json:"totals"` // since it was made
}

// Healthy is that of the breaker at that instant.
func (s BreakerSnapshot) Healthy() bool { return s.State == breaker.Closed }

// Snapshot is a copy of everything there is to see, of one instant.
func (b *Breaker) Snapshot() BreakerSnapshot {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.nowLocked()
	in := b.lookback.sum(now)
	s := BreakerSnapshot{
		Name: b.cfg.Name, State: b.stateLocked(), Isolated: b.isolated,
		Since:  b.epoch.Add(time.Duration(b.changed)),
		Window: b.cfg.Window.String(), Calls: in.calls, Failures: in.failures,
		FailureRate: in.share(in.failures), SlowRate: in.share(in.slow),
		Trips: b.trips, Totals: b.counts,
	}
	if b.cfg.Window.kind == byRun {
		s.Failures = b.machine.Consecutive()
	}
	if at, ok := b.machine.Ready(now); !ok && !b.isolated {
		s.RetryAfter = at.Sub(now)
	}
	return s
}
