package resilience

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPaceAtExactSamples(t *testing.T) {
	var p hedgePace
	p.delay.Store(int64(2 * time.Second))
	for i := 1; i < paceSamples; i++ {
		p.add(time.Duration(i)*time.Millisecond, 0.9)
		require.Equal(t, 2*time.Second, p.current(), "after %d samples", i)
	}
	p.add(20*time.Millisecond, 0.9)
	require.InEpsilon(t, 18*time.Millisecond, p.current(), 0.036, "the 18th of 20")
	for range paceEvery - 1 {
		p.add(time.Second, 0.9)
		require.InEpsilon(t, 18*time.Millisecond, p.current(), 0.036, "not found anew")
	}
	p.add(time.Second, 0.9)
	require.InEpsilon(t, time.Second, p.current(), 0.036, "the 26th of 28")

	var none hedgePace
	for range paceSamples {
		none.add(0, 0.5)
	}
	require.Equal(t, time.Duration(1), none.current(), "never zero")
}

// A quantile of 0.9 hedges one call in ten, also after the hedges have made the slow
// calls disappear from what callers see: the cut ones count for what they were.
func TestQuantileDoesNotSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, err := NewHedge(HedgeConfig[int]{Delay: time.Minute, Quantile: 0.9})
		require.NoError(t, err)
		rnd := rand.New(rand.NewPCG(1, 2))
		var mu sync.Mutex
		const calls = 4000
		started := 0
		for range calls {
			_, err := h.Execute(t.Context(), func(ctx context.Context) (int, error) {
				mu.Lock()
				started++
				latency := time.Duration(rnd.ExpFloat64() * float64(100*time.Millisecond))
				mu.Unlock()
				select {
				case <-time.After(latency):
					return 0, nil
				case <-ctx.Done():
					return 0, ctx.Err()
				}
			})
			require.NoError(t, err)
		}
		share := float64(started-calls) / calls
		t.Logf("%.3f of the calls hedged, delay %v", share, h.pace.current())
		require.InDelta(t, 0.1, share, 0.03)
		require.NoError(t, h.Close())
	})
}

// A first call that failed says nothing of how long good ones take.
func TestPaceOfFirstCallsThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, err := NewHedge(HedgeConfig[int]{Delay: time.Minute, Quantile: 0.5})
		require.NoError(t, err)
		for range 2 * paceSamples {
			calls := 0
			_, err := h.Execute(t.Context(), func(context.Context) (int, error) {
				if calls++; calls == 1 {
					return 0, errFailedValue
				}
				time.Sleep(time.Second)
				return 0, nil
			})
			require.NoError(t, err)
		}
		require.Equal(t, time.Minute, h.pace.current())
		require.NoError(t, h.Close())
	})
}
