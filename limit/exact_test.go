package limit_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/limit"
)

// step is a question at an instant, and the answers expected to TryAcquireN(n), before it
// to Wait(n), and after it of how much is available.
type step struct {
	at    time.Duration // since the limiter's start
	n     int64
	ok    bool
	wait  time.Duration
	avail int64
}

const (
	ns = time.Nanosecond
	ms = time.Millisecond
	s  = time.Second
	h  = time.Hour
)

// exactInstants lean on no law, unlike the models that each algorithm is compared with.
var exactInstants = []struct {
	name  string
	spec  limit.Spec
	steps []step
}{
	{"token bucket: 3/s is a token each third of a second, rounded up, and no fraction is lost", limit.Spec{Permits: 3, Per: s}, []step{
		{0, 3, true, 0, 0},
		{0, 1, false, 333333334 * ns, 0},
		{333333333 * ns, 1, false, 1 * ns, 0},
		{333333334 * ns, 1, true, 0, 0},
		{666666666 * ns, 1, false, 1 * ns, 0},
		{666666667 * ns, 1, true, 0, 0},
		{s, 1, true, 0, 0},
		{2 * s, 3, true, 0, 0},
		{9 * s, 3, true, 0, 0},
	}},
	{"token bucket: a burst above the rate", limit.Spec{Permits: 1, Per: s, Burst: 5}, []step{
		{0, 4, true, 0, 1},
		{0, 5, false, 4 * s, 1},
		{3 * s, 5, false, 1 * s, 4},
		{4 * s, 5, true, 0, 0},
		{4*s + 500*ms, 1, false, 500 * ms, 0},
		{100 * s, 5, true, 0, 0},
	}},
	{"token bucket, interval: all at once at the end of each period", limit.Spec{Permits: 2, Per: s, Burst: 5, Refill: limit.RefillInterval}, []step{
		{400 * ms, 5, true, 0, 0},
		{400 * ms, 1, false, 600 * ms, 0},
		{400 * ms, 3, false, 1600 * ms, 0},
		{s - 1, 1, false, 1 * ns, 0},
		{s, 1, true, 0, 1},
		{2500 * ms, 5, false, 500 * ms, 3},
		{3 * s, 5, true, 0, 0},
	}},
	{"fixed window: whole windows from the start, however late the caller", limit.Spec{Kind: limit.KindFixedWindow, Permits: 2, Per: s}, []step{
		{999 * ms, 2, true, 0, 0},
		{999 * ms, 1, false, 1 * ms, 0},
		{s, 2, true, 0, 0},
		{s, 1, false, s, 0},
		{3700 * ms, 1, true, 0, 1},
		{3700 * ms, 2, false, 300 * ms, 1},
		{4 * s, 2, true, 0, 0},
	}},
	{"sliding window: what is left of the one before counts in full", limit.Spec{Kind: limit.KindSlidingWindow, Permits: 10, Per: s}, []step{
		{0, 10, true, 0, 0},
		{0, 1, false, s, 0},
		{s - 1, 1, false, 1 * ns, 0},
		{s, 1, true, 0, 0}, // of the ten, a nanosecond has left the window
		{s, 1, false, 100 * ms, 0},
		{1100*ms - 1, 1, false, 1 * ns, 0},
		{1100 * ms, 1, true, 0, 0},
		{1500 * ms, 5, false, 100 * ms, 4}, // 5 of before, 2 of now, and 4 more before the last
		{1600 * ms, 5, true, 0, 0},
		{1600 * ms, 10, false, 1257142857 * ns, 0}, // a seventh of 7 is 1
		{3 * s, 10, true, 0, 0},
	}},
	{"sliding log: no window anywhere holds more", limit.Spec{Kind: limit.KindSlidingWindowLog, Permits: 3, Per: s}, []step{
		{900 * ms, 2, true, 0, 1},
		{950 * ms, 1, true, 0, 0},
		{950 * ms, 1, false, 950 * ms, 0},
		{950 * ms, 3, false, s, 0},
		{1900*ms - 1, 1, false, 1 * ns, 0},
		{1900 * ms, 2, true, 0, 0},
		{1900 * ms, 1, false, 50 * ms, 0},
		{1950 * ms, 1, true, 0, 0},
	}},
	{"leaky bucket: paced, even after idling; a weight takes as many intervals", limit.Spec{Kind: limit.KindLeakyBucket, Permits: 10, Per: s}, []step{
		{0, 1, true, 0, 0},
		{0, 1, false, 100 * ms, 0},
		{100*ms - 1, 1, false, 1 * ns, 0},
		{100 * ms, 1, true, 0, 0},
		{10 * s, 1, true, 0, 0},
		{10 * s, 1, false, 100 * ms, 0},
		{10*s + 150*ms, 3, true, 0, 0},
		{10*s + 150*ms, 1, false, 300 * ms, 0},
		{10*s + 450*ms, 1, true, 0, 0},
	}},
	{"leaky bucket: a slot past the end of time", limit.Spec{Kind: limit.KindLeakyBucket, Permits: 1, Per: math.MaxInt64}, []step{
		{0, 1, true, 0, 0},
		{h, 1, false, limit.Never, 0},
	}},
	{"concurrency: time does nothing", limit.Spec{Kind: limit.KindConcurrency, Permits: 2}, []step{
		{0, 2, true, 0, 0},
		{100 * h, 1, false, limit.Never, 0},
	}},
}

func TestExactInstants(t *testing.T) {
	for _, tc := range exactInstants {
		t.Run(tc.name, func(t *testing.T) {
			clk := fakeClock()
			l := must(limit.New(tc.spec, limit.WithClock(clk)))
			for i, st := range tc.steps {
				clk.Advance(st.at - clk.Since(epoch))
				name := fmt.Sprintf("step %d: %d at %v", i, st.n, st.at)
				require.Equal(t, st.wait, l.Wait(st.n), "Wait, %s", name)
				require.Equal(t, st.ok, l.TryAcquireN(st.n), "TryAcquireN, %s", name)
				require.Equal(t, st.avail, l.Statistics().Available, "Available, %s", name)
			}
		})
	}
}

// A client that asks N times per window, evenly, is never refused by any limiter of N,
// wherever in the window it begins. A client that asks twice as often gets N in each window.
func TestSteadyClientsGetAll(t *testing.T) {
	for _, kind := range limit.Kinds() {
		if kind == limit.KindConcurrency {
			continue // which has no windows
		}
		for _, permits := range []int64{1, 2, 3, 5, 7, 10, 100} {
			for _, phase := range []time.Duration{0, 1, s / 7, s / 2, s - 1} {
				t.Run(fmt.Sprintf("%s: %d from %v", kind, permits, phase), func(t *testing.T) {
					clk := fakeClock()
					l := must(limit.New(limit.Spec{Kind: kind, Permits: permits, Per: s}, limit.WithClock(clk)))
					to := func(from time.Duration, i, each int64) { // rounded up: nobody is early
						clk.Advance(from + time.Duration((i*int64(s)+each-1)/each) - clk.Since(epoch))
					}
					for i := range 20*permits + 1 {
						to(phase, i, permits)
						require.Zero(t, l.Wait(1), "request %d", i)
						require.True(t, l.TryAcquire(), "request %d", i)
					}
					before := l.Statistics().Acquired
					for i := range 40 * permits {
						to(phase+30*s, i, 2*permits)
						l.TryAcquire()
					}
					require.GreaterOrEqual(t, l.Statistics().Acquired-before, uint64(20*permits))
				})
			}
		}
	}
}
