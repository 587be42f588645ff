package classic_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/treadlight/crawl/internal/ratelimit/classic"
)

func ExampleNew() {
	l, err := classic.New(classic.Spec{Kind: classic.KindSlidingWindowLog, Permits: 2, Per: time.Hour}, classic.WithName("api"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(l.TryAcquire(), l.TryAcquire(), l.TryAcquire())

	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err = l.Acquire(ctx) // does not wait a second to find that out
	fmt.Println(errors.Is(err, classic.ErrLimited), errors.Is(err, context.DeadlineExceeded))
	// Output:
	// true true false
	// true true
}

func ExampleAll() {
	perSecond, err1 := classic.NewTokenBucket(classic.TokenBucketConfig{Permits: 10, Per: time.Second})
	perDay, err2 := classic.NewFixedWindow(classic.WindowConfig{Permits: 3, Per: 24 * time.Hour})
	both, err3 := classic.All(perSecond, perDay)
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
