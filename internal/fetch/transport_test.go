package fetch_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// impatient gives every request a second, its body included.
type impatient struct {
	base  http.RoundTripper
	cause error
}

func (p impatient) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeoutCause(req.Context(), time.Second, p.cause)
	context.AfterFunc(ctx, cancel)
	return p.base.RoundTrip(req.WithContext(ctx))
}

// TestAPolicysEndIsTheError lets a policy's own context end a request in each phase.
func TestAPolicysEndIsTheError(t *testing.T) {
	cause := errors.New("enough")
	hang := func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	for name, tc := range map[string]struct {
		b  fetchtest.Behavior
		op fetch.Op
	}{
		"connect": {"", fetch.OpConnect},
		"header":  {fetchtest.HangInHeader, fetch.OpHeader},
		"body":    {fetchtest.HangInBody, fetch.OpBody},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := fetchtest.HostilePipes(t)
				cfg := fetch.Config{DialContext: h.DialContext, Chain: func(base http.RoundTripper) http.RoundTripper {
					return impatient{base, cause}
				}}
				if tc.b == "" {
					cfg.DialContext = hang
				}
				begin := time.Now()
				_, err := newClient(t, cfg).Fetch(t.Context(), fetch.Request{URL: h.URL(tc.b)})
				require.ErrorIs(t, err, cause)
				require.Equal(t, tc.op, asError(t, err).Op)
				require.Equal(t, time.Second, time.Since(begin))
			})
		})
	}
}

// TestWaitingForAConnectionIsBounded: the place is taken by a request that hangs.
func TestWaitingForAConnectionIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := fetchtest.HostilePipes(t)
		c := newClient(t, fetch.Config{DialContext: h.DialContext, MaxConnsPerHost: 1, Timeout: 5 * time.Second})
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error)
		go func() {
			_, err := c.Fetch(ctx, fetch.Request{URL: h.URL(fetchtest.Hang)})
			gone <- err
		}()
		time.Sleep(time.Second)
		begin := time.Now()
		waits := make(chan error)
		go func() {
			_, err := c.Fetch(ctx, fetch.Request{URL: h.URL("/")})
			waits <- err
		}()
		time.Sleep(time.Second)
		cancel()
		for _, ch := range []chan error{gone, waits} {
			require.Equal(t, outcome.Canceled, asError(t, <-ch).Class())
		}
		require.Equal(t, time.Second, time.Since(begin), "both end at once")

		go func() {
			_, err := c.Fetch(t.Context(), fetch.Request{URL: h.URL(fetchtest.SlowBody)})
			gone <- err
		}()
		synctest.Wait()
		time.Sleep(time.Second)
		begin = time.Now()
		_, err := c.Fetch(t.Context(), fetch.Request{URL: h.URL("/")})
		require.NoError(t, err, "it gets the place when the other one's time is up")
		require.Equal(t, 4*time.Second, time.Since(begin))
		require.Equal(t, outcome.Timeout, asError(t, <-gone).Class())
	})
}
