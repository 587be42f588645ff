package ratelimit

import (
	"github.com/treadlight/crawl/internal/clock"
)

// aimd adds a step to the rate for each prompt success and multiplies it by a
// factor below one for each sign of overload. A rate that too many share converges
// to equal parts under this law, and no other simple one.
//
// What was in flight when the rate was cut met the same congestion. Such feedback
// neither cuts again, or one slow second would cost as many cuts as requests were
// out, nor raises the rate, since it tells nothing of the new one.
type aimd struct {
	rate  rate
	cutAt clock.Instant // of the last cut
}

// plan holds until the next answer: time alone changes nothing.
func (a *aimd) plan(clock.Instant) plan { return plan{rate: a.rate, review: forever} }

// sent has nothing to learn: the law looks at answers only.
func (a *aimd) sent(clock.Instant, int) {}

func (a *aimd) observe(now clock.Instant, o observation) {
	if o.sentAt >= a.cutAt {
		switch {
		case a.congested(o):
			a.rate = rate(float64(a.rate) * o.cfg.AIMDDecrease)
			a.cutAt = now
		case o.class.Success() && o.latency < o.target:
			a.rate += rateOf(o.cfg.AIMDIncrease)
		}
	}
	// The ceiling goes last: it may lie below the floor when robots.txt asks for less.
	a.rate = min(max(a.rate, o.floor), o.ceiling)
}

// congested reads a sign of overload: an order to wait, a failure that speaks of a
// host in trouble, or an answer far slower than this host's usual. The quota is left
// to strategies that pace by it; here a used-up quota shows as the 429 it leads to.
func (a *aimd) congested(o observation) bool {
	slow := o.class.Answered() && float64(o.latency) >= o.cfg.LatencyDegradeFactor*float64(o.target)
	return o.retryAfter > 0 || o.class.Overload() || slow
}
