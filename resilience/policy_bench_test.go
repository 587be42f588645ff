package resilience_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/treadlight/crawl/internal/ratelimit/backoff"
	"github.com/treadlight/crawl/resilience"
)

func BenchmarkExecute(b *testing.B) {
	type policy = resilience.Policy[*int]
	value := new(int)
	bind := func(v *int, end func(error)) *int { end(nil); return v }
	retry := must[*resilience.Retry[*int]](b)
	timeout := must[*resilience.Timeout[*int]](b)
	fallback := must[*resilience.Fallback[*int]](b)
	budget := must[*resilience.Budget](b)(resilience.NewBudget(resilience.BudgetConfig{}))
	total := timeout(resilience.NewTimeout(resilience.TimeoutConfig[*int]{After: time.Minute}))
	again := retry(resilience.NewRetry(resilience.RetryConfig[*int]{}))
	twice := 0
	for _, bench := range []struct {
		name string
		p    policy
		fn   func(context.Context) (*int, error)
	}{
		{"retry", again, nil},
		{"retry budget", retry(resilience.NewRetry(resilience.RetryConfig[*int]{Budget: budget})), nil},
		{
			"retry second attempt", retry(resilience.NewRetry(resilience.RetryConfig[*int]{Backoff: backoff.Constant(0)})),
			func(context.Context) (*int, error) {
				if twice++; twice%2 == 1 {
					return nil, errors.ErrUnsupported
				}
				return value, nil
			},
		},
		{"timeout", total, nil},
		{"timeout bound", timeout(resilience.NewTimeout(resilience.TimeoutConfig[*int]{After: time.Minute, Bind: bind})), nil},
		{"timeout waited for", total, func(ctx context.Context) (*int, error) { _ = ctx.Done(); return value, nil }},
		{"fallback", fallback(resilience.NewFallback(resilience.FallbackConfig[*int]{
			Action: func(context.Context, *int, error) (*int, error) { return value, nil },
		})), nil},
		{"wrap of three", resilience.Wrap[*int](total, again,
			timeout(resilience.NewTimeout(resilience.TimeoutConfig[*int]{After: time.Second}))), nil},
	} {
		b.Run(bench.name, func(b *testing.B) {
			fn := bench.fn
			if fn == nil {
				fn = func(context.Context) (*int, error) { return value, nil }
			}
			ctx := b.Context()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := bench.p.Execute(ctx, fn); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("context.WithTimeout", func(b *testing.B) { // what a light deadline is measured against
		b.ReportAllocs()
		for b.Loop() {
			_, cancel := context.WithTimeout(b.Context(), time.Minute)
			cancel()
		}
	})
}

func BenchmarkHub(b *testing.B) {
	var h resilience.Hub
	b.Run("no listeners", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if h.Wants() {
				h.Emit(resilience.RetryEvent{})
			}
		}
	})
	b.Run("a listener", func(b *testing.B) {
		defer resilience.Subscribe(&h, func(resilience.RetryEvent) {})()
		b.ReportAllocs()
		for b.Loop() {
			if h.Wants() {
				h.Emit(resilience.RetryEvent{})
			}
		}
	})
}
