package control

import (
	"fmt"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// aimd adds a step to the rate for each prompt success, and multiplies the rate by a factor below one at each sign of
// overload. Clients that share a limit converge to equal parts under this law, and under no other simple one.
//
// Requests that were in flight when the rate was cut met the same congestion. Their outcomes do not cut again, since
// one slow second would otherwise cost as many cuts as requests were in flight. Nor do they raise the rate, since they
// tell nothing of the new one.
type aimd struct {
	cfg   *Config
	rate  float64
	cutAt clock.Instant // time of the last cut; never before the first

	// latency is the average latency of responses, and lowest the lowest that the average has been, in seconds. Both
	// begin with the latency that the user expects.
	latency, lowest float32
}

const (
	// latencyWeight is the share of a new response in the average. With a fifth, about ten responses forget a slow
	// spell, and one slow page moves the average little.
	latencyWeight = 0.2

	// latencyDrift is how many times its lowest value the average may raise the target to.
	latencyDrift = 2
)

func newAIMD(cfg *Config, h Host) *aimd {
	expected := float32(cfg.Latency.Seconds())
	return &aimd{cfg: cfg, rate: h.known(), cutAt: never, latency: expected, lowest: expected}
}

func (a *aimd) perSecond() float64 { return a.rate }

// target returns the latency that is expected of the next response. It follows the average of a host that is slower
// than the user expects, but never beyond twice the lowest average, so that a host which our requests slow down cannot
// raise its own target. A target below latencyFloor is not made lower by the lowest average.
func (a *aimd) target() time.Duration {
	expected, most := a.cfg.Latency.Seconds(), latencyDrift*float64(a.lowest)
	return duration(max(min(expected, max(most, latencyFloor)), min(float64(a.latency), most)))
}

// time takes in the latency of a response. The lowest average rises only while the rate is at its floor: responses that
// are slow there are not slow because of us. A failure says nothing of the latency: that of a gateway is its timeout.
func (a *aimd) time(o *Observation) {
	if !o.Class.Answered() || o.Class.Overload() {
		return
	}
	latency := float32(o.Latency.Seconds())
	a.latency += latencyWeight * (latency - a.latency)
	if a.lowest = min(a.lowest, a.latency); a.rate <= o.Floor && o.SentAt >= a.cutAt {
		a.lowest += latencyWeight * max(0, latency-a.lowest)
	}
}

func (a *aimd) observe(now clock.Instant, o Observation) (cause Cause) {
	target := a.target()
	a.time(&o)
	if o.SentAt >= a.cutAt {
		switch {
		case congested(&o, a.cfg.Degrade, target):
			a.rate *= a.cfg.Decrease
			a.cutAt, cause = now, causeOf(&o)
		case o.Class.Success() && o.Latency < target:
			a.rate += a.cfg.Increase
		}
	}
	// The ceiling is applied last: it may lie below the floor if robots.txt demands less.
	a.rate = min(max(a.rate, o.Floor), o.Ceiling)
	return cause
}

func (a *aimd) explain() string {
	return fmt.Sprintf("learned rate %.4g/s: a step up per prompt answer, down by a factor at overload", a.rate)
}

// latencyFloor is the latency in seconds below which the laws take no response for slow: on a near host a scheduler's
// delay is longer than the response.
const latencyFloor = 0.05
