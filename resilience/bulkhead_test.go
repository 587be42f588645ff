package resilience_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/ratelimit/classic"
	"github.com/treadlight/crawl/resilience"
)

func newBulkhead(t *testing.T, cfg resilience.BulkheadConfig) *resilience.Bulkhead {
	t.Helper()
	b, err := resilience.NewBulkhead(cfg)
	require.NoError(t, err)
	return b
}

func TestBulkheadAtExactInstants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hub resilience.Hub
		var events []resilience.BulkheadEvent
		resilience.Subscribe(&hub, func(e resilience.BulkheadEvent) { events = append(events, e) })
		b := newBulkhead(t, resilience.BulkheadConfig{Name: "api", MaxConcurrency: 1, MaxQueue: 2, QueueTimeout: 5 * s, Hub: &hub})
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
		live := b.Snapshot()
		require.Equal(t, []int64{1, 2}, []int64{live.InFlight, live.Queued})
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
		require.Equal(t, resilience.BulkheadSnapshot{
			Name: "api", MaxConcurrency: 1, MaxQueue: 2, Acquired: 2, Rejected: 1, Cancelled: 1,
		}, b.Snapshot())
	})
}

func TestBulkheadWithoutQueue(t *testing.T) {
	b := newBulkhead(t, resilience.BulkheadConfig{MaxConcurrency: 1, QueueTimeout: time.Hour})
	require.NoError(t, b.Acquire(t.Context()))
	err := b.Acquire(t.Context())
	require.ErrorIs(t, err, resilience.ErrBulkheadFull)
	require.ErrorIs(t, err, classic.ErrQueueFull)
	require.False(t, b.TryAcquire())
	b.Release()
	require.True(t, b.TryAcquire())
}

// A context that has ended never takes a place, whatever a select would have picked.
func TestTrapBulkheadEndedContextNeverAcquires(t *testing.T) {
	b := newBulkhead(t, resilience.BulkheadConfig{MaxConcurrency: 1, MaxQueue: 1})
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errDown)
	for range 1000 {
		err := b.Acquire(ctx)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, errDown)
		require.NotErrorIs(t, err, resilience.ErrBulkheadFull)
	}
	require.Zero(t, b.Snapshot().InFlight)
}

// Who leaves the queue frees his place in it, and the one behind moves up.
func TestBulkheadCallerGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBulkhead(t, resilience.BulkheadConfig{MaxConcurrency: 1, MaxQueue: 1})
		require.True(t, b.TryAcquire())
		for _, end := range []error{context.Canceled, context.DeadlineExceeded} {
			ctx, cancel := context.WithTimeout(t.Context(), 2*s)
			if end == context.Canceled { //nolint:errorlint // a table of the two
				ctx, cancel = context.WithCancel(t.Context())
				go func() { time.Sleep(s); cancel() }()
			}
			err := b.Acquire(ctx)
			require.ErrorIs(t, err, end)
			require.NotErrorIs(t, err, resilience.ErrBulkheadFull)
			cancel()
		}
		done := make(chan error)
		go func() { done <- b.Acquire(t.Context()) }()
		synctest.Wait()
		b.Release()
		require.NoError(t, <-done)
	})
}

func TestTrapBulkheadReleaseTooMany(t *testing.T) {
	b := newBulkhead(t, resilience.BulkheadConfig{MaxConcurrency: 1})
	b.Release()
	b.Release()
	require.Equal(t, uint64(2), b.Snapshot().OverReleased)
	require.True(t, b.TryAcquire())
	require.False(t, b.TryAcquire(), "and no place was made of it")
}

func TestBulkheadPolicyFreesItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core := newBulkhead(t, resilience.BulkheadConfig{MaxConcurrency: 1})
		isolation, err := resilience.NewIsolation(resilience.IsolationConfig{MaxConcurrency: 1})
		require.NoError(t, err)
		var end func(error)
		bind := func(v string, f func(error)) string {
			if v == "panic" {
				panic("bind")
			}
			end = f
			return v + ", bound"
		}
		plain, err := resilience.NewBulkheadPolicy(core, resilience.BulkheadPolicyConfig[string]{Bind: bind})
		require.NoError(t, err)
		keyed, err := resilience.NewIsolationPolicy(isolation, resilience.IsolationPolicyConfig[string]{
			Bind: bind, Key: func(context.Context) string { return "a" },
		})
		require.NoError(t, err)
		for name, tc := range map[string]struct {
			policy   resilience.Policy[string]
			inFlight func() int64
		}{
			"bulkhead":  {plain, func() int64 { return core.Snapshot().InFlight }},
			"isolation": {keyed, func() int64 { return isolation.Snapshot().Total.InFlight }},
		} {
			t.Log(name)
			held := func(context.Context) (string, error) {
				require.Equal(t, int64(1), tc.inFlight())
				_, err := tc.policy.Execute(t.Context(), up)
				require.ErrorIs(t, err, resilience.ErrBulkheadFull)
				return "v", nil
			}
			v, err := tc.policy.Execute(t.Context(), held)
			require.NoError(t, err)
			require.Equal(t, "v, bound", v)
			require.Equal(t, int64(1), tc.inFlight(), "as long as the value lives")
			end(errDown)
			require.Zero(t, tc.inFlight())

			_, err = tc.policy.Execute(t.Context(), down)
			require.ErrorIs(t, err, errDown)
			require.Panics(t, func() {
				_, _ = tc.policy.Execute(t.Context(), func(context.Context) (string, error) { panic("fn") })
			})
			require.Panics(t, func() {
				_, _ = tc.policy.Execute(t.Context(), func(context.Context) (string, error) { return "panic", nil })
			})
			goexits(func() {
				_, _ = tc.policy.Execute(t.Context(), func(context.Context) (string, error) { runtime.Goexit(); return "", nil })
			})
			require.Zero(t, tc.inFlight())

			require.NoError(t, tc.policy.Close())
			_, err = tc.policy.Execute(t.Context(), up)
			require.ErrorIs(t, err, resilience.ErrClosed)
		}
		require.True(t, core.TryAcquire(), "the core may be shared")
	})
}

func TestBulkheadClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBulkhead(t, resilience.BulkheadConfig{MaxConcurrency: 1, MaxQueue: 1})
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

func TestBulkheadConfigRefused(t *testing.T) {
	for field, cfg := range map[string]resilience.BulkheadConfig{
		"MaxConcurrency = 0":  {},
		"MaxQueue = -1":       {MaxConcurrency: 1, MaxQueue: -1},
		"QueueTimeout = -1ns": {MaxConcurrency: 1, QueueTimeout: -1},
	} {
		_, err := resilience.NewBulkhead(cfg)
		require.ErrorContains(t, err, "bulkhead: "+field+": want")
	}
	_, err := resilience.NewBulkheadPolicy(nil, resilience.BulkheadPolicyConfig[string]{})
	require.ErrorContains(t, err, "core = nil: want")
}
