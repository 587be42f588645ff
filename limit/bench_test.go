package limit_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/limit"
)

// Beside other libraries they are measured in bench/libraries.

// ample is a limiter of the kind under which nobody ever waits, so that what is measured is the
// limiter. The log holds a millisecond's worth of grants.
func ample(kind limit.Kind) limit.Weighted {
	s := limit.Spec{Kind: kind, Permits: 1e9, Per: time.Second}
	switch kind {
	case limit.KindTokenBucket:
		s.Burst = 1000
	case limit.KindSlidingWindowLog:
		s.Per, s.Permits = time.Millisecond, 1e6
	case limit.KindConcurrency:
		s.Per = 0
	}
	return must(limit.New(s))
}

func BenchmarkTryAcquire(b *testing.B) {
	for _, kind := range limit.Kinds() {
		b.Run(string(kind), func(b *testing.B) {
			l := ample(kind)
			b.ReportAllocs()
			for b.Loop() {
				if l.TryAcquire() {
					l.Release()
				}
			}
		})
	}
	b.Run("all of three", func(b *testing.B) {
		l := must(limit.All(ample(limit.KindTokenBucket), ample(limit.KindFixedWindow), ample(limit.KindLeakyBucket)))
		for b.Loop() {
			l.TryAcquire()
		}
	})
}

// BenchmarkHandOver is callers around one slot.
func BenchmarkHandOver(b *testing.B) {
	l := slots(1)
	b.ReportAllocs()
	b.SetParallelism(4)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			_ = l.Acquire(context.Background())
			l.Release()
		}
	})
}

func hosts(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("host-%d.example.com", i)
	}
	return all
}

// BenchmarkKeyed is a limiter for each of a hundred thousand hosts, in an order that caches cannot follow.
func BenchmarkKeyed(b *testing.B) {
	names := hosts(100_000)
	k := keyed(limit.KeyedConfig[string]{
		Limit: limit.Spec{Permits: 1e9, Per: time.Second, Burst: 1000}, MaxKeys: 2 * len(names),
	})
	for _, name := range names {
		require.True(b, k.TryAcquire(strings.Clone(name)))
	}
	var next atomic.Uint32
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := next.Add(1 << 20); pb.Next(); i++ {
			k.TryAcquire(names[uint64(i*2654435761)*uint64(len(names))>>32])
		}
	})
}
