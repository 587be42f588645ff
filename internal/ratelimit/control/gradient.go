package control

import (
	"fmt"
	"math"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// gradient follows the latency: while responses are as prompt as at their best the rate grows by its square root per
// second, and as they slow down it shrinks in proportion. It is for one's own servers, where a queue is the only limit.
// A refusal multiplies the rate by a factor, once per congestion.
//
// The law is that of gradient concurrency limiters, with a rate in place of a window of requests in flight, and with
// means of logarithms in place of means, so that one huge page does not look like a queue.
type gradient struct {
	cfg   *Config
	rate  float64
	cutAt clock.Instant
	base  float64 // usual latency: mean of the natural logarithm of seconds
	// windowAt is when the first response of the present span came, sum the sum of the logarithms of its latencies, and
	// n the number of its responses.
	windowAt clock.Instant
	sum      float64
	n        int
	// known reports whether base was measured.
	known bool
}

const (
	gradientSlack = 1.5  // how many times the usual latency is still prompt
	gradientLeast = 0.5  // smallest factor by which one step lowers the rate
	baseUp        = 0.01 // share by which a slow span moves base towards it: a host may change for good
	// gradientMinN is how many responses a span needs after one second; after ten seconds any number is enough.
	gradientMinN = 8
)

func newGradient(cfg *Config, h Host) *gradient {
	return &gradient{cfg: cfg, rate: h.known(), cutAt: never}
}

func (g *gradient) perSecond() float64 { return g.rate }

// target returns the longest latency that is still prompt; zero before the first span is over.
func (g *gradient) target() time.Duration {
	if !g.known {
		return 0
	}
	return duration(max(math.Exp(g.base)+latencyFloor, math.Exp(g.base)*gradientSlack))
}

func (g *gradient) observe(now clock.Instant, o Observation) (cause Cause) {
	if o.SentAt >= g.cutAt {
		switch {
		case o.RetryAfter > 0 || o.Class.Overload():
			g.rate *= g.cfg.Decrease
			g.cutAt, cause = now, causeOf(&o)
			g.n, g.sum = 0, 0
		case o.Class.Success() || o.Class == outcome.ClientError:
			cause = g.time(now, &o)
		}
	}
	g.rate = min(max(g.rate, o.Floor), o.Ceiling)
	return cause
}

// time takes in the latency of a response. At the end of a span it compares the mean with the best so far, and changes
// the rate. It returns CauseLatency if it cut the rate.
func (g *gradient) time(now clock.Instant, o *Observation) Cause {
	if g.n == 0 {
		g.windowAt = now
	}
	g.sum += math.Log(max(seconds(o.Latency), 1e-6))
	g.n++
	if now.Sub(g.windowAt) < time.Second || g.n < gradientMinN && now.Sub(g.windowAt) < 10*time.Second {
		return CauseNone
	}
	m, elapsed := g.sum/float64(g.n), seconds(now.Sub(g.windowAt))
	g.n, g.sum = 0, 0
	if !g.known || m < g.base {
		g.base, g.known = m, true
	}
	slower := math.Exp(m) - math.Exp(g.base)
	ratio := math.Exp(g.base) * gradientSlack / math.Exp(m)
	if slower > latencyFloor && ratio < 1 {
		g.rate *= max(ratio, gradientLeast)
		g.base += baseUp * (m - g.base)
		return CauseLatency
	}
	g.rate += math.Sqrt(g.rate) * min(elapsed, 2)
	return CauseNone
}

func (g *gradient) explain() string {
	return fmt.Sprintf("learned rate %.4g/s: up while answers are prompt, down as they slow", g.rate)
}
