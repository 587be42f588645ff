package backoff_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/treadlight/crawl/internal/ratelimit/backoff"
)

func TestCeiling(t *testing.T) {
	const base, limit = 200 * time.Millisecond, 30 * time.Second
	for _, tc := range []struct {
		base, max time.Duration
		attempt   int
		want      time.Duration
	}{
		{base, limit, -1, 0},
		{base, limit, 0, 0},
		{base, limit, 1, 200 * time.Millisecond},
		{base, limit, 2, 400 * time.Millisecond},
		{base, limit, 3, 800 * time.Millisecond},
		{base, limit, 8, 25600 * time.Millisecond},
		{base, limit, 9, limit},
		{base, limit, 64, limit},
		{base, limit, math.MaxInt, limit},
		{base, 0, 3, 800 * time.Millisecond},
		{base, 0, 100, math.MaxInt64},
		{1, 0, 63, 1 << 62},
		{1, 0, 64, math.MaxInt64},
		{math.MaxInt64, math.MaxInt64, 1, math.MaxInt64},
		{math.MaxInt64, math.MaxInt64, 2, math.MaxInt64},
		{time.Minute, limit, 1, limit},
		{0, limit, 5, 0},
		{-1, limit, 5, 0},
	} {
		p := backoff.Policy{Base: tc.base, Max: tc.max}
		require.EqualValues(t, tc.want, p.Ceiling(tc.attempt), "%+v", tc)
	}
}

// edge is a source that always gives one end of the range.
type edge struct{ top bool }

func (e edge) Int64N(n int64) int64 {
	if e.top {
		return n - 1
	}
	return 0
}

func TestDelayCoversTheWholeRange(t *testing.T) {
	p := backoff.Policy{Base: time.Second, Max: time.Minute}
	for _, tc := range []struct {
		p       backoff.Policy
		attempt int
		rnd     backoff.Source
		want    time.Duration
	}{
		{p, 3, edge{false}, 0},
		{p, 3, edge{true}, 4 * time.Second},
		{p, 99, edge{true}, time.Minute},
		{p, 0, edge{true}, 0},
		{backoff.Policy{Base: math.MaxInt64}, 5, edge{true}, math.MaxInt64 - 1},
	} {
		require.EqualValues(t, tc.want, tc.p.Delay(tc.attempt, tc.rnd), "%+v", tc)
	}
}

// Full jitter is uniform: of many delays, each tenth of the range gets its share.
func TestDelayIsUniform(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	p := backoff.Policy{Base: time.Second}
	var tenths [10]int
	for range 100_000 {
		d := p.Delay(1, rnd)
		if d < 0 || d > time.Second {
			t.Fatalf("Delay(1) = %v, out of [0, 1s]", d)
		}
		tenths[min(9, int(d*10/time.Second))]++
	}
	for i, n := range tenths {
		if n < 9500 || n > 10500 {
			t.Errorf("tenth %d got %d of 100000, want about 10000", i, n)
		}
	}
}

func TestProcessWideSource(t *testing.T) {
	p := backoff.Policy{Base: time.Second}
	seen := map[time.Duration]bool{}
	for range 10 {
		seen[p.Delay(1, nil)] = true
	}
	if len(seen) < 2 {
		t.Error("ten delays are equal, want jitter without a source")
	}
}

const ms = time.Millisecond

// Each schedule runs for five failures, with the source at the low and at the high end.
func TestSchedules(t *testing.T) {
	for _, tc := range []struct {
		name      string
		s         backoff.Schedule
		low, high [5]time.Duration
	}{
		{
			"constant", backoff.Constant(70 * ms),
			[5]time.Duration{70 * ms, 70 * ms, 70 * ms, 70 * ms, 70 * ms},
			[5]time.Duration{70 * ms, 70 * ms, 70 * ms, 70 * ms, 70 * ms},
		},
		{"constant of nothing", backoff.Constant(-1), [5]time.Duration{}, [5]time.Duration{}},
		{
			"linear", backoff.Linear(100*ms, 350*ms),
			[5]time.Duration{100 * ms, 200 * ms, 300 * ms, 350 * ms, 350 * ms},
			[5]time.Duration{100 * ms, 200 * ms, 300 * ms, 350 * ms, 350 * ms},
		},
		{
			"exponential", backoff.Exponential(100*ms, time.Second),
			[5]time.Duration{100 * ms, 200 * ms, 400 * ms, 800 * ms, time.Second},
			[5]time.Duration{100 * ms, 200 * ms, 400 * ms, 800 * ms, time.Second},
		},
		{
			"full jitter", backoff.FullJitter(100*ms, time.Second),
			[5]time.Duration{},
			[5]time.Duration{100 * ms, 200 * ms, 400 * ms, 800 * ms, time.Second},
		},
		{
			"decorrelated", backoff.Decorrelated(100*ms, 2*time.Second),
			[5]time.Duration{100 * ms, 100 * ms, 100 * ms, 100 * ms, 100 * ms},
			[5]time.Duration{300 * ms, 900 * ms, 2 * time.Second, 2 * time.Second, 2 * time.Second},
		},
		{
			"decorrelated, limit below base", backoff.Decorrelated(time.Second, 10*ms),
			[5]time.Duration{10 * ms, 10 * ms, 10 * ms, 10 * ms, 10 * ms},
			[5]time.Duration{10 * ms, 10 * ms, 10 * ms, 10 * ms, 10 * ms},
		},
		{"decorrelated of nothing", backoff.Decorrelated(0, time.Second), [5]time.Duration{}, [5]time.Duration{}},
		{
			"jittered", backoff.Jittered(backoff.Linear(100*ms, 0)),
			[5]time.Duration{},
			[5]time.Duration{100 * ms, 200 * ms, 300 * ms, 400 * ms, 500 * ms},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var low, high time.Duration
			for i := range 5 {
				low, high = tc.s(i+1, low, edge{false}), tc.s(i+1, high, edge{true})
				if low != tc.low[i] || high != tc.high[i] {
					t.Errorf("failure %d: delay in [%v, %v], want [%v, %v]", i+1, low, high, tc.low[i], tc.high[i])
				}
			}
			if d := tc.s(0, 0, edge{true}); d != 0 {
				t.Errorf("delay before anything failed = %v, want 0", d)
			}
		})
	}
}

func TestSchedulesDoNotOverflow(t *testing.T) {
	for name, s := range map[string]backoff.Schedule{
		"constant":     backoff.Constant(math.MaxInt64),
		"linear":       backoff.Linear(math.MaxInt64/2, 0),
		"exponential":  backoff.Exponential(math.MaxInt64/2, 0),
		"full jitter":  backoff.FullJitter(math.MaxInt64/2, 0),
		"decorrelated": backoff.Decorrelated(math.MaxInt64/2, 0),
		"jittered":     backoff.Jittered(backoff.Constant(math.MaxInt64)),
	} {
		for _, attempt := range []int{1, 2, 3, 62, 63, 64, 65, math.MaxInt} {
			for _, prev := range []time.Duration{math.MinInt64, 0, math.MaxInt64/3 + 1, math.MaxInt64} {
				// The top of a range with no end is one short of the largest Duration.
				if d := s(attempt, prev, edge{true}); d < math.MaxInt64/2-1 {
					t.Errorf("%s: delay %d after %v = %v, want a very long one", name, attempt, prev, d)
				}
			}
		}
	}
}

// A run of delays is never out of [base, min(limit, 3·previous)].
func TestDecorrelatedLaw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := time.Duration(rapid.Int64Range(1, math.MaxInt64).Draw(t, "base"))
		limit := time.Duration(rapid.Int64Range(int64(base), math.MaxInt64).Draw(t, "limit"))
		rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		s := backoff.Decorrelated(base, limit)
		prev := time.Duration(0)
		for attempt := 1; attempt <= 50; attempt++ {
			top := limit
			if from := max(prev, base); from <= limit/3 {
				top = 3 * from
			}
			d := s(attempt, prev, rnd)
			if d < base || d > top {
				t.Fatalf("delay %d after %v = %v, out of [%v, %v]", attempt, prev, d, base, top)
			}
			prev = d
		}
	})
}
