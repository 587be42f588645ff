package pipeline

import (
	"bytes"
	"log/slog"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/internal/ratelimit/control"
	"github.com/treadlight/crawl/internal/records/sink"
)

// A crawl waits in its frontier and not in Acquire; what the limiter made it wait for is
// counted all the same, once for each request, and so is what an open circuit held back.
func TestWaitsForTheLimiterAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := fetchtest.Serve(t, map[string]http.Handler{"paced.test": site(404, 0, 1e6, 30)})
		w := newWorldOn(t, fetch.Config{DialContext: net.DialContext})
		w.limits.Strategy, w.limits.InitialRPS, w.limits.MaxRPS = control.NameFixed, 1, 1
		p, err := w.crawl(t, "http://paced.test/")
		require.NoError(t, err)
		l := p.Snapshot().Limiter
		require.EqualValues(t, 32, l.Requests, "robots.txt and 31 pages")
		require.InDelta(t, 32, l.Throttled, 2, "all but those of the first burst had to wait")
		require.LessOrEqual(t, l.Throttled, l.Requests)
		require.Zero(t, l.Denied)
	})
	synctest.Test(t, func(t *testing.T) {
		net := fetchtest.Serve(t, map[string]http.Handler{"sick.test": site(404, 500, 3, 30)})
		w := newWorldOn(t, fetch.Config{DialContext: net.DialContext})
		p, err := w.crawl(t, "http://sick.test/")
		require.NoError(t, err)
		requireEnd(t, p, EndBlocked)
		l := p.Snapshot().Limiter
		require.NotZero(t, l.Open)
		require.NotZero(t, l.Denied)
		require.Less(t, l.Denied, l.Requests, "a request that waits is denied once, however often it asks")
	})
}

// What is said while only blocked hosts remain is said of them.
func TestOnlyBlockedHostsAreNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Bool
		net := fetchtest.Serve(t, map[string]http.Handler{
			"shut.test": http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/" && asked.CompareAndSwap(false, true) {
					html(rw, links(3))
					return
				}
				rw.Header().Set("Retry-After", "3600")
				rw.WriteHeader(http.StatusServiceUnavailable)
			}),
			"well.test": site(404, 0, 1e6, 40), "good.test": site(404, 0, 1e6, 40),
		})
		w := newWorldOn(t, fetch.Config{DialContext: net.DialContext})
		var said bytes.Buffer
		w.Log = slog.New(slog.NewTextHandler(&said, nil))
		w.MaxBlocked = 2 * time.Hour
		p, err := w.crawl(t, "http://shut.test/", "http://well.test/", "http://good.test/")
		require.NoError(t, err)
		requireEnd(t, p, EndBlocked)
		require.Contains(t, said.String(), "only blocked hosts remain")
		for line := range bytes.Lines(said.Bytes()) {
			if bytes.Contains(line, []byte("only blocked hosts remain")) {
				require.Contains(t, string(line), "host=shut.test")
				require.NotContains(t, string(line), "until=0001")
			}
		}
	})
}

// A record is a page, an error, both (its body broke off) or neither, whoever counts it.
func TestErrorsOfRecords(t *testing.T) {
	var s stats
	for _, rec := range []sink.Record{
		{Kind: "page", Status: 200},
		{Kind: "page", Status: 404},
		{Kind: "page", Status: 301},
		{Kind: "page", Error: &sink.Error{Class: "network"}},
		{Kind: "page", Error: &sink.Error{Class: "robots"}},
		{Kind: "page", Status: 200, Error: &sink.Error{Class: "filtered"}},
		{Kind: "sitemap", Status: 200},
		{Kind: "sitemap", Status: 500},
	} {
		s.record(&rec)
	}
	require.EqualValues(t, 1, s.pages.Load())
	require.EqualValues(t, 2, s.errors.Load())
}
