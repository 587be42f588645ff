package simulate

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// strangers is how many hosts are drawn unless the flag asks for more. Their median
// varies by a point from one such draw to the next.
const strangers = 64

// mostRequests shortens the runs of fast hosts: what they show they show in that many.
const mostRequests = 1_000_000

// quantile is the value of which a share of the values lies at or below.
func quantile(values []float64, share float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[int(share*float64(len(sorted)-1)+0.5)]
}

// Of hosts that nobody tuned for, most are used nearly as fast as they allow and hardly
// any is annoyed. The rest are those without a burst allowance whose jitter is longer
// than their spacing, where not even a client who knows the server does better.
func TestStrangers(t *testing.T) {
	n := max(strangers, flags.random)
	if raceEnabled {
		n = 8 // enough to show a race, too few to say anything of the quantiles
	}
	var scs []Scenario
	for seed := range n {
		sc := Random(uint64(seed) + 1)
		sc.Duration = sc.Length()
		if raceEnabled {
			sc.Duration = 2 * time.Minute
		} else if n == strangers {
			sc.Duration = max(min(sc.Duration, time.Duration(mostRequests/sc.Capacity(0)*1e9)), 5*time.Minute)
		}
		scs = append(scs, sc)
	}
	rows, err := Compare(scs, Strategies(control.NameSteer), 1)
	require.NoError(t, err)
	var used, refused []float64
	for _, row := range rows {
		r := row.Runs[0][0]
		require.Zero(t, r.InsideRetryAfter, row.Scenario.Doc)
		require.Less(t, r.RetriesPerFailure, mostRetries, row.Scenario.Doc)
		used = append(used, 100*r.Steady.Utilisation())
		refused = append(refused, 100*r.Steady.RefusedShare())
	}
	t.Logf("used: median %.1f, tenth %.1f; refused: ninth tenth %.2f, %% of %d hosts", quantile(used, 0.5), quantile(used, 0.1), quantile(refused, 0.9), n)
	if raceEnabled {
		return
	}
	// As measured, but for half a point and two that any change may move them by.
	require.GreaterOrEqual(t, quantile(used, 0.5), 92.5)
	require.GreaterOrEqual(t, quantile(used, 0.1), 67.5)
	require.LessOrEqual(t, quantile(refused, 0.9), 1.0)
}
