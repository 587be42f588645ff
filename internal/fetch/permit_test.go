package fetch_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/internal/ratelimit/backoff"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/resilience"
	"github.com/treadlight/crawl/transport"
)

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
				_, err := c.Fetch(t.Context(), fetch.Request{URL: "http://a.test/"})
				require.NoError(t, err, "what is left of another request does not show")
				asked := 0
				_, err = c.Fetch(t.Context(), fetch.Request{
					URL:    "http://a.test/",
					Permit: func(context.Context) error { asked++; return refused },
					Again:  func(context.Context, *fetch.Response, error) error { t.Error("asked again"); return nil },
				})
				require.ErrorIs(t, err, refused)
				e, ok := errors.AsType[*fetch.Error](err)
				require.True(t, ok)
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
		e, ok := errors.AsType[*fetch.Error](err)
		require.True(t, ok)
		require.Equal(t, outcome.Network, e.Class(), "and not the timeout that ended the pause")
		require.Zero(t, e.Took)
		require.Len(t, site.Requests(), 1)
	})
}
