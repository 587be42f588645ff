package steer

import (
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// refill counts what was admitted between two refusals: a bucket was empty at both, so that is
// what it sustains, whatever its burst allowance.
type refill struct {
	since   clock.Instant // the last refused request was sent, or the first of all
	n       float32       // admitted since
	longest float32       // seconds of the longest cycle
	idle    float32       // seconds of it in which nothing was asked for
	cycled  bool          // the cycle began with a refusal
}

// observe counts what is admitted.
func (r *refill) observe(x *Sample) {
	if x.SentAt > r.since {
		r.n++
	}
}

// mean is what was admitted per second until an instant.
func (r *refill) mean(now clock.Instant) Estimate {
	return Estimate{Rate: float64(r.n) / max(now.Sub(r.since).Seconds(), .001), Answers: float64(r.n)}
}

// estimate is what a bucket sustains at least that was empty at an instant: in a pause it saves no more
// than an ordinary burst allowance. The more is counted the surer it is, if refusals are as short as a bucket's.
func (r *refill) estimate(t *Tuning, at clock.Instant) Estimate {
	e := r.mean(at)
	e.Rate = max(e.Rate, r.active(t, at))
	idle := seconds(float64(r.idle))
	if e.Cause = control.CauseMeasured; r.cycled && (idle <= rounding || !lasting(idle, e.Rate)) {
		e.Confidence = e.Answers / (e.Answers + t.Cycle/2)
	}
	return e
}

// active is what was admitted per second of the time in which something was asked for, but for an ordinary
// burst allowance.
func (r *refill) active(t *Tuning, at clock.Instant) float64 {
	return max(float64(r.n)-t.Burst, 0) / max(at.Sub(r.since).Seconds()-float64(r.idle), .001)
}

// begin starts a cycle at a refusal, after whose pause the host admits again.
func (r *refill) begin(t *Tuning, at clock.Instant, pause time.Duration) {
	if !r.cycled || float64(r.n) >= t.Cycle { // fewer measure nothing: the cycle goes on
		*r = refill{since: at, longest: max(r.longest*.9, float32(at.Sub(r.since).Seconds())), cycled: true}
	}
	r.idle += float32(pause.Seconds())
}

// skip leaves a time out of the cycle, in which nothing was to be had.
func (r *refill) skip(d time.Duration) { r.since = r.since.Add(d) }

// lasting reports a pause that is longer than a bucket needs for its next token.
func lasting(took time.Duration, rate float64) bool {
	return took > max(time.Second, seconds(8/rate))
}
