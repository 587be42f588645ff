package limit_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"
	xtime "golang.org/x/time/rate"

	"github.com/treadlight/crawl/limit"
)

// batch is how many calls a goroutine makes in one go: half a millisecond, in which a
// busy machine may well let it be.
const batch = 5000

// together is the time a call takes when all workers make a batch of them at once, which
// for parallel workers is the inverse of the throughput.
func together(workers, round int, do func(i int)) float64 {
	var wg sync.WaitGroup
	begin := time.Now()
	for g := range workers - 1 {
		wg.Go(func() { each(round*workers+g, do) })
	}
	each(round*workers+workers-1, do)
	wg.Wait()
	return float64(time.Since(begin)) / float64(batch*workers)
}

func each(part int, do func(i int)) {
	for i := range batch {
		do(part*batch + i)
	}
}

func median(d []float64) float64 {
	slices.Sort(d)
	return d[len(d)/2]
}

// compare times batches of the two by turns, so that both meet the same machine, in one
// goroutine or in as many as there are processors. Read ours-ns and theirs-ns, which are
// medians, and ratio; ns/op holds both.
func compare(b *testing.B, parallel bool, ours, theirs func(i int)) {
	workers := 1
	if parallel {
		workers = runtime.GOMAXPROCS(0)
	}
	var we, they []float64
	b.ReportAllocs()
	b.ResetTimer()
	for round := range b.N/(batch*workers) + 1 {
		we = append(we, together(workers, round, ours))
		they = append(they, together(workers, round, theirs))
	}
	b.ReportMetric(median(we), "ours-ns")
	b.ReportMetric(median(they), "theirs-ns")
	b.ReportMetric(median(we)/median(they), "ratio")
}

func eachMode(b *testing.B, name string, run func(b *testing.B, parallel bool)) {
	for _, parallel := range []bool{false, true} {
		mode := "/serial"
		if parallel {
			mode = "/parallel"
		}
		b.Run(name+mode, func(b *testing.B) { run(b, parallel) })
	}
}

// ample is a limiter of the kind under which nobody ever waits, so that what is measured
// is the limiter. The log holds a millisecond's worth of grants.
func ample(tb testing.TB, kind limit.Kind) limit.Weighted {
	s := limit.Spec{Kind: kind, Permits: 1e9, Per: time.Second}
	switch kind {
	case limit.KindTokenBucket:
		s.Burst = 1000
	case limit.KindSlidingWindowLog:
		s.Per, s.Permits = time.Millisecond, 1e6
	case limit.KindConcurrency:
		s.Per = 0
	}
	l, err := limit.New(s)
	require.NoError(tb, err)
	return l
}

// BenchmarkTryAcquire is the ready path of each kind, statistics and the look at the line
// included, beside x/time's Allow.
func BenchmarkTryAcquire(b *testing.B) {
	for _, kind := range limit.Kinds() {
		eachMode(b, string(kind), func(b *testing.B, parallel bool) {
			l, theirs := ample(b, kind), xtime.NewLimiter(1e9, 1000)
			compare(b, parallel, func(int) {
				if l.TryAcquire() {
					l.Release()
				}
			}, func(int) { theirs.Allow() })
		})
	}
}

// BenchmarkTryAcquireDenied is the same where there is nothing to have.
func BenchmarkTryAcquireDenied(b *testing.B) {
	eachMode(b, "token-bucket", func(b *testing.B, parallel bool) {
		l, err := limit.New(limit.Spec{Permits: 1, Per: 24 * time.Hour})
		require.NoError(b, err)
		theirs := xtime.NewLimiter(xtime.Every(24*time.Hour), 1)
		compare(b, parallel, func(int) { l.TryAcquire() }, func(int) { theirs.Allow() })
	})
}

// BenchmarkAcquireReady is Acquire of a permit that is there, beside x/time's Wait.
func BenchmarkAcquireReady(b *testing.B) {
	eachMode(b, "token-bucket", func(b *testing.B, parallel bool) {
		l, theirs := ample(b, limit.KindTokenBucket), xtime.NewLimiter(1e9, 1000)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		compare(b, parallel, func(int) { l.Acquire(ctx) }, func(int) { theirs.Wait(ctx) })
	})
}

// BenchmarkConcurrency is a slot taken and given back, beside x/sync's semaphore.
func BenchmarkConcurrency(b *testing.B) {
	eachMode(b, "TryRelease", func(b *testing.B, parallel bool) {
		l, theirs := ample(b, limit.KindConcurrency), semaphore.NewWeighted(1e9)
		compare(b, parallel, func(int) {
			if l.TryAcquire() {
				l.Release()
			}
		}, func(int) {
			if theirs.TryAcquire(1) {
				theirs.Release(1)
			}
		})
	})
}

// BenchmarkHandOver is eight callers around one slot, beside x/sync's semaphore.
func BenchmarkHandOver(b *testing.B) {
	ctx := context.Background()
	around := func(b *testing.B, acquire func(), release func()) {
		b.ReportAllocs()
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range b.N/8 + 1 {
					acquire()
					release()
				}
			})
		}
		wg.Wait()
	}
	b.Run("ours", func(b *testing.B) {
		l, err := limit.NewConcurrency(limit.ConcurrencyConfig{Max: 1})
		require.NoError(b, err)
		around(b, func() { l.Acquire(ctx) }, l.Release)
	})
	b.Run("semaphore", func(b *testing.B) {
		l := semaphore.NewWeighted(1)
		around(b, func() { l.Acquire(ctx, 1) }, func() { l.Release(1) })
	})
}

// BenchmarkWaiters is 32 callers who want more than the million a second there is. Read
// share: how much of it was granted, of one.
func BenchmarkWaiters(b *testing.B) {
	const rate, burst = 1e6, 1000
	ctx := context.Background()
	run := func(b *testing.B, acquire func()) {
		var wg sync.WaitGroup
		begin := time.Now()
		for range 32 {
			wg.Go(func() {
				for range b.N/32 + 1 {
					acquire()
				}
			})
		}
		wg.Wait()
		b.ReportMetric(float64(b.N)/time.Since(begin).Seconds()/rate, "share")
	}
	b.Run("ours", func(b *testing.B) {
		l, err := limit.NewTokenBucket(limit.TokenBucketConfig{Permits: rate, Per: time.Second, Burst: burst, Empty: true})
		require.NoError(b, err)
		run(b, func() { l.Acquire(ctx) })
	})
	b.Run("x-time", func(b *testing.B) {
		l := xtime.NewLimiter(rate, burst)
		l.AllowN(time.Now(), burst)
		run(b, func() { l.Wait(ctx) })
	})
}

func hosts(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("host-%d.example.com", i)
	}
	return all
}

// scatter visits the keys in an order that caches cannot follow.
func scatter(i, n int) int { return int(uint64(uint32(i)*2654435761) * uint64(n) >> 32) }

// BenchmarkKeyed is a limiter for each of a hundred thousand hosts, beside x/time's in a
// map under one lock, which are not bounded and never forgotten.
func BenchmarkKeyed(b *testing.B) {
	names := hosts(100_000)
	k, err := limit.NewKeyed(limit.KeyedConfig[string]{
		Limit: limit.Spec{Permits: 1e9, Per: time.Second, Burst: 1000}, MaxKeys: 2 * len(names),
	})
	require.NoError(b, err)
	var mu sync.Mutex
	limiters := map[string]*xtime.Limiter{}
	for _, name := range names {
		require.True(b, k.TryAcquire(strings.Clone(name)))
		limiters[strings.Clone(name)] = xtime.NewLimiter(1e9, 1000)
	}
	eachMode(b, "keys=100000", func(b *testing.B, parallel bool) {
		compare(b, parallel, func(i int) {
			k.TryAcquire(names[scatter(i, len(names))])
		}, func(i int) {
			mu.Lock()
			l := limiters[names[scatter(i, len(names))]]
			mu.Unlock()
			l.Allow()
		})
	})
}

// BenchmarkAll is three limits taken at once.
func BenchmarkAll(b *testing.B) {
	eachMode(b, "members=3", func(b *testing.B, parallel bool) {
		l, err := limit.All(ample(b, limit.KindTokenBucket), ample(b, limit.KindFixedWindow), ample(b, limit.KindLeakyBucket))
		require.NoError(b, err)
		theirs := xtime.NewLimiter(1e9, 1000)
		compare(b, parallel, func(int) { l.TryAcquire() }, func(int) { theirs.Allow() })
	})
}
