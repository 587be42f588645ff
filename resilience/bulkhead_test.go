package resilience_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/limit"
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
	require.ErrorIs(t, err, limit.ErrQueueFull)
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
		require.ErrorIs(t, err, limit.ErrTooManyKeys)
		slots["b"].Release()
		slots["a"].Release()
		slots["a"].Release() // harmless
		pools("a", "b", "c")
		require.NoError(t, take("d"))
		pools("a", "c", "d")
		require.NoError(t, take("a")) // not idle any more
		require.ErrorIs(t, take("e"), limit.ErrTooManyKeys)

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
		require.ErrorIs(t, take("e"), limit.ErrTooManyKeys)
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
