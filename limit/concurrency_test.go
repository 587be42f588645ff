package limit_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/limit"
)

func slots(n int64, opts ...limit.Option) *limit.Concurrency {
	return must(limit.NewConcurrency(limit.ConcurrencyConfig{Max: n}, opts...))
}

func TestOverReleaseIsVisibleAndHarmless(t *testing.T) {
	l := slots(2)
	l.Release()
	l.ReleaseN(5)
	require.Equal(t, limit.Statistics{OverReleased: 6, Available: 2, Max: 2}, l.Statistics())
	require.True(t, l.TryAcquireN(2))
	l.ReleaseN(3)
	require.Equal(t, limit.Statistics{OverReleased: 7, Acquired: 2, Available: 2, Max: 2}, l.Statistics())
	require.True(t, l.TryAcquireN(2))
	require.False(t, l.TryAcquire(), "no slot has come into being")
}

// A stray Release does not free the slot of one who holds a ticket.
func TestReleaseCannotFreeATicketedSlot(t *testing.T) {
	l := slots(1)
	release := must(limit.AcquireRelease(t.Context(), l))
	l.Release()
	require.False(t, l.TryAcquire())
	require.EqualValues(t, 1, l.Statistics().OverReleased)
	release()
	require.True(t, l.TryAcquire())
	release()
	require.EqualValues(t, 1, l.Statistics().InUse, "a ticket works once")
	require.EqualValues(t, 2, l.Statistics().OverReleased)
}

func TestReleaseWakesAsManyAsFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, served := slots(3), newOrder()
		require.True(t, l.TryAcquireN(3))
		var wg sync.WaitGroup
		for i, n := range []int64{1, 2, 2} {
			wg.Go(func() {
				require.NoError(t, l.AcquireN(t.Context(), n))
				served.add(string(rune('a' + i)))
			})
			synctest.Wait()
		}
		l.ReleaseN(3)
		synctest.Wait()
		names, _ := served.get()
		require.Equal(t, []string{"a", "b"}, names)
		l.Release() // of a: not enough for c
		synctest.Wait()
		require.EqualValues(t, 1, l.Statistics().Queued)
		require.False(t, l.TryAcquire(), "the slot that is free is c's to wait for")
		l.Release()
		wg.Wait()
		require.EqualValues(t, 3, l.Statistics().InUse)
	})
}

// Never more than Max at a time, with real goroutines and the race detector.
func TestNeverMoreThanMax(t *testing.T) {
	l := slots(3)
	var in, most atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 200 {
				release, err := limit.AcquireRelease(context.Background(), l)
				if err != nil {
					t.Error(err)
					return
				}
				now := in.Add(1)
				for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
				}
				in.Add(-1)
				release()
			}
		})
	}
	wg.Wait()
	require.LessOrEqual(t, most.Load(), int64(3))
	require.Equal(t, limit.Statistics{Acquired: 3200, Available: 3, Max: 3}, l.Statistics())
}
