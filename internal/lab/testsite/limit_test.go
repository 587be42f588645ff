package testsite

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock"
)

const ms = time.Millisecond

// step is one request at an instant: whether it is admitted, and if not, when the
// limiter says it would be.
type limitStep struct {
	at    time.Duration
	ok    bool
	ready time.Duration
}

func TestLimiterAtInstants(t *testing.T) {
	for _, tc := range []struct {
		name  string
		limit Limit
		steps []limitStep
	}{
		{"window", Limit{Requests: 2, Window: time.Second}, []limitStep{
			{900 * ms, true, 0},
			{950 * ms, true, 0},
			{960 * ms, false, time.Second},
			{time.Second, true, 0}, // the edge lets through twice the limit, as real ones do
			{time.Second, true, 0},
			{1999 * ms, false, 2 * time.Second},
			{5 * time.Second, true, 0},
		}},
		{"both", Limit{Rate: 10, Requests: 2, Window: time.Second}, []limitStep{
			{0, true, 0},
			{50 * ms, false, 100 * ms}, // by rate, and the window is not charged
			{100 * ms, true, 0},
			{200 * ms, false, time.Second}, // by window, and the rate is not charged
			{time.Second, true, 0},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := gateOf(t, Host{Limit: tc.limit})
			for i, s := range tc.steps {
				p := g.admit(clock.Instant(s.at))
				require.Equal(t, s.ok, p.ok, "step %d at %v", i, s.at)
				if !p.ok {
					require.Equal(t, s.ready, time.Duration(p.ready), "ready after step %d at %v", i, s.at)
				}
			}
		})
	}
}
