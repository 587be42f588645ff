package clocktest_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/clock/clocktest"
)

// What a wrong clock reads is wrong, and all that it measures is right.
func TestWrong(t *testing.T) {
	const about = float64(time.Minute) // however busy the computer is
	for _, by := range []time.Duration{-26 * time.Hour, -time.Hour, 0, 7 * time.Hour} {
		clk := clocktest.Wrong(by)
		begun, truth := clk.Now(), time.Now()
		require.InDelta(t, by, begun.Round(0).Sub(truth.Round(0)), about)
		require.InDelta(t, 0, begun.Sub(truth), about)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
		defer cancel()
		end, _ := ctx.Deadline()
		require.InDelta(t, -30*time.Minute, clk.Since(end), about)
		require.NoError(t, clock.Sleep(ctx, clk, time.Millisecond))
		require.GreaterOrEqual(t, clk.Since(begun), time.Millisecond)
		require.InDelta(t, 0, clk.Since(begun), about)
	}
}

// A process whose clock is wrong has it everywhere.
func TestSetSystem(t *testing.T) {
	back := clock.SetSystemForTest(clocktest.Wrong(time.Hour))
	defer back()
	require.InDelta(t, time.Hour, clock.System().Now().Round(0).Sub(time.Now().Round(0)), float64(time.Minute))
	back()
	require.InDelta(t, 0, clock.System().Now().Round(0).Sub(time.Now().Round(0)), float64(time.Minute))
}
