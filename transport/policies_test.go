package transport_test

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/ratelimit/backoff"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
	"github.com/treadlight/crawl/resilience"
	"github.com/treadlight/crawl/transport"
)

type (
	timeoutConfig  = resilience.TimeoutConfig[*http.Response]
	fallbackConfig = resilience.FallbackConfig[*http.Response]
	breakerPolicy  = resilience.CircuitBreakerConfig[*http.Response]
)

func stalling(w http.ResponseWriter, r *http.Request) {
	_, _ = io.WriteString(w, "half")
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

func TestAttemptTimeoutCutsAStalledBody(t *testing.T) {
	inMemory(t, stalling, func(t *testing.T, base *http.Transport) {
		hub := &resilience.Hub{}
		defer hub.Close()
		var told atomic.Int32
		resilience.Subscribe(hub, func(resilience.TimeoutEvent) { told.Add(1) })
		p := must(transport.NewTimeout(timeoutConfig{After: 100 * time.Millisecond, Hub: hub}))
		start := time.Now()
		res := must(transport.Layers{AttemptTimeout: p}.Chain(base).RoundTrip(get(t, "http://a.test/")))
		require.Zero(t, time.Since(start), "the header came in time")
		b, err := io.ReadAll(res.Body)
		require.Equal(t, "half", string(b))
		require.ErrorIs(t, err, resilience.ErrTimeout)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 100*time.Millisecond, time.Since(start))
		require.NoError(t, res.Body.Close())
		synctest.Wait()
		require.EqualValues(t, 1, told.Load())
	})
}

func breaking(base http.RoundTripper) (*resilience.Breaker, http.RoundTripper) {
	core := must(resilience.NewBreaker(resilience.BreakerConfig{Failures: 2}))
	return core, transport.Layers{Breaker: must(transport.NewBreaker(core, breakerPolicy{}))}.Chain(base)
}

// An answer that looks good is one when its body has ended well; a status that decides is not made worse by its body.
func TestBreakerCountsOverloadOnly(t *testing.T) {
	for _, tc := range []struct {
		status int
		err    error // of the body, if there is a status
		want   breaker.State
	}{
		{200, nil, breaker.Closed},
		{200, io.ErrUnexpectedEOF, breaker.Open},
		{404, nil, breaker.Closed},
		{404, io.ErrUnexpectedEOF, breaker.Closed},
		{429, nil, breaker.Open},
		{500, nil, breaker.Open},
		{503, nil, breaker.Open},
		{0, io.ErrUnexpectedEOF, breaker.Open},
		{0, &resilience.TimeoutError{After: time.Second}, breaker.Open},
		{0, context.Canceled, breaker.Closed},
		{0, errors.New("no HTTP"), breaker.Closed},
		{0, &transport.RejectedError{Err: context.DeadlineExceeded}, breaker.Closed},
		{0, &resilience.BulkheadError{}, breaker.Closed},
	} {
		core, rt := breaking(stub(func(*http.Request) (*http.Response, error) {
			if tc.status == 0 {
				return nil, tc.err
			}
			return &http.Response{StatusCode: tc.status, Body: &tracked{Reader: brokenReader{strings.NewReader("pa"), cmp.Or(tc.err, io.EOF)}}}, nil
		}))
		for range 2 {
			if res, err := rt.RoundTrip(get(t, "http://a.test/")); err == nil {
				_, err = io.ReadAll(res.Body)
				require.ErrorIs(t, err, tc.err)
			}
		}
		require.Equal(t, tc.want, core.State(), "%d, %v", tc.status, tc.err)
		if tc.want == breaker.Open {
			sent := body("form")
			_, err := rt.RoundTrip(newRequest(t.Context(), http.MethodPost, "http://a.test/", sent))
			require.ErrorIs(t, err, resilience.ErrOpen)
			require.Positive(t, sent.closed.Load())
		}
	}
}

func TestBulkheadIsPerChainAndIsolationPerHost(t *testing.T) {
	bulkhead := transport.Layers{Bulkhead: must(transport.NewBulkhead(must(resilience.NewBulkhead(resilience.BulkheadConfig{MaxConcurrency: 1}))))}.Chain(always(200, "page"))
	isolation := transport.Layers{Isolation: must(transport.NewIsolation(must(resilience.NewIsolation(resilience.BulkheadConfig{MaxConcurrency: 1}))))}.Chain(always(200, "page"))
	for _, tc := range []struct {
		rt        http.RoundTripper
		url       string
		sameAs    string
		forbidden bool
	}{
		{bulkhead, "http://a.test/", "http://a.test/2", true},
		{bulkhead, "http://a.test/", "http://b.test/", true},
		{isolation, "http://a.test/", "https://A.test:443/2", true},
		{isolation, "http://a.test/", "http://b.test/", false},
		{isolation, "http://a.test/", "http://a.test:8080/", false},
	} {
		first := must(tc.rt.RoundTrip(get(t, tc.url)))
		second, err := tc.rt.RoundTrip(get(t, tc.sameAs))
		if tc.forbidden {
			require.ErrorIs(t, err, resilience.ErrBulkheadFull, tc.sameAs)
		} else {
			require.NoError(t, err, tc.sameAs)
			require.Equal(t, "page", read(second))
		}
		require.Equal(t, "page", read(first))
		_, page := do(t, tc.rt, get(t, tc.sameAs)) // the place is free again
		require.Equal(t, "page", page)
	}
}

func TestFallback(t *testing.T) {
	under := body("page")
	rt := transport.Layers{Fallback: must(transport.NewFallback(fallbackConfig{
		When: func(res *http.Response, err error) bool {
			return err == nil && res.StatusCode == http.StatusServiceUnavailable
		},
		Action: func(ctx context.Context, _ *http.Response, _ error) (*http.Response, error) {
			req := transport.RequestFrom(ctx)
			return transport.NewResponse(req, 203, nil, []byte("cached for "+req.URL.Path)), nil
		},
	}))}.Chain(stub(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: under}, nil
	}))
	_, page := do(t, rt, get(t, "http://a.test/p"))
	require.Equal(t, "cached for /p", page)
	require.Positive(t, under.closed.Load(), "what was replaced is closed")
}

// The seven policies together bring a request through a bad network, and hold nothing.
func TestWholeChainOnABadNetwork(t *testing.T) {
	var n atomic.Int32
	inMemory(t, func(w http.ResponseWriter, r *http.Request) {
		switch n.Add(1) {
		case 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 2:
			<-r.Context().Done() // until the attempt's time is up
		default:
			_, _ = io.WriteString(w, "page")
		}
	}, func(t *testing.T, base *http.Transport) {
		layers, c := everyLayer(t)
		layers.AttemptTimeout = must(transport.NewTimeout(timeoutConfig{After: time.Second}))
		layers.Retry = must(transport.NewRetry(retryConfig{Backoff: backoff.Constant(time.Second)}))
		start := time.Now()
		res := must(layers.Chain(base).RoundTrip(get(t, "http://a.test/")))
		require.Equal(t, 2, transport.Attempts(res))
		require.EqualValues(t, 3, n.Load(), "the hedge of the second attempt was the third request")
		require.EqualValues(t, 1, c.held())
		require.Equal(t, "page", read(res))
		require.Equal(t, 2*time.Second, time.Since(start))
		require.Zero(t, c.held())
		require.Zero(t, c.overReleased())
	})
}
