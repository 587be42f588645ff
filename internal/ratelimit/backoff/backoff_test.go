package backoff_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

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
		if got := p.Ceiling(tc.attempt); got != tc.want {
			t.Errorf("%+v.Ceiling(%d) = %v, want %v", p, tc.attempt, got, tc.want)
		}
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
		if got := tc.p.Delay(tc.attempt, tc.rnd); got != tc.want {
			t.Errorf("%+v.Delay(%d) = %v, want %v", tc.p, tc.attempt, got, tc.want)
		}
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

func TestSpreadNeverSubtracts(t *testing.T) {
	for _, tc := range []struct{ d, by, low, high time.Duration }{
		{10 * time.Second, time.Second, 10 * time.Second, 11 * time.Second},
		{10 * time.Second, 0, 10 * time.Second, 10 * time.Second},
		{10 * time.Second, -time.Second, 10 * time.Second, 10 * time.Second},
		{0, time.Second, 0, time.Second},
		{math.MaxInt64, time.Hour, math.MaxInt64, math.MaxInt64},
		{math.MaxInt64 - 5, time.Hour, math.MaxInt64 - 5, math.MaxInt64},
	} {
		low, high := backoff.Spread(tc.d, tc.by, edge{false}), backoff.Spread(tc.d, tc.by, edge{true})
		if low != tc.low || high != tc.high {
			t.Errorf("Spread(%v, %v) is in [%v, %v], want [%v, %v]", tc.d, tc.by, low, high, tc.low, tc.high)
		}
	}
}
