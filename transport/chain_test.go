package transport_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/ratelimit/backoff"
	"github.com/treadlight/crawl/limit"
	"github.com/treadlight/crawl/resilience"
	"github.com/treadlight/crawl/transport"
)

type counts struct {
	limiter   *limit.Concurrency
	bulkhead  *resilience.Bulkhead
	isolation *resilience.Isolation
	breaker   *resilience.Breaker
	host      string // that is asked
}

// held is how many permits and places are out. Every layer has the same view of it.
func (c *counts) held() int64 {
	n := c.limiter.Statistics().InUse
	if c.bulkhead.Statistics().InUse != n || c.isolation.Statistics(c.host).InUse != n {
		return -1
	}
	return n
}

func (c *counts) overReleased() uint64 {
	return c.limiter.Statistics().OverReleased + c.bulkhead.Statistics().OverReleased + c.isolation.Statistics(c.host).OverReleased
}

// everyLayer is a chain of all there are, none of which has reason to act by itself.
func everyLayer(t testing.TB) (transport.Layers, *counts) {
	t.Helper()
	c := &counts{
		host:      "a.test",
		limiter:   must(limit.NewConcurrency(limit.ConcurrencyConfig{Max: 10})),
		bulkhead:  must(resilience.NewBulkhead(resilience.BulkheadConfig{MaxConcurrency: 10})),
		isolation: must(resilience.NewIsolation(resilience.BulkheadConfig{MaxConcurrency: 10})),
		breaker:   must(resilience.NewBreaker(resilience.BreakerConfig{})),
	}
	hedge := must(transport.NewHedge(resilience.HedgeConfig[*http.Response]{Delay: time.Hour}))
	l := transport.Layers{
		Fallback: must(transport.NewFallback(fallbackConfig{
			When: func(res *http.Response, err error) bool { return err == nil && res.StatusCode == 599 },
			Action: func(context.Context, *http.Response, error) (*http.Response, error) {
				return nil, errors.New("no replacement")
			},
		})),
		Log:            transport.Log(transport.LogConfig{Logger: slog.New(slog.DiscardHandler)}),
		TotalTimeout:   must(transport.NewTimeout(resilience.TimeoutConfig[*http.Response]{After: time.Hour})),
		Retry:          must(transport.NewRetry(resilience.RetryConfig[*http.Response]{MaxAttempts: 1})),
		Hedge:          hedge,
		Breaker:        must(transport.NewBreaker(c.breaker, resilience.CircuitBreakerConfig[*http.Response]{})),
		Isolation:      must(transport.NewIsolation(c.isolation)),
		Bulkhead:       must(transport.NewBulkhead(c.bulkhead)),
		RateLimit:      must(transport.RateLimit(transport.Policy{Limiter: c.limiter, RespectServerHeaders: true})),
		AttemptTimeout: must(transport.NewTimeout(resilience.TimeoutConfig[*http.Response]{After: time.Hour})),
		Hints:          must(transport.Hints(transport.HintsConfig{OnHint: func(transport.Hint) {}})),
	}
	t.Cleanup(func() { require.NoError(t, hedge.Close()) })
	return l, c
}

func TestEveryLayerHoldsUntilTheBodyEnds(t *testing.T) {
	layers, c := everyLayer(t)
	rt := layers.Chain(always(200, "page"))
	for name, use := range map[string]func(*http.Response) error{
		"read":   func(res *http.Response) error { _, err := io.ReadAll(res.Body); return err },
		"closed": func(res *http.Response) error { return res.Body.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			res := must(rt.RoundTrip(get(t, "http://a.test/")))
			require.EqualValues(t, 1, c.held())
			require.NoError(t, res.Request.Context().Err(), "the context lives as long as the body")
			require.NoError(t, use(res))
			require.Zero(t, c.held())
			require.Error(t, res.Request.Context().Err())
			require.NoError(t, res.Body.Close())
		})
	}
	require.Zero(t, c.overReleased())
}

// Nothing stays taken when a transport panics, and the panic goes on.
func TestEveryLayerSurvivesPanic(t *testing.T) {
	layers, c := everyLayer(t)
	for name, rt := range map[string]http.RoundTripper{
		"whole": layers.Chain(stub(func(*http.Request) (*http.Response, error) { panic("base") })),
		"page":  layers.PageChain(stub(func(*http.Request) (*http.Response, error) { panic("base") })),
	} {
		t.Run(name, func(t *testing.T) {
			require.Panics(t, func() {
				res, err := rt.RoundTrip(get(t, "http://a.test/"))
				t.Errorf("returned %v, %v", res, err)
			})
			require.Zero(t, c.held())
		})
	}
	require.Zero(t, c.overReleased())
	require.Zero(t, c.breaker.Snapshot().Failures, "a panic is no classification")
}

// oneLayer is every middleware by itself, twice where it can refuse.
func oneLayer(t *testing.T) map[string]transport.Middleware {
	t.Helper()
	l, _ := everyLayer(t)
	full := must(limit.NewConcurrency(limit.ConcurrencyConfig{Max: 1}))
	require.True(t, full.TryAcquire())
	open := must(resilience.NewBreaker(resilience.BreakerConfig{}))
	open.Isolate()
	closed := must(transport.NewTimeout(resilience.TimeoutConfig[*http.Response]{After: time.Second}))
	require.NoError(t, closed.Close())
	closedRetry := must(transport.NewRetry(resilience.RetryConfig[*http.Response]{}))
	require.NoError(t, closedRetry.Close())
	closedHedge := must(transport.NewHedge(resilience.HedgeConfig[*http.Response]{}))
	require.NoError(t, closedHedge.Close())
	return map[string]transport.Middleware{
		"fallback": transport.ApplyPerRequest(l.Fallback), "log": l.Log, "timeout": transport.Apply(l.TotalTimeout),
		"retry": transport.Repeat(l.Retry), "hedge": transport.Repeat(l.Hedge), "breaker": transport.Apply(l.Breaker),
		"isolation": transport.ApplyPerRequest(l.Isolation), "bulkhead": transport.Apply(l.Bulkhead),
		"rate limit": l.RateLimit, "hints": l.Hints, "polite": must(transport.Polite(transport.PoliteConfig{Limiter: &engine{}})),
		"refusing rate limit": must(transport.RateLimit(transport.Policy{Limiter: full, AcquireTimeout: transport.NowOrNever})),
		"refusing breaker":    transport.Apply(must(transport.NewBreaker(open, resilience.CircuitBreakerConfig[*http.Response]{}))),
		"refusing polite":     must(transport.Polite(transport.PoliteConfig{Limiter: &engine{err: errors.New("no permit")}})),
		"closed timeout":      transport.Apply(closed), "closed retry": transport.Repeat(closedRetry), "closed hedge": transport.Repeat(closedHedge),
	}
}

// The rules of http.RoundTripper hold in every layer, whatever becomes of the request.
func TestEveryLayerKeepsTheRulesOfRoundTripper(t *testing.T) {
	broken := errors.New("broken")
	both := body("page")
	bases := map[string]func(*http.Request) (*http.Response, error){
		"answers":       always(200, "page"),
		"fails":         func(*http.Request) (*http.Response, error) { return nil, broken },
		"gives both":    func(*http.Request) (*http.Response, error) { return response(both), broken },
		"gives neither": func(*http.Request) (*http.Response, error) { return nil, nil },
		"gives no body": func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusNoContent}, nil
		},
		"gives no request": func(*http.Request) (*http.Response, error) { return response(body("page")), nil },
	}
	for layer, wrap := range oneLayer(t) {
		for base, answer := range bases {
			for _, method := range []string{http.MethodGet, http.MethodPost} {
				t.Run(layer+" around one that "+base+" to "+method, func(t *testing.T) {
					sent := body("form")
					req := newRequest(t.Context(), method, "http://a.test/?token=1", sent)
					req.GetBody = func() (io.ReadCloser, error) { return body("form"), nil }
					req.Header.Set("Cookie", "id=1")
					before, header := *req, req.Header.Clone()

					res, err := transport.Chain(stub(answer), wrap).RoundTrip(req)

					require.Equal(t, res == nil, err != nil, "a response or an error: %v, %v", res, err)
					if res != nil {
						require.NotNil(t, res.Body)
						require.NotNil(t, res.Request)
						require.NoError(t, res.Body.Close())
					}
					require.Positive(t, sent.closed.Load(), "the request's body is closed")
					require.Equal(t, header, req.Header)
					require.Same(t, sent, req.Body)
					require.Equal(t, before.Context(), req.Context())
					require.Equal(t, before.URL, req.URL)
				})
			}
		}
	}
	require.Positive(t, both.closed.Load(), "what comes beside an error is closed")
}

func TestEveryLayerRefusesACancelledRequest(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	layers, c := everyLayer(t)
	sent := body("form")
	rt := layers.Chain(stub(func(req *http.Request) (*http.Response, error) { return nil, req.Context().Err() }))
	_, err := rt.RoundTrip(newRequest(ctx, http.MethodPost, "http://a.test/", sent))
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, c.held())
	require.Positive(t, sent.closed.Load())
}

// The order is pinned: each layer sees what those inside of it have made of a request.
func TestDefaultOrder(t *testing.T) {
	layers, _ := everyLayer(t)
	var seen []string
	note := func(name string) transport.Middleware {
		return func(next http.RoundTripper) http.RoundTripper {
			return stub(func(req *http.Request) (*http.Response, error) {
				seen = append(seen, name)
				return next.RoundTrip(req)
			})
		}
	}
	noted := transport.Layers{
		Fallback: spy{layers.Fallback, "fallback", &seen}, TotalTimeout: spy{layers.TotalTimeout, "total timeout", &seen},
		Retry: spy{layers.Retry, "retry", &seen}, Hedge: spy{layers.Hedge, "hedge", &seen},
		Breaker: spy{layers.Breaker, "breaker", &seen}, Isolation: spy{layers.Isolation, "isolation", &seen},
		Bulkhead: spy{layers.Bulkhead, "bulkhead", &seen}, AttemptTimeout: spy{layers.AttemptTimeout, "attempt timeout", &seen},
		Log: note("log"), RateLimit: note("rate limit"), Hints: note("hints"),
	}
	whole := []string{
		"fallback", "log", "total timeout", "retry", "hedge", "breaker", "isolation", "bulkhead", "rate limit", "attempt timeout", "hints",
	}
	do(t, noted.Chain(always(200, "page")), get(t, "http://a.test/"))
	require.Equal(t, whole, seen)
	require.Equal(t, whole, noted.Order())
	require.Equal(t, []string{"log"}, transport.Layers{Log: note("log")}.Order())

	seen = nil
	do(t, noted.PageChain(always(200, "page")), get(t, "http://a.test/"))
	require.Equal(t, append(whole[:3:3], whole[5:]...), seen, "the whole without retry and hedge")

	status, page := do(t, transport.Layers{}.Chain(always(200, "page")), get(t, "http://a.test/"))
	require.Equal(t, 200, status)
	require.Equal(t, "page", page)
}

type spy struct {
	transport.ResponsePolicy
	name string
	seen *[]string
}

func (s spy) Execute(ctx context.Context, fn func(context.Context) (*http.Response, error)) (*http.Response, error) {
	*s.seen = append(*s.seen, s.name)
	return s.ResponsePolicy.Execute(ctx, fn)
}

type idleCloser struct {
	stub
	closed int
}

func (c *idleCloser) CloseIdleConnections() { c.closed++ }

func TestChainHandsOnWhatAClientAsks(t *testing.T) {
	layers, _ := everyLayer(t)
	base := &idleCloser{stub: always(200, "page")}
	client := &http.Client{Transport: layers.Chain(base)}
	client.CloseIdleConnections()
	require.Equal(t, 1, base.closed)
	client.Transport = layers.Chain(always(200, "page"))
	client.CloseIdleConnections() // a base that cannot is fine
}

type strange struct {
	context.Context
	_ []int
}

func TestContextsThatCannotBeCompared(t *testing.T) {
	layers, _ := everyLayer(t)
	req := newRequest(strange{Context: t.Context()}, http.MethodGet, "http://a.test/", nil)
	status, _ := do(t, transport.Chain(always(200, "page"), layers.Log, layers.Hints), req)
	require.Equal(t, 200, status)
	status, _ = do(t, layers.Chain(always(200, "page")), req)
	require.Equal(t, 200, status)
}

func TestConstructorsNameTheFieldToMend(t *testing.T) {
	limiter := must(limit.NewConcurrency(limit.ConcurrencyConfig{Max: 1}))
	for want, err := range map[string]error{
		"HintsConfig.OnHint":        refused(transport.Hints(transport.HintsConfig{})),
		"HintsConfig.MaxRetryAfter": refused(transport.Hints(transport.HintsConfig{OnHint: func(transport.Hint) {}, MaxRetryAfter: -1})),
		"PoliteConfig.Limiter":      refused(transport.Polite(transport.PoliteConfig{})),
		"Policy.Limiter":            refused(transport.RateLimit(transport.Policy{})),
		"Policy.AcquireTimeout":     refused(transport.RateLimit(transport.Policy{Limiter: limiter, AcquireTimeout: -2})),
		"Policy.MaxRetryAfter":      refused(transport.RateLimit(transport.Policy{Limiter: limiter, MaxRetryAfter: -1})),
		"fallback: Action":          refused(transport.NewFallback(fallbackConfig{})),
	} {
		require.ErrorContains(t, err, want)
	}
	require.Nil(t, transport.Apply(nil))
	require.Nil(t, transport.Log(transport.LogConfig{}))
}

func refused[T any](_ T, err error) error { return err }

func TestCheckStatus(t *testing.T) {
	req := get(t, "http://me:pw@a.test/?token=1&q=2")
	for _, status := range []int{200, 204, 301, 304, 101} {
		under := body("page")
		res := response(under)
		res.StatusCode = status
		require.NoError(t, transport.CheckStatus(res))
		require.Zero(t, under.closed.Load(), "a good answer is left as it is")
	}
	res := transport.NewResponse(req, 503, http.Header{"Set-Cookie": {"id=opens"}}, []byte("later"))
	err := transport.CheckStatus(res)
	var status *transport.StatusError
	require.ErrorAs(t, err, &status)
	require.EqualError(t, err, "http://a.test/?token=xxx&q=2: status 503 Service Unavailable")
	require.Equal(t, "later", string(status.Body))
	require.False(t, status.Truncated)
	require.Equal(t, "id=opens", status.Header.Get("Set-Cookie"))
	require.Equal(t, 1, status.Attempts)
	require.Equal(t, "unavailable", status.Class().String())
	var line strings.Builder
	slog.New(slog.NewTextHandler(&line, nil)).Info("x", slog.Any("err", err))
	require.NotContains(t, line.String(), "opens")

	under := body(strings.Repeat("x", 64<<10+1))
	res = response(under)
	res.StatusCode = 418
	require.ErrorAs(t, transport.CheckStatus(res), &status)
	require.Len(t, status.Body, 64<<10)
	require.True(t, status.Truncated)
	require.Positive(t, under.closed.Load())
}

// Every kind of limiter lets through what it has permits for, and not one request more reaches the server.
func TestEveryLimiterOverRealSockets(t *testing.T) {
	granted := map[limit.Kind]int32{limit.KindLeakyBucket: 1} // paces: one at a time
	for _, kind := range limit.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			var hits atomic.Int32
			url, base, _ := onLoopback(t, func(w http.ResponseWriter, _ *http.Request) {
				hits.Add(1)
				_, _ = io.WriteString(w, "page")
			})
			spec := limit.Spec{Kind: kind, Permits: 2, Per: time.Hour}
			if kind == limit.KindConcurrency {
				spec.Per = 0
			}
			l := must(limit.New(spec))
			rt := limited(transport.Policy{Limiter: l, AcquireTimeout: transport.NowOrNever}, base)
			var open []*http.Response
			for range 4 {
				res, err := rt.RoundTrip(get(t, url))
				if err == nil {
					open = append(open, res)
					continue
				}
				var refusal *limit.Error
				require.ErrorAs(t, err, &refusal)
				require.Equal(t, string(kind), refusal.Algorithm)
				require.Equal(t, kind != limit.KindConcurrency, refusal.RetryAfter > 0)
			}
			want := granted[kind]
			if want == 0 {
				want = 2
			}
			require.Len(t, open, int(want))
			require.Equal(t, want, hits.Load())
			for _, res := range open {
				require.Equal(t, "page", read(res))
			}
			require.Zero(t, l.Statistics().InUse)
			if kind == limit.KindConcurrency {
				do(t, rt, get(t, url)) // the permits came back with the bodies
			}
			require.NoError(t, l.Close())
			_, err := rt.RoundTrip(get(t, url))
			require.ErrorIs(t, err, limit.ErrClosed)
		})
	}
}

// All layers at once, from many goroutines, against a server that fails every other
// request: each caller gets the answer to what he sent, and in the end nothing is held.
func TestEveryPolicyOverRealSockets(t *testing.T) {
	var n atomic.Int32
	url, base, _ := onLoopback(t, func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		if n.Add(1)%2 == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write(text)
	})
	layers, c := everyLayer(t)
	layers.Retry = must(transport.NewRetry(retryConfig{Forever: true, Backoff: backoff.Constant(0)}))
	layers.Breaker = nil // which would see half of the answers fail, and open
	client := &http.Client{Transport: layers.Chain(base)}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 25 {
				text := strings.Repeat(strconv.Itoa(i)+"/"+strconv.Itoa(j)+" ", 100)
				req := newRequest(t.Context(), http.MethodPost, url, strings.NewReader(text))
				req.Header.Set("Idempotency-Key", text[:9])
				res, err := client.Do(req)
				if err != nil {
					t.Error(err)
					return
				}
				got, err := io.ReadAll(res.Body)
				_ = res.Body.Close()
				if err != nil || res.StatusCode != http.StatusOK || string(got) != text {
					t.Errorf("request %s: %d, %v, %d bytes", text[:9], res.StatusCode, err, len(got))
				}
			}
		})
	}
	wg.Wait()
	require.Zero(t, c.held())
	require.Zero(t, c.overReleased())
}
