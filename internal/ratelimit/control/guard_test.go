package control

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
	"github.com/treadlight/crawl/internal/ratelimit/estimate"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

type classic struct {
	*guarded
	w   *estimate.Window
	now clock.Instant
}

const usualLatency = 100 * time.Millisecond

func newClassic(t *testing.T, h Host) *classic {
	t.Helper()
	return &classic{AIMD(config(t), 0, h).(*guarded), newWindow(t), 0}
}

func (c *classic) ask(status int, order time.Duration) {
	trial := c.Sent(c.now, 1)
	c.hear(c.now, status, order)
	c.Lost(c.now, trial)
	c.now = c.now.Add(time.Second)
}

func (c *classic) hear(sentAt clock.Instant, status int, order time.Duration) {
	c.Observe(c.now, Observation{
		SentAt: sentAt, Class: outcome.Of(status, nil), Latency: usualLatency, RetryAfter: order,
		Floor: stranger.Floor, Ceiling: stranger.Ceiling, Window: c.w,
	})
}

func (c *classic) state() breaker.State { return c.Plan(c.now).State }

// The classic breaker opens after so many failures in a row, if they come in time at the rate.
func TestBreakerOpensAtFailuresInARow(t *testing.T) {
	c := newClassic(t, Host{Start: 200, Floor: 0.1, Ceiling: 500})
	for range c.cfg.Breaker.Consecutive - 1 {
		c.ask(503, 0)
	}
	require.Equal(t, c.cfg.Breaker.Consecutive-1, c.Failures())
	c.ask(200, 0)
	require.Zero(t, c.Failures())
	for i := range c.cfg.Breaker.Consecutive {
		require.Equal(t, breaker.Closed, c.state(), "failure %d", i+1)
		c.ask(500, 0)
	}
	require.Equal(t, breaker.Open, c.state())
	require.Equal(t, CauseFailures, c.Plan(c.now).Event.Cause)
	require.Contains(t, c.Explain(c.now), "open after failures")
	opened := c.now.Add(-time.Second)
	p := c.Plan(c.now)
	require.Equal(t, opened.Add(c.cfg.Breaker.OpenFor), p.NotBefore)
	require.Equal(t, p.NotBefore, p.Review)
	require.Equal(t, p.NotBefore, c.Memory(c.now).Held)
}

// The breaker opens at a share of failures too, once there are enough outcomes. After closing, outcomes from before do
// not open it again.
func TestBreakerOpensAtAnErrorRate(t *testing.T) {
	c := newClassic(t, stranger)
	for i := range c.cfg.Breaker.MinSamples {
		require.Equal(t, breaker.Closed, c.state(), "answer %d", i)
		c.ask([]int{200, 503}[i%2], 0)
	}
	require.Equal(t, breaker.Open, c.state())
	c.now = c.Plan(c.now).NotBefore
	for range c.cfg.Breaker.Probes {
		require.Equal(t, breaker.HalfOpen, c.state())
		c.ask(200, 0)
	}
	require.Equal(t, breaker.Closed, c.state())
	require.Equal(t, CauseRecovered, c.Plan(c.now).Event.Cause)
	require.Zero(t, c.Memory(c.now).Held)
	c.ask(503, 0)
	require.Equal(t, breaker.Closed, c.state())
}

// While the breaker is half-open one probe is in flight at a time. The first that fails opens it again, one that is
// lost frees its place, and requests that were sent before say nothing.
func TestBreakerProbes(t *testing.T) {
	c := newClassic(t, stranger)
	for range c.cfg.Breaker.Consecutive {
		c.ask(503, 0)
	}
	before := c.now
	c.now = c.Plan(c.now).NotBefore
	probe := c.Sent(c.now, 1)
	require.NotZero(t, probe)
	require.Greater(t, c.Plan(c.now).NotBefore, c.now, "nobody beside it")
	c.hear(before, 503, 0)
	require.Equal(t, breaker.HalfOpen, c.state())
	c.Lost(c.now, probe)
	require.LessOrEqual(t, c.Plan(c.now).NotBefore, c.now)
	c.ask(503, 0)
	require.Equal(t, breaker.Open, c.state())
	require.Equal(t, c.now.Add(c.cfg.Breaker.OpenFor-time.Second), c.Plan(c.now).NotBefore)
}

// A Retry-After is obeyed by the owner and is no failure.
func TestOrdersDoNotOpenTheBreaker(t *testing.T) {
	c := newClassic(t, stranger)
	for range 100 {
		c.ask(429, time.Second)
	}
	require.Equal(t, breaker.Closed, c.state())
	require.Zero(t, c.Failures())
}

// A host that was paused when it was remembered is still paused, whatever the law.
func TestBreakerIsRemembered(t *testing.T) {
	for name, maker := range map[string]Maker{NameAIMD: AIMD, NameGradient: Gradient, NameFixed: Fixed} {
		h := stranger
		h.Memory = Memory{Rate: 7, Held: clock.Instant(10 * time.Second)}
		s := maker(config(t), 0, h)
		p := s.Plan(0)
		require.Equal(t, breaker.Open, p.State, name)
		require.Equal(t, h.Memory.Held, p.NotBefore, name)
		require.Equal(t, breaker.HalfOpen, s.Plan(h.Memory.Held).State, name)
		require.InDelta(t, 7, p.Rate, 1e-6, name)
		require.Equal(t, h.Memory.Held, s.Memory(0).Held, name)
	}
	require.Contains(t, Fixed(config(t), 0, stranger).Explain(0), "fixed at 1/s")
}
