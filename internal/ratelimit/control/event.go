package control

import (
	"fmt"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// Cause is why a plan changed.
type Cause uint8

// The causes. CauseNone is no event.
const (
	CauseNone      Cause = iota
	CauseRefused         // 429, or an order to wait
	CauseFailures        // 5xx, timeouts or network errors beyond this host's usual
	CauseForbidden       // a run of 403
	CauseLatency         // answers wait in a queue at the host
	CauseTrial           // a trial failed
	CauseRecovered       // a trial succeeded after failures
	CauseMeasured        // the ceiling was measured between two refusals
	CauseQuota           // the ceiling is what one window admitted
	CauseSearched        // the first estimate after the search upward
	CauseProbed          // an upward move was not refused
	CauseNoise           // the failures had nothing to do with the rate
	CauseRebased         // slower answers had nothing to do with the rate
	numCauses
)

var causeNames = [numCauses]string{
	"none", "refused", "failures", "forbidden", "latency", "trial_failed", "recovered", "measured",
	"quota", "searched", "probed", "noise", "rebased",
}

// String is the name that events and snapshots carry.
func (c Cause) String() string {
	if c < numCauses {
		return causeNames[c]
	}
	return fmt.Sprintf("cause(%d)", uint8(c))
}

// MarshalText writes the name, so that JSON shows it.
func (c Cause) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads a name back.
func (c *Cause) UnmarshalText(text []byte) error {
	for i, name := range causeNames {
		if name == string(text) {
			*c = Cause(i)
			return nil
		}
	}
	return fmt.Errorf("unknown cause %q", text)
}

// Event is something that changed a plan. The zero Event is none; Number tells one
// event from the next.
type Event struct {
	At       clock.Instant
	From, To float32       // requests per second before and after; To is zero while held
	Hold     time.Duration // nothing but a trial goes out for this long; zero if not held
	Number   uint32
	Cause    Cause
}

// next is the event after e.
func (e Event) next(now clock.Instant, c Cause, from, to float64, hold time.Duration) Event {
	return Event{At: now, From: float32(from), To: float32(to), Hold: hold, Number: e.Number + 1, Cause: c}
}

// causeOf is the cause that one bad answer is.
func causeOf(o *Observation) Cause {
	switch {
	case o.RetryAfter > 0 || o.Class == outcome.Throttled:
		return CauseRefused
	case o.Class.Overload():
		return CauseFailures
	}
	return CauseLatency
}
