package steer

import (
	"math"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// connections finds a bound on the requests in flight, which does not depend on their rate: refusals that come again
// and again with the same number in flight, while that many are rarely admitted.
type connections struct {
	seen   uint16        // requests in flight at the refusals that are compared
	weight int8          // evidence that so many are too many, from 0 to 6; a bound from enough on
	excess int32         // sixteenths: requests admitted since a refusal with as many in flight, less one of sixteen of all
	at     clock.Instant // when the latest of these refusals came
}

const (
	enough     = 5                // three refusals, each of which weighs two, less one race
	perRace    = 16               // admitted requests that excuse one which came with as many in flight as were refused
	leastLimit = 3                // least number in flight at a refusal from which a bound is learned
	limitFor   = 10 * time.Minute // how long a bound holds: then more are tried again
)

// refused takes in a failure. If it may be a limiter's (429 or 503) and its request was sent a round trip or more after
// the last refusal came, it is compared with that. It reports whether a bound was found where none held.
func (d *connections) refused(x *Sample) (found bool) {
	n, held := uint16(min(max(x.InFlight, 0), math.MaxUint16)), d.estimate(x.At).InFlight > 0
	if x.SentAt < d.at.Add(x.At.Sub(x.SentAt)) || !x.refused() || held && n >= d.seen {
		return false // of the same moment, not a limiter's, or as the bound says
	}
	rare := d.excess <= perRace
	d.excess = 0
	if rare && n+1 == d.seen && d.weight > 1 {
		d.weight-- // a response may have come before the refusal: a race
		return false
	}
	if !rare || n != d.seen {
		d.seen, d.weight = n, 0
	}
	d.at, d.weight = x.At, min(d.weight+2, enough+1)
	return n >= leastLimit && d.weight >= enough
}

// passed takes in an admitted request.
func (d *connections) passed(x *Sample) {
	if d.excess--; x.InFlight >= int(d.seen) {
		d.excess = min(d.excess+perRace, math.MaxInt16)
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
	if d.seen < leastLimit || d.weight < enough || now >= d.at.Add(limitFor) {
		return Estimate{}
	}
	return Estimate{InFlight: int(d.seen) - 1, Confidence: 1, Cause: control.CauseConnections}
}
