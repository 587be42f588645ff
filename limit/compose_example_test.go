package limit_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/treadlight/crawl/limit"
)

func ExampleNew_deadline() {
	l, err := limit.New(limit.Spec{Kind: limit.KindSlidingWindowLog, Permits: 2, Per: time.Hour}, limit.WithName("api"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(l.TryAcquire(), l.TryAcquire(), l.TryAcquire())

	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err = l.Acquire(ctx) // does not wait a second to find that out
	fmt.Println(errors.Is(err, limit.ErrLimited), errors.Is(err, context.DeadlineExceeded))
	// Output:
	// true true false
	// true true
}

func ExampleAll() {
	perSecond, err1 := limit.NewTokenBucket(limit.TokenBucketConfig{Permits: 10, Per: time.Second})
	perDay, err2 := limit.NewFixedWindow(limit.WindowConfig{Permits: 3, Per: 24 * time.Hour})
	both, err3 := limit.All(perSecond, perDay)
	if err := errors.Join(err1, err2, err3); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(both.TryAcquireN(3), both.TryAcquire())
	fmt.Println(perSecond.Statistics().Acquired, "of ten taken: what the day refuses costs the second nothing")
	// Output:
	// true false
	// 3 of ten taken: what the day refuses costs the second nothing
}
