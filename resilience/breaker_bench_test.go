package resilience

import (
	"context"
	"testing"
	"time"

	"golang.org/x/time/rate"
)

// BenchmarkBreaker is Allow and Done of a closed breaker beside x/time's Allow, which is
// the yardstick: no more than 0.6 of it, and no allocation.
func BenchmarkBreaker(b *testing.B) {
	b.Run("xtime", func(b *testing.B) {
		l := rate.NewLimiter(1e9, 1e9)
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				l.Allow()
			}
		})
	})
	for _, tc := range []struct {
		name string
		cfg  BreakerConfig
	}{
		{"consecutive", BreakerConfig{}},
		{"count", BreakerConfig{Window: CountWindow(100)}},
		{"time", BreakerConfig{Window: TimeWindow(10*time.Second, 10)}},
		{"count+slow", BreakerConfig{Window: CountWindow(100), SlowCall: time.Minute}},
	} {
		b.Run(tc.name, func(b *testing.B) {
			core, err := NewBreaker(tc.cfg)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					t, err := core.Allow()
					if err != nil {
						b.Error(err)
						return
					}
					t.Done(Success)
				}
			})
		})
	}
}

// BenchmarkCores is Execute of each policy of these files around a call that does
// nothing, with a Bind as HTTP has one.
func BenchmarkCores(b *testing.B) {
	bind := func(v int, end func(error)) int { end(nil); return v }
	core, _ := NewBreaker(BreakerConfig{})
	breaker, _ := NewCircuitBreaker(core, CircuitBreakerConfig[int]{Bind: bind})
	hull, _ := NewBulkhead(BulkheadConfig{MaxConcurrency: 100})
	bulkhead, _ := NewBulkheadPolicy(hull, bind)
	pools, _ := NewIsolation(BulkheadConfig{MaxConcurrency: 100})
	isolation, _ := NewIsolationPolicy(pools, func(context.Context) string { return "a" }, bind)
	hedge, _ := NewHedge(HedgeConfig[int]{Bind: bind})
	call := func(context.Context) (int, error) { return 0, nil }
	for _, tc := range []struct {
		name   string
		policy Policy[int]
	}{{"breaker", breaker}, {"bulkhead", bulkhead}, {"isolation", isolation}, {"hedge", hedge}} {
		b.Run(tc.name, func(b *testing.B) {
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := tc.policy.Execute(ctx, call); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
