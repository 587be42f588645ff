package resilience_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/treadlight/crawl/resilience"
)

// Two policies around a call of any kind, and a listener that hears of each retry.
func ExampleWrap() {
	hub := &resilience.Hub{}
	resilience.Subscribe(hub, func(e resilience.RetryEvent) { fmt.Println("failed:", e.Err) })

	retry, err := resilience.NewRetry(resilience.RetryConfig[string]{
		MaxAttempts: 3, Backoff: resilience.FullJitter(time.Millisecond, time.Second), Hub: hub,
	})
	if err != nil {
		fmt.Println(err) // names the field and the fix
		return
	}
	timeout, err := resilience.NewTimeout(resilience.TimeoutConfig[string]{After: time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	policy := resilience.Wrap[string](retry, timeout)
	answer, err := policy.Execute(context.Background(), func(ctx context.Context) (string, error) {
		if resilience.AttemptFrom(ctx) < 3 {
			return "", errors.New("not yet")
		}
		return "done", nil
	})
	_ = errors.Join(policy.Close(), hub.Close()) // the events that wait are delivered
	fmt.Println(answer, err)
	// Output:
	// failed: not yet
	// failed: not yet
	// done <nil>
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
