package integration_test

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
)

// A program is told why a host is paused, and finds the same in the snapshot.
func TestOnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		site := star(5)
		net := fetchtest.Serve(t, map[string]http.Handler{"a.test": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if asked.Add(1) == 3 {
				w.Header().Set("Retry-After", "7")
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			site.ServeHTTP(w, r)
		})})
		var mu sync.Mutex
		var events []crawl.Event
		cfg := assembly.DefaultConfig()
		cfg.OnEvent = func(e crawl.Event) {
			mu.Lock()
			defer mu.Unlock()
			events = append(events, e)
		}
		list, snap := visitOver(t, cfg, net.DialContext, "http://a.test/")
		require.Len(t, list, 6)
		require.GreaterOrEqual(t, len(events), 3)
		require.Equal(t, "a.test", events[0].Domain)
		require.Equal(t, "the host answered 503 and asked to wait 7s: nothing goes out before", events[0].Text)
		require.Equal(t, (7 * time.Second).Milliseconds(), events[0].HoldMS)
		require.Len(t, snap.Limiter.Top, 1)
		require.Len(t, snap.Limiter.Top[0].Events, len(events))
		require.Equal(t, events[0].Text, snap.Limiter.Top[0].Events[0].Text)
	})
}
