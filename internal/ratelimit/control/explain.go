package control

import (
	"fmt"
	"math"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// Explain implements [Strategy]: the rate, what goes on, the ceiling and what that rests
// on, in the order in which a reader asks. The host's own word comes before all that was
// worked out.
func (s *steer) Explain(now clock.Instant) string {
	rate, q := perSec(s.rate), s.quota
	switch {
	case s.mode == held:
		return s.explainHold(now)
	case q.binds(now, s.rate):
		return fmt.Sprintf("the host says that %.0f more requests may come within %v",
			max(math.Floor(q.left), 0), pauseOf(q.reset.Sub(now)))
	case math.IsInf(s.ceil, 1):
		return rate + ": " + s.pastCeiling()
	case s.mode == cruising && !s.testing && s.ceil >= s.top():
		return rate + ": as fast as is allowed, and nothing was refused at it"
	}
	return fmt.Sprintf("%s: %s of %s%s", rate, s.doing(), perSec(s.ceil), s.rests(now))
}

// pastCeiling is what goes on while no ceiling is known. A queue may be met before any
// refusal is.
func (s *steer) pastCeiling() string {
	if s.mode == draining {
		return "slower, so that a queue at the host empties"
	}
	return "searching upward, nothing refused so far"
}

// doing is what goes on about a ceiling that is known, up to the word "of". A test of
// failures is told first: it slows whatever mode it happens in.
func (s *steer) doing() string {
	if s.testing {
		return "slower for a while, to see whether failures depend on the rate; the ceiling"
	}
	switch s.mode {
	case searching:
		return "searching upward again, beyond a ceiling"
	case probing:
		return "trying whether more is tolerated than the ceiling"
	case ramping:
		return "on the way back up to the ceiling"
	case draining:
		return "slower, so that a queue at the host empties; the ceiling"
	case cruising, held:
	}
	return "just under the ceiling"
}

// rests is what the ceiling rests on, and since when. The latest event tells that
// unless something came after it that left the ceiling alone.
func (s *steer) rests(now clock.Instant) string {
	what := ""
	switch s.event.Cause {
	case CauseMeasured:
		what = "measured between two refusals"
	case CauseQuota:
		what = fmt.Sprintf("what one window of a quota admitted whose refusals last %v; measured", pauseOf(s.lag))
	case CauseSearched:
		what = "estimated where the search upward met a limit"
	case CauseProbed:
		what = "raised when a faster rate was not refused,"
	case CauseLatency:
		what = "lowered when answers began to queue"
	case CauseEstimated:
		what = "estimated"
	case CauseBlocked:
		what = "after a block that ended"
	case CauseRecovered:
		what = "as before an outage that ended"
	case CauseNoise:
		what = "kept, as failures do not depend on it; seen"
	case CauseRebased:
		what = "kept, as slow answers do not depend on it; seen"
	case CauseNone:
		return ", remembered from before"
	default:
		return ""
	}
	return fmt.Sprintf(", %s %s", what, ago(now.Sub(s.event.At)))
}

// explainHold tells of a pause. How long a circuit stays open is for the owner to add.
func (s *steer) explainHold(now clock.Instant) string {
	at := perSec(s.failRate)
	why := "failures at " + at
	switch {
	case s.blocked:
		why = "a run of 403 at " + at
	case s.explicit:
		why = "a refusal at " + at
	}
	if s.event.Cause == CauseTrial { // tries alone may be of a host that was paused when it was forgotten
		why += fmt.Sprintf(", failed trials since: %d", s.tries)
	}
	what := "paused after "
	if !s.patient() {
		what = "circuit open after "
		if s.trialAt != 0 || now >= s.till {
			what = "circuit half_open after "
		}
	}
	switch {
	case s.trialAt != 0:
		return what + why + ": one trial is out"
	case s.patient():
		if now >= s.till {
			return what + why + ": one trial is due"
		}
		return fmt.Sprintf("%s%s: one trial in %v", what, why, pauseOf(s.till.Sub(now)))
	}
	return what + why
}

// ago is how long something is past; below a second nobody can tell by looking.
func ago(d time.Duration) string {
	if d < time.Second {
		return "just now"
	}
	return d.Round(time.Second).String() + " ago"
}
