package transport_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/treadlight/crawl/internal/ratelimit/backoff"
	"github.com/treadlight/crawl/limit"
	"github.com/treadlight/crawl/resilience"
	"github.com/treadlight/crawl/transport"
)

// A client that survives a server which is busy now and then.
func Example() {
	retry, err := transport.NewRetry(resilience.RetryConfig[*http.Response]{MaxAttempts: 3, Backoff: backoff.Constant(0)})
	if err != nil {
		fmt.Println(err)
		return
	}
	timeout, err := transport.NewTimeout(resilience.TimeoutConfig[*http.Response]{After: 10 * time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	layers := transport.Layers{Retry: retry, AttemptTimeout: timeout}
	fmt.Println(strings.Join(layers.Order(), ", "))

	busy := 2
	server := stub(func(req *http.Request) (*http.Response, error) {
		if busy--; busy >= 0 {
			return transport.NewResponse(req, http.StatusServiceUnavailable, nil, nil), nil
		}
		return transport.NewResponse(req, http.StatusOK, nil, []byte("hello")), nil
	})
	client := &http.Client{Transport: layers.Chain(server)}
	res, err := client.Get("http://a.test/")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer res.Body.Close()
	page, err := io.ReadAll(res.Body)
	fmt.Println(res.StatusCode, string(page), transport.Attempts(res), err)
	// Output:
	// retry, attempt timeout
	// 200 hello 3 <nil>
}

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
