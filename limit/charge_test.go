package limit

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/clock/clocktest"
)

func charged(t require.TestingT, cfg TokenBucketConfig) (*TokenBucket, *clocktest.Fake) {
	clk := clocktest.NewFake(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	l, err := NewTokenBucket(cfg, WithClock(clk))
	require.NoError(t, err)
	return l, clk
}

// A charge goes below zero, nothing is granted before it is paid, and Wait knows when that is.
func TestChargeIsADebt(t *testing.T) {
	l, clk := charged(t, TokenBucketConfig{Permits: 10, Per: time.Second})
	l.Charge(4)
	require.EqualValues(t, 6, l.Statistics().Available)
	l.Charge(0)
	l.Charge(-1)
	require.EqualValues(t, 6, l.Statistics().Available, "no refund")
	l.Charge(26)
	require.EqualValues(t, -20, l.Statistics().Available)
	require.EqualValues(t, 30, l.Statistics().Acquired)
	require.Equal(t, 2100*time.Millisecond, l.Wait(1))
	require.Equal(t, 3*time.Second, l.Wait(10))
	clk.Advance(2100*time.Millisecond - 1)
	require.False(t, l.TryAcquire())
	clk.Advance(1)
	require.True(t, l.TryAcquire())
	require.False(t, l.TryAcquire())
	clk.Advance(time.Hour)
	require.EqualValues(t, 10, l.Statistics().Available, "no more than the burst")
}

func TestChargeOfWholePeriods(t *testing.T) {
	l, clk := charged(t, TokenBucketConfig{Permits: 10, Per: time.Second, Refill: RefillInterval})
	l.Charge(35)
	require.Equal(t, 3*time.Second, l.Wait(1))
	clk.Advance(2999 * time.Millisecond)
	require.False(t, l.TryAcquire())
	clk.Advance(time.Millisecond)
	require.EqualValues(t, 5, l.Statistics().Available)
}

// A debt has an end, so that no sum wraps around into a fortune.
func TestDeepestDebt(t *testing.T) {
	for _, burst := range []int64{1, math.MaxInt64} {
		l, clk := charged(t, TokenBucketConfig{Permits: math.MaxInt64, Per: time.Nanosecond, Burst: burst})
		for range 10 {
			l.Charge(math.MaxInt64)
		}
		require.EqualValues(t, deepest, l.Statistics().Available)
		require.False(t, l.TryAcquireN(1))
		clk.Advance(2)
		require.Equal(t, burst, l.Statistics().Available)
	}
	l, clk := charged(t, TokenBucketConfig{Permits: 1, Per: time.Hour})
	l.Charge(math.MaxInt64)
	require.Equal(t, Never, l.Wait(1))
	clk.Advance(100 * 365 * 24 * time.Hour)
	require.False(t, l.TryAcquire())
}

// The head of the line waits until a debt is paid that was made while it waited.
func TestChargeMakesTheLineWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := NewTokenBucket(TokenBucketConfig{Permits: 1, Per: time.Second}, WithClock(clock.System()))
		require.NoError(t, err)
		l.Charge(2)
		begun := time.Now()
		done := make(chan error)
		go func() { done <- l.Acquire(context.Background()) }()
		synctest.Wait()
		l.Charge(3)
		require.NoError(t, <-done)
		require.Equal(t, 5*time.Second, time.Since(begun))
	})
}

// Whatever is charged and taken in between, the level is what a sum says that forgets nothing but what ran over.
func TestChargeAgainstAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		burst := rapid.Int64Range(1, 50).Draw(t, "burst")
		l, clk := charged(t, TokenBucketConfig{Permits: 10, Per: 10 * time.Nanosecond, Burst: burst})
		level := burst // a token a nanosecond
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			d := rapid.Int64Range(0, 80).Draw(t, "d")
			clk.Advance(time.Duration(d))
			level = min(level+d, burst)
			n := rapid.Int64Range(1, 120).Draw(t, "n")
			if rapid.Bool().Draw(t, "charge") {
				l.Charge(n)
				level -= n
			} else if l.TryAcquireN(n) {
				require.LessOrEqual(t, n, level)
				level -= n
			} else {
				require.Greater(t, n, min(level, burst))
			}
			require.Equal(t, level, l.Statistics().Available)
			require.EqualValues(t, max(0, 1-level), l.Wait(1))
		}
	})
}
