package integration_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
)

// configured is a configuration as a user's file gives it, on top of a quick pace.
func configured(t *testing.T, yaml string) assembly.Config {
	t.Helper()
	const quick = "ratelimit: {strategy: fixed, initial_rps: 10, max_rps: 10}\n"
	l, err := config.Load(config.Sources{File: "crawl.yaml", Reader: strings.NewReader(quick + yaml)})
	require.NoError(t, err)
	cfg := assembly.DefaultConfig()
	cfg.Settings = l.Config
	cfg.Sitemaps.Enabled = false // requests are counted
	return cfg
}

// shop is a host of so many pages, each of which takes a while, and a robots.txt of its own.
func shop(pages int, latency time.Duration, robots http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			robots(w, r)
			return
		}
		time.Sleep(latency)
		w.Header().Set("Content-Type", "text/html")
		for n := 1; r.URL.Path == "/" && n < pages; n++ {
			fmt.Fprintf(w, `<a href="/%d">`, n)
		}
	})
}

// first answers the first so often as bad does, and then lets everything be fetched.
func first(times int32, bad http.HandlerFunc) http.HandlerFunc {
	var n atomic.Int32
	return func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) <= times {
			bad(w, r)
			return
		}
		fmt.Fprint(w, "User-agent: *\nDisallow: /none\n")
	}
}

func unavailable(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusServiceUnavailable)
}

const retryAfterASecond = "resilience: {retry: {max_retries: 2, backoff: {type: constant, base_ms: 1000, use_jitter: false}}}\n"

// arrivals are when a path was asked for, since the first request of all.
func arrivals(net *fetchtest.Net, path string) (at []time.Duration) {
	all := net.Requests()
	for _, r := range all {
		if r.Path == path {
			at = append(at, r.At.Sub(all[0].At))
		}
	}
	return at
}

// What is asked again is another request, with a permit of its own, and not after the frontier's pause.
func TestRobotsAreRetried(t *testing.T) {
	broken := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	for class, bad := range map[string]http.HandlerFunc{"unavailable": unavailable, "network": broken} {
		t.Run(class, bubble(func(t *testing.T) {
			net := fetchtest.Serve(t, map[string]http.Handler{"a.test": shop(3, 0, first(2, bad))})
			got, s := visitOver(t, configured(t, retryAfterASecond), net.DialContext, "http://a.test/")
			require.Len(t, got, 3)
			require.Equal(t, []time.Duration{0, time.Second, 2 * time.Second}, arrivals(net, "/robots.txt"))
			require.EqualValues(t, 6, s.Requests)
			require.EqualValues(t, 6, s.Limiter.Requests, "a permit each")
			require.EqualValues(t, 2, s.Limiter.Retries)
			require.EqualValues(t, 2, s.Outcomes[class], "heard of once each")
			require.Zero(t, s.Limiter.InFlight)
			require.EqualValues(t, 2, s.Retries)
		}))
	}
}

func TestRobotsThatAskForTimeGetIt(t *testing.T) {
	for _, status := range []int{http.StatusServiceUnavailable, http.StatusTooManyRequests} {
		t.Run(http.StatusText(status), bubble(func(t *testing.T) {
			net := fetchtest.Serve(t, map[string]http.Handler{"a.test": shop(3, 0, first(1, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", "7")
				w.WriteHeader(status)
			}))})
			got, s := visitOver(t, configured(t, retryAfterASecond), net.DialContext, "http://a.test/")
			require.Len(t, got, 3)
			at := arrivals(net, "/robots.txt")
			require.Len(t, at, 2)
			require.GreaterOrEqual(t, at[1], 7*time.Second)
			require.Less(t, at[1], 20*time.Second)
			require.Less(t, s.Workers.WaitSeconds, 0.1, "no worker waits for it")
		}))
	}
}

// Where the host may not be asked yet when the pause is over, the answer stands: the
// frontier asks again, as if there was no retry.
func TestARetryDoesNotBeatThePace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := configured(t, retryAfterASecond)
		cfg.RateLimit.MinDelay = 3 * time.Second
		net := fetchtest.Serve(t, map[string]http.Handler{"a.test": shop(3, 0, first(2, unavailable))})
		got, s := visitOver(t, cfg, net.DialContext, "http://a.test/")
		require.Len(t, got, 3)
		require.GreaterOrEqual(t, net.MinGap("a.test"), 3*time.Second)
		require.EqualValues(t, 2, s.Outcomes["unavailable"])
		require.Equal(t, s.Requests, int64(s.Limiter.Requests))
		require.Zero(t, s.Limiter.Retries, "none was sent by the retry")
	})
}

// A pause that fetch.timeout ends is not held against the host.
func TestARetryEndsWithTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := configured(t, "fetch: {timeout: 5s}\nresilience: {retry: {retry_forever: true, backoff: {type: constant, base_ms: 60000, max_delay_ms: 60000, use_jitter: false}}}\n")
		net := fetchtest.Serve(t, map[string]http.Handler{"a.test": shop(3, 0, first(1, unavailable))})
		got, s := visitOver(t, cfg, net.DialContext, "http://a.test/")
		require.Len(t, got, 3)
		require.Len(t, arrivals(net, "/robots.txt"), 2)
		require.EqualValues(t, 1, s.Outcomes["unavailable"])
		require.Zero(t, s.Outcomes["timeout"])
	})
}

// flights counts the requests that a set of hosts has under way.
type flights struct {
	http.Handler
	now, most *atomic.Int32
}

func (f flights) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := f.now.Add(1)
	defer f.now.Add(-1)
	for most := f.most.Load(); n > most && !f.most.CompareAndSwap(most, n); most = f.most.Load() {
	}
	f.Handler.ServeHTTP(w, r)
}

func TestBulkheads(t *testing.T) {
	const latency = 500 * time.Millisecond
	for _, tc := range []struct {
		yaml string
		all  int32 // most under way at a time
		one  int32 // and at one host
	}{
		{"resilience: {bulkhead: {max_concurrency: 2}}", 2, 2},
		{"resilience: {bulkhead: {max_concurrency: 2, max_queue_depth: 0}}", 2, 2},
		{"resilience: {bulkhead: {max_concurrency: 2, queue_timeout_seconds: 0}}", 2, 2},
		{"resilience: {bulkhead: {max_concurrency: 2, queue_timeout_seconds: 0.001}}", 2, 2}, // most find no place
		{"resilience: {bulkhead_isolation: {max_concurrent_requests: 1, queue_timeout_seconds: 1}}", 4, 1},
		{"resilience: {bulkhead: {max_concurrency: 3}, bulkhead_isolation: {max_concurrent_requests: 2, max_queue_size: 1}, timeout: {seconds: 1}}", 3, 2},
	} {
		t.Run(tc.yaml, bubble(func(t *testing.T) {
			var now, most atomic.Int32
			hosts, each := map[string]http.Handler{}, map[string]*atomic.Int32{}
			var seeds []string
			for _, name := range []string{"a.test", "b.test", "c.test", "d.test"} {
				each[name] = new(atomic.Int32)
				hosts[name] = flights{flights{shop(40, latency, http.NotFound), new(atomic.Int32), each[name]}, &now, &most}
				seeds = append(seeds, "http://"+name+"/")
			}
			net := fetchtest.Serve(t, hosts)
			cfg := configured(t, tc.yaml)
			cfg.Concurrency = 32
			began := time.Now()
			got, s := visitOver(t, cfg, net.DialContext, seeds...)
			require.Len(t, byURL(t, got), 160)
			for _, rec := range got {
				require.Equal(t, 200, rec.Status)
				require.EqualValues(t, 1, rec.Attempt, "no try is spent on a queue")
			}
			require.Equal(t, tc.all, most.Load())
			for name, n := range each {
				require.LessOrEqual(t, n.Load(), tc.one, name)
			}
			require.EqualValues(t, 164, s.Requests)
			require.EqualValues(t, 164, s.Limiter.Requests, "no permit was spent in a queue")
			// 160 pages of half a second at so many at a time take that long at least; half of
			// the time may be lost where places are found by chance.
			require.Less(t, time.Since(began), 2*160/time.Duration(tc.all)*latency)
		}))
	}
}

// Permits are taken behind the queue: what was in it when the host asked for time is not
// sent, and requests that leave it together are not sent together.
func TestQueuesDoNotBeatThePace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int32
		var told atomic.Int64 // when, since the bubble began
		begin := time.Now()
		refusing := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if at := told.Load(); at > 0 {
				require.GreaterOrEqual(t, time.Since(begin)-time.Duration(at), 60*time.Second)
			}
			if n.Add(1) == 10 {
				told.Store(int64(time.Since(begin)))
				w.Header().Set("Retry-After", "60")
				w.WriteHeader(http.StatusTooManyRequests)
				return
			}
			shop(40, time.Second, unavailable).ServeHTTP(w, r)
		})
		cfg := configured(t, "resilience: {bulkhead: {max_concurrency: 1}}\nrobots: {enabled: false}\n")
		cfg.RateLimit.MinDelay = 300 * time.Millisecond
		net := fetchtest.Serve(t, map[string]http.Handler{"a.test": refusing})
		got, _ := visitOver(t, cfg, net.DialContext, "http://a.test/")
		require.Len(t, got, 40)
		require.GreaterOrEqual(t, net.MinGap("a.test"), 300*time.Millisecond)
	})
}

func TestRequestsAreLoggedWithoutSecrets(t *testing.T) {
	for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo} {
		synctest.Test(t, func(t *testing.T) {
			net := fetchtest.Serve(t, map[string]http.Handler{"a.test": shop(2, 0, first(1, unavailable))})
			var log bytes.Buffer
			cfg := configured(t, retryAfterASecond+"fetch: {headers: [\"Authorization: Bearer hunter2\", \"Cookie: sid=hunter2\"]}\n")
			cfg.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: level}))
			got, _ := visitOver(t, cfg, net.DialContext, "http://a.test/?token=hunter2&q=1")
			require.NotEmpty(t, got)
			require.NotContains(t, log.String(), "hunter2")
			requests := strings.Count(log.String(), "msg=request ")
			if level == slog.LevelInfo {
				require.Zero(t, requests)
				return
			}
			require.Equal(t, len(got)+1, requests, log.String())
			require.Regexp(t, `level=DEBUG msg=policy event=.*RetryEvent.*Attempt:1`, log.String())
			require.Regexp(t, `level=DEBUG msg=request method=GET url=http://a\.test/robots\.txt status=200 attempts=2 `, log.String())
		})
	}
}
