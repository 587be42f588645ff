package ratelimit

import (
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/treadlight/crawl/internal/clock"
)

func at(d time.Duration) clock.Instant { return clock.Instant(d) }

const year = 365 * 24 * time.Hour

func TestBucketLevel(t *testing.T) {
	for _, tc := range []struct {
		name     string
		level    float64
		rps      float64
		capacity float64
		after    time.Duration
		want     int64
	}{
		{"nothing yet", 0, 1, 1, 0, 0},
		{"one nanosecond at 1/s", 0, 1, 1, 1, 1e6},
		{"one nanosecond at the slowest", 0, 1e-6, 1, 1, 1},
		{"half", 0, 0.5, 1, time.Second, token / 2},
		{"full to the nanosecond", 0, 1, 1, time.Second, token},
		{"a nanosecond before", 0, 1, 1, time.Second - 1, token - 1e6},
		{"never above the capacity", 0.5, 10, 2, time.Hour, 2 * token},
		{"a century idle, fastest", 0, 1e6, 1000, 100 * year, 1000 * token},
		{"a century idle, slowest", 0, 1e-6, 1000, 100 * year, 1000 * token},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := bucket{level: int64(tc.level * float64(token)), rate: rateOf(tc.rps)}
			b.advance(at(tc.after), int64(tc.capacity*float64(token)))
			if b.level != tc.want {
				t.Errorf("level after %v at %v/s = %d, want %d", tc.after, tc.rps, b.level, tc.want)
			}
		})
	}
}

func TestBucketWhen(t *testing.T) {
	for _, tc := range []struct {
		name     string
		level    int64
		rps      float64
		capacity int64
		from     time.Duration
		n        int
		want     clock.Instant
	}{
		{"there", token, 1, token, 0, 1, 0},
		{"empty", 0, 1, token, 0, 1, at(time.Second)},
		{"a third of a token at 3/s", 2 * token / 3, 3, token, 0, 1, at(111111112)},
		{"rounded up to a whole nanosecond", 0, 3, token, 0, 1, at(333333334)},
		{"the fifth", token, 2, token, 0, 5, at(2 * time.Second)},
		{"fills up to the gate and no further", 0, 1, token, time.Hour, 2, at(time.Hour + time.Second)},
		{"burst at the gate", 0, 1, 3 * token, time.Hour, 3, at(time.Hour)},
		{"ten thousandth", 0, 1, token, 0, 10_000, at(10_000 * time.Second)},
		{"beyond all time", 0, 1e-6, token, 0, 1 << 40, forever},
		{"from forever", 0, 1, token, time.Duration(forever), 3, forever},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := bucket{level: tc.level, rate: rateOf(tc.rps)}
			require.EqualValues(t, tc.want, b.when(at(tc.from), tc.capacity, tc.n), "%+v", tc)
		})
	}
}

// Whatever the calls, the grants cost exactly what has come in: the level is what
// was there, and the rate over time, less the grants and what a full bucket turned
// away; and a token comes at the instant that when foretells, not one earlier.
func TestBucketConserves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.Int64Range(token, 5*token).Draw(t, "capacity")
		b := bucket{level: capacity, rate: perSecond}
		budget := big.NewInt(capacity) // what may have been granted so far, overflow not deducted
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			step := clock.Instant(rapid.Int64Range(0, int64(3*time.Second)).Draw(t, "step"))
			// Four steps at the fastest are more than an int64 holds.
			budget.Add(budget, new(big.Int).Mul(big.NewInt(int64(step)), big.NewInt(int64(b.rate))))
			b.advance(b.at+step, capacity)
			if rapid.Bool().Draw(t, "change") {
				b.rate = rate(rapid.Int64Range(1, 1000*int64(perSecond)).Draw(t, "rate"))
			}
			due := b.when(b.at, capacity, 1)
			if due > b.at && b.levelAt(due-1, capacity) >= token {
				t.Fatalf("a token is there before %v", time.Duration(due))
			}
			if due < forever && b.levelAt(due, capacity) < token {
				t.Fatalf("no token at %v", time.Duration(due))
			}
			if b.level >= token {
				b.take()
				budget.Sub(budget, big.NewInt(token))
			}
			if b.level < 0 || b.level > capacity || budget.Sign() < 0 {
				t.Fatalf("level %d of %d, budget %v", b.level, capacity, budget)
			}
		}
	})
}

// when for the n-th token is what spending token after token leads to, but for the
// part of a nanosecond that a full bucket turns away at each.
func TestBucketWhenIsWhatSpendingLeadsTo(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		capacity := token * (1 + rnd.Int64N(3))
		b := bucket{level: rnd.Int64N(capacity + 1), at: at(time.Second), rate: rate(1 + rnd.Int64N(2e7))}
		gate := b.at + clock.Instant(rnd.Int64N(int64(2*time.Second)))
		n := 1 + rnd.IntN(8)
		want := b.when(gate, capacity, n)
		now := gate
		for range n {
			now = b.when(now, capacity, 1)
			b.advance(now, capacity)
			b.take()
		}
		if late := int(b.at - want); late < 0 || late > n {
			t.Fatalf("spending came to %v, when said %v", time.Duration(b.at), time.Duration(want))
		}
	}
}
