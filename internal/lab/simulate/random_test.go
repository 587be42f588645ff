package simulate

import (
	"flag"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/racetest"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

var drawn = flag.Int("random", 0, "hosts that TestRandomHosts draws; the least is 64")

// randomHosts is how many hosts are drawn unless the flag sets another number. Their median varies by a point between
// draws of that size.
const randomHosts = 64

// mostRequests shortens the runs of fast hosts, since more requests show nothing new.
const mostRequests = 1_000_000

func quantile(values []float64, share float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[int(share*float64(len(sorted)-1)+0.5)]
}

// doubtful is the used share of the capacity below which a host's real bound is computed.
const doubtful = 0.85

// attainable returns the requests that a host can serve after the first minute: of a limiter at the best constant pace
// with at most one refusal in a hundred requests, of a queue as many as a client gets that knows it and keeps it short.
func attainable(t *testing.T, sc *Scenario) float64 {
	t.Helper()
	configs := []ratelimit.Config{Config(Oracle)}
	if !strings.HasPrefix(sc.Doc, "queue") {
		configs = nil
		for _, share := range []float64{0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.97, 1} {
			c := Config(control.NameFixed)
			c.InitialRPS = share * sc.Capacity(0)
			c.MinRPS, c.MaxRPS = c.InitialRPS, c.InitialRPS
			configs = append(configs, c)
		}
	}
	best := 1 // request, if no pace gets any
	for _, c := range configs {
		r, err := Run(*sc, c, 1)
		require.NoError(t, err)
		if r.Steady.RefusedShare() <= 0.01 {
			best = max(best, r.Steady.Admitted)
		}
	}
	return float64(best)
}

// used returns which percentage of the attainable requests was used.
func used(t *testing.T, sc *Scenario, r Result) float64 {
	t.Helper()
	if share := r.Steady.Utilisation(); share >= doubtful {
		return 100 * share
	}
	return 100 * min(1, float64(r.Steady.Admitted)/min(r.Steady.Capacity, attainable(t, sc)))
}

// Of hosts for which nobody has tuned, most are used nearly as fast as they allow, and hardly any gets many refusals.
func TestRandomHosts(t *testing.T) {
	n, few := max(randomHosts, *drawn), racetest.Sample(t)
	if few {
		n = 8 // enough to show a race, too few for the quantiles
	}
	var scs []Scenario
	for seed := range n {
		sc := Random(uint64(seed) + 1)
		sc.Duration = sc.Length()
		if few {
			sc.Duration = MinDuration
		} else if n == randomHosts {
			sc.Duration = max(min(sc.Duration, time.Duration(mostRequests/sc.Capacity(0)*1e9)), 5*time.Minute)
		}
		scs = append(scs, sc)
	}
	rows, err := compare(scs, Strategies(control.NameSteer), 1)
	require.NoError(t, err)
	var usedUp, ofAll, refused []float64
	for _, row := range rows {
		r := row.Runs[0][0]
		require.Zero(t, r.InsideRetryAfter, row.Scenario.Doc)
		require.Less(t, r.RetriesPerFailure, mostRetries, row.Scenario.Doc)
		if !few { // the attainable requests take a dozen further runs
			usedUp = append(usedUp, used(t, &row.Scenario, r))
		}
		ofAll = append(ofAll, 100*r.Steady.Utilisation())
		refused = append(refused, 100*r.Steady.RefusedShare())
	}
	if few {
		return
	}
	t.Logf("used of what can be had: median %.1f, tenth %.1f; of the capacity: median %.1f, tenth %.1f; refused: ninth tenth %.2f, %% of %d hosts",
		quantile(usedUp, 0.5), quantile(usedUp, 0.1), quantile(ofAll, 0.5), quantile(ofAll, 0.1), quantile(refused, 0.9), n)
	// As measured, less half a point and two points, by which any change may move them.
	require.GreaterOrEqual(t, quantile(usedUp, 0.5), 95.0)
	require.GreaterOrEqual(t, quantile(usedUp, 0.1), 81.0)
	require.LessOrEqual(t, quantile(refused, 0.9), 1.1)
}
