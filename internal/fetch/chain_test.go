package fetch_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/internal/ratelimit/backoff"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/resilience"
	"github.com/treadlight/crawl/transport"
)

func built[T any](t *testing.T) func(v T, err error) T {
	t.Helper()
	return func(v T, err error) T {
		require.NoError(t, err)
		return v
	}
}

// retrying is a chain that sends a request up to three times, a second apart.
func retrying(t *testing.T) func(http.RoundTripper) http.RoundTripper {
	t.Helper()
	policy, err := transport.NewRetry(resilience.RetryConfig[*http.Response]{
		MaxAttempts: 3, Backoff: backoff.Constant(time.Second),
	})
	require.NoError(t, err)
	return transport.Layers{Retry: policy}.Chain
}

// spoilt answers with the statuses in turn, then with 200.
func spoilt(statuses ...int) map[string]http.Handler {
	var n atomic.Int32
	return onePage(func(w http.ResponseWriter, _ *http.Request) {
		if i := int(n.Add(1)) - 1; i < len(statuses) {
			w.WriteHeader(statuses[i])
			return
		}
		fmt.Fprint(w, "page")
	})
}

func TestARequestWithAgainIsSentAgain(t *testing.T) {
	cfg := fetch.Config{Repeating: retrying(t)}
	inMemory(t, cfg, spoilt(503, 503), func(t *testing.T, c *fetch.Client, site *fetchtest.Net) {
		var before []int
		res, err := c.Fetch(t.Context(), fetch.Request{
			URL: "http://a.test/",
			Again: func(_ context.Context, res *fetch.Response, err error) error {
				require.NoError(t, err)
				require.Nil(t, res.Body)
				before = append(before, res.Status)
				return nil
			},
		})
		require.NoError(t, err)
		require.Equal(t, "page", string(res.Body))
		require.Equal(t, []int{503, 503}, before)
		require.Len(t, site.Requests(), 3)
		for _, r := range site.Requests() {
			require.Equal(t, 1, r.Conn, "what was discarded kept its connection from being used again")
		}
	})
}

func TestARequestWithoutAgainIsSentOnce(t *testing.T) {
	for name, cfg := range map[string]fetch.Config{
		"its chain does not repeat": {Repeating: retrying(t)},
		"its chain would":           {Chain: retrying(t)},
	} {
		t.Run(name, func(t *testing.T) {
			inMemory(t, cfg, spoilt(503), func(t *testing.T, c *fetch.Client, site *fetchtest.Net) {
				res, err := c.Fetch(t.Context(), fetch.Request{URL: "http://a.test/"})
				if cfg.Chain == nil {
					require.NoError(t, err)
					require.Equal(t, 503, res.Status)
				} else {
					require.ErrorContains(t, err, "once only")
				}
				require.Len(t, site.Requests(), 1)
			})
		})
	}
}

func TestAgainDecides(t *testing.T) {
	refused := errors.New("no permit")
	cfg := fetch.Config{Repeating: retrying(t)}
	inMemory(t, cfg, spoilt(503), func(t *testing.T, c *fetch.Client, site *fetchtest.Net) {
		_, err := c.Fetch(t.Context(), fetch.Request{
			URL:   "http://a.test/",
			Again: func(context.Context, *fetch.Response, error) error { return refused },
		})
		require.ErrorIs(t, err, refused)
		e := asError(t, err)
		require.Equal(t, fetch.OpPolicy, e.Op)
		require.Equal(t, outcome.Canceled, e.Class())
		require.Len(t, site.Requests(), 1)
	})
}

func TestAgainHearsOfErrors(t *testing.T) {
	cfg := fetch.Config{Repeating: retrying(t), HeaderTimeout: 5 * time.Second}
	hosts := onePage(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	inMemory(t, cfg, hosts, func(t *testing.T, c *fetch.Client, site *fetchtest.Net) {
		n := 0
		_, err := c.Fetch(t.Context(), fetch.Request{
			URL: "http://a.test/",
			Again: func(_ context.Context, res *fetch.Response, err error) error {
				require.Nil(t, res)
				require.Error(t, err)
				n++
				time.Sleep(7 * time.Second) // longer than the host may be silent: it has no part in this
				return nil
			},
		})
		require.ErrorIs(t, err, resilience.ErrRetriesExhausted)
		require.Equal(t, 2, n)
		require.Len(t, site.Requests(), 3)
	})
}

func TestAPolicyThatRefusesSendsNothing(t *testing.T) {
	core := built[*resilience.Bulkhead](t)(resilience.NewBulkhead(resilience.BulkheadConfig{MaxConcurrency: 1}))
	full := built[transport.ResponsePolicy](t)(transport.NewBulkhead(core))
	cfg := fetch.Config{Chain: transport.Layers{Bulkhead: full}.PageChain}
	hosts := onePage(func(w http.ResponseWriter, _ *http.Request) {
		w.(http.Flusher).Flush()
		time.Sleep(10 * time.Second)
	})
	inMemory(t, cfg, hosts, func(t *testing.T, c *fetch.Client, site *fetchtest.Net) {
		done := make(chan error, 1)
		go func() {
			_, err := c.Fetch(t.Context(), fetch.Request{URL: "http://a.test/"})
			done <- err
		}()
		time.Sleep(5 * time.Second) // the header is there, the body is not over
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.Fetch(ctx, fetch.Request{URL: "http://a.test/"})
		e := asError(t, err)
		require.Equal(t, fetch.OpPolicy, e.Op)
		require.Zero(t, e.Sends)
		require.NoError(t, <-done)
		fetched(t, c, "http://a.test/", "the slot came free with the body")
		require.Len(t, site.Requests(), 2)
	})
}

func TestAnAttemptTimeoutCutsABodyThatStalls(t *testing.T) {
	cfg := fetch.Config{Chain: func(base http.RoundTripper) http.RoundTripper { // made within the bubble, for its clock
		limit := built[transport.ResponsePolicy](t)(transport.NewTimeout(resilience.TimeoutConfig[*http.Response]{After: 100 * time.Millisecond}))
		return transport.Layers{AttemptTimeout: limit}.PageChain(base)
	}}
	hosts := onePage(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("x", 100))
		w.(http.Flusher).Flush()
		time.Sleep(10 * time.Second)
	})
	inMemory(t, cfg, hosts, func(t *testing.T, c *fetch.Client, _ *fetchtest.Net) {
		begin := time.Now()
		res, err := c.Fetch(t.Context(), fetch.Request{URL: "http://a.test/"})
		require.ErrorIs(t, err, resilience.ErrTimeout)
		require.Equal(t, outcome.Timeout, outcome.Of(0, err))
		require.Equal(t, 100*time.Millisecond, time.Since(begin))
		require.Len(t, res.Body, 100, "what had arrived is kept")
		synctest.Wait()
	})
}

// TestPoliciesDoNotShowOnTheWire: with policies and without, a request looks the same.
func TestPoliciesDoNotShowOnTheWire(t *testing.T) {
	form := func(cfg fetch.Config) (seen string) {
		hosts := onePage(func(_ http.ResponseWriter, r *http.Request) {
			seen = fmt.Sprint(r.Method, r.RequestURI, r.Header, r.ContentLength, r.TransferEncoding)
		})
		inMemory(t, cfg, hosts, func(t *testing.T, c *fetch.Client, _ *fetchtest.Net) {
			_, err := c.Fetch(t.Context(), fetch.Request{URL: "http://a.test/100%?q", Header: http.Header{"X-A": {"b"}}})
			require.NoError(t, err)
		})
		return seen
	}
	require.Equal(t, form(fetch.Config{}), form(fetch.Config{Chain: transport.Layers{}.PageChain}))
}

func TestPermitIsAskedForBehindThePolicies(t *testing.T) {
	core := built[*resilience.Bulkhead](t)(resilience.NewBulkhead(resilience.BulkheadConfig{MaxConcurrency: 1, MaxQueue: 1}))
	queue := built[transport.ResponsePolicy](t)(transport.NewBulkhead(core))
	cfg := fetch.Config{Chain: transport.Layers{Bulkhead: queue}.PageChain}
	slow := onePage(func(http.ResponseWriter, *http.Request) { time.Sleep(5 * time.Second) })
	inMemory(t, cfg, slow, func(t *testing.T, c *fetch.Client, _ *fetchtest.Net) {
		begin, asked := time.Now(), make(chan time.Duration, 2)
		get := func() error {
			_, err := c.Fetch(t.Context(), fetch.Request{URL: "http://a.test/", Permit: func(context.Context) error {
				asked <- time.Since(begin)
				return nil
			}})
			return err
		}
		first := make(chan error, 1)
		go func() { first <- get() }()
		time.Sleep(time.Second)
		require.NoError(t, get())
		require.NoError(t, <-first)
		require.Zero(t, <-asked)
		require.Equal(t, 5*time.Second, <-asked, "not when it got in line")
	})
}

func TestWithoutAPermitNothingIsSent(t *testing.T) {
	refused := errors.New("not now")
	for name, cfg := range map[string]fetch.Config{
		"no policies": {},
		"policies":    {Chain: transport.Layers{}.PageChain},
		"a retry":     {Repeating: retrying(t)},
	} {
		t.Run(name, func(t *testing.T) {
			inMemory(t, cfg, spoilt(), func(t *testing.T, c *fetch.Client, site *fetchtest.Net) {
				fetched(t, c, "http://a.test/", "what is left of another request does not show")
				asked := 0
				_, err := c.Fetch(t.Context(), fetch.Request{
					URL:    "http://a.test/",
					Permit: func(context.Context) error { asked++; return refused },
					Again:  func(context.Context, *fetch.Response, error) error { t.Error("asked again"); return nil },
				})
				require.ErrorIs(t, err, refused)
				e := asError(t, err)
				require.Equal(t, fetch.OpPolicy, e.Op)
				require.Zero(t, e.Sends)
				require.Equal(t, outcome.Canceled, e.Class())
				require.Equal(t, 1, asked)
				require.Len(t, site.Requests(), 1)
			})
		})
	}
}

func TestEveryHeaderIsToldOnce(t *testing.T) {
	cfg := fetch.Config{Repeating: retrying(t)}
	inMemory(t, cfg, spoilt(503), func(t *testing.T, c *fetch.Client, _ *fetchtest.Net) {
		begin := time.Now()
		var told []int
		_, err := c.Fetch(t.Context(), fetch.Request{
			URL: "http://a.test/",
			OnHeader: func(res *fetch.Response) {
				told = append(told, res.Status)
				require.Equal(t, time.Duration(len(told)-1)*time.Second, time.Since(begin), "at once, and not after the pause")
			},
			Again: func(context.Context, *fetch.Response, error) error { return nil },
		})
		require.NoError(t, err)
		require.Equal(t, []int{503, 200}, told)
	})
}

// TestTheFailureBeforeStands: what ends the pause between two tries is no failure of the host.
func TestTheFailureBeforeStands(t *testing.T) {
	policy := built[transport.ResponsePolicy](t)(transport.NewRetry(resilience.RetryConfig[*http.Response]{
		MaxAttempts: 3, Backoff: backoff.Constant(time.Minute),
	}))
	cfg := fetch.Config{Repeating: transport.Layers{Retry: policy}.Chain, Timeout: 10 * time.Second}
	hosts := onePage(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	inMemory(t, cfg, hosts, func(t *testing.T, c *fetch.Client, site *fetchtest.Net) {
		begin := time.Now()
		_, err := c.Fetch(t.Context(), fetch.Request{
			URL:   "http://a.test/",
			Again: func(context.Context, *fetch.Response, error) error { return nil },
		})
		require.Equal(t, 10*time.Second, time.Since(begin))
		e := asError(t, err)
		require.Equal(t, outcome.Network, e.Class(), "and not the timeout that ended the pause")
		require.Zero(t, e.Took)
		require.Len(t, site.Requests(), 1)
	})
}
