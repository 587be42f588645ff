package transport_test

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/ratelimit/backoff"
	"github.com/treadlight/crawl/internal/ratelimit/header"
	"github.com/treadlight/crawl/limit"
	"github.com/treadlight/crawl/resilience"
	"github.com/treadlight/crawl/transport"
)

func limited(p transport.Policy, base http.RoundTripper) http.RoundTripper {
	return transport.Layers{RateLimit: must(transport.RateLimit(p))}.Chain(base)
}

func slots(n int64) *limit.Concurrency {
	return must(limit.NewConcurrency(limit.ConcurrencyConfig{Max: n}))
}

// A permit that was granted comes back exactly once, however the request ends.
func TestRateLimitReleasesExactlyOnce(t *testing.T) {
	broken := errors.New("broken")
	for name, tc := range map[string]struct {
		base stub
		use  func(*http.Response)
	}{
		"at the body's end": {always(200, "page"), func(res *http.Response) { read(res) }},
		"when it is closed": {always(200, "page"), func(res *http.Response) { _ = res.Body.Close(); _ = res.Body.Close() }},
		"without a body": {func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusNoContent}, nil
		}, func(*http.Response) {}},
		"at an error": {func(*http.Request) (*http.Response, error) { return nil, broken }, nil},
		"at a panic":  {func(*http.Request) (*http.Response, error) { panic("base") }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			l := slots(1)
			func() {
				defer func() { _ = recover() }()
				res, err := limited(transport.Policy{Limiter: l}, tc.base).RoundTrip(get(t, "http://a.test/"))
				if tc.use == nil {
					require.ErrorIs(t, err, broken)
					return
				}
				require.NoError(t, err)
				tc.use(res)
			}()
			s := l.Statistics()
			require.EqualValues(t, 1, s.Acquired)
			require.Zero(t, s.InUse)
			require.Zero(t, s.OverReleased)
		})
	}
}

// What was never granted is never released, and says why it was refused.
func TestRateLimitRefuses(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, tc := range map[string]struct {
		ctx     context.Context
		timeout time.Duration
		after   time.Duration
		want    error
		told    bool
	}{
		"now or never":       {context.Background(), transport.NowOrNever, 0, limit.ErrLimited, true},
		"after a timeout":    {context.Background(), time.Second, time.Second, limit.ErrLimited, true},
		"a cancelled caller": {cancelled, 0, 0, context.Canceled, false},
	} {
		inBubble(t, name, func(t *testing.T) {
			l := slots(1)
			require.True(t, l.TryAcquire())
			var told []error
			hub := &resilience.Hub{}
			defer hub.Close()
			var events int
			resilience.Subscribe(hub, func(e resilience.RateLimitedEvent) {
				events++
				require.Equal(t, "a.test", e.Key)
			})
			rt := limited(transport.Policy{
				Limiter: l, AcquireTimeout: tc.timeout, Hub: hub,
				OnRejected: func(req *http.Request, err error) {
					require.Equal(t, "/p", req.URL.Path)
					told = append(told, err)
				},
			}, always(200, "page"))
			start := time.Now()
			sent := body("form")
			_, err := rt.RoundTrip(newRequest(tc.ctx, http.MethodPost, "http://a.test/p", sent))
			require.ErrorIs(t, err, tc.want)
			var rejected *transport.RejectedError
			require.ErrorAs(t, err, &rejected)
			require.Equal(t, "a.test", rejected.Host)
			require.Equal(t, tc.after, time.Since(start))
			require.Positive(t, sent.closed.Load())
			require.EqualValues(t, 1, l.Statistics().InUse)
			synctest.Wait()
			if tc.told {
				require.Equal(t, []error{err}, told)
				require.Equal(t, 1, events)
			} else {
				require.Empty(t, told)
			}
		})
	}
}

func TestRateLimitPacesRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bucket := must(limit.NewTokenBucket(limit.TokenBucketConfig{Permits: 1, Per: time.Second}))
		rt := limited(transport.Policy{Limiter: bucket}, always(200, "page"))
		start := time.Now()
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() { do(t, rt, get(t, "http://a.test/")) })
		}
		wg.Wait()
		require.Equal(t, 4*time.Second, time.Since(start))

		_, err := limited(transport.Policy{Limiter: bucket, AcquireTimeout: transport.NowOrNever}, always(200, "page")).RoundTrip(get(t, "http://a.test/"))
		require.EqualError(t, err, "request to a.test not sent: "+errors.Unwrap(err).Error()+" (again in 1s)")
	})
}

// ordering answers with this status and header, and then well.
func ordering(status int, h http.Header) stub {
	n := 0
	return func(req *http.Request) (*http.Response, error) {
		if n++; n == 1 {
			return transport.NewResponse(req, status, h, nil), nil
		}
		return transport.NewResponse(req, 200, nil, nil), nil
	}
}

// later answers with an order to wait for half a minute, and then well.
func later() stub { return ordering(429, http.Header{"Retry-After": {"30"}}) }

func TestRateLimitRespectsServers(t *testing.T) {
	for name, tc := range map[string]struct {
		status int
		header http.Header
		want   time.Duration
	}{
		"an order to wait":          {429, http.Header{"Retry-After": {"30"}}, 30 * time.Second},
		"an order with a redirect":  {301, http.Header{"Retry-After": {"30"}}, 0},
		"one with a 404":            {404, http.Header{"Retry-After": {"30"}}, 0},
		"one with a 403":            {403, http.Header{"Retry-After": {"30"}}, 0},
		"one with a 420":            {420, http.Header{"Retry-After": {"30"}}, 30 * time.Second},
		"one with a 507":            {507, http.Header{"Retry-After": {"30"}}, 30 * time.Second},
		"one on a good answer":      {200, http.Header{"Retry-After": {"30"}}, 0},
		"an absurd one":             {503, http.Header{"Retry-After": {"999999999999"}}, time.Minute},
		"a quota used up":           {200, http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"7"}}, 7 * time.Second},
		"a standard quota used up":  {200, http.Header{"Ratelimit": {`"burst";r=0;t=9`}}, 9 * time.Second},
		"a quota with room":         {200, http.Header{"X-Ratelimit-Remaining": {"1"}, "X-Ratelimit-Reset": {"7"}}, 0},
		"the later of the two":      {429, http.Header{"Retry-After": {"5"}, "Ratelimit": {`"burst";r=0;t=9`}}, 9 * time.Second},
		"an order that is not read": {429, http.Header{"Retry-After": {"soon"}}, 0},
	} {
		inBubble(t, name, func(t *testing.T) {
			for _, respect := range []bool{false, true} {
				rt := limited(transport.Policy{Limiter: slots(9), RespectServerHeaders: respect, MaxRetryAfter: time.Minute}, ordering(tc.status, tc.header))
				start := time.Now()
				do(t, rt, get(t, "http://a.test/"))
				do(t, rt, get(t, "http://b.test/"))
				require.Zero(t, time.Since(start), "another host has ordered nothing")
				do(t, rt, get(t, "http://A.test/"))
				require.Equal(t, map[bool]time.Duration{true: tc.want}[respect], time.Since(start))
			}
		})
	}
}

// The target of a redirect waits for what that asked for, once, however many layers know of
// it, and nothing else does.
func TestRedirectsOrderTheirTargetsToWait(t *testing.T) {
	for name, layers := range map[string]func() http.RoundTripper{
		"the engine": func() http.RoundTripper { return polite(&engine{}, moving(30)) },
		"a policy": func() http.RoundTripper {
			return limited(transport.Policy{Limiter: slots(9), RespectServerHeaders: true}, moving(30))
		},
		"both": func() http.RoundTripper {
			return limited(transport.Policy{Limiter: slots(9), RespectServerHeaders: true}, polite(&engine{}, moving(30)))
		},
		"tried again": func() http.RoundTripper {
			return retrying(retryConfig{MaxAttempts: 3, Backoff: backoff.Constant(time.Second)}, polite(&engine{}, moving(28)))
		},
	} {
		inBubble(t, name, func(t *testing.T) {
			c := &http.Client{Transport: layers()}
			start := time.Now()
			res := must(c.Get("http://a.test/from"))
			require.NoError(t, res.Body.Close())
			require.Equal(t, http.StatusOK, res.StatusCode)
			require.Equal(t, 30*time.Second, time.Since(start))
			res = must(c.Get("http://a.test/other"))
			require.NoError(t, res.Body.Close())
			require.Equal(t, 30*time.Second, time.Since(start))

			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			_, err := c.Do(get(t, "http://a.test/from").WithContext(ctx))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, 30*time.Second, time.Since(start), "at once")
		})
	}
}

// moving sends /from to /to, which asks for a try after so many seconds, and of less than 30 seconds fails twice.
func moving(seconds int) stub {
	fails := 0
	if seconds < 30 {
		fails = 2
	}
	return func(req *http.Request) (*http.Response, error) {
		switch {
		case req.URL.Path == "/from":
			h := http.Header{"Location": {"/to"}, "Retry-After": {strconv.Itoa(seconds)}}
			return transport.NewResponse(req, http.StatusFound, h, nil), nil
		case req.URL.Path == "/to" && fails > 0:
			fails--
			return transport.NewResponse(req, http.StatusBadGateway, nil, nil), nil
		}
		return transport.NewResponse(req, http.StatusOK, nil, nil), nil
	}
}

// An order that the caller has no time for fails at once; it tells of the time to come back.
func TestRateLimitHoldFailsAtOnce(t *testing.T) {
	for name, timeout := range map[string]time.Duration{"a deadline": 0, "a timeout": 10 * time.Second, "now or never": transport.NowOrNever} {
		inBubble(t, name, func(t *testing.T) {
			l := slots(9)
			rt := limited(transport.Policy{Limiter: l, RespectServerHeaders: true, AcquireTimeout: timeout}, later())
			ctx := t.Context()
			if timeout == 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, 20*time.Second)
				defer cancel()
			}
			start := time.Now()
			do(t, rt, get(t, "http://a.test/"))
			_, err := rt.RoundTrip(newRequest(ctx, http.MethodGet, "http://a.test/", nil))
			var rejected *transport.RejectedError
			require.ErrorAs(t, err, &rejected)
			require.ErrorIs(t, err, limit.ErrLimited)
			require.Equal(t, timeout == 0, errors.Is(err, context.DeadlineExceeded))
			require.Equal(t, 30*time.Second, rejected.RetryAfter)
			require.Zero(t, time.Since(start))
			require.Zero(t, l.Statistics().InUse)
		})
	}
}

// An order that comes while a request waits for its permit holds that one too.
func TestRateLimitHoldsWhoWaitsAlready(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := slots(1)
		rt := limited(transport.Policy{Limiter: l, RespectServerHeaders: true}, later())
		require.True(t, l.TryAcquire()) // somebody else's
		start := time.Now()
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { do(t, rt, get(t, "http://a.test/")) })
		}
		synctest.Wait()
		l.Release()
		wg.Wait()
		require.Equal(t, 30*time.Second, time.Since(start))
		require.Zero(t, l.Statistics().OverReleased)
	})
}

// Of two orders the later holds, in whichever order they came.
func TestRateLimitKeepsTheLaterOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := make(chan string)
		rt := limited(transport.Policy{Limiter: slots(9), RespectServerHeaders: true}, stub(func(req *http.Request) (*http.Response, error) {
			return transport.NewResponse(req, 429, http.Header{"Retry-After": {<-answers}}, nil), nil
		}))
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { do(t, rt, get(t, "http://a.test/")) })
		}
		synctest.Wait() // both are under way
		answers <- "30"
		synctest.Wait()
		answers <- "5"
		wg.Wait()
		start := time.Now()
		wg.Go(func() { do(t, rt, get(t, "http://a.test/")) })
		answers <- "0"
		wg.Wait()
		require.Equal(t, 30*time.Second, time.Since(start))
	})
}

func TestRateLimitHoldEndsWithTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := limited(transport.Policy{Limiter: slots(9), RespectServerHeaders: true}, later())
		do(t, rt, get(t, "http://a.test/"))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		start := time.Now()
		_, err := rt.RoundTrip(newRequest(ctx, http.MethodGet, "http://a.test/", nil))
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, time.Second, time.Since(start))
	})
}

// The orders that are kept are bounded. That of the host asked longest ago is forgotten.
func TestRateLimitForgetsOrders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := map[string]int{}
		rt := limited(transport.Policy{Limiter: slots(9), RespectServerHeaders: true, AcquireTimeout: transport.NowOrNever},
			stub(func(req *http.Request) (*http.Response, error) {
				asked[req.URL.Host]++
				return transport.NewResponse(req, 429, http.Header{"Retry-After": {req.URL.Query().Get("s")}}, nil), nil
			}))
		ask := func(host string, seconds int) error {
			res, err := rt.RoundTrip(get(t, "http://"+host+"/?s="+strconv.Itoa(seconds)))
			if err == nil {
				read(res)
			}
			return err
		}
		for i := range 4096 {
			require.NoError(t, ask("h"+strconv.Itoa(i)+".test", 100+i))
		}
		require.ErrorIs(t, ask("h0.test", 1), limit.ErrLimited)
		require.NoError(t, ask("new.test", 5000))
		require.NoError(t, ask("h1.test", 50), "was forgotten")
		require.ErrorIs(t, ask("h0.test", 1), limit.ErrLimited)
		time.Sleep(2 * time.Hour)
		require.NoError(t, ask("newer.test", 10))
		require.NoError(t, ask("h2.test", 10))
	})
}

func TestHints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []transport.Hint
		hints := must(transport.Hints(transport.HintsConfig{OnHint: func(h transport.Hint) { told = append(told, h) }, MaxRetryAfter: time.Minute}))
		answers := []http.Header{
			{"Retry-After": {"3600"}}, {}, {"X-Ratelimit-Limit": {"10"}, "X-Ratelimit-Remaining": {"3"}, "X-Ratelimit-Reset": {"90"}},
		}
		status := []int{503, 503, 200}
		n := 0
		layers := transport.Layers{Hints: hints, Retry: must(transport.NewRetry(retryConfig{MaxRetryAfter: time.Second}))}
		do(t, layers.Chain(stub(func(req *http.Request) (*http.Response, error) {
			n++
			return transport.NewResponse(req, status[n-1], answers[n-1], nil), nil
		})), get(t, "https://A.test:443/"))
		require.Len(t, told, 2, "those that were retried away are told too")
		require.False(t, told[1].At.Before(told[0].At.Add(time.Second)))
		told[0].At, told[1].At = time.Time{}, time.Time{}
		require.Equal(t, []transport.Hint{
			{Host: "a.test", Status: 503, RetryAfter: time.Minute},
			{Host: "a.test", Status: 200, Quota: header.Quota{Limit: 10, Remaining: 3, Reset: time.Minute}},
		}, told)
	})
}

// A cap of all there is must not make an instant in the past of what a server asks.
func TestRateLimitHoldsForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asks := http.Header{"Retry-After": {"99999999999999"}}
		rt := limited(transport.Policy{
			Limiter: slots(1), RespectServerHeaders: true, AcquireTimeout: transport.NowOrNever, MaxRetryAfter: math.MaxInt64,
		}, stub(func(req *http.Request) (*http.Response, error) {
			return transport.NewResponse(req, http.StatusServiceUnavailable, asks, nil), nil
		}))
		time.Sleep(time.Second)
		do(t, rt, get(t, "http://a.test/"))
		_, err := rt.RoundTrip(get(t, "http://a.test/"))
		require.ErrorIs(t, err, limit.ErrLimited)
	})
}
