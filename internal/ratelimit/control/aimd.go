package control

import (
	"fmt"

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
}

func newAIMD(cfg *Config, h Host) *aimd { return &aimd{cfg: cfg, rate: h.known(), cutAt: never} }

func (a *aimd) perSecond() float64 { return a.rate }

func (a *aimd) observe(now clock.Instant, o Observation) (cause Cause) {
	if o.SentAt >= a.cutAt {
		switch {
		case congested(&o, a.cfg.Degrade):
			a.rate *= a.cfg.Decrease
			a.cutAt, cause = now, causeOf(&o)
		case o.Class.Success() && o.Latency < o.Target:
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
