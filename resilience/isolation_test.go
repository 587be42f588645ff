package resilience_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/ratelimit/classic"
	"github.com/treadlight/crawl/resilience"
)

func newIsolation(t *testing.T, cfg resilience.IsolationConfig) *resilience.Isolation {
	t.Helper()
	i, err := resilience.NewIsolation(cfg)
	require.NoError(t, err)
	return i
}

// One callee that hangs takes its own callers and nobody else's.
func TestIsolationKeepsPoolsApart(t *testing.T) {
	i := newIsolation(t, resilience.IsolationConfig{Name: "hosts", MaxConcurrency: 2})
	type key struct{}
	p, err := resilience.NewIsolationPolicy(i, resilience.IsolationPolicyConfig[string]{
		Key: func(ctx context.Context) string { v, _ := ctx.Value(key{}).(string); return v },
	})
	require.NoError(t, err)
	for range 2 {
		_, err := i.Acquire(t.Context(), "hangs")
		require.NoError(t, err)
	}
	_, err = p.Execute(context.WithValue(t.Context(), key{}, "hangs"), up)
	var refusal *resilience.BulkheadError
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, []string{"hosts", "hangs"}, []string{refusal.Name, refusal.Key})
	v, err := p.Execute(context.WithValue(t.Context(), key{}, "works"), up)
	require.NoError(t, err)
	require.Equal(t, "up", v)
	got := i.Snapshot()
	require.Equal(t, 1, got.Busy)
	require.Equal(t, int64(2), got.Pools["hangs"].InFlight)
	require.Equal(t, uint64(1), got.Pools["hangs"].Rejected)
	require.Equal(t, uint64(3), got.Total.Acquired)
}

// Only pools that nobody is in are forgotten, the one idle for the longest first, and
// their figures stay in the total.
func TestIsolationEvictsTheIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hub resilience.Hub
		var events []resilience.BulkheadEvent
		resilience.Subscribe(&hub, func(e resilience.BulkheadEvent) { events = append(events, e) })
		i := newIsolation(t, resilience.IsolationConfig{Name: "hosts", MaxConcurrency: 1, MaxQueue: 1, MaxKeys: 3, Hub: &hub})
		slots := map[string]*resilience.Slot{}
		take := func(key string) error {
			s, err := i.Acquire(t.Context(), key)
			if err == nil {
				slots[key] = &s
			}
			return err
		}
		pools := func(want ...string) {
			t.Helper()
			var got []string
			for key := range i.Snapshot().Pools {
				got = append(got, key)
			}
			require.ElementsMatch(t, want, got)
		}
		for _, key := range []string{"a", "b", "c"} {
			require.NoError(t, take(key))
		}
		err := take("d")
		require.ErrorIs(t, err, resilience.ErrBulkheadFull)
		require.ErrorIs(t, err, classic.ErrTooManyKeys)
		slots["b"].Release()
		slots["a"].Release()
		slots["a"].Release() // harmless
		pools("a", "b", "c")
		require.NoError(t, take("d"))
		pools("a", "c", "d")
		require.NoError(t, take("a")) // not idle any more
		require.ErrorIs(t, take("e"), classic.ErrTooManyKeys)

		// One who only waits keeps the pool as well.
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := i.Acquire(ctx, "a")
			done <- err
		}()
		synctest.Wait()
		slots["a"].Release()
		require.NoError(t, <-done)
		require.ErrorIs(t, take("e"), classic.ErrTooManyKeys)
		cancel()

		got := i.Snapshot()
		require.Equal(t, []uint64{1, 3}, []uint64{got.Evicted, got.Refused})
		require.Equal(t, uint64(6), got.Total.Acquired, "the forgotten one's too")
		require.Equal(t, []int{3, 3}, []int{got.Busy, got.MaxKeys})
		synctest.Wait()
		require.NoError(t, hub.Close())
		require.Len(t, events, 3)
		require.Equal(t, "d", events[0].Key)
	})
}

func TestIsolationWaitersLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIsolation(t, resilience.IsolationConfig{MaxConcurrency: 1, MaxQueue: 2, QueueTimeout: s, MaxKeys: 1})
		slot, err := i.Acquire(t.Context(), "a")
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), s/2)
		defer cancel()
		_, err = i.Acquire(ctx, "a")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		begun := time.Now()
		_, err = i.Acquire(t.Context(), "a")
		require.ErrorIs(t, err, resilience.ErrBulkheadFull)
		require.Equal(t, s, time.Since(begun))
		slot.Release()
		require.Zero(t, i.Snapshot().Busy, "those who left are users no more")

		slot, err = i.Acquire(t.Context(), "b")
		require.NoError(t, err)
		done := make(chan error)
		go func() {
			_, err := i.Acquire(t.Context(), "b")
			done <- err
		}()
		synctest.Wait()
		require.NoError(t, i.Close())
		require.ErrorIs(t, <-done, resilience.ErrClosed)
		_, err = i.Acquire(t.Context(), "b")
		require.ErrorIs(t, err, resilience.ErrClosed)
		slot.Release()
		require.NoError(t, i.Close())
		require.Zero(t, i.Snapshot().Busy)
	})
}

// Under load no key has ever more in flight than it may, and no more keys are kept.
func TestIsolationUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most, keys, workers, rounds = 2, 5, 16, 200
		i := newIsolation(t, resilience.IsolationConfig{MaxConcurrency: most, MaxQueue: 1, MaxKeys: keys})
		var wg sync.WaitGroup
		var mu sync.Mutex
		inFlight := map[string]int{}
		taken, refused := uint64(0), uint64(0)
		for w := range workers {
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(uint64(w), 0))
				for range rounds {
					key := fmt.Sprint(rnd.IntN(2 * keys))
					slot, err := i.Acquire(t.Context(), key)
					mu.Lock()
					if err != nil {
						refused++
						mu.Unlock()
						time.Sleep(time.Millisecond)
						continue
					}
					taken++
					inFlight[key]++
					require.LessOrEqual(t, inFlight[key], most)
					mu.Unlock()
					time.Sleep(time.Duration(rnd.IntN(5)) * time.Millisecond)
					mu.Lock()
					inFlight[key]--
					mu.Unlock()
					slot.Release()
				}
			})
		}
		wg.Wait()
		got := i.Snapshot()
		require.LessOrEqual(t, len(got.Pools), keys)
		require.Zero(t, got.Busy)
		require.Equal(t, taken, got.Total.Acquired)
		require.Equal(t, refused, got.Total.Rejected+got.Refused)
		require.Zero(t, got.Total.OverReleased)
		require.NotZero(t, got.Evicted)
	})
}

func TestIsolationConfigRefused(t *testing.T) {
	_, err := resilience.NewIsolation(resilience.IsolationConfig{MaxConcurrency: 1, MaxKeys: -1})
	require.ErrorContains(t, err, "isolation: MaxKeys = -1: want")
	_, err = resilience.NewIsolation(resilience.IsolationConfig{})
	require.ErrorContains(t, err, "isolation: bulkhead: MaxConcurrency = 0: want")
	_, err = resilience.NewIsolationPolicy(nil, resilience.IsolationPolicyConfig[string]{})
	require.ErrorContains(t, err, "core = nil: want")
	_, err = resilience.NewIsolationPolicy(newIsolation(t, resilience.IsolationConfig{MaxConcurrency: 1}), resilience.IsolationPolicyConfig[string]{})
	require.ErrorContains(t, err, "Key = nil: want")
}
