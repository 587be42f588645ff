package simulate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/racetest"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// Hosts that share a server share its capacity; each host apart has that capacity for itself.
func TestHostsShareAServerOrHaveTheirOwn(t *testing.T) {
	for _, tc := range []struct {
		apart int
		want  float64 // of the capacity
	}{{0, 1}, {1, 2}, {4, 4}} {
		sc := nginx("", 10)
		sc.Duration, sc.Hosts, sc.Apart = MinDuration, 4, tc.apart
		sc.Link = Link{}
		r, err := Run(sc, Config(Oracle), 1)
		require.NoError(t, err)
		require.InDelta(t, tc.want, r.First.Utilisation(), 0.02, "%d apart", tc.apart)
		require.Equal(t, Never, r.Merged)
	}
}

// The ceiling holds for each host, and the capacity counts only as far as the ceiling allows.
func TestCeilingIsEachHosts(t *testing.T) {
	for _, tc := range []struct {
		hosts, apart  int
		ceiling, want float64
	}{{0, 0, 50, 10}, {1, 0, 4, 4}, {1, 1, 4, 4}, {5, 0, 1, 5}, {5, 0, 4, 10}, {5, 5, 1, 5}, {5, 5, 4, 10}, {5, 1, 2, 7}, {5, 1, 1, 5}} {
		sc := Scenario{Hosts: tc.hosts, Apart: tc.apart, Capacity: flat(10)}
		require.InDelta(t, tc.want, sc.admits(tc.ceiling, 0), 1e-9, "%+v", tc)
	}
}

// The figures of several hosts are for all of them: the sum of the plans of hosts that had requests, and the common
// rate once there is one. An observer changes nothing.
func TestWatchingSeveralHosts(t *testing.T) {
	found, err := Select(Scenarios(), "S23a")
	require.NoError(t, err)
	sc := found[0]
	sc.Duration = 2 * time.Minute
	want, err := Run(sc, Config(control.NameSteer), 1)
	require.NoError(t, err)
	var seconds []Second
	got, err := Simulation{
		Scenario: sc, Config: Config(control.NameSteer), Seed: 1, OnSecond: func(s Second) { seconds = append(seconds, s) },
	}.Run(t.Context())
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Less(t, got.Merged, time.Minute)
	require.InDelta(t, 5, seconds[0].Plan.FillRate, 4, "one host after the other is met at 1/s")
	for _, s := range seconds[90:] {
		require.InDelta(t, 10, s.Plan.FillRate, 5) // half, on the way back from a pause
		require.Contains(t, s.Plan.Reason, "5 hosts are limited as one")
	}
}

// A host gets no request before it has joined.
func TestHostsJoinOneByOne(t *testing.T) {
	sc := nginx("", 1)
	sc.Duration, sc.Hosts, sc.Apart, sc.Joins, sc.MaxRPS = MinDuration, 3, 3, MinDuration/2, 1
	r, err := Run(sc, Config(Oracle), 1)
	require.NoError(t, err)
	require.InDelta(t, 61+30, r.First.Sent+r.Steady.Sent, 3, "one all the time, one for half of it, one never")
}

func TestEvenness(t *testing.T) {
	require.InDelta(t, 1, evenness([]*site{{granted: 7}, {granted: 7}}), 1e-9)
	require.InDelta(t, 0.5, evenness([]*site{{granted: 7}, {}}), 1e-9)
	require.Zero(t, evenness([]*site{{}, {}}), "nobody was granted anything")
}

// A host that takes four requests at a time is at its limit if a request is sent whenever one is answered: sometimes
// the response comes first and sometimes the request.
func TestBoundOnConnectionsIsFoundInARace(t *testing.T) {
	seeds := uint64(8)
	if racetest.Sample(t) {
		seeds = 1
	}
	for _, tc := range []struct {
		link  Link
		least float64
	}{
		{(&spec{Near: true}).scenario().Link, 0.97},
		{Link{RTT: 5 * time.Millisecond, Jitter: 0.2}, 0.94},
	} {
		scs, err := Select(Scenarios(), "S19")
		require.NoError(t, err)
		sc := scs[0]
		sc.Link, sc.Duration = tc.link, 4*time.Minute
		for seed := range seeds {
			r, err := Run(sc, Config(control.NameSteer), seed+1)
			require.NoError(t, err)
			require.Greater(t, r.Steady.Utilisation(), tc.least, "%+v, seed %d", tc.link, seed+1)
			require.Less(t, r.Steady.RefusedShare(), 0.002, "%+v, seed %d", tc.link, seed+1)
		}
	}
}
