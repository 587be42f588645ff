package memory_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/admission/admissiontest"
	"github.com/treadlight/crawl/internal/admission/memory"
)

func open(cfg memory.Config) admissiontest.Open {
	return func(t *testing.T, clk *admissiontest.Clock) admission.Repository {
		return repository(t, clk, cfg)
	}
}

func repository(t *testing.T, clk *admissiontest.Clock, cfg memory.Config) *memory.Repository {
	t.Helper()
	cfg.Clock = clk
	r, err := memory.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

func TestConformance(t *testing.T) {
	admissiontest.Run(t, open(memory.Config{}), admissiontest.Options{Steps: 5000})
}

// TestConformanceInOneShard has all keys of the suite behind one lock, and hardly room.
func TestConformanceInOneShard(t *testing.T) {
	admissiontest.Run(t, open(memory.Config{MaxKeys: 128}), admissiontest.Options{Keys: 100})
}

func TestNewRejects(t *testing.T) {
	_, err := memory.New(memory.Config{MaxKeys: -1})
	require.ErrorContains(t, err, "MaxKeys is -1")
}

var (
	slow = admission.Plan{Name: "slow", Kind: admission.KindTokenBucket, Capacity: 3, TokensPerSecond: 1e-3}
	fast = admission.Plan{Name: "fast", Kind: admission.KindTokenBucket, Capacity: 3, TokensPerSecond: 3}
)

func take(t testing.TB, r *memory.Repository, key string, n int64, plans ...admission.Plan) admission.Result {
	t.Helper()
	res, err := r.Take(t.Context(), key, plans, n)
	require.NoError(t, err)
	return res
}

func known(t testing.TB, r *memory.Repository) (n int) {
	t.Helper()
	require.NoError(t, r.Keys(t.Context(), nil, func(string) bool { n++; return true }))
	return n
}

// TestKeysAreBounded floods the repository. Keys that used something stay, however many
// come after them: otherwise a flood would be the way to a new bucket.
func TestKeysAreBounded(t *testing.T) {
	for _, maxKeys := range []int{1, 7, 100, 1000, 100_000} {
		r := repository(t, admissiontest.NewClock(), memory.Config{MaxKeys: maxKeys})
		for i := range min(maxKeys, 10) {
			take(t, r, fmt.Sprint("first", i), 3, slow)
		}
		for i := range 2*maxKeys + 10 {
			take(t, r, fmt.Sprint("flood", i), 1, slow)
		}
		require.LessOrEqual(t, known(t, r), maxKeys)
		require.GreaterOrEqual(t, known(t, r), maxKeys-maxKeys/10, "a shard is full long before the others")
		for i := range min(maxKeys, 10) {
			require.False(t, take(t, r, fmt.Sprint("first", i), 1, slow).Allowed, "a flood made a new bucket")
		}
	}
}

// TestOverflowIsCounted: keys that find no place have accounts of their own, and no more than
// their limit, also when there is a place again.
func TestOverflowIsCounted(t *testing.T) {
	clk := admissiontest.NewClock()
	r := repository(t, clk, memory.Config{MaxKeys: 2})
	take(t, r, "ann", 3, slow)
	take(t, r, "bob", 2, slow)
	granted := map[string]int{}
	for range 10 {
		for i := range 20 {
			if key := fmt.Sprint(i); take(t, r, key, 1, slow).Allowed {
				granted[key]++
			}
		}
	}
	for i := range 20 {
		require.LessOrEqual(t, granted[fmt.Sprint(i)], 3, "of key %d", i)
		require.GreaterOrEqual(t, granted[fmt.Sprint(i)], 2, "of key %d", i)
	}
	require.False(t, take(t, r, "ann", 1, slow).Allowed, "those with a place go on")
	require.Equal(t, 2, known(t, r))

	clk.Move(slow.Period())
	require.False(t, take(t, r, "7", 3, slow).Allowed, "it is remembered a little longer than an account")
	clk.Move(8 * slow.Period())
	require.Equal(t, int64(2), take(t, r, "7", 1, slow).Remaining, "a place is free again")
	require.Equal(t, int64(2), take(t, r, "cid", 1, slow).Remaining)
}

// TestEvictedKeysKeepWhatTheyUsed: who loses his place to those who ask for more has used what he
// has used, so that a flood of one's own is no way to a fresh account.
func TestEvictedKeysKeepWhatTheyUsed(t *testing.T) {
	r := repository(t, admissiontest.NewClock(), memory.Config{MaxKeys: 1})
	require.True(t, take(t, r, "ann", 1, slow).Allowed)
	require.True(t, take(t, r, "bob", 3, slow).Allowed)
	var keys []string
	require.NoError(t, r.Keys(t.Context(), []admission.Plan{slow}, func(key string) bool { keys = append(keys, key); return true }))
	require.Equal(t, []string{"bob"}, keys, "he takes her place")
	require.False(t, take(t, r, "ann", 3, slow).Allowed)
	require.True(t, take(t, r, "ann", 2, slow).Allowed)
}

// TestFlood has a million keys come in one window: who is known has its exact account, also if
// it has used no more than each of the flood, a newcomer is let in, nobody has more than the
// limit, and the place all this takes is bounded.
func TestFlood(t *testing.T) {
	for _, tc := range []struct {
		capacity       int64
		maxKeys, flood int
	}{{5, 0, 1_000_000}, {100, 1 << 14, 62_500}, {3, 1 << 14, 62_500}} {
		capacity, flood := tc.capacity, tc.flood
		t.Run(fmt.Sprint(capacity), func(t *testing.T) {
			plan, err := admission.Plan{Name: "p", Kind: admission.KindSlidingWindow, Capacity: capacity, Window: time.Hour}.Settle()
			require.NoError(t, err)
			r := repository(t, admissiontest.NewClock(), memory.Config{MaxKeys: tc.maxKeys})
			before := heap()
			clients := map[string]int64{"one": 1, "half": capacity / 2, "all": capacity}
			for key, n := range clients {
				take(t, r, key, n, plan)
			}
			refused := 0
			for i := range flood {
				if !take(t, r, "flood-"+strconv.Itoa(i), 1, plan).Allowed {
					refused++
				}
			}
			for key, n := range clients {
				require.Equal(t, capacity-n, take(t, r, key, 0, plan).Remaining, key)
			}
			late, exact := 0, 0
			const newcomers = 1_000
			for i := range newcomers {
				res := take(t, r, fmt.Sprint("new-", i), 1, plan)
				if !res.Allowed {
					late++
				} else if res.Remaining == capacity-1 {
					exact++
				}
			}
			grew := heap() - before
			t.Logf("capacity %d: of %d keys %d refused, of %d after them %d, and %d exact; %d MB", capacity, flood, refused, newcomers, late, exact, grew>>20)
			require.LessOrEqual(t, refused, flood/1000)
			require.LessOrEqual(t, late, newcomers/1000)
			require.GreaterOrEqual(t, exact, newcomers*9/10)
			require.LessOrEqual(t, known(t, r), memory.DefaultMaxKeys)
			require.Less(t, grew, int64(160<<20))
			for _, key := range []string{"again", "flood-3", "flood-60000"} {
				n := int64(0)
				for range 2 * capacity {
					if take(t, r, key, 1, plan).Allowed {
						n++
					}
				}
				require.LessOrEqual(t, n, capacity, key)
			}
		})
	}
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestForgetsOnlyWhatIsOver has half of the keys refill and come nobody back for: they make place for others, and
// those that have not refilled do not. The table is no longer than what one search for a place looks at.
func TestForgetsOnlyWhatIsOver(t *testing.T) {
	clk := admissiontest.NewClock()
	r := repository(t, clk, memory.Config{MaxKeys: 150})
	for i := range 75 {
		take(t, r, fmt.Sprint("fast", i), 3, fast)
		take(t, r, fmt.Sprint("slow", i), 3, fast, slow) // of which the first is over soon
	}
	require.Equal(t, 150, known(t, r))
	clk.Move(2 * time.Second)
	for i := range 75 {
		take(t, r, fmt.Sprint("new", i), 1, slow)
	}
	require.Equal(t, 150, known(t, r))
	for i := range 75 {
		require.False(t, take(t, r, fmt.Sprint("slow", i), 1, slow).Allowed)
		require.Equal(t, int64(1), take(t, r, fmt.Sprint("new", i), 1, slow).Remaining, "it had a place of its own")
	}
}

// TestForgetsWithoutBeingFull has keys that nobody comes back for go as others come,
// long before there are as many as there may be.
func TestForgetsWithoutBeingFull(t *testing.T) {
	clk := admissiontest.NewClock()
	r := repository(t, clk, memory.Config{})
	for i := range 50_000 {
		take(t, r, fmt.Sprint(i), 1, fast)
		clk.Move(100 * time.Millisecond)
	}
	require.Less(t, known(t, r), 5_000, "some 600 keys came within the last minute")
}

// TestManyPlans has more plans in one decision than need no memory.
func TestManyPlans(t *testing.T) {
	r := repository(t, admissiontest.NewClock(), memory.Config{})
	plans := make([]admission.Plan, 12)
	for i := range plans {
		plans[i] = slow
		plans[i].Name = fmt.Sprint(i)
	}
	for i := range 4 {
		require.Equal(t, i < 3, take(t, r, "ann", 1, plans...).Allowed)
	}
	require.NoError(t, r.Remove(t.Context(), "ann", plans[:11]))
	require.True(t, take(t, r, "ann", 3, plans[:11]...).Allowed)
	require.False(t, take(t, r, "ann", 1, plans[11]).Allowed)
}

func TestDecisionAllocatesNothing(t *testing.T) {
	r, err := memory.New(memory.Config{})
	require.NoError(t, err)
	ctx := t.Context()
	window := admission.Plan{Name: "window", Kind: admission.KindSlidingWindow, Capacity: 5, Window: time.Minute}
	for _, plans := range [][]admission.Plan{{slow}, {fast}, {window}, {slow, fast, window}} {
		require.Zero(t, testing.AllocsPerRun(100, func() { _, _ = r.Take(ctx, "ann", plans, 1) }))
	}
}

// TestAtOnce has keys come, go and be forgotten from many goroutines, and counts what
// those were granted that nobody removed.
func TestAtOnce(t *testing.T) {
	clk := admissiontest.NewClock()
	r := repository(t, clk, memory.Config{MaxKeys: 300})
	for i := range 10 { // before the others can take their places
		take(t, r, fmt.Sprint("kept", i), 1, slow)
	}
	var granted [10]atomic.Int64
	var wg sync.WaitGroup
	for g := range uint64(8) {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(g, 1))
			for range 5000 {
				i := rnd.IntN(10)
				switch rnd.IntN(6) {
				case 0:
					if take(t, r, fmt.Sprint("kept", i), 1, slow, fast).Allowed {
						granted[i].Add(1)
					}
				case 1:
					_ = r.Remove(t.Context(), fmt.Sprint(rnd.IntN(1000)), []admission.Plan{fast})
				case 2:
					clk.Move(time.Microsecond)
				default:
					take(t, r, fmt.Sprint(rnd.IntN(1000)), 1, fast)
				}
			}
		})
	}
	wg.Wait()
	for i := range granted {
		require.Equal(t, int64(2), granted[i].Load(), "beside the first")
	}
	require.LessOrEqual(t, known(t, r), 300)
}

// TestPlacesAreUsedAgain has an operator replace plans by others of new names: a key keeps accounts of
// those only that count, and for a while of those that did.
func TestPlacesAreUsedAgain(t *testing.T) {
	clk := admissiontest.NewClock()
	r := repository(t, clk, memory.Config{})
	for i := range 1000 {
		p := admission.Plan{Name: fmt.Sprint(i), Kind: admission.KindTokenBucket, Capacity: 1, TokensPerSecond: 1}
		require.True(t, take(t, r, "ann", 1, p).Allowed)
		clk.Move(15 * time.Second)
	}
	require.LessOrEqual(t, memory.Accounts(r, "ann"), 7)
}

func benchTake(b *testing.B, keys int, plans ...admission.Plan) {
	r, err := memory.New(memory.Config{})
	if err != nil {
		b.Fatal(err)
	}
	names := make([]string, keys)
	for i := range names {
		names[i] = fmt.Sprintf("host-%d.example.com", i)
	}
	for i := range plans {
		if plans[i], err = plans[i].Settle(); err != nil {
			b.Fatal(err)
		}
	}
	ctx := b.Context()
	for _, n := range names {
		_, _ = r.Take(ctx, n, plans, 1)
	}
	var seed atomic.Uint64
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		rnd := rand.New(rand.NewPCG(1, seed.Add(1)))
		mask := uint64(len(names))
		for i := rnd.Uint64(); pb.Next(); i += 7919 {
			if _, err := r.Take(ctx, names[i%mask], plans, 1); err != nil {
				b.Error(err)
			}
		}
	})
}

var (
	bucket  = admission.Plan{Name: "bucket", Capacity: 1 << 30, TokensPerSecond: 1e6}
	drained = admission.Plan{Name: "drained", Capacity: 1, TokensPerSecond: 1e-3}
	fixed   = admission.Plan{Name: "fixed", Kind: admission.KindFixedWindow, Capacity: 1 << 30, Window: time.Minute}
	sliding = admission.Plan{Name: "sliding", Kind: admission.KindSlidingWindow, Capacity: 1 << 30, Window: time.Minute}
)

func BenchmarkTake(b *testing.B) {
	for _, keys := range []int{1, 100_000} {
		for _, p := range []admission.Plan{bucket, drained, fixed, sliding} {
			b.Run(fmt.Sprintf("%s/keys=%d", p.Name, keys), func(b *testing.B) { benchTake(b, keys, p) })
		}
		b.Run(fmt.Sprintf("three plans/keys=%d", keys), func(b *testing.B) { benchTake(b, keys, bucket, fixed, sliding) })
	}
}
