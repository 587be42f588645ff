package paced_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/fetch/paced"
	"github.com/treadlight/crawl/internal/ratelimit"
)

// A request is sent again if the host was overloaded, at the pace of the host, four times in all, and one that may do
// something twice only if the host has refused it.
func TestDo(t *testing.T) {
	for name, tc := range map[string]struct {
		method   string
		statuses []int // the last one stays
		sends    int
	}{
		"good":             {"", []int{200}, 1},
		"absent":           {"", []int{404}, 1},
		"overloaded":       {"", []int{503, 429, 200}, 3},
		"down":             {"", []int{503}, 4},
		"unsafe, refused":  {http.MethodPost, []int{429, 200}, 2},
		"unsafe, a failed": {http.MethodPost, []int{500}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limiter, err := ratelimit.New(ratelimit.DefaultConfig())
				require.NoError(t, err)
				sends, noted := 0, 0
				var last time.Time
				c := paced.Client{
					Limiter: limiter, Clock: clock.System(), Note: func(resp *fetch.Response) {
						require.NotNil(t, resp)
						noted++
					},
					Fetch: func(_ context.Context, req fetch.Request) (*fetch.Response, error) {
						require.Equal(t, tc.method, req.Method)
						require.GreaterOrEqual(t, time.Since(last), time.Second)
						last = time.Now()
						sends++
						return &fetch.Response{Status: tc.statuses[min(sends, len(tc.statuses))-1]}, nil
					},
				}
				resp, err := c.Do(t.Context(), "a.test", fetch.Request{Method: tc.method})
				require.NoError(t, err)
				require.Equal(t, tc.statuses[len(tc.statuses)-1], resp.Status)
				require.Equal(t, []int{tc.sends, tc.sends}, []int{sends, noted})
				require.Zero(t, limiter.Snapshot().InFlight)
				ended, cancel := context.WithCancel(t.Context())
				cancel()
				_, err = c.Do(ended, "a.test", fetch.Request{})
				require.ErrorIs(t, err, context.Canceled)
			})
		})
	}
}
