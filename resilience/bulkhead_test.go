package resilience_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/limit"
	"github.com/treadlight/crawl/resilience"
)

func TestBulkheadAtExactInstants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hub resilience.Hub
		var events []resilience.BulkheadEvent
		resilience.Subscribe(&hub, func(e resilience.BulkheadEvent) { events = append(events, e) })
		b := must(resilience.NewBulkhead(resilience.BulkheadConfig{Name: "api", MaxConcurrency: 1, MaxQueue: 2, QueueTimeout: 5 * s, Hub: &hub}))
		begun := time.Now()
		var wg sync.WaitGroup
		var mu sync.Mutex
		got := map[string]time.Duration{}
		call := func(name string, hold time.Duration) {
			wg.Go(func() {
				err := b.Acquire(t.Context())
				mu.Lock()
				defer mu.Unlock()
				if got[name] = time.Since(begun); err != nil {
					var refusal *resilience.BulkheadError
					require.ErrorAs(t, err, &refusal)
					require.ErrorIs(t, err, resilience.ErrBulkheadFull)
					require.Equal(t, "api", refusal.Name)
					got[name] = -got[name]
					return
				}
				wg.Go(func() { time.Sleep(hold); b.Release() })
			})
			synctest.Wait()
		}
		call("first", 3*s)
		call("second", 10*s)
		call("third", 10*s)
		live := b.Statistics()
		require.Equal(t, []int64{1, 2}, []int64{live.InUse, live.Queued})
		time.Sleep(s)
		call("one too many", s)
		wg.Wait()
		require.Equal(t, map[string]time.Duration{
			"first": 0, "second": 3 * s, "third": -5 * s, "one too many": -s,
		}, got)
		require.NoError(t, hub.Close())
		require.Equal(t, []resilience.BulkheadEvent{
			{At: begun.Add(s), Name: "api", InFlight: 1, Queued: 2},
			{At: begun.Add(5 * s), Name: "api", InFlight: 1, Queued: 0},
		}, events)
		live = b.Statistics()
		require.Equal(t, []uint64{2, 1, 1}, []uint64{live.Acquired, live.Rejected, live.Cancelled})
	})
}

func TestBulkheadWithoutQueue(t *testing.T) {
	b := must(resilience.NewBulkhead(resilience.BulkheadConfig{MaxConcurrency: 1, QueueTimeout: time.Hour}))
	require.NoError(t, b.Acquire(t.Context()))
	err := b.Acquire(t.Context())
	require.ErrorIs(t, err, resilience.ErrBulkheadFull)
	require.ErrorIs(t, err, limit.ErrQueueFull)
	require.False(t, b.TryAcquire())
	b.Release()
	require.True(t, b.TryAcquire())
}

func TestBulkheadPolicyFreesItsPlace(t *testing.T) {
	var end func(error)
	for name, p := range each(func(v string, f func(error)) string { end = f; return v + ", bound" }) {
		if name != "bulkhead" && name != "isolation" {
			continue
		}
		v := must(p.Execute(t.Context(), func(context.Context) (string, error) {
			require.Equal(t, int64(1), p.inFlight())
			_, err := p.Execute(t.Context(), up)
			require.ErrorIs(t, err, resilience.ErrBulkheadFull)
			return "v", nil
		}))
		require.Equal(t, "v, bound", v)
		require.Equal(t, int64(1), p.inFlight(), "as long as the value lives")
		end(errDown)
		require.Zero(t, p.inFlight())
		_, err := p.Execute(t.Context(), down)
		require.ErrorIs(t, err, errDown)
		require.Zero(t, p.inFlight())
	}
}

func TestBulkheadClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := must(resilience.NewBulkhead(resilience.BulkheadConfig{MaxConcurrency: 1, MaxQueue: 1}))
		require.True(t, b.TryAcquire())
		done := make(chan error)
		go func() { done <- b.Acquire(t.Context()) }()
		synctest.Wait()
		require.NoError(t, b.Close())
		require.ErrorIs(t, <-done, resilience.ErrClosed)
		require.ErrorIs(t, b.Acquire(t.Context()), resilience.ErrClosed)
		require.NoError(t, b.Close())
		b.Release()
	})
}

// One callee that hangs takes its own callers and nobody else's.
func TestIsolationKeepsPoolsApart(t *testing.T) {
	i := must(resilience.NewIsolation(resilience.BulkheadConfig{Name: "hosts", MaxConcurrency: 2}))
	type key struct{}
	p := must(resilience.NewIsolationPolicy[string](i, func(ctx context.Context) string { v, _ := ctx.Value(key{}).(string); return v }, nil))
	for range 2 {
		must(i.Acquire(t.Context(), "hangs"))
	}
	_, err := p.Execute(context.WithValue(t.Context(), key{}, "hangs"), up)
	var refusal *resilience.BulkheadError
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, []string{"hosts", "hangs"}, []string{refusal.Name, refusal.Key})
	require.Equal(t, "up", must(p.Execute(context.WithValue(t.Context(), key{}, "works"), up)))
	got := i.Statistics("hangs")
	require.Equal(t, int64(2), got.InUse)
	require.Equal(t, uint64(1), got.Rejected)
}

// Only pools that nobody is in are forgotten.
func TestIsolationForgetsTheIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hub resilience.Hub
		var events []resilience.BulkheadEvent
		resilience.Subscribe(&hub, func(e resilience.BulkheadEvent) { events = append(events, e) })
		i := must(resilience.NewIsolation(resilience.BulkheadConfig{Name: "hosts", MaxConcurrency: 1, MaxQueue: 1, MaxKeys: 3, Hub: &hub}))
		free := map[string]func(){}
		take := func(key string) error {
			release, err := i.Acquire(t.Context(), key)
			if err == nil {
				free[key] = release
			}
			return err
		}
		for _, key := range []string{"a", "b", "c"} {
			require.NoError(t, take(key))
		}
		err := take("d")
		require.ErrorIs(t, err, resilience.ErrBulkheadFull)
		require.ErrorIs(t, err, limit.ErrTooManyKeys)
		free["a"]()
		free["a"]() // harmless
		require.NoError(t, take("d"))
		require.Equal(t, 3, i.Len())
		require.ErrorIs(t, take("a"), limit.ErrTooManyKeys)

		// One who only waits keeps the pool as well.
		release := make(chan func())
		go func() {
			f, _ := i.Acquire(t.Context(), "d")
			release <- f
		}()
		synctest.Wait()
		free["d"]()
		waited := <-release
		require.ErrorIs(t, take("e"), limit.ErrTooManyKeys)
		waited()
		require.NoError(t, take("e"))
		require.NoError(t, hub.Close())
		require.Len(t, events, 3)
		require.Equal(t, "d", events[0].Key)
	})
}

func TestIsolationWaitersLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := must(resilience.NewIsolation(resilience.BulkheadConfig{MaxConcurrency: 1, MaxQueue: 2, QueueTimeout: s, MaxKeys: 1}))
		release := must(i.Acquire(t.Context(), "a"))
		ctx, cancel := context.WithTimeout(t.Context(), s/2)
		defer cancel()
		_, err := i.Acquire(ctx, "a")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		begun := time.Now()
		_, err = i.Acquire(t.Context(), "a")
		require.ErrorIs(t, err, resilience.ErrBulkheadFull)
		require.Equal(t, s, time.Since(begun))
		release()

		release, err = i.Acquire(t.Context(), "b")
		require.NoError(t, err, "those who left hold nothing")
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
		release()
		require.NoError(t, i.Close())
	})
}
