package resilience_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/ratelimit/breaker"
	"github.com/treadlight/crawl/resilience"
)

// Whoever means for ever says the longest duration there is, and some time after the
// beginning: now and that must not be an instant in the past.

func TestForeverBreak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := resilience.NewBreaker(resilience.BreakerConfig{Failures: 1, BreakFor: math.MaxInt64})
		require.NoError(t, err)
		time.Sleep(s)
		ticket, err := b.Allow()
		require.NoError(t, err)
		ticket.Done(resilience.Failure)
		time.Sleep(24 * time.Hour)
		require.Equal(t, breaker.Open, b.State())
		_, err = b.Allow()
		require.ErrorIs(t, err, resilience.ErrOpen)
	})
}

func TestForeverProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := resilience.NewBreaker(resilience.BreakerConfig{Failures: 1, BreakFor: s, ProbeTimeout: math.MaxInt64})
		require.NoError(t, err)
		b.Trip()
		time.Sleep(2 * s)
		_, err = b.Allow()
		require.NoError(t, err)
		_, err = b.Allow()
		require.ErrorIs(t, err, resilience.ErrOpen, "the one probe is still out")
	})
}

// The first calls of a hedge with a quantile go by Delay, later ones by what was measured.
func TestForeverHedgeDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, err := resilience.NewHedge(resilience.HedgeConfig[int]{Delay: math.MaxInt64, Quantile: 0.5})
		require.NoError(t, err)
		time.Sleep(s)
		lasts := func(d time.Duration) {
			_, err := h.Execute(t.Context(), func(ctx context.Context) (int, error) {
				select {
				case <-time.After(d):
				case <-ctx.Done():
				}
				return 0, ctx.Err()
			})
			require.NoError(t, err)
		}
		lasts(time.Hour)
		require.Zero(t, h.Statistics().Hedges)
		for range 64 {
			lasts(time.Millisecond)
		}
		require.Zero(t, h.Statistics().Hedges)
		lasts(time.Hour)
		require.EqualValues(t, 1, h.Statistics().Hedges)
		require.NoError(t, h.Close())
	})
}
