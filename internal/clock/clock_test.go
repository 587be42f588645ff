package clock_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/clock/clocktest"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestSleep(t *testing.T) {
	for name, tc := range map[string]struct {
		sleep  time.Duration
		cancel time.Duration // when the context ends; zero: at once
		passed time.Duration
		err    error
	}{
		"whole":           {3 * time.Second, time.Hour, 3 * time.Second, nil},
		"zero":            {0, time.Hour, 0, nil},
		"negative":        {-time.Second, time.Hour, 0, nil},
		"given up":        {3 * time.Second, time.Second, time.Second, context.DeadlineExceeded},
		"ended":           {time.Hour, 0, 0, context.DeadlineExceeded},
		"ended, zero":     {0, 0, 0, context.DeadlineExceeded},
		"ended, negative": {-1, 0, 0, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), tc.cancel)
				defer cancel()
				clk := clock.System()
				begin := clk.Now()
				require.ErrorIs(t, clock.Sleep(ctx, clk, tc.sleep), tc.err)
				require.Equal(t, tc.passed, clk.Since(begin))
			})
		})
	}
}

func TestInstant(t *testing.T) {
	require.Equal(t, time.Second, clock.Instant(0).Add(2*time.Second).Sub(clock.Instant(time.Second)))
	const last = clock.Instant(math.MaxInt64)
	for _, tc := range []struct {
		from clock.Instant
		d    time.Duration
		want clock.Instant
	}{
		{0, math.MaxInt64, last},
		{1, math.MaxInt64 - 1, last},
		{1, math.MaxInt64, last},
		{last, 1, last},
		{last, -1, last - 1},
		{math.MinInt64, math.MaxInt64, -1},
		{2, 3, 5},
	} {
		require.Equal(t, tc.want, tc.from.AddClamped(tc.d), "%d and %d", tc.from, tc.d)
	}
}

// A Sleeper's one timer serves wait after wait, whatever ends them.
func TestSleeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s clock.Sleeper
		s.Stop() // of one that never slept
		wake, clk := make(chan struct{}, 1), clock.System()
		for _, tc := range []struct{ wait, ends, want time.Duration }{
			{time.Second, time.Hour, time.Second},
			{time.Hour, time.Second, time.Second},
			{2 * time.Second, time.Hour, 2 * time.Second},
			{clock.Forever, time.Minute, time.Minute},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), tc.ends)
			begin := clk.Now()
			s.Sleep(ctx, clk, wake, tc.wait)
			require.Equal(t, tc.want, clk.Since(begin))
			cancel()
		}
		wake <- struct{}{}
		s.Sleep(t.Context(), clk, wake, clock.Forever)
		s.Stop()
	})
}

func TestFakeFiresInOrder(t *testing.T) {
	f := clocktest.NewFake(start)
	late, early, never := f.NewTimer(2*time.Second), f.NewTimer(time.Second), f.NewTimer(time.Hour)
	f.Advance(3 * time.Second)
	require.Equal(t, start.Add(2*time.Second), <-late.C())
	require.Equal(t, start.Add(time.Second), <-early.C())
	require.Empty(t, never.C())
	require.Equal(t, 3*time.Second, f.Since(start))
	require.Panics(t, func() { f.Advance(-1) })
}

func TestFakeStopAndReset(t *testing.T) {
	f := clocktest.NewFake(start)
	tm := f.NewTimer(time.Second)
	require.True(t, tm.Stop())
	require.False(t, tm.Stop())
	tm.Reset(time.Second)
	f.Advance(time.Second)
	require.False(t, tm.Reset(time.Second), "it had fired")
	require.Empty(t, tm.C(), "what it fired before is gone")
	f.Advance(time.Second)
	require.Equal(t, start.Add(2*time.Second), <-tm.C())
}

func TestFakeWakesSleeper(t *testing.T) {
	f := clocktest.NewFake(start)
	done := make(chan error)
	go func() { done <- clock.Sleep(t.Context(), f, time.Minute) }()
	f.BlockUntil(1)
	f.Advance(time.Minute)
	require.NoError(t, <-done)
}
