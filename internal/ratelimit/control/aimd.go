package control

import (
	"fmt"
	"time"

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
	cfg   *Config
	rate  float64
	cutAt clock.Instant // of the last cut

	// The average latency of answers, and the lowest it has been, in seconds. Both begin
	// with what the user expects.
	latency, lowest float32
}

const (
	// latencyWeight is the share of a new answer in the average. A fifth forgets a slow
	// spell in about ten answers and is not moved much by one page.
	latencyWeight = 0.2

	// latencyDrift is how far above its lowest the average may raise the target.
	latencyDrift = 2
)

func newAIMD(cfg *Config, h Host) *aimd {
	expected := float32(cfg.Latency.Seconds())
	return &aimd{cfg: cfg, rate: h.known(), cutAt: never, latency: expected, lowest: expected}
}

func (a *aimd) perSecond() float64 { return a.rate }

// target is the latency that is expected of the next answer. It follows the average of a
// host that is slower than the user expects, but never to more than twice the lowest
// average, so that a host whose answers slow down under our requests cannot take it along.
// Below latencyFloor it makes no difference.
func (a *aimd) target() time.Duration {
	expected, most := a.cfg.Latency.Seconds(), latencyDrift*float64(a.lowest)
	return duration(max(min(expected, max(most, latencyFloor)), min(float64(a.latency), most)))
}

// time takes in the latency of an answer. The lowest average rises only while the rate is
// at its floor: answers that are slow there too are not slow because of us. A failure says
// nothing of the latency: a gateway's is its timeout.
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
	// The ceiling goes last: it may lie below the floor when robots.txt asks for less.
	a.rate = min(max(a.rate, o.Floor), o.Ceiling)
	return cause
}

func (a *aimd) explain() string {
	return fmt.Sprintf("learned rate %.4g/s: a step up per prompt answer, down by a factor at overload", a.rate)
}

// latencyFloor is the seconds below which the laws take no answer for slow: near hosts answer in less than a
// scheduler takes.
const latencyFloor = 0.05
