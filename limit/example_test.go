package limit_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/treadlight/crawl/limit"
)

func ExampleNew() {
	l, err := limit.New(limit.Spec{Kind: limit.KindSlidingWindowLog, Permits: 2, Per: time.Hour}, limit.WithName("api"))
	if err != nil {
		fmt.Println(err) // names the field and the fix
		return
	}
	defer l.Close()
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
	perDay, err2 := limit.New(limit.Spec{Kind: limit.KindFixedWindow, Permits: 3, Per: 24 * time.Hour})
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

func ExampleNewKeyed() {
	perUser, err := limit.NewKeyed(limit.KeyedConfig[string]{
		Limit: limit.Spec{Permits: 1, Per: time.Hour}, MaxKeys: 10_000, Overflow: limit.OverflowDeny,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer perUser.Close()
	fmt.Println(perUser.TryAcquire("ann"), perUser.TryAcquire("bob"), perUser.TryAcquire("ann"))
	// Output: true true false
}

func ExampleError() {
	l, err := limit.New(limit.Spec{Kind: limit.KindFixedWindow, Permits: 1, Per: time.Minute}, limit.WithName("mails"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Close()
	l.TryAcquire()
	err = l.AcquireTimeout(context.Background(), 1, 0) // now or never
	var refused *limit.Error
	fmt.Println(errors.As(err, &refused), errors.Is(err, limit.ErrLimited), refused.RetryAfter > 59*time.Second)
	// Output: true true true
}
