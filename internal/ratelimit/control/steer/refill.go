package steer

import (
	"time"

	"github.com/treadlight/crawl/internal/clock"
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

func (r *refill) add(sentAt clock.Instant) {
	if sentAt > r.since {
		r.n++
	}
}

// mean is what was admitted per second until an instant, and how many answers say so.
func (r *refill) mean(now clock.Instant) (perSecond, n float64) {
	return float64(r.n) / max(now.Sub(r.since).Seconds(), .001), float64(r.n)
}

// sustained is what a bucket sustains at least that was empty at an instant: in a pause it saves no more
// than an ordinary burst allowance.
func (r *refill) sustained(at clock.Instant) (perSecond, n float64) {
	perSecond, n = r.mean(at)
	return max(perSecond, (n-ordinaryBurst)/max(at.Sub(r.since).Seconds()-float64(r.idle), .001)), n
}

// begin starts a cycle at a refusal.
func (r *refill) begin(at clock.Instant, pause time.Duration) {
	defer func() { r.idle += float32(pause.Seconds()) }()
	if r.cycled && r.n < leastCycle {
		return // too few to measure anything: the cycle goes on
	}
	r.longest = max(r.longest*.9, float32(at.Sub(r.since).Seconds()))
	*r = refill{since: at, longest: r.longest, cycled: true}
}

// leastCycle is how many answers make a mean.
const leastCycle = 10

// skip leaves a time out of the cycle, in which nothing was to be had.
func (r *refill) skip(d time.Duration) { r.since = r.since.Add(d) }
