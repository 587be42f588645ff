package steer

import (
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// cycle is what was admitted from one stop to another: a bucket was empty at both, so that is what it sustains, whatever
// its burst allowance. It begins so many stops back that enough is counted.
type cycle struct {
	n    float64 // admitted
	span float64 // seconds
	idle float64 // of them, in stops
	full bool    // it begins with a refusal
	long bool    // which went on for longer than a bucket needs for its next token
}

// cycle is that until an instant, at which so many were admitted ever, after all stops from an index on.
func (r *stops) cycle(t *Tuning, after int, admitted uint32, until clock.Instant) (c cycle) {
	skip := 0.
	for i := after; i < len(r) && !c.full; i++ {
		s := &r[i]
		c.n, c.span = float64(admitted-s.admitted), max(until.Sub(s.from).Seconds()-skip, .001)
		if s.rate == 0 {
			break
		}
		took := s.to.Sub(s.from)
		if s.taught {
			c.idle += took.Seconds()
			c.full, c.long = c.n >= t.Cycle, took > rounding && lasting(took, s.rate)
		} else if s.down() {
			skip += took.Seconds()
		}
	}
	return c
}

// mean is what was admitted per second.
func (c *cycle) mean() Estimate { return Estimate{Rate: c.n / max(c.span, .001), Answers: c.n} }

// active is what was admitted per second of the time in which something was asked for, but for an ordinary burst
// allowance.
func (c *cycle) active(t *Tuning) float64 { return max(c.n-t.Burst, 0) / max(c.span-c.idle, .001) }

// estimate is what a bucket sustains at least: in a pause it saves no more than an ordinary burst allowance. The more is
// counted the surer it is, if refusals are as short as a bucket's.
func (c *cycle) estimate(t *Tuning) Estimate {
	e := c.mean()
	e.Rate = max(e.Rate, c.active(t))
	if e.Cause = control.CauseMeasured; c.full && !c.long {
		e.Confidence = e.Answers / (e.Answers + t.Cycle/2)
	}
	return e
}

// longest is the seconds of the longest time between two stops.
func (r *stops) longest() float64 {
	longest := time.Duration(0)
	for i := range len(r) - 1 {
		if r[i].rate > 0 {
			longest = max(longest, r[i].from.Sub(r[i+1].from))
		}
	}
	return longest.Seconds()
}
