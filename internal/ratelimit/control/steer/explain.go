package steer

import (
	"fmt"
	"math"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// Explain implements [control.Strategy]. It gives the rate, what the controller does, and what it believes of the
// ceiling. A quota that binds comes before all that was estimated.
func (s *Steer) Explain(now clock.Instant) string {
	rate := control.PerSecond(s.rate)
	switch {
	case s.mode == Wait:
		return s.explainWait(now)
	case s.hint.binds(now, s.rate) && now >= s.hint.reset:
		return control.PerSecond(s.hint.mean()) + ": the average of the quota that the host told, until it tells what is left after the reset"
	case s.hint.binds(now, s.rate):
		return fmt.Sprintf("the host says that %.0f more requests may come within %v",
			max(math.Floor(s.hint.left), 0), control.Rounded(s.hint.reset.Sub(now)))
	case s.queueAllows(s.rate) < s.rate:
		return control.PerSecond(s.queueAllows(s.rate)) + ": slower, so that no queue grows at the host"
	case s.pause != nil && s.health.test != nil:
		return rate + ": slower for a while, to see whether failures depend on the rate"
	case s.unbounded() && s.rate >= s.most:
		return rate + ": as fast as is allowed, and nothing was refused at it"
	case s.unbounded():
		return rate + ": searching upward, nothing refused so far"
	}
	doing := [...]string{"searching upward again", "just under what is proven", "trying whether more is tolerated", "on the way back up", ""}[s.mode]
	return fmt.Sprintf("%s: %s; %s goes well and %s was refused", rate, doing, control.PerSecond(s.lo), control.PerSecond(s.hi))
}

// Limit implements [control.Strategy]. It is what was refused, or what the host tells where that binds or nothing was
// refused yet.
func (s *Steer) Limit(now clock.Instant) float64 {
	switch {
	case s.hint.active(now) && (s.unbounded() || s.hint.binds(now, s.rate)):
		return s.hint.mean()
	case s.unbounded():
		return 0
	}
	return s.hi
}

// explainWait describes a pause. The owner adds how long a circuit stays open.
func (s *Steer) explainWait(now clock.Instant) string {
	why := "failures"
	switch {
	case s.blocked():
		why = "a run of 403"
	case s.explicit():
		why = "a refusal"
	}
	what := "circuit open"
	switch {
	case s.patient():
		what = "paused"
	case s.out != 0 || now >= s.till:
		what = "circuit half_open"
	}
	text := fmt.Sprintf("%s after %s at %s", what, why, control.PerSecond(s.rate))
	if s.event.Cause == control.CauseTrial {
		text += fmt.Sprintf(", failed trials since: %d", s.tries)
	}
	switch {
	case s.out != 0:
		return text + ": one trial is out"
	case s.patient() && now >= s.till:
		return text + ": one trial is due"
	case s.patient():
		return fmt.Sprintf("%s: one trial in %v", text, control.Rounded(max(s.till.Sub(now), time.Millisecond)))
	}
	return text
}
