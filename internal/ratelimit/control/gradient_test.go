package control

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

func newTestGradient(t *testing.T, rate float64) *gradient {
	t.Helper()
	return newGradient(config(t), Host{Start: rate, Floor: 0.1, Ceiling: 1000})
}

// second feeds a second of responses from now on, and returns the cause of the last one.
func (g *gradient) second(now clock.Instant, latency time.Duration) (cause Cause) {
	const n = 10
	for i := range n + 1 {
		sent := now.Add(time.Duration(i) * time.Second / n)
		cause = g.observe(sent, Observation{SentAt: sent, Class: outcome.OK, Latency: latency, Floor: 0.1, Ceiling: 1000})
	}
	return cause
}

// While responses are prompt the rate grows by its square root per second.
func TestGradientGrowsByTheRoot(t *testing.T) {
	g := newTestGradient(t, 16)
	require.Equal(t, CauseNone, g.second(0, 100*time.Millisecond))
	require.InDelta(t, 16+4, g.perSecond(), 1e-9)
	g.second(clock.Instant(2*time.Second), 100*time.Millisecond)
	require.InDelta(t, 20+math.Sqrt(20), g.perSecond(), 1e-9)
	require.Contains(t, g.explain(), "24.47/s")
}

// As responses slow down the rate shrinks in proportion, to half at once and not further.
func TestGradientShrinksInProportion(t *testing.T) {
	for _, tc := range []struct {
		latency time.Duration
		factor  float64
	}{
		{300 * time.Millisecond, gradientSlack / 3},
		{200 * time.Millisecond, gradientSlack / 2},
		{10 * time.Second, gradientLeast},
	} {
		g := newTestGradient(t, 16)
		g.second(0, 100*time.Millisecond)
		before := g.perSecond()
		require.Equal(t, CauseLatency, g.second(clock.Instant(2*time.Second), tc.latency))
		require.InEpsilon(t, tc.factor, g.perSecond()/before, 1e-9, tc.latency)
	}
	g := newTestGradient(t, 16)
	g.second(0, 300*time.Microsecond)
	require.Equal(t, CauseNone, g.second(clock.Instant(2*time.Second), 10*time.Millisecond), "below the floor")
}

// A refusal cuts once per congestion; outcomes of requests that were sent before it cut no more.
func TestGradientCutsOnce(t *testing.T) {
	g := newTestGradient(t, 16)
	bad := Observation{SentAt: 1, Class: outcome.Throttled, Floor: 0.1, Ceiling: 1000}
	require.Equal(t, CauseRefused, g.observe(2, bad))
	require.Equal(t, CauseNone, g.observe(3, bad))
	require.InDelta(t, 8, g.perSecond(), 1e-9)
	bad.SentAt, bad.Class = 4, outcome.Unavailable
	require.Equal(t, CauseFailures, g.observe(5, bad))
	require.InDelta(t, 4, g.perSecond(), 1e-9)
	bad.Floor, bad.SentAt = 6, 0
	g.observe(6, bad)
	require.InDelta(t, 6, g.perSecond(), 1e-9, "within the bounds of the moment")
}
