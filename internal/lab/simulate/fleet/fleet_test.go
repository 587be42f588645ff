package fleet_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/simulate/fleet"
)

func run(t *testing.T, c fleet.Config) fleet.Result {
	t.Helper()
	r, err := fleet.Run(c)
	require.NoError(t, err)
	return r
}

// of returns the default web with the given values.
func of(processes, owned, hosts int, capacity, pages float64) fleet.Config {
	c := fleet.Default()
	c.Processes, c.Owned, c.Hosts, c.Capacity, c.Pages = processes, owned, hosts, capacity, pages
	return c
}

// flat returns a web of equal hosts with 100 pages each at 1/s.
func flat(hosts, processes, owned int, capacity float64) fleet.Config {
	c := of(processes, owned, hosts, capacity, 100*float64(hosts))
	c.Exponent, c.Rates = 1e-12, []fleet.Rate{{PerSecond: 1, Share: 1}}
	return c
}

// TestInClosedForm compares the model with results that can be computed by hand.
func TestInClosedForm(t *testing.T) {
	for name, c := range map[string]struct {
		cfg           fleet.Config
		seconds, rate float64
	}{
		"politeness: all hosts at once":          {flat(1000, 1, 1000, 1e6), 100, 1000},
		"politeness: more processes are no help": {flat(1000, 10, 1000, 1e6), 100, 1000},
		"capacity: a tenth of what hosts bear":   {flat(1000, 1, 1000, 100), 1000, 100},
		"capacity: two processes take half":      {flat(1000, 2, 1000, 100), 500, 200},
		"places: a tenth of the hosts at a time": {flat(1000, 1, 100, 1e6), 1000, 100},
		"places: ten processes have all":         {flat(1000, 10, 100, 1e6), 100, 1000},
	} {
		t.Run(name, func(t *testing.T) {
			r := run(t, c.cfg)
			require.InDelta(t, 1e5, r.Pages, 1)
			require.InEpsilon(t, c.seconds, r.Seconds, 1e-6)
			require.InEpsilon(t, c.rate, r.Rate, 1e-6)
			require.InEpsilon(t, c.seconds/2, r.Half, 1e-6)
			require.InEpsilon(t, 100, r.Longest, 1e-6)
		})
	}
}

// TestLaws checks bounds that hold for any web.
func TestLaws(t *testing.T) {
	last := fleet.Result{Most: 1e18}
	for _, n := range []int{1, 3, 10, 100} {
		r := run(t, of(n, 100, 3000, 50, 1e6))
		require.GreaterOrEqual(t, r.Seconds*1.000001, r.Longest, "no fleet is done before its slowest host")
		require.GreaterOrEqual(t, r.Seconds*1.000001, r.Pages/(50*float64(n)), "nor faster than it can")
		require.LessOrEqual(t, r.Busy, 1.000001)
		require.LessOrEqual(t, r.Half, r.Most)
		require.LessOrEqual(t, r.Most, r.Nearly)
		require.LessOrEqual(t, r.Nearly, r.Seconds)
		require.LessOrEqual(t, r.Most, last.Most*1.000001, "more processes take no longer for most of it")
		require.Equal(t, r, run(t, of(n, 100, 3000, 50, 1e6)))
		last = r
	}
	c := of(1, 4096, 1000, 1000, 1e6)
	whole := run(t, c)
	c.MaxPerHost = 500
	capped := run(t, c)
	require.Less(t, capped.Longest, whole.Longest/10)
	require.LessOrEqual(t, capped.Pages, 500e3)
	require.InDelta(t, 1e6*5*9+4e6*75+1000*300, whole.Memory, 1e5)
}

func TestConfig(t *testing.T) {
	for want, c := range map[string]fleet.Config{
		"processes is -1": of(-1, 1, 1, 1, 1), "hosts is 20000000": of(1, 1, 2e7, 1, 1), "owned is -1": of(1, -1, 1, 1, 1), "above 0": of(1, 1, 1, -1, 1),
	} {
		_, err := fleet.Run(c)
		require.ErrorContains(t, err, want)
	}
}
