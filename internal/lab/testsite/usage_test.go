package testsite

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock"
)

// arrivals are n requests, evenly spread over ten seconds.
type arrivals struct {
	from time.Duration
	n    int
}

func TestReachedAndConverged(t *testing.T) {
	const never = -1
	for _, tc := range []struct {
		name               string
		slices             []arrivals
		reached, converged time.Duration
	}{
		{"at once", []arrivals{{0, 100}, {10 * time.Second, 100}, {20 * time.Second, 1}}, 0, 0},
		{"after a search", []arrivals{{0, 20}, {10 * time.Second, 60}, {20 * time.Second, 95}, {30 * time.Second, 95}, {40 * time.Second, 1}}, 20 * time.Second, 20 * time.Second},
		{"and lost again", []arrivals{{0, 20}, {10 * time.Second, 95}, {20 * time.Second, 60}, {30 * time.Second, 90}, {40 * time.Second, 1}}, 10 * time.Second, 30 * time.Second},
		{"and never found again", []arrivals{{0, 95}, {10 * time.Second, 80}, {20 * time.Second, 1}}, 0, never},
		{"a slice short of it", []arrivals{{0, 89}, {10 * time.Second, 1}}, never, never},
		{"nobody came for a slice", []arrivals{{0, 95}, {10 * time.Second, 95}, {35 * time.Second, 1}}, 0, never},
		{"the last slice is not over", []arrivals{{0, 95}, {10 * time.Second, 20}}, 0, 0},
		{"too little to tell", []arrivals{{0, 50}}, never, never},
	} {
		t.Run(tc.name, func(t *testing.T) {
			u := newUsage(10, time.Second)
			for _, a := range tc.slices {
				for i := range a.n {
					now := clock.Instant(time.Minute + a.from + time.Duration(i)*10*time.Second/time.Duration(a.n))
					u.arrive(now, now, true)
				}
			}
			for want, got := range map[time.Duration]*time.Duration{tc.reached: u.since(u.reached), tc.converged: u.since(u.converged)} {
				if want == never {
					require.Nil(t, got)
					continue
				}
				require.NotNil(t, got)
				require.Equal(t, want, *got)
			}
		})
	}
}

func TestSliceIsLongEnough(t *testing.T) {
	for _, tc := range []struct {
		rate   float64
		window time.Duration
		want   time.Duration
	}{
		{10, time.Second, 10 * time.Second},
		{1, 0, 20 * time.Second}, // of 20 requests
		{10, time.Minute, time.Minute},
		{0, 0, 10 * time.Second},
	} {
		require.Equal(t, tc.want, newUsage(tc.rate, tc.window).slice, "%+v", tc)
	}
}

func TestBoundsOfLimits(t *testing.T) {
	minute := clock.Instant(time.Minute)
	steady := Latency{Typical: 200 * ms, Body: 50 * ms}
	for _, tc := range []struct {
		host       Host
		text       string
		rate, most float64 // from one minute to two
	}{
		{Host{Limit: Limit{Rate: 5, Burst: 9}}, "leaky-bucket 5/s", 5, 310},
		{Host{Limit: Limit{Requests: 60, Window: time.Minute}}, "fixed-window 60 per 1m0s", 1, 120},
		{Host{Limit: Limit{Rate: 0.5, Requests: 60, Window: time.Minute}}, "leaky-bucket 0.5/s, fixed-window 60 per 1m0s", 0.5, 31},
		{Host{Limit: Limit{Concurrent: 3}}, "concurrency 3", 0, 0},
		{Host{Limit: Limit{Concurrent: 3}, Latency: steady}, "concurrency 3", 12, 723},
		{Host{Load: Load{Workers: 2}, Latency: steady}, "workers 2", 8, 482},
		{Host{Load: Load{Rate: 20}}, "queue 20/s", 20, 1201},
		{Host{Limits: []Limiter{{Kind: kindToken, Rate: 2.5}, {Kind: kindSlots, Concurrent: 1}}, Latency: steady}, "token-bucket 2.5/s, concurrency 1", 2.5, 152},
		{Host{Limits: []Limiter{{Kind: kindSliding, Requests: 30, Window: 10 * time.Second}}}, "sliding-window 30 per 10s", 3, 210},
		{Host{Limits: []Limiter{{Kind: kindLeaky, Rate: 4}}, Day: Day{Length: 2 * time.Minute, Table: []Hour{{At: time.Minute, Speed: 0.5}}}}, "leaky-bucket 4/s", 3, 121},
	} {
		g := gateOf(t, tc.host)
		require.Equal(t, tc.text, g.bounds.String())
		require.InDelta(t, tc.rate, g.bounds.long(g.day), 1e-12, tc.text)
		if tc.most > 0 {
			require.InDelta(t, tc.most, g.bounds.most(g.day, minute, 2*minute), 1e-6, tc.text)
		}
	}
	lognormal := Latency{Typical: time.Second, Dist: distLognormal, Spread: 0.5}
	require.InDelta(t, 1.1331, lognormal.mean().Seconds(), 1e-4, "exp(0.5²/2)")
}

// TestUsageReadsBack: a program that reads the report can tell never from at once.
func TestUsageReadsBack(t *testing.T) {
	r := newRig(t, one(Host{Limits: []Limiter{{Kind: kindToken, Rate: 1}}}))
	for i := range 22 {
		r.to(time.Duration(i) * time.Second)
		r.get("/")
	}
	data, err := json.Marshal(r.report())
	require.NoError(t, err)
	require.Contains(t, string(data), `"limits":"token-bucket 1/s","admitted":22,"possible":22,"used_share":1,"slice_ns":20000000000,"reached_ns":0,"converged_ns":0`)
	other := newRig(t, one(Host{Limits: []Limiter{{Kind: kindToken, Rate: 1}}}))
	data, err = json.Marshal(other.report())
	require.NoError(t, err)
	require.Contains(t, string(data), `"reached_ns":null,"converged_ns":null`)
}
