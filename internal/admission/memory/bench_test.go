package memory_test

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/admission/memory"
)

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
