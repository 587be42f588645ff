package simulate

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Hosts that share a server share what it admits, and those apart have as much each.
func TestHostsShareAServerOrHaveTheirOwn(t *testing.T) {
	for _, tc := range []struct {
		apart int
		want  float64 // of the capacity
	}{{0, 1}, {1, 2}, {4, 4}} {
		sc := farHost("", "", 10, nginx(10, 0, tooMany))
		sc.Duration, sc.Hosts, sc.Apart = MinDuration, 4, tc.apart
		sc.Link = Link{}
		r, err := Run(sc, Config(Clairvoyant), 1)
		require.NoError(t, err)
		require.InDelta(t, tc.want, r.First.Utilisation(), 0.02, "%d apart", tc.apart)
		require.Equal(t, Never, r.Merged)
	}
}

// A host is asked no sooner than it is met.
func TestHostsJoinOneByOne(t *testing.T) {
	sc := farHost("", "", 1, nginx(1, 0, tooMany))
	sc.Duration, sc.Hosts, sc.Apart, sc.Joins, sc.MaxRPS = MinDuration, 3, 3, MinDuration/2, 1
	r, err := Run(sc, Config(Clairvoyant), 1)
	require.NoError(t, err)
	require.InDelta(t, 61+30, r.First.Sent+r.Steady.Sent, 3, "one all the time, one for half of it, one never")
}

func TestEvenness(t *testing.T) {
	require.InDelta(t, 1, evenness([]*site{{granted: 7}, {granted: 7}}), 1e-9)
	require.InDelta(t, 0.5, evenness([]*site{{granted: 7}, {}}), 1e-9)
	require.Zero(t, evenness([]*site{{}, {}}), "nobody was granted anything")
}

func TestHostsOutOfRange(t *testing.T) {
	for _, change := range []func(*Scenario){
		func(sc *Scenario) { sc.Hosts = -1 },
		func(sc *Scenario) { sc.Hosts = maxHosts + 1 },
		func(sc *Scenario) { sc.Hosts, sc.Apart = 2, 3 },
		func(sc *Scenario) { sc.Apart = -1 },
		func(sc *Scenario) { sc.Joins = -1 },
	} {
		sc := farHost("X", "", 1, nginx(1, 0, tooMany))
		change(&sc)
		_, err := Run(sc, Config(Clairvoyant), 1)
		require.ErrorContains(t, err, "want up to 1000 hosts")
		require.True(t, strings.HasPrefix(err.Error(), `simulate: scenario "X": `))
	}
}
