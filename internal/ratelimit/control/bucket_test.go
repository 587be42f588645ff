package control

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock"
)

// rising is a host of the given rate and allowance, asked at a rate that rises from it by
// growth per second until it refuses.
func rising(t *testing.T, rps, allowance, growth float64) *rig {
	t.Helper()
	r := newRig(t, stranger)
	r.meetAll()
	host := tokens(rps, allowance+1, refusal)
	at, rate := clock.Instant(2*time.Minute), rps/2
	for host(at).status == 0 {
		r.history.add(at)
		gap := duration(1 / rate)
		rate *= math.Exp(growth * seconds(gap))
		at = at.Add(gap)
	}
	r.sentAt, r.failRate = at, rate
	return r
}

// Two refusals, met at different paces, tell a bucket's rate from its allowance.
func TestTwoRefusalsShowTheBucket(t *testing.T) {
	for _, tc := range []struct{ rps, allowance float64 }{
		{4.3, 12}, {4.3, 0}, {10, 20}, {40, 5}, {150, 75}, {4, 40}, {345, 64},
	} {
		var b bucket
		b.explain(rising(t, tc.rps, tc.allowance, growth).needs(), true)
		require.Zero(t, b.sustained)
		b.explain(rising(t, tc.rps, tc.allowance, climbing).needs(), false)
		require.InEpsilon(t, tc.rps, b.sustained, 0.15, "%v per second, burst %v", tc.rps, tc.allowance)
	}
}

// So do the rates alone, if it was full both times: without an allowance they are the same.
func TestSearchAndClimbAgree(t *testing.T) {
	for _, tc := range []struct{ rps, allowance float64 }{
		{10, 0}, {20, 0}, {20, 1}, {20, 5}, {100, 0}, {100, 20}, {1000, 50},
	} {
		r := rising(t, tc.rps, tc.allowance, climbing)
		require.Zero(t, r.agreed(), "there was no search")
		r.sought = float32(rising(t, tc.rps, tc.allowance, growth).failRate)
		require.InEpsilon(t, tc.rps, r.agreed(), 0.11, "%v per second, burst %v", tc.rps, tc.allowance)
		r.sought = float32(r.failRate / 2)
		require.InDelta(t, steady*r.failRate, r.agreed(), 0, "what the climb reached was refused")
	}
}

// A host without an allowance gave less than it had while the climb was below its rate: the
// mean of that is not taken for its ceiling.
func TestNoAllowanceIsFoundByTheClimb(t *testing.T) {
	r := newRig(t, stranger)
	host := tokens(20, 1, refusal)
	for r.proven == 0 {
		r.drive(r.now.Add(time.Second), host)
		require.Less(t, r.now, clock.Instant(time.Minute))
	}
	require.InEpsilon(t, 20, r.ceil, 0.1)
	require.Zero(t, r.sought, "it is measured")
}

// What the first refusal with an order showed is what later ones are compared with, until one
// shows that the limit has risen.
func TestWhatCrossingsAreMeasuredFrom(t *testing.T) {
	flat := func(rate float32) (f [allowances]float32) {
		for i := range f {
			f[i] = rate - float32(i)
		}
		return f
	}
	var b bucket
	b.explain(flat(20), false)
	require.Zero(t, b.sustained, "one function crosses nothing")
	require.Equal(t, flat(20), b.needed)

	b.explain(flat(10), false)
	require.Equal(t, flat(20), b.needed, "it was asked more slowly")
	b.explain(flat(40), false)
	require.InDelta(t, 40, b.sustained, 0)
	require.Equal(t, flat(40), b.needed, "the limit has risen")
	b.explain(flat(30), true)
	require.Equal(t, bucket{needed: flat(30)}, b, "another search")
}

// A cycle that rose from below admitted less than the host would have: where its refusals come
// with an order their crossing is taken, if it is more than the mean.
func TestTheCrossingOfACycle(t *testing.T) {
	for _, tc := range []struct {
		name      string
		order     time.Duration
		sustained float32
		want      float64
	}{
		{"more than the mean", time.Second, 95, 95},
		{"less than the mean", time.Second, 70, 80},
		{"no order", 0, 95, 80},
		{"no more than nearly what was refused", time.Second, 120, steadier * 100},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := cruisingAt(t, 90)
			r.sentAt, r.failRate, r.order, r.sustained = r.now.Add(10*time.Second), 100, tc.order, tc.sustained
			r.cycle, r.resumed = 800, 800
			require.Equal(t, measured, r.judgeCycle())
			require.InDelta(t, tc.want, r.ceil, 1e-4)

			r = cruisingAt(t, 80)
			r.sentAt, r.failRate, r.order, r.sustained = r.now.Add(10*time.Second), 100, tc.order, tc.sustained
			r.probeAt, r.probed = r.now, 830 // more than a burst allowance of none, less than news
			require.Equal(t, measured, r.judgeGrown())
			require.InDelta(t, tc.want, r.ceil, 1e-4, "after a probe that found nothing")
		})
	}
}

// A crossing lowers the rate that was refused by no more than it may.
func TestTakeBucket(t *testing.T) {
	for _, tc := range []struct {
		sustained float32
		least     float64
		want      float64
	}{
		{50, probablyLess, 60},
		{80, probablyLess, 80},
		{80, surelyLess, 90},
		{120, probablyLess, 97},
	} {
		r := cruisingAt(t, 100)
		r.failRate, r.sustained = 100, tc.sustained
		r.takeBucket(tc.least)
		require.InDelta(t, tc.want, r.ceil, 1e-4, tc)
	}
}

// Nothing that was admitted needs no bucket.
func TestNeedsOfNothing(t *testing.T) {
	r := newRig(t, stranger)
	r.meetAll()
	require.Zero(t, r.needs())
	r.sentAt = clock.Instant(time.Minute)
	require.Zero(t, r.needs())
}
