package steer

import (
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// refill counts what a host admitted between two refusals, a cycle. If the limiter is a token bucket, it was empty at
// both, so the mean of the cycle is the bucket's refill rate, whatever burst it allows.
type refill struct {
	since   clock.Instant // beginning of the cycle: when the refused request was sent, or the strategy was made
	n       float32       // requests admitted in the cycle
	longest float32       // seconds of the longest cycle; each new cycle takes a tenth off it
	idle    float32       // seconds of pauses in the cycle, in which nothing was sent
	cycled  bool          // whether the cycle began with a refusal
}

// observe counts an admitted request that was sent in this cycle.
func (r *refill) observe(x *Sample) {
	if x.SentAt > r.since {
		r.n++
	}
}

// mean returns the requests admitted per second of the cycle, pauses included, up to now.
func (r *refill) mean(now clock.Instant) Estimate {
	return Estimate{Rate: float64(r.n) / max(now.Sub(r.since).Seconds(), .001), Answers: float64(r.n)}
}

// estimate returns the least rate that a bucket sustains if it was empty at the instant at: the mean of the cycle, or
// if that is more the rate while requests were sent, since a bucket saves no more than an ordinary burst in a pause.
// The confidence grows with the count. It is zero before the first cycle, and after pauses that last longer than a
// bucket's.
func (r *refill) estimate(t *Tuning, at clock.Instant) Estimate {
	e := r.mean(at)
	e.Rate = max(e.Rate, r.active(t, at))
	idle := seconds(float64(r.idle))
	if e.Cause = control.CauseMeasured; r.cycled && (idle <= rounding || !lasting(idle, e.Rate)) {
		e.Confidence = e.Answers / (e.Answers + t.Cycle/2)
	}
	return e
}

// active returns the requests admitted per second of the time without pauses, after an ordinary burst was taken off.
func (r *refill) active(t *Tuning, at clock.Instant) float64 {
	return max(float64(r.n)-t.Burst, 0) / max(at.Sub(r.since).Seconds()-float64(r.idle), .001)
}

// begin starts a cycle at a refusal that led to that pause. After fewer than Cycle responses, which measure nothing,
// the old cycle goes on and only the pause is added.
func (r *refill) begin(t *Tuning, at clock.Instant, pause time.Duration) {
	if !r.cycled || float64(r.n) >= t.Cycle { // fewer responses measure nothing: the cycle goes on
		*r = refill{since: at, longest: max(r.longest*.9, float32(at.Sub(r.since).Seconds())), cycled: true}
	}
	r.idle += float32(pause.Seconds())
}

// skip takes a time out of the cycle in which the host was down and admitted nothing.
func (r *refill) skip(d time.Duration) { r.since = r.since.Add(d) }

// lasting reports a pause too long for a bucket: longer than a second, and longer than eight intervals of the rate.
func lasting(took time.Duration, rate float64) bool {
	return took > max(time.Second, seconds(8/rate))
}
