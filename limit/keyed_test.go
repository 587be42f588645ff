package limit_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/treadlight/crawl/limit"
)

func keyed(cfg limit.KeyedConfig[string], opts ...limit.Option) *limit.Keyed[string] {
	if cfg.Limit == (limit.Spec{}) && cfg.New == nil {
		cfg.Limit = limit.Spec{Permits: 2, Per: time.Minute}
	}
	return must(limit.NewKeyed(cfg, opts...))
}

func TestKeyedRejects(t *testing.T) {
	spec := limit.Spec{Permits: 1, Per: 1}
	for _, tc := range []struct {
		cfg  limit.KeyedConfig[string]
		want string
	}{
		{limit.KeyedConfig[string]{}, "limit: token-bucket: Permits is 0: set it to 1 or more"},
		{limit.KeyedConfig[string]{Limit: spec, MaxKeys: -1}, "MaxKeys is -1: set it to 1 or more, or leave it out for the default"},
		{limit.KeyedConfig[string]{Limit: spec, Overflow: 2}, "Overflow is 2: set it to OverflowShare or OverflowDeny"},
		{limit.KeyedConfig[string]{Limit: spec, IdleAfter: -1}, "IdleAfter is -1ns: set it to more than 0, or leave it out for the default"},
		{limit.KeyedConfig[string]{New: func(string) (limit.Weighted, error) { return nil, errors.New("no") }}, "limiter that the keys beyond MaxKeys share: no"},
	} {
		_, err := limit.NewKeyed(tc.cfg)
		require.EqualError(t, err, tc.want)
	}
	_, err := limit.NewKeyed(limit.KeyedConfig[string]{New: func(string) (limit.Weighted, error) { return nil, nil }}, limit.WithClock(nil))
	require.ErrorContains(t, err, "WithClock")
}

func TestKeyedLimitsEachKey(t *testing.T) {
	clk := fakeClock()
	k := keyed(limit.KeyedConfig[string]{Name: "hosts"}, limit.WithClock(clk))
	for _, host := range []string{"a", "b"} {
		require.Zero(t, k.Wait(host, 2), "a key without a limiter")
		require.True(t, k.TryAcquire(host))
		require.NoError(t, k.Acquire(t.Context(), host))
		require.False(t, k.TryAcquire(host))
		require.Equal(t, 30*time.Second, k.Wait(host, 1))
		require.EqualError(t, k.AcquireTimeout(t.Context(), host, 1, 0), "acquire hosts (token-bucket): rate limited, retry after 30s")
	}
	require.Equal(t, 2, k.Len())
	_, ok := k.Statistics("c")
	require.False(t, ok)
	require.Zero(t, k.Wait("c", 1))
	require.Equal(t, limit.Never, k.Wait("c", 3))
	require.Equal(t, 2, k.Len(), "asking makes no limiter")
	st, ok := k.Statistics("a")
	require.True(t, ok)
	require.EqualValues(t, 2, st.Acquired)
	require.ErrorIs(t, k.AcquireN(t.Context(), "a", 3), limit.ErrExceedsCapacity)
}

// A drained limiter is never forgotten: that would be a way round it.
func TestKeyedForgetsOnlyWhatIsFull(t *testing.T) {
	clk := fakeClock()
	k := keyed(limit.KeyedConfig[string]{MaxKeys: 3, Overflow: limit.OverflowDeny, IdleAfter: time.Hour}, limit.WithClock(clk))
	for _, host := range []string{"a", "b", "c"} {
		require.True(t, k.TryAcquireN(host, 2))
	}
	require.False(t, k.TryAcquire("d"))
	require.ErrorIs(t, k.Acquire(t.Context(), "d"), limit.ErrTooManyKeys)
	require.ErrorIs(t, k.Acquire(t.Context(), "d"), limit.ErrLimited)
	require.Equal(t, limit.Never, k.Wait("d", 1))
	require.Zero(t, k.Sweep())
	clk.Advance(time.Minute - 1)
	require.False(t, k.TryAcquire("d"), "a nanosecond before they are full")
	require.True(t, k.TryAcquire("a"))
	clk.Advance(1)
	require.True(t, k.TryAcquire("d"), "b or c is full")
	require.Equal(t, 3, k.Len())
	require.True(t, k.TryAcquire("a"))
	st, ok := k.Statistics("a")
	require.True(t, ok, "a had not been full")
	require.EqualValues(t, 4, st.Acquired)
	clk.Advance(time.Minute)
	require.Equal(t, 3, k.Sweep())
	require.Zero(t, k.Len())
}

func TestKeyedOverflowShares(t *testing.T) {
	clk := fakeClock()
	k := keyed(limit.KeyedConfig[string]{MaxKeys: 1}, limit.WithClock(clk))
	require.True(t, k.TryAcquireN("a", 2))
	require.True(t, k.TryAcquire("b"))
	require.True(t, k.TryAcquire("c"))
	require.False(t, k.TryAcquire("d"), "b and c have taken what all of them share")
	require.Equal(t, 30*time.Second, k.Wait("d", 1))
	clk.Advance(time.Minute)
	require.True(t, k.TryAcquireN("d", 2), "a is full, and d takes its place")
	require.Equal(t, 1, k.Len())
}

// Keys that are idle and full go when others come, though there is room for all.
func TestKeyedSweepsAsKeysCome(t *testing.T) {
	clk := fakeClock()
	k := keyed(limit.KeyedConfig[string]{MaxKeys: 1 << 20, IdleAfter: time.Minute}, limit.WithClock(clk))
	for i := range 100_000 {
		require.True(t, k.TryAcquire(fmt.Sprint(i)))
		clk.Advance(100 * time.Millisecond)
	}
	// A key is full 30 s after its call and idle after 60: 600 come in that time. The sweep
	// has to come by twice, once to see that it is idle and once to see that it stayed so.
	require.Less(t, k.Len(), 20_000)
	require.Greater(t, k.Len(), 600)
}

func TestKeyedSlots(t *testing.T) {
	cfg := limit.KeyedConfig[string]{Limit: limit.Spec{Kind: limit.KindConcurrency, Permits: 2}, MaxKeys: 1}
	k := keyed(cfg)
	release := must(k.AcquireRelease(t.Context(), "a", 2, 0))
	_, err := k.AcquireRelease(t.Context(), "a", 1, 0)
	require.ErrorIs(t, err, limit.ErrLimited)
	other, err := k.AcquireRelease(t.Context(), "b", 1, 0)
	require.NoError(t, err, "b gets the shared limiter")
	require.Zero(t, k.Sweep(), "a has slots out")
	release()
	require.Equal(t, 1, k.Sweep())
	again, err := k.AcquireRelease(t.Context(), "b", 2, 0)
	require.NoError(t, err, "b has a place of its own now")
	other()
	st, _ := k.Statistics("b")
	require.EqualValues(t, 2, st.InUse, "what came from the shared limiter went back there")
	require.Zero(t, st.OverReleased)
	again()
}

// A pinned limiter stays where it is, full or not.
func TestKeyedPin(t *testing.T) {
	k := keyed(limit.KeyedConfig[string]{MaxKeys: 1, Overflow: limit.OverflowDeny})
	p := must(k.Pin("a"))
	require.Zero(t, k.Sweep())
	require.False(t, k.TryAcquire("b"))
	_, err := k.Pin("b")
	require.ErrorIs(t, err, limit.ErrTooManyKeys)
	require.True(t, p.Limiter.TryAcquire())
	require.True(t, p.Limiter.TryAcquire())
	p.Unpin()
	require.False(t, k.TryAcquire("a"), "it is the key's limiter")
	limit.Pinned[string]{}.Unpin()
	require.NoError(t, k.Close())
	_, err = k.Pin("b")
	require.ErrorIs(t, err, limit.ErrClosed)

	k = keyed(limit.KeyedConfig[string]{MaxKeys: 1})
	p = must(k.Pin("a"))
	b := must(k.Pin("b"))
	c := must(k.Pin("c"))
	require.NotSame(t, p.Limiter, b.Limiter)
	require.Same(t, b.Limiter, c.Limiter, "those beyond share one")
	c.Unpin()
}

func TestKeyedClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keyed(limit.KeyedConfig[string]{})
		require.True(t, k.TryAcquireN("a", 2))
		done := make(chan error)
		go func() { done <- k.Acquire(t.Context(), "a") }()
		synctest.Wait()
		require.Zero(t, k.Sweep(), "somebody waits")
		for range 2 {
			require.NoError(t, k.Close())
		}
		require.ErrorIs(t, <-done, limit.ErrClosed)
		for _, host := range []string{"a", "b"} {
			require.False(t, k.TryAcquire(host))
			require.ErrorIs(t, k.Acquire(t.Context(), host), limit.ErrClosed)
			require.Equal(t, limit.Never, k.Wait(host, 1))
			_, err := k.AcquireRelease(t.Context(), host, 1, 0)
			require.ErrorIs(t, err, limit.ErrClosed)
		}
		require.Equal(t, 1, k.Len())
	})
}

// Limiters may be made by the caller: here each host has a cap of its own under one that all share.
func TestKeyedNew(t *testing.T) {
	clk := fakeClock()
	shared := must(limit.New(limit.Spec{Permits: 3, Per: time.Minute}, limit.WithClock(clk)))
	k := keyed(limit.KeyedConfig[string]{Overflow: limit.OverflowDeny, New: func(host string) (limit.Weighted, error) {
		if host == "bad" {
			return nil, errors.New("no such host")
		}
		own, err := limit.New(limit.Spec{Kind: limit.KindSlidingWindowLog, Permits: 2, Per: time.Second}, limit.WithClock(clk))
		if err != nil {
			return nil, err
		}
		return limit.All(shared, own)
	}}, limit.WithClock(clk))
	require.True(t, k.TryAcquireN("a", 2))
	require.False(t, k.TryAcquireN("b", 2), "the shared cap has one left")
	require.True(t, k.TryAcquire("b"))
	require.EqualError(t, k.Acquire(t.Context(), "bad"), "make the limiter of key bad: no such host")
	require.False(t, k.TryAcquire("bad"))
	require.Equal(t, limit.Never, k.Wait("bad", 1))
	require.Equal(t, 2, k.Len())
	require.NoError(t, k.Close())
	require.Zero(t, shared.Wait(0)-limit.Never)
	clk.Advance(time.Minute)
	require.True(t, shared.TryAcquire(), "it is its owner's")
}

// A foreign limiter has no tickets of its own.
func TestKeyedOfForeignLimiters(t *testing.T) {
	k := keyed(limit.KeyedConfig[string]{New: func(string) (limit.Weighted, error) {
		l, err := limit.NewConcurrency(limit.ConcurrencyConfig{Max: 1})
		return foreignWeighted{l}, err
	}})
	release := must(k.AcquireRelease(t.Context(), "a", 1, 0))
	_, err := k.AcquireRelease(t.Context(), "a", 1, 0)
	require.ErrorIs(t, err, limit.ErrLimited)
	release()
	release()
	st, _ := k.Statistics("a")
	require.Zero(t, st.InUse)
	require.Zero(t, st.OverReleased)
}

// Against a plain map that forgets nothing: the same answers, whatever is forgotten.
func TestKeyedAgainstAMap(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		clk := fakeClock()
		spec := limit.Spec{Kind: rapid.SampledFrom([]limit.Kind{
			limit.KindTokenBucket, limit.KindSlidingWindowLog, limit.KindLeakyBucket,
		}).Draw(rt, "kind"), Permits: 3, Per: time.Second}
		k := keyed(limit.KeyedConfig[string]{Limit: spec, MaxKeys: 40, IdleAfter: 1}, limit.WithClock(clk))
		limiters := map[string]limit.Weighted{}
		for range rapid.IntRange(1, 200).Draw(rt, "steps") {
			clk.Advance(time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(rt, "pass")))
			key := fmt.Sprint(rapid.IntRange(0, 39).Draw(rt, "key"))
			n := rapid.Int64Range(1, 3).Draw(rt, "n")
			if limiters[key] == nil {
				limiters[key] = must(limit.New(spec, limit.WithClock(clk)))
			}
			if want, got := limiters[key].Wait(n), k.Wait(key, n); got != want {
				rt.Fatalf("Wait(%s, %d) = %v, want %v", key, n, got, want)
			}
			if want, got := limiters[key].TryAcquireN(n), k.TryAcquireN(key, n); got != want {
				rt.Fatalf("TryAcquireN(%s, %d) = %v, want %v", key, n, got, want)
			}
			if rapid.IntRange(0, 9).Draw(rt, "sweep") == 0 {
				k.Sweep()
			}
		}
	})
}

// Many goroutines, few places: the bound holds at every instant, and no key gets more
// than its limiter and the shared one together.
func TestKeyedUnderLoad(t *testing.T) {
	k := keyed(limit.KeyedConfig[string]{Limit: limit.Spec{Kind: limit.KindConcurrency, Permits: 1}, MaxKeys: 8})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(3, uint64(g)))
			for range 500 {
				release, err := k.AcquireRelease(t.Context(), fmt.Sprint(rnd.IntN(32)), 1, limit.Never)
				if err != nil {
					t.Error(err)
					return
				}
				if n := k.Len(); n > 8+8 { // each caller may be about to find that there is no place
					t.Errorf("%d keys, want 8", n)
				}
				release()
			}
		})
	}
	wg.Wait()
	require.LessOrEqual(t, k.Len(), 8)
	k.Sweep()
	k.Sweep()
	require.Zero(t, k.Len())
}

// What a key costs is in the documentation of DefaultMaxKeys.
func TestKeyedMemory(t *testing.T) {
	const n = 50_000
	names := hosts(n)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	k := keyed(limit.KeyedConfig[string]{MaxKeys: 2 * n})
	for _, name := range names {
		require.True(t, k.TryAcquire(strings.Clone(name)))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	per := int64(after.HeapAlloc-before.HeapAlloc) / n
	t.Logf("%d bytes for a key", per)
	require.Less(t, per, int64(512))
	require.Equal(t, n, k.Len())
}

// What is removed begins anew, at once, and who waits at it is told.
func TestKeyedRemove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keyed(limit.KeyedConfig[string]{Limit: limit.Spec{Permits: 2, Per: time.Hour}})
		for _, key := range []string{"user:a", "user:b", "host:c"} {
			require.True(t, k.TryAcquireN(key, 2))
		}
		waiting := make(chan error, 1)
		go func() { waiting <- k.Acquire(t.Context(), "user:a") }()
		synctest.Wait()
		require.True(t, k.Remove("user:a"))
		require.ErrorIs(t, <-waiting, limit.ErrClosed)
		require.False(t, k.Remove("user:a"))
		require.Equal(t, 2, k.Len())
		require.True(t, k.TryAcquire("user:a"), "it begins anew")

		spent := func(key string, l limit.Limiter) bool {
			return strings.HasPrefix(key, "user:") && l.Statistics().Available == 0
		}
		require.Equal(t, 1, k.RemoveWhere(spent))
		require.Zero(t, k.RemoveWhere(spent))
		require.True(t, k.TryAcquireN("user:b", 2))
		require.False(t, k.TryAcquire("host:c"), "what does not match stays")
		require.Equal(t, 3, k.RemoveWhere(func(string, limit.Limiter) bool { return true }))
		require.Zero(t, k.Len())
	})
}

// A slot that is out when its key is removed comes back to nobody.
func TestKeyedRemoveWithSlotsOut(t *testing.T) {
	k := keyed(limit.KeyedConfig[string]{Limit: limit.Spec{Kind: limit.KindConcurrency, Permits: 1}})
	release := must(k.AcquireRelease(t.Context(), "a", 1, 0))
	require.True(t, k.Remove("a"))
	again := must(k.AcquireRelease(t.Context(), "a", 1, 0))
	release()
	_, err := k.AcquireRelease(t.Context(), "a", 1, 0)
	require.ErrorIs(t, err, limit.ErrLimited)
	again()
}
