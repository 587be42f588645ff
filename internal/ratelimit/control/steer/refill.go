package steer

import (
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// refill is the time between two refusals, a cycle. If the limiter is a token bucket, it was empty at both, so the mean
// of what it admitted in the cycle is the bucket's refill rate, whatever burst it allows.
type refill struct {
	since clock.Instant // beginning of the cycle: when the refused request was sent, or the strategy was made
}

// mean returns the requests admitted per second of the cycle, pauses included, up to an instant.
func (r *refill) mean(h *history, at clock.Instant) Estimate {
	n := h.between(r.since, at)
	return Estimate{Rate: n / max(at.Sub(r.since).Seconds(), .001), Answers: n}
}

// estimate returns the least rate that a bucket sustains if it was empty at the instant at: the mean of the cycle, or
// if that is more the rate since busy, the end of the last pause, since a bucket saves no more than an ordinary burst.
// The confidence grows with the count. It is zero before the first cycle, and after pauses that last longer than a
// bucket's.
func (r *refill) estimate(t *Tuning, h *history, busy, at clock.Instant) Estimate {
	e := r.mean(h, at)
	e.Rate = max(e.Rate, active(t, h, max(busy, r.since), at))
	idle := busy.Sub(r.since)
	if e.Cause = control.CauseMeasured; idle > 0 && (idle <= rounding || !lasting(idle, e.Rate)) {
		e.Confidence = e.Answers / (e.Answers + t.Cycle/2)
	}
	return e
}

// active returns the requests admitted per second from one instant to another, after an ordinary burst was taken off.
func active(t *Tuning, h *history, since, at clock.Instant) float64 {
	return max(h.between(since, at)-t.Burst, 0) / max(at.Sub(since).Seconds(), .001)
}

// begin starts a cycle at a refusal. After fewer than Cycle responses, which measure nothing, the old cycle goes on.
func (r *refill) begin(t *Tuning, h *history, at clock.Instant) {
	if h.between(r.since, at) >= t.Cycle {
		*r = refill{since: at}
	}
}

// lasting reports a pause too long for a bucket: longer than a second, and longer than eight intervals of the rate.
func lasting(took time.Duration, rate float64) bool {
	return took > max(time.Second, seconds(8/rate))
}
