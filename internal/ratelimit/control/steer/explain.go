package steer

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// Explain implements [control.Strategy]. It gives the rate, what the controller does, and what it believes of the
// ceiling. A quota that binds comes before all that was estimated.
func (s *Steer) Explain(now clock.Instant) string {
	rate, allowed := control.PerSecond(s.rate), s.queueAllows(s.rate)
	switch told := s.hint.binds(now, s.rate); {
	case s.mode == Wait:
		return s.explainWait(now)
	case told && now >= s.hint.reset:
		return control.PerSecond(s.hint.mean()) + ": the average of the quota that the host told, until it tells what is left after the reset"
	case told:
		left, rest := max(math.Floor(s.hint.left), 0), control.Rounded(s.hint.reset.Sub(now))
		return fmt.Sprintf("the host says that %.0f more requests may come within %v", left, rest)
	case allowed < s.rate:
		return control.PerSecond(allowed) + ": slower, so that no queue grows at the host"
	case s.pause != nil && s.health.test != nil:
		return rate + ": slower for a while, to see whether failures depend on the rate"
	}
	doing := [...]string{"searching upward", "just under what is proven", "trying whether more is tolerated", "on the way back up"}[s.mode]
	if s.rate >= s.most {
		doing = "as fast as is allowed"
	}
	if s.unbounded() {
		return rate + ": " + doing + ", nothing refused so far"
	}
	return fmt.Sprintf("%s: %s; %s goes well and %s was refused", rate, doing, control.PerSecond(s.lo), control.PerSecond(s.hi))
}

// causes say what began a pause, where it is known.
var causes = map[control.Cause]string{
	control.CauseForbidden: "a run of 403", control.CauseRefused: "a refusal", control.CauseConnections: "a refusal",
}

// explainWait describes a pause. The owner adds how long a circuit stays open.
func (s *Steer) explainWait(now clock.Instant) string {
	var p control.Plan
	s.pause.plan(now, &p)
	what, then := "circuit "+p.State.String(), ""
	if s.patient() {
		what, then = "paused", fmt.Sprintf(": one trial in %v", control.Rounded(max(s.till.Sub(now), time.Millisecond)))
	}
	if s.out != 0 {
		then = ": one trial is out"
	}
	if s.tries > 0 {
		then = fmt.Sprintf(", failed trials since: %d%s", s.tries, then)
	}
	return what + " after " + cmp.Or(causes[s.cause], "failures") + " at " + control.PerSecond(s.rate) + then
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
