package transport_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/treadlight/crawl/internal/fetch/resilience"
	"github.com/treadlight/crawl/internal/fetch/transport"
	"github.com/treadlight/crawl/internal/ratelimit/backoff"
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
