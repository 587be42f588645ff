package simulate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/racetest"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// A host that takes four requests at a time is at its limit when one is sent as often as
// one is answered, so that now and then the answer comes first and now and then the request.
// The bound is found all the same, soon and in every run.
func TestBoundOnConnectionsIsFoundInARace(t *testing.T) {
	seeds := uint64(8)
	if racetest.Sample(t) {
		seeds = 1
	}
	for _, tc := range []struct {
		link  Link
		least float64
	}{
		{near(), 0.97},
		{Link{RTT: 5 * time.Millisecond, Jitter: 0.2}, 0.95},
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
