package testsite

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

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
		{"rate without burst", Limit{Rate: 4}, []limitStep{
			{0, true, 0},
			{0, false, 250 * ms},
			{250*ms - 1, false, 250 * ms}, // the refusals above have not moved it
			{250 * ms, true, 0},
			{10 * time.Second, true, 0}, // idling earns nothing
			{10*time.Second + 1, false, 10*time.Second + 250*ms},
		}},
		{"rate with burst", Limit{Rate: 4, Burst: 2}, []limitStep{
			{time.Second, true, 0},
			{time.Second, true, 0},
			{time.Second, true, 0},
			{time.Second, false, 1250 * ms},
			{1250 * ms, true, 0},
			{1250 * ms, false, 1500 * ms},
			{1750 * ms, true, 0},
			{1750 * ms, true, 0},
			{1750 * ms, false, 2 * time.Second},
		}},
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

func TestLimiterByConcurrency(t *testing.T) {
	g := gateOf(t, Host{Limit: Limit{Concurrent: 2, Rate: 1, Burst: 2}})
	for range 2 {
		require.True(t, g.admit(0).ok)
	}
	p := g.admit(0)
	require.False(t, p.ok)
	require.Equal(t, unknown, p.ready)
	g.release()
	require.True(t, g.admit(0).ok, "a refusal by concurrency must not charge the rate")
	g.release()
	require.Equal(t, clock.Instant(time.Second), g.admit(0).ready, "the third has used up the burst")
}

// TestLimiterIsNginx compares with limit_req as its manual and source state it:
// the excess of requests over the rate, which a refusal leaves alone.
func TestLimiterIsNginx(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const interval = 250 * ms // excess is kept in shares of a request that cost this much time
		burst := rapid.IntRange(0, 5).Draw(rt, "burst")
		g := gateOf(t, Host{Limit: Limit{Rate: 4, Burst: burst}})
		var now, last, excess time.Duration
		fresh := true
		for i := range rapid.IntRange(1, 60).Draw(rt, "requests") {
			now += time.Duration(rapid.IntRange(0, 600).Draw(rt, "gap")) * ms
			next := max(0, excess-(now-last)+interval)
			if fresh {
				next = 0
			}
			want := next <= time.Duration(burst)*interval
			if want {
				excess, last, fresh = next, now, false
			}
			if got := g.admit(clock.Instant(now)).ok; got != want {
				rt.Fatalf("request %d at %v: admitted = %v, nginx says %v", i, now, got, want)
			}
		}
	})
}
