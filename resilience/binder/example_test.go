package binder_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/treadlight/crawl/resilience"
	"github.com/treadlight/crawl/resilience/binder"
)

func ExampleBind() {
	model, err := binder.Load([]byte(`{
		"Retry": {"MaxRetries": 1, "Backoff": {"Type": "none"}},
		"CircuitBreaker": {"CircuitName": "db", "FailureThreshold": 2}
	}`))
	if err != nil {
		fmt.Println(err) // everything that is wrong, by path and line
		return
	}
	policies, err := binder.Bind(model, binder.Options[int]{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer policies.Close()
	down := errors.New("no connection")
	for range 2 {
		_, err = policies.Execute(context.Background(), func(context.Context) (int, error) { return 0, down })
		fmt.Println(errors.Is(err, down), errors.Is(err, resilience.ErrOpen))
	}
	// Output:
	// true false
	// false true
}

func ExampleLoad() {
	_, err := binder.Load([]byte(`{"Timeout": {"Second": 10}}`))
	fmt.Println(err)
	// Output: Timeout.Second: is not a setting; did you mean Seconds? [line 1]
}
