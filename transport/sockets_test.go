package transport_test

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/ratelimit/backoff"
	"github.com/treadlight/crawl/internal/ratelimit/classic"
	"github.com/treadlight/crawl/transport"
)

// Every kind of limiter lets through what it has permits for, and not one request more
// reaches the server.
func TestEveryLimiterOverRealSockets(t *testing.T) {
	granted := map[classic.Kind]int32{classic.KindLeakyBucket: 1} // paces: one at a time
	for _, kind := range classic.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			var hits atomic.Int32
			url, base, _ := onLoopback(t, func(w http.ResponseWriter, _ *http.Request) {
				hits.Add(1)
				_, _ = io.WriteString(w, "page")
			})
			spec := classic.Spec{Kind: kind, Permits: 2, Per: time.Hour}
			if kind == classic.KindConcurrency {
				spec.Per = 0
			}
			l := must(classic.New(spec))
			rt := limited(transport.Policy{Limiter: l, AcquireTimeout: transport.NowOrNever}, base)
			var open []*http.Response
			for range 4 {
				res, err := rt.RoundTrip(get(t, url))
				if err == nil {
					open = append(open, res)
					continue
				}
				var limit *classic.LimitError
				require.ErrorAs(t, err, &limit)
				require.Equal(t, string(kind), limit.Algorithm)
				require.Equal(t, kind != classic.KindConcurrency, limit.RetryAfter > 0)
			}
			want := granted[kind]
			if want == 0 {
				want = 2
			}
			require.Len(t, open, int(want))
			require.Equal(t, want, hits.Load())
			for _, res := range open {
				require.Equal(t, "page", read(t, res))
			}
			require.Zero(t, l.Statistics().InUse)
			if kind == classic.KindConcurrency {
				do(t, rt, get(t, url)) // the permits came back with the bodies
			}
			require.NoError(t, l.Close())
			_, err := rt.RoundTrip(get(t, url))
			require.ErrorIs(t, err, classic.ErrClosed)
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
				req := newRequest(t.Context(), t, http.MethodPost, url, strings.NewReader(text))
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
