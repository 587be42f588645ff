package resilience

import (
	"context"
	"testing"
)

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
