package steer

import (
	"math"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/control"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// connections finds a bound on the requests in flight, which does not depend on their rate: refusals that come again
// and again with the same number in flight, while that many are rarely admitted.
type connections struct {
	seen  uint16        // requests in flight at the refusals that are compared
	since uint16        // requests admitted since the latest refusal
	well  uint16        // those of them that came with seen or more in flight
	times uint8         // refusals in a row with seen in flight, at most sameCount, which makes a bound
	raced bool          // the latest refusal came with one fewer than seen, and was not counted: a race
	until clock.Instant // when the bound ends, so that more are tried again; zero if there is none
}

const (
	sameCount  = 3                // refusals in a row with the same number in flight that make a bound
	perRace    = 16               // admitted requests that excuse one which came with as many in flight as were refused
	leastLimit = 3                // least number in flight at a refusal from which a bound is learned
	limitFor   = 10 * time.Minute // how long a bound holds
)

// refused takes in a failure. If it may be a limiter's (429 or 503) and is not of the same moment as the last, it is
// compared with the refusals before. It reports whether a bound was found where none held.
func (d *connections) refused(x *Sample) (found bool) {
	n := uint16(min(max(x.InFlight, 0), math.MaxUint16))
	if d.since < n || x.Class != outcome.Throttled && x.Class != outcome.Unavailable {
		return false // of the same moment as the last refusal, or not a limiter's
	}
	if d.estimate(x.At).InFlight > 0 && n >= d.seen {
		return false // as the bound says
	}
	raced := n+1 == d.seen && !d.raced
	if n != d.seen && !raced || d.well > 1+d.since/perRace {
		d.seen, d.times, d.until = n, 0, 0
	}
	d.well, d.since, d.raced = 0, 0, raced && n != d.seen
	if d.raced {
		return false
	}
	if d.times = min(d.times+1, sameCount); n < leastLimit || d.times < sameCount {
		return false
	}
	d.until = x.At.Add(limitFor)
	return true
}

// passed takes in an admitted request.
func (d *connections) passed(x *Sample) {
	d.since = min(d.since+1, math.MaxUint16-1)
	if x.InFlight >= int(d.seen) {
		d.well = min(d.well+1, math.MaxUint16-1)
	}
}

// inFlight returns how many requests may be in flight: what the rate needs, or what the host admits if that is less.
func (s *Steer) inFlight(now clock.Instant, rate float64) int {
	n := s.queueing.inFlight(rate)
	if s.pause == nil {
		return n
	}
	if e := s.connections.estimate(now); e.InFlight > 0 {
		n = min(n, e.InFlight)
	}
	return n
}

// estimate returns how many requests at once the host admits, while the bound holds.
func (d *connections) estimate(now clock.Instant) Estimate {
	if now >= d.until {
		return Estimate{}
	}
	return Estimate{InFlight: int(d.seen) - 1, Confidence: 1, Cause: control.CauseConnections}
}
