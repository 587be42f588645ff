package resilience_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/treadlight/crawl/internal/ratelimit/backoff"
	"github.com/treadlight/crawl/resilience"
)

// BenchmarkExecute is Execute of each policy around a call that does nothing, with a Bind as HTTP has one.
func BenchmarkExecute(b *testing.B) {
	value := new(int)
	bind := func(v *int, end func(error)) *int { end(nil); return v }
	retry := func(cfg resilience.RetryConfig[*int]) resilience.Policy[*int] {
		return must(resilience.NewRetry(cfg))
	}
	timeout := func(after time.Duration, bind resilience.Bind[*int]) resilience.Policy[*int] {
		return must(resilience.NewTimeout(resilience.TimeoutConfig[*int]{After: after, Bind: bind}))
	}
	places := resilience.BulkheadConfig{MaxConcurrency: 100}
	core := must(resilience.NewBreaker(resilience.BreakerConfig{}))
	pool := must(resilience.NewBulkhead(places))
	pools := must(resilience.NewIsolation(places))
	key := func(context.Context) string { return "a" }
	twice := 0
	for _, bench := range []struct {
		name string
		p    resilience.Policy[*int]
		fn   func(context.Context) (*int, error)
	}{
		{"retry", retry(resilience.RetryConfig[*int]{}), nil},
		{"retry budget", retry(resilience.RetryConfig[*int]{Budget: must(resilience.NewBudget(resilience.BudgetConfig{}))}), nil},
		{"retry second attempt", retry(resilience.RetryConfig[*int]{Backoff: backoff.Constant(0)}), func(context.Context) (*int, error) {
			if twice++; twice%2 == 1 {
				return nil, errors.ErrUnsupported
			}
			return value, nil
		}},
		{"timeout", timeout(time.Minute, nil), nil},
		{"timeout bound", timeout(time.Minute, bind), nil},
		{"timeout waited for", timeout(time.Minute, nil), func(ctx context.Context) (*int, error) { _ = ctx.Done(); return value, nil }},
		{"fallback", must(resilience.NewFallback(resilience.FallbackConfig[*int]{
			Action: func(context.Context, *int, error) (*int, error) { return value, nil },
		})), nil},
		{"breaker", must(resilience.NewCircuitBreaker(core, resilience.CircuitBreakerConfig[*int]{Bind: bind})), nil},
		{"bulkhead", must(resilience.NewBulkheadPolicy(pool, bind)), nil},
		{"isolation", must(resilience.NewIsolationPolicy(pools, key, bind)), nil},
		{"hedge", must(resilience.NewHedge(resilience.HedgeConfig[*int]{Bind: bind})), nil},
		{"wrap of three", resilience.Wrap(timeout(time.Minute, nil), retry(resilience.RetryConfig[*int]{}), timeout(time.Second, nil)), nil},
	} {
		b.Run(bench.name, func(b *testing.B) {
			fn := bench.fn
			if fn == nil {
				fn = func(context.Context) (*int, error) { return value, nil }
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := bench.p.Execute(b.Context(), fn); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
