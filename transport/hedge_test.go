package transport_test

import (
	"io"
	"net/http"
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
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
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
				rest, err := io.ReadAll(late)
				require.NoError(t, err)
				require.Empty(t, rest, "and it was drained")
			})
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
		do(t, rt, newRequest(t.Context(), t, http.MethodPost, "http://a.test/", strings.NewReader("form")))
		require.EqualValues(t, 1, n.Load(), "a POST is sent once")
		do(t, rt, newRequest(transport.WithIdempotent(t.Context()), t, http.MethodPost, "http://a.test/", strings.NewReader("form")))
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
