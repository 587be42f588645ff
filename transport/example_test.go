package transport_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/treadlight/crawl/limit"
	"github.com/treadlight/crawl/transport"
)

// A client that asks no more than a limiter lets pass, and waits as servers ask.
func ExampleRateLimit() {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()

	bucket, err := limit.NewTokenBucket(limit.TokenBucketConfig{Permits: 1, Per: time.Hour, Burst: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer bucket.Close()
	paced, err := transport.RateLimit(transport.Policy{
		Limiter: bucket, AcquireTimeout: time.Second, RespectServerHeaders: true,
		OnRejected: func(req *http.Request, _ error) { fmt.Println("rejected:", req.Method) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	client := http.Client{Transport: transport.Chain(http.DefaultTransport, paced)}
	for range 3 {
		res, err := client.Get(server.URL)
		if err != nil {
			fmt.Println(errors.Is(err, limit.ErrLimited))
			continue
		}
		res.Body.Close()
		fmt.Println(res.StatusCode)
	}
	// Output:
	// 404
	// 404
	// rejected: GET
	// true
}
