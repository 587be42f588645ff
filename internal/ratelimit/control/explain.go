package control

import (
	"fmt"
	"math"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// Explain implements [Strategy].
func (s *steer) Explain(now clock.Instant) string {
	if s.mode == held {
		return s.explainHold(now)
	}
	if s.quota.active(now) {
		return fmt.Sprintf("the host's quota: %.0f requests left for %v", max(s.quota.left, 0), s.quota.reset.Sub(now).Round(time.Second))
	}
	what := [...]string{
		searching: "searching upward", cruising: "just under the ceiling", probing: "probing above the ceiling",
		ramping: "ramping up to the ceiling", draining: "letting a queue at the host empty",
	}[s.mode]
	if math.IsInf(s.ceil, 1) {
		return fmt.Sprintf("%.4g/s: %s, no ceiling met yet", s.rate, what)
	}
	if s.testing {
		what = "testing whether failures depend on the rate"
	}
	text := fmt.Sprintf("%.4g/s: %s of %.4g/s", s.rate, what, s.ceil)
	if s.lag > 0 {
		text += fmt.Sprintf(", a quota whose refusals last %v", s.lag.Round(time.Second))
	}
	return text
}

func (s *steer) explainHold(now clock.Instant) string {
	why := "failures"
	switch {
	case s.block:
		why = "a run of 403"
	case s.explicit:
		why = "a refusal"
	}
	if s.trialAt != 0 {
		return fmt.Sprintf("held after %s: one trial is out", why)
	}
	return fmt.Sprintf("held after %s: a trial in %v", why, max(s.till.Sub(now), 0).Round(time.Millisecond))
}
