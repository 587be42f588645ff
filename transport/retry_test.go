package transport_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/ratelimit/backoff"
	"github.com/treadlight/crawl/resilience"
	"github.com/treadlight/crawl/transport"
)

type retryConfig = resilience.RetryConfig[*http.Response]

// retrying is a chain of a retry alone, which does not wait by itself.
func retrying(cfg retryConfig, base http.RoundTripper) http.RoundTripper {
	if cfg.Backoff == nil {
		cfg.Backoff = backoff.Constant(0)
	}
	p := must(transport.NewRetry(cfg))
	return transport.Layers{Retry: p}.Chain(base)
}

// secondFails answers every third request well and the ones before it with 503.
func everyThird(page string) http.HandlerFunc {
	var n atomic.Int32
	return func(w http.ResponseWriter, _ *http.Request) {
		if n.Add(1)%3 != 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = io.WriteString(w, page)
	}
}

// 20 calls of three attempts each, against 503, 503, 200, need one connection: what is
// retried away is read to its end.
func TestRetriesUseOneConnection(t *testing.T) {
	for name, size := range map[string]int{"empty": 0, "short": 20, "8 kB": 8 << 10, "the whole bound": 64 << 10} {
		t.Run(name, func(t *testing.T) {
			page := strings.Repeat("x", size)
			url, base, conns := onLoopback(t, everyThird(page))
			rt := retrying(retryConfig{MaxAttempts: 3}, base)
			for range 20 {
				res := must(rt.RoundTrip(counting(get(t, url), conns)))
				require.Equal(t, 200, res.StatusCode)
				require.Equal(t, 3, transport.Attempts(res))
				require.Equal(t, page, read(res))
			}
			require.EqualValues(t, 1, conns.Load())
		})
	}
}

func TestRetryWithOneConnectionPerHostDoesNotDeadlock(t *testing.T) {
	// Far more than is drained: the connection is closed, and the next one may be made.
	url, base, _ := onLoopback(t, everyThird(strings.Repeat("x", 1<<20)))
	base.MaxConnsPerHost = 1
	rt := retrying(retryConfig{MaxAttempts: 3}, base)
	for range 5 {
		status, page := do(t, rt, get(t, url))
		require.Equal(t, 200, status)
		require.Len(t, page, 1<<20)
	}
}

// A body that drips is not read for longer than a second, nor does it hold up the retry.
func TestRetryDoesNotDrainForever(t *testing.T) {
	var n atomic.Int32
	inMemory(t, func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) > 1 {
			return
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}, func(t *testing.T, base *http.Transport) {
		start := time.Now()
		status, _ := do(t, retrying(retryConfig{}, base), get(t, "http://a.test/"))
		require.Equal(t, 200, status)
		require.Equal(t, time.Second, time.Since(start))
	})
}

func TestLastResponseIsReturnedReadable(t *testing.T) {
	n := 0
	rt := retrying(retryConfig{MaxAttempts: 3}, stub(func(req *http.Request) (*http.Response, error) {
		n++
		return transport.NewResponse(req, 503, nil, []byte("answer "+strconv.Itoa(n))), nil
	}))
	res := must(rt.RoundTrip(get(t, "http://a.test/")))
	require.Equal(t, 3, transport.Attempts(res))
	err := transport.CheckStatus(res)
	var status *transport.StatusError
	require.ErrorAs(t, err, &status)
	require.Equal(t, "answer 3", string(status.Body))
	require.EqualError(t, err, "http://a.test/: status 503 Service Unavailable after 3 attempts")
}

func TestWhichRequestsAreRetried(t *testing.T) {
	marked := http.Header{"Idempotency-Key": {"k1"}}
	plain := func(ctx context.Context) context.Context { return ctx }
	for name, tc := range map[string]struct {
		method string
		header http.Header
		ctx    func(context.Context) context.Context
		body   io.Reader
		want   int
	}{
		"GET":                       {http.MethodGet, nil, plain, nil, 3},
		"GET without saying so":     {"", nil, plain, nil, 3},
		"HEAD":                      {http.MethodHead, nil, plain, nil, 3},
		"OPTIONS":                   {http.MethodOptions, nil, plain, nil, 3},
		"POST":                      {http.MethodPost, nil, plain, strings.NewReader("form"), 1},
		"PUT":                       {http.MethodPut, nil, plain, strings.NewReader("form"), 1},
		"DELETE":                    {http.MethodDelete, nil, plain, nil, 1},
		"POST with a key":           {http.MethodPost, marked, plain, strings.NewReader("form"), 3},
		"POST with an X- key":       {http.MethodPost, http.Header{"X-Idempotency-Key": {}}, plain, nil, 3},
		"POST marked":               {http.MethodPost, nil, transport.WithIdempotent, strings.NewReader("form"), 3},
		"GET of a body that is one": {http.MethodGet, nil, plain, io.MultiReader(strings.NewReader("form")), 1},
		"POST with a key and such":  {http.MethodPost, marked, plain, io.MultiReader(strings.NewReader("form")), 1},
	} {
		t.Run(name, func(t *testing.T) {
			var bodies []string
			rt := retrying(retryConfig{MaxAttempts: 3}, stub(func(req *http.Request) (*http.Response, error) {
				text := ""
				if req.Body != nil {
					b := must(io.ReadAll(req.Body))
					text = string(b)
				}
				bodies = append(bodies, text)
				return transport.NewResponse(req, 503, nil, nil), nil
			}))
			req := newRequest(tc.ctx(t.Context()), tc.method, "http://a.test/", tc.body)
			if req.Method = tc.method; tc.header != nil {
				req.Header = tc.header
			}
			status, _ := do(t, rt, req)
			require.Equal(t, 503, status)
			require.Len(t, bodies, tc.want)
			for _, b := range bodies {
				require.Equal(t, bodies[0], b, "every attempt sends the whole body")
			}
			if tc.body != nil {
				require.Equal(t, "form", bodies[0])
			}
			require.Equal(t, tc.want == 3, transport.Repeatable(req))
		})
	}
}

func TestABodyThatCannotBeHadAgain(t *testing.T) {
	gone := errors.New("gone")
	req := newRequest(transport.WithIdempotent(t.Context()), http.MethodPost, "http://a.test/", strings.NewReader("form"))
	req.GetBody = func() (io.ReadCloser, error) { return nil, gone }
	_, err := retrying(retryConfig{}, always(503, "later")).RoundTrip(req)
	require.ErrorIs(t, err, gone)
}

func TestWhatIsRetried(t *testing.T) {
	for status, want := range map[int]int{
		200: 1, 301: 1, 304: 1, 400: 1, 401: 1, 403: 1, 404: 1, 408: 2, 425: 2, 429: 2, 500: 1, 501: 1, 502: 2, 503: 2, 504: 2,
	} {
		n := 0
		rt := retrying(retryConfig{MaxAttempts: 2}, stub(func(req *http.Request) (*http.Response, error) {
			n++
			return transport.NewResponse(req, status, nil, nil), nil
		}))
		got, _ := do(t, rt, get(t, "http://a.test/"))
		require.Equal(t, status, got)
		require.Equal(t, want, n, "status %d", status)
	}
	for _, tc := range []struct {
		err  error
		want int
	}{
		{io.ErrUnexpectedEOF, 2},
		{&resilience.TimeoutError{After: time.Second}, 2},
		{context.Canceled, 1},
		{errors.New("no HTTP"), 1},
		{&resilience.OpenError{}, 1},
		{&resilience.BulkheadError{Err: context.DeadlineExceeded}, 1},
		{&transport.RejectedError{Err: context.DeadlineExceeded}, 1},
	} {
		n := 0
		rt := retrying(retryConfig{MaxAttempts: 2}, stub(func(*http.Request) (*http.Response, error) {
			n++
			return nil, tc.err
		}))
		_, err := rt.RoundTrip(get(t, "http://a.test/"))
		require.ErrorIs(t, err, tc.err)
		require.Equal(t, tc.want, n, "%v", tc.err)
	}
}

// The pauses between the attempts are what the answers ask for, if that is longer than
// the backoff, and never more than the cap.
func TestRetryAfterBeatsTheBackoff(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"":                              2 * time.Second,
		"1":                             2 * time.Second,
		"30":                            30 * time.Second,
		"Sat, 01 Jan 2000 00:00:45 GMT": 45 * time.Second, // when the bubble's time begins
		"Fri, 31 Dec 1999 00:00:00 GMT": 2 * time.Second,
		"18446744074":                   time.Minute,
		"3600":                          time.Minute,
		"-5":                            2 * time.Second,
		"soon":                          2 * time.Second,
	} {
		inBubble(t, value, func(t *testing.T) {
			var at []time.Time
			rt := retrying(retryConfig{MaxAttempts: 2, Backoff: backoff.Constant(2 * time.Second), MaxRetryAfter: time.Minute},
				stub(func(req *http.Request) (*http.Response, error) {
					at = append(at, time.Now())
					return transport.NewResponse(req, 429, http.Header{"Retry-After": {value}}, nil), nil
				}))
			do(t, rt, get(t, "http://a.test/"))
			require.Len(t, at, 2)
			require.Equal(t, want, at[1].Sub(at[0]))
		})
	}
}

// Retries of a breaker's or a limiter's refusals are for classifiers that ask for them.
func TestRetryKnowsTheWishesOfRefusals(t *testing.T) {
	for _, refusal := range []error{&resilience.OpenError{RetryAfter: 7 * time.Second}, &transport.RejectedError{RetryAfter: 7 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			cfg := retryConfig{MaxAttempts: 2, Classify: func(*http.Response, error) resilience.Classification { return resilience.Failure }}
			start := time.Now()
			_, err := retrying(cfg, stub(func(*http.Request) (*http.Response, error) { return nil, refusal })).RoundTrip(get(t, "http://a.test/"))
			require.ErrorIs(t, err, refusal)
			require.Equal(t, 7*time.Second, time.Since(start))
		})
	}
}

type hedgeConfig = resilience.HedgeConfig[*http.Response]

// hedging is a chain of a hedge that starts a second request after a second.
func hedging(t *testing.T, base http.RoundTripper) http.RoundTripper {
	t.Helper()
	p := must(transport.NewHedge(hedgeConfig{Delay: time.Second}))
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return transport.Layers{Hedge: p}.Chain(base)
}

// A loser's answer comes when nobody is interested any more: that of the first request
// when it has been told so, that of the second from a transport that is not to be told.
func TestHedgeClosesTheBodyOfALateLoser(t *testing.T) {
	for name, loser := range map[string]int32{"the first request": 1, "the second request": 2} {
		inBubble(t, name, func(t *testing.T) {
			late := body("late")
			var n atomic.Int32
			rt := hedging(t, stub(func(req *http.Request) (*http.Response, error) {
				switch number := n.Add(1); {
				case number != loser:
					time.Sleep(2 * time.Second)
					return response(body("in time")), nil
				case loser == 1:
					<-req.Context().Done()
				default:
					time.Sleep(10 * time.Second)
				}
				return response(late), nil
			}))
			start := time.Now()
			status, page := do(t, rt, get(t, "http://a.test/"))
			require.Equal(t, 200, status)
			require.Equal(t, "in time", page)
			require.Equal(t, time.Duration(4-loser)*time.Second, time.Since(start))
			time.Sleep(10 * time.Second)
			require.Positive(t, late.closed.Load())
			require.Empty(t, must(io.ReadAll(late)), "and it was drained")
		})
	}
}

// The winner's context lives until its body has been read: half a megabyte in slow pieces
// comes whole, long after the losers have been cancelled.
func TestHedgeWinnersBodyIsComplete(t *testing.T) {
	var n, cancelled atomic.Int32
	piece := strings.Repeat("x", 64<<10)
	inMemory(t, func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) == 1 {
			<-r.Context().Done()
			cancelled.Add(1)
			return
		}
		for range 8 {
			_, _ = io.WriteString(w, piece)
			_ = http.NewResponseController(w).Flush()
			time.Sleep(time.Second)
		}
	}, func(t *testing.T, base *http.Transport) {
		status, page := do(t, hedging(t, base), get(t, "http://a.test/"))
		require.Equal(t, 200, status)
		require.Len(t, page, 8*len(piece))
		synctest.Wait()
		require.EqualValues(t, 1, cancelled.Load(), "the loser was told at once")
	})
}

func TestHedgeIsForRepeatableRequestsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int32
		var bodies [3]string
		rt := hedging(t, stub(func(req *http.Request) (*http.Response, error) {
			b, _ := io.ReadAll(req.Body)
			i := n.Add(1) - 1
			bodies[i] = string(b)
			time.Sleep(5 * time.Second)
			return transport.NewResponse(req, 200, nil, nil), nil
		}))
		do(t, rt, newRequest(t.Context(), http.MethodPost, "http://a.test/", strings.NewReader("form")))
		require.EqualValues(t, 1, n.Load(), "a POST is sent once")
		do(t, rt, newRequest(transport.WithIdempotent(t.Context()), http.MethodPost, "http://a.test/", strings.NewReader("form")))
		synctest.Wait()
		require.EqualValues(t, 3, n.Load(), "a marked one is hedged")
		time.Sleep(10 * time.Second)
		require.Equal(t, [3]string{"form", "form", "form"}, bodies)
	})
}

// "Not now" is an answer; anything else that another try may cure starts one at once.
func TestHedgeDoesNotPressAHostThatRefuses(t *testing.T) {
	for status, want := range map[int]int32{200: 1, 404: 1, 429: 1, 500: 1, 502: 2, 503: 1, 504: 2} {
		synctest.Test(t, func(t *testing.T) {
			var n atomic.Int32
			rt := hedging(t, stub(func(req *http.Request) (*http.Response, error) {
				n.Add(1)
				return transport.NewResponse(req, status, nil, []byte("page")), nil
			}))
			start := time.Now()
			got, page := do(t, rt, get(t, "http://a.test/"))
			require.Equal(t, status, got)
			require.Equal(t, "page", page, "the last answer is readable")
			require.Equal(t, want, n.Load(), "status %d", status)
			require.Zero(t, time.Since(start))
		})
	}
}

func TestHedgeWithOneConnectionPerHost(t *testing.T) {
	inMemory(t, func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(3 * time.Second)
		_, _ = io.WriteString(w, "page")
	}, func(t *testing.T, base *http.Transport) {
		base.MaxConnsPerHost = 1
		rt := hedging(t, base)
		start := time.Now()
		for range 3 {
			_, page := do(t, rt, get(t, "http://a.test/"))
			require.Equal(t, "page", page)
		}
		require.Equal(t, 9*time.Second, time.Since(start))
	})
}

// A further request for which there is no place does not end the first.
func TestHedgeSurvivesARefusalOfItsOwnLayers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, inner := range map[string]transport.Layers{
			"bulkhead":   {Bulkhead: must(transport.NewBulkhead(must(resilience.NewBulkhead(resilience.BulkheadConfig{MaxConcurrency: 1}))))},
			"rate limit": {RateLimit: must(transport.RateLimit(transport.Policy{Limiter: slots(1), AcquireTimeout: transport.NowOrNever}))},
		} {
			p := must(transport.NewHedge(hedgeConfig{Delay: time.Second, MaxAttempts: 3}))
			inner.Hedge = p
			start := time.Now()
			_, page := do(t, inner.Chain(stub(func(req *http.Request) (*http.Response, error) {
				time.Sleep(5 * time.Second)
				return transport.NewResponse(req, 200, nil, []byte("page")), nil
			})), get(t, "http://a.test/"))
			require.Equal(t, "page", page, name)
			require.Equal(t, 5*time.Second, time.Since(start), name)
			require.NoError(t, p.Close())
		}
	})
}

// When all have failed, a retry around sees what happened to the first: a refusal of the
// second would be none of the host's doing.
func TestRetryAroundAHedgeThatFailed(t *testing.T) {
	for name, first := range map[string]stub{
		"without an answer": func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF },
		"by a gateway":      always(http.StatusBadGateway, "later"),
	} {
		t.Run(name, func(t *testing.T) {
			var n atomic.Int32
			p := must(transport.NewHedge(hedgeConfig{}))
			rt := transport.Layers{Hedge: p, Retry: must(transport.NewRetry(retryConfig{Backoff: backoff.Constant(0)}))}.Chain(
				stub(func(req *http.Request) (*http.Response, error) {
					switch n.Add(1) {
					case 1:
						return first(req)
					case 2:
						return nil, &resilience.BulkheadError{}
					}
					return transport.NewResponse(req, 200, nil, []byte("page")), nil
				}))
			_, page := do(t, rt, get(t, "http://a.test/"))
			require.Equal(t, "page", page)
			require.EqualValues(t, 3, n.Load())
			require.NoError(t, p.Close())
		})
	}
}

// Who is refused between two attempts is told the status that the last one had.
func TestRetryTellsTheStatusBeforeARefusal(t *testing.T) {
	retry := must(transport.NewRetry(resilience.RetryConfig[*http.Response]{Backoff: backoff.Constant(0)}))
	sent := 0
	_, err := transport.Chain(stub(func(req *http.Request) (*http.Response, error) {
		if sent++; sent == 2 {
			return nil, &resilience.OpenError{}
		}
		return transport.NewResponse(req, http.StatusServiceUnavailable, nil, nil), nil
	}), transport.Repeat(retry)).RoundTrip(get(t, "http://a.test/"))
	require.ErrorIs(t, err, resilience.ErrOpen)
	require.ErrorContains(t, err, "the attempt before failed: HTTP 503 Service Unavailable")
}
