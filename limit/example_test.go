package limit_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/treadlight/crawl/limit"
)

func ExampleNew() {
	l, err := limit.New(limit.Spec{Kind: limit.KindSlidingWindowLog, Permits: 2, Per: time.Hour})
	if err != nil {
		fmt.Println(err) // names the field and the fix
		return
	}
	defer l.Close()
	fmt.Println(l.TryAcquire(), l.TryAcquire(), l.TryAcquire())
	s := l.Statistics()
	fmt.Println(s.Acquired, s.Rejected)
	// Output:
	// true true false
	// 2 1
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
	l, err := limit.NewFixedWindow(limit.WindowConfig{Permits: 1, Per: time.Minute}, limit.WithName("mails"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Close()
	l.TryAcquire()
	err = l.AcquireTimeout(ctx, 1, 0) // now or never
	var refused *limit.Error
	fmt.Println(errors.As(err, &refused), errors.Is(err, limit.ErrLimited), refused.RetryAfter > 59*time.Second)
	// Output: true true true
}
