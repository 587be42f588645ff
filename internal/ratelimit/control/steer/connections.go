package steer

import (
	"math"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/control"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// connections is what is known of a host that bounds the requests in flight, and not their rate.
type connections struct {
	limit uint16        // requests in flight that went well; zero for not known
	seen  uint16        // in flight at the last refusal
	since uint16        // willing answers since
	well  uint16        // of them, those with as many in flight as were refused
	times uint8         // refusals in a row with as many in flight, and rarely as many well
	raced bool          // the latest had one fewer
	until clock.Instant // then it is asked anew
}

const (
	sameCount  = 3
	perRace    = 16
	leastLimit = 3
	limitFor   = 10 * time.Minute
)

// refused takes in an answer that may be a refusal, and reports whether the bound is a new one.
func (d *connections) refused(x *Sample) (learned bool) {
	n := uint16(min(max(x.InFlight, 0), math.MaxUint16))
	if d.since < n || x.Class != outcome.Throttled && x.Class != outcome.Unavailable {
		return false // of the same moment as the last, or no limit's
	}
	raced := n+1 == d.seen && !d.raced
	if n != d.seen && !raced || d.well > 1+d.since/perRace {
		d.seen, d.times = n, 0
	}
	d.well, d.since, d.raced = 0, 0, raced && n != d.seen
	if d.raced {
		return false
	}
	d.times = min(d.times+1, sameCount)
	switch {
	case n < leastLimit:
		return false
	case d.times == sameCount:
		learned = d.estimate(x.At).InFlight != int(n)-1
		d.limit, d.until = n-1, x.At.Add(limitFor)
	case n <= d.limit:
		d.limit = 0
	}
	return learned
}

func (d *connections) passed(x *Sample) {
	d.since = min(d.since+1, math.MaxUint16-1)
	if x.InFlight >= int(d.seen) {
		d.well = min(d.well+1, math.MaxUint16-1)
	}
}

// inFlight is the most requests that the host may have at once.
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

// estimate is how many requests at once the host admits.
func (d *connections) estimate(now clock.Instant) Estimate {
	if d.limit == 0 || now >= d.until {
		return Estimate{}
	}
	return Estimate{InFlight: int(d.limit), Confidence: 1, Cause: control.CauseConnections}
}
