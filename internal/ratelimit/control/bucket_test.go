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
