package control

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/header"
)

// boundedAt is a rig that has found nothing but its owner's bound in a minute.
func boundedAt(t *testing.T, most float64) *rig {
	t.Helper()
	h := stranger
	h.Ceiling, h.Floor = most, min(h.Floor, most)
	h.Start = min(h.Start, most)
	r := newRig(t, h)
	r.drive(clock.Instant(2*time.Minute), willing)
	require.Equal(t, cruising, r.mode)
	require.InDelta(t, most, r.rate, 1e-9)
	return r
}

// A host that only the owner's bound held is known no better than a stranger, and is searched
// on from that rate as soon as the bound is higher: by the step, with no leap.
func TestOwnersBoundIsNoKnowledge(t *testing.T) {
	for _, most := range []float64{3, 0.7, 100.0 / 3} {
		r := boundedAt(t, most)
		require.Zero(t, r.Memory(r.now))
		require.Contains(t, r.Explain(r.now), "as fast as is allowed, and nothing was refused at it")
		r.host.Ceiling = 300
		r.drive(r.now.Add(max(time.Second, 2*duration(1/most))), willing)
		require.Equal(t, searching, r.mode)
		require.Less(t, r.rate, 3*most, "no leap")
		require.Contains(t, r.Explain(r.now), "searching upward, nothing refused so far")
		require.Zero(t, r.Memory(r.now))
		r.drive(r.now.Add(20*time.Second), willing)
		require.InDelta(t, 300, r.rate, 1e-9)
		require.Zero(t, r.Memory(r.now))
	}
}

// The search from an owner's bound grows as any does, at each second.
func TestSearchBeyondARaisedBound(t *testing.T) {
	r := boundedAt(t, 3)
	r.host.Ceiling = 300
	r.ask(reply{})
	from := r.now
	r.Plan(r.now)
	require.Equal(t, searching, r.mode)
	for _, tc := range []struct {
		after time.Duration
		want  float64
	}{{2 * time.Second, 3 * 2.7}, {4 * time.Second, 3 * 7.4}, {8 * time.Second, 3 * 54.6}, {11 * time.Second, 300}} {
		r.drive(from.Add(tc.after), willing)
		require.InEpsilon(t, tc.want, r.rate, 0.25, "after %v", tc.after)
	}
}

// Of a ceiling above the owner's bound nothing is kept: it may have fallen since.
func TestLoweredBound(t *testing.T) {
	r := cruisingAt(t, 100)
	r.host.Ceiling = 5
	r.ask(reply{})
	require.InDelta(t, 5, r.Plan(r.now).Rate, 1e-9)
	require.Zero(t, r.Memory(r.now))
	r.drive(r.now.Add(time.Minute), willing)
	r.host.Ceiling = 500
	r.drive(r.now.Add(time.Second), willing)
	require.Equal(t, searching, r.mode)
	require.Less(t, r.rate, 10.0)

	r = cruisingAt(t, 100)
	r.at = r.now.Add(-time.Minute)
	r.host.Ceiling = 80
	r.ask(reply{})
	require.Zero(t, r.Memory(r.now))
	r.host.Ceiling = 500
	r.drive(r.now.Add(5*time.Second), willing)
	require.Equal(t, cruising, r.mode, "it has refused before, so there is a limit")
	require.True(t, r.climbs)
	require.Less(t, r.rate, 150.0)
}

// What is remembered at the bound or above it was the bound's doing, for all anybody knows.
func TestRecallAtTheBound(t *testing.T) {
	for _, tc := range []struct {
		rate    float32
		ceiling float64
		ours    bool
	}{{3, 3, true}, {0.7, 0.7, true}, {97, 10, true}, {2.9, 3, false}} {
		h := stranger
		h.Ceiling, h.Floor, h.Memory = tc.ceiling, 0.1, Memory{Rate: tc.rate}
		r := newRig(t, h)
		r.drive(clock.Instant(5*time.Second), willing)
		require.Equal(t, tc.ours, r.Memory(r.now) == Memory{}, "%+v", tc)
		r.host.Ceiling = 300
		r.drive(r.now.Add(4*time.Second), willing)
		require.Equal(t, tc.ours, r.mode == searching, "%+v", tc)
	}
}

// A host that was refused before it came to the bound is climbed beyond it, no faster.
func TestRaisedBoundAfterARefusal(t *testing.T) {
	r := cruisingAt(t, 10)
	r.at = r.now.Add(-time.Hour)
	r.host.Ceiling = 10
	r.ceilMax, r.ceil = 10, 10/(1-margin)
	r.ask(reply{})
	require.InDelta(t, 10, r.Memory(r.now).Rate, 1e-5, "it took that much")
	r.host.Ceiling = 300
	r.ask(reply{})
	require.True(t, r.climbs)
	from := r.now
	r.drive(from.Add(10*time.Second), willing)
	require.Equal(t, cruising, r.mode)
	require.Greater(t, r.rate, 20.0)
	require.Less(t, r.rate, 40.0)
}

// A refusal at the bound is news, and an outage is none.
func TestRefusedAtTheBound(t *testing.T) {
	r := boundedAt(t, 10)
	r.refuse(refusal)
	require.Positive(t, r.Memory(r.now).Rate)
	require.LessOrEqual(t, r.Memory(r.now).Rate, float32(10))

	r = boundedAt(t, 10)
	r.drive(r.now.Add(10*time.Second), func(clock.Instant) reply { return reply{err: errDown} })
	require.Zero(t, r.Memory(r.now).Rate)
	r.drive(r.now.Add(time.Minute), willing)
	require.Zero(t, r.Memory(r.now))
	require.InDelta(t, 10, r.rate, 1e-9)
}

// A quota that the host told of sets the pace while it is told, and is no ceiling afterwards.
func TestQuotaThatGoesIsNoCeiling(t *testing.T) {
	r := newRig(t, stranger)
	grants := r.drive(clock.Instant(2*time.Minute), func(at clock.Instant) reply {
		const window = time.Minute
		in := time.Duration(at) % window
		return reply{quota: header.Quota{Limit: 60, Remaining: 60 - int64(in/time.Second), Reset: window - in}}
	})
	require.Less(t, len(grants), 160, "two windows of it, and the search before the first answer")
	require.Zero(t, r.Memory(r.now).Rate)
	r.drive(r.now.Add(90*time.Second), willing)
	require.Greater(t, r.rate, 400.0)
}
