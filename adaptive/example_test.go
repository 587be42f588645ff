package adaptive_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/treadlight/crawl/adaptive"
)

func Example() {
	cfg := adaptive.DefaultConfig()
	cfg.Strategy, cfg.InitialRPS, cfg.MaxRPS = "aimd", 100, 1000
	cfg.ConsecutiveFailThreshold = 3
	limiter, err := adaptive.New(cfg)
	if err != nil {
		fmt.Println(err) // names the field and the fix
		return
	}
	for {
		permit, err := limiter.Acquire(context.Background(), "ftp.example.com")
		if errors.Is(err, adaptive.ErrCircuitOpen) {
			break // left alone for a while
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		// Here the request is made.
		limiter.Feedback("ftp.example.com", adaptive.Feedback{StatusCode: 500, Latency: time.Millisecond})
		permit.Release()
	}
	s := limiter.Snapshot()
	fmt.Println(s.Top[0].Domain, s.Top[0].State, s.Open)
	// Output: ftp.example.com open 1
}
