package resilience_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/treadlight/crawl/internal/ratelimit/backoff"
	"github.com/treadlight/crawl/resilience"
)

func ExampleWrap() {
	total, err := resilience.NewTimeout(resilience.TimeoutConfig[string]{Name: "total", After: time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	retry, err := resilience.NewRetry(resilience.RetryConfig[string]{
		MaxAttempts: 3,
		Backoff:     backoff.Constant(time.Millisecond),
		OnRetry: func(_ string, e resilience.RetryEvent) {
			fmt.Printf("attempt %d failed: %v; last chance: %v\n", e.Attempt, e.Err, e.Last)
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	p := resilience.Wrap[string](total, retry)
	defer p.Close()

	v, err := p.Execute(context.Background(), func(ctx context.Context) (string, error) {
		if n := resilience.AttemptFrom(ctx); n < 3 {
			return "", errors.New("no answer")
		}
		return "hello", nil
	})
	fmt.Println(v, err)
	// Output:
	// attempt 1 failed: no answer; last chance: false
	// attempt 2 failed: no answer; last chance: true
	// hello <nil>
}

// Circuits that callers share by name, and their health.
func ExampleBreakers() {
	circuits, err := resilience.NewBreakers(resilience.BreakersConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	payments, err := circuits.Get("payments", resilience.BreakerConfig{Failures: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		ticket, err := payments.Allow()
		if err != nil {
			fmt.Println(err)
			return
		}
		ticket.Done(resilience.Failure)
	}
	_, err = payments.Allow()
	fmt.Println(circuits.Healthy(), errors.Is(err, resilience.ErrOpen), payments.State())
	// Output: false true open
}
