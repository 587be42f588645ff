package transport_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/limit"
	"github.com/treadlight/crawl/resilience"
	"github.com/treadlight/crawl/transport"
)

// noOp answers at once with a body that costs nothing, so that what is measured is the chain.
type noOp struct{ res http.Response }

func (t *noOp) RoundTrip(req *http.Request) (*http.Response, error) {
	res := t.res
	res.Request, res.Body = req, emptyBody{}
	return &res, nil
}

type emptyBody struct{}

func (emptyBody) Read([]byte) (int, error) { return 0, nil }
func (emptyBody) Close() error             { return nil }

// benchLayers is seven policies as a client would configure them, of which none acts.
func benchLayers() transport.Layers {
	bucket := must(limit.NewTokenBucket(limit.TokenBucketConfig{Permits: 1 << 30, Per: time.Millisecond}))
	return transport.Layers{
		Fallback: must(transport.NewFallback(fallbackConfig{
			When: func(res *http.Response, err error) bool { return err != nil || res.StatusCode >= 500 },
			Action: func(ctx context.Context, _ *http.Response, _ error) (*http.Response, error) {
				return transport.NewResponse(transport.RequestFrom(ctx), 200, nil, nil), nil
			},
		})),
		TotalTimeout:   must(transport.NewTimeout(resilience.TimeoutConfig[*http.Response]{After: time.Minute})),
		Retry:          must(transport.NewRetry(resilience.RetryConfig[*http.Response]{})),
		Breaker:        must(transport.NewBreaker(must(resilience.NewBreaker(resilience.BreakerConfig{})), resilience.CircuitBreakerConfig[*http.Response]{})),
		Bulkhead:       must(transport.NewBulkhead(must(resilience.NewBulkhead(resilience.BulkheadConfig{MaxConcurrency: 100})))),
		RateLimit:      must(transport.RateLimit(transport.Policy{Limiter: bucket})),
		AttemptTimeout: must(transport.NewTimeout(resilience.TimeoutConfig[*http.Response]{After: 10 * time.Second})),
	}
}

func run(b *testing.B, rt http.RoundTripper) {
	b.Helper()
	req := newRequest(b.Context(), http.MethodGet, "http://a.test/", nil)
	b.ReportAllocs()
	for b.Loop() {
		res, err := rt.RoundTrip(req)
		if err != nil {
			b.Fatal(err)
		}
		_ = res.Body.Close()
	}
}

// The whole minus the transport alone is what the chain costs.
func BenchmarkTransportAlone(b *testing.B) { run(b, &noOp{http.Response{StatusCode: http.StatusOK}}) }

func BenchmarkChainOfSeven(b *testing.B) {
	run(b, benchLayers().Chain(&noOp{http.Response{StatusCode: http.StatusOK}}))
}

// The same with the policies of the seven sections of a configuration.
func BenchmarkChainOfSevenWithHedge(b *testing.B) {
	l := benchLayers()
	hedge := must(transport.NewHedge(resilience.HedgeConfig[*http.Response]{Delay: time.Second}))
	b.Cleanup(func() { require.NoError(b, hedge.Close()) })
	l.Hedge, l.TotalTimeout = hedge, nil
	l.RateLimit = nil
	l.Isolation = must(transport.NewIsolation(must(resilience.NewIsolation(resilience.BulkheadConfig{MaxConcurrency: 100}))))
	run(b, l.Chain(&noOp{http.Response{StatusCode: http.StatusOK}}))
}
