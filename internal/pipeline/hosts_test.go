package pipeline

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/frontier/attribution"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/request"
	"github.com/treadlight/crawl/internal/web/robots"
)

func html(rw http.ResponseWriter, s string) {
	rw.Header().Set("Content-Type", "text/html")
	_, _ = rw.Write([]byte(s))
}

func links(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "<a href=/%d>x</a>", i)
	}
	return b.String()
}

// Rules expire while a page is retried, and robots.txt redirects within the host: the
// page waits for the file and must not stand in front of it.
func TestRobotsExpireDuringARetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int32
		w, _ := served(t, map[string]http.Handler{
			"a.test": http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/robots.txt":
					http.Redirect(rw, r, "/rules", http.StatusFound)
				case "/rules":
					_, _ = rw.Write([]byte("User-agent: *\nDisallow: /no\n"))
				default:
					if n.Add(1) < 3 {
						time.Sleep(4 * time.Second)
						rw.WriteHeader(http.StatusServiceUnavailable)
						return
					}
					html(rw, "x")
				}
			}),
		})
		var err error
		w.Robots, err = robots.New(robots.Config{Agent: "Treadlight", TTL: 3 * time.Second})
		require.NoError(t, err)
		p := w.build(t)
		ctx, cancel := context.WithTimeout(t.Context(), 1000*time.Hour)
		defer cancel()
		err = w.run(ctx, t, p, "http://a.test/")
		require.NoError(t, err)
	})
}

// A page that comes back unfetched is not one of MaxPages.
func TestMaxPagesCountsPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int32
		w, _ := served(t, map[string]http.Handler{
			"a.test": noRobots(func(rw http.ResponseWriter, _ *http.Request) {
				if n.Add(1) < 2 {
					rw.Header().Set("Retry-After", "1")
					rw.WriteHeader(http.StatusTooManyRequests)
					return
				}
				html(rw, `<a href=/1>1</a><a href=/2>1</a><a href=/3>1</a><a href=/4>1</a>`)
			}),
		})
		w.MaxPages = 1
		w.finish(t, EndLimit, "http://a.test/")
		require.Len(t, w.out.records, 1)
	})
}

// Slow hosts that keep all slots busy make room for one that is new, and a slow handler is no sign of slow hosts.
func TestNewHostBesideSlowOnes(t *testing.T) {
	for name, tc := range map[string]struct{ host, handler, within time.Duration }{
		"slow hosts":     {host: 3 * time.Second, within: 10 * time.Second},
		"a slow handler": {handler: time.Second, within: 30 * time.Second},
	} {
		t.Run(name, bubble(func(t *testing.T) {
			const after = 2 * time.Minute
			began, first := time.Now(), new(atomic.Int64)
			hosts := map[string]http.Handler{"quick.test": http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
				first.CompareAndSwap(0, int64(time.Since(began)))
				html(rw, "x")
			})}
			var seeds []canonical.URL
			for i := range 4 {
				host := fmt.Sprintf("h%d.test", i)
				hosts[host] = noRobots(func(rw http.ResponseWriter, _ *http.Request) { time.Sleep(tc.host); html(rw, links(300)) })
				seeds = append(seeds, parse(t, "http://"+host+"/"))
			}
			w, _ := served(t, hosts)
			w.Concurrency = 16
			w.limits.LatencyTarget = tc.host + time.Second
			w.Handle = func(context.Context, *Page) error { time.Sleep(tc.handler); return nil }
			require.NoError(t, w.build(t).Run(t.Context(), func(yield func(request.Seed) bool) {
				for _, u := range seeds {
					if !yield(request.Seed{URL: u}) {
						return
					}
				}
				time.Sleep(after)
				yield(request.Seed{URL: parse(t, "http://quick.test/")})
			}))
			require.Less(t, time.Duration(first.Load()), after+tc.within)
		}))
	}
}

// An order to wait holds from its header on, however long the body drips.
func TestRetryAfterHoldsFromTheHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told time.Time
		var after atomic.Int64
		w, _ := served(t, map[string]http.Handler{
			"a.test": siteAfter(201, func(rw http.ResponseWriter, r *http.Request) bool {
				if !told.IsZero() && time.Since(told) < 60*time.Second {
					after.Add(1)
				}
				if r.URL.Path != "/5" || !told.IsZero() {
					return false
				}
				told = time.Now()
				rw.Header().Set("Retry-After", "60")
				rw.WriteHeader(http.StatusTooManyRequests)
				for range 10 {
					_, _ = rw.Write([]byte("please wait "))
					rw.(http.Flusher).Flush()
					time.Sleep(time.Second)
				}
				return true
			}),
		})
		w.limits.InitialRPS = 5
		w.must(t, "http://a.test/")
		require.Zero(t, after.Load(), "requests inside the Retry-After")
	})
}

// Our own slow pace after a refusal is no reason to end, nor is a connection lost between two requests; and a host that
// keeps its pace is work to do, whoever else refuses.
func TestNoBlockage(t *testing.T) {
	refusing := func(which int32, wait string) http.HandlerFunc {
		var n atomic.Int32
		return func(rw http.ResponseWriter, _ *http.Request) {
			if n.Add(1) == which {
				rw.Header().Set("Retry-After", wait)
				rw.WriteHeader(http.StatusTooManyRequests)
				return
			}
			html(rw, links(3))
		}
	}
	var lost atomic.Bool
	for name, tc := range map[string]struct {
		a, b     http.Handler
		wait     time.Duration // MaxBlocked
		minDelay time.Duration
		records  int
	}{
		"a slow pace": {refusing(3, "1"), nil, 5 * time.Minute, 10 * time.Minute, 4},
		"a kept connection that is gone": {noRobots(func(rw http.ResponseWriter, _ *http.Request) {
			if !lost.Swap(true) {
				panic(http.ErrAbortHandler)
			}
			html(rw, "x")
		}), nil, 0, 0, 1},
		"another keeps its pace": {refusing(2, "5"), files{"/robots.txt": "User-agent: *\nCrawl-delay: 20\n", "/": links(3)}, 0, 0, 0},
	} {
		t.Run(name, bubble(func(t *testing.T) {
			w, net := served(t, map[string]http.Handler{"a.test": tc.a, "b.test": tc.b})
			w.MaxBlocked, w.limits.MinDelay = tc.wait, tc.minDelay
			if tc.b == nil {
				w.finish(t, EndDone, "http://a.test/")
				require.Len(t, w.out.records, tc.records)
				return
			}
			w.must(t, "http://a.test/", "http://b.test/")
			require.Equal(t, 1, net.Count("b.test", "/"), "b.test only keeps its pace")
		}))
	}
}

// A port where nobody listens is given up after two tries, each with a permit, whether it is robots.txt that is asked
// for, or where that has moved, or the page; every seed of it says why.
func TestDeadPort(t *testing.T) {
	for _, tc := range []struct {
		name   string
		host   string
		robots bool
		seeds  int
		told   int // requests that the limiter hears of
		end    End
		within time.Duration
	}{
		{"with robots.txt", "shut.test", true, 1, attribution.MaxContacts, EndDone, 4 * time.Second},
		{"many seeds with robots.txt", "shut.test", true, 50, attribution.MaxContacts, EndDone, 4 * time.Second},
		{"without robots.txt", "shut.test", false, 1, attribution.MaxContacts, EndDone, 4 * time.Second},
		{"with a robots.txt that has moved there", "a.test", true, 1, 2 * attribution.MaxContacts, EndUnruled, 6 * time.Second},
	} {
		t.Run(tc.name, bubble(func(t *testing.T) {
			w, _ := served(t, map[string]http.Handler{
				"a.test": http.RedirectHandler("http://shut.test/robots.txt", http.StatusFound), "shut.test": nil,
			})
			if !tc.robots {
				w.Robots = nil
			}
			p, r := recorded(t, w)
			var seeds []string
			for i := range tc.seeds {
				seeds = append(seeds, fmt.Sprintf("http://%s/%d", tc.host, i))
			}
			require.NoError(t, w.run(t.Context(), t, p, seeds...))
			requireEnd(t, p, tc.end)
			t.Logf("given up after %v", time.Since(w.began))
			require.Less(t, time.Since(w.began), tc.within)
			require.Len(t, r.told, tc.told)
			require.GreaterOrEqual(t, r.told[len(r.told)-1].after-r.told[0].after, 999*time.Millisecond, "the second try is paced")
			require.Len(t, w.out.records, tc.seeds)
			require.Equal(t, tc.host == "a.test", p.Snapshot().Answered > 0)
			for _, rec := range w.out.records {
				require.Equal(t, outcome.Network.String(), rec.Error.Class)
				require.Contains(t, rec.Error.Message, "connection refused")
			}
		}))
	}
}

// A host that is being restarted at the first contact, and one that goes away later, are not given up so soon.
func TestOutageIsNoDeadPort(t *testing.T) {
	for name, down := range map[string][2]time.Duration{
		"at the first contact": {0, time.Second},
		"later":                {4 * time.Second, 10 * time.Second},
	} {
		t.Run(name, bubble(func(t *testing.T) {
			w, network := worldWithOutage(t, down)
			w.finish(t, EndDone, "http://a.test/")
			for u, rec := range w.out.byURL(t) {
				require.Equal(t, 200, rec.Status, u)
			}
			require.Len(t, w.out.records, 11)
			require.Equal(t, 1, network.Count("a.test", "/"))
		}))
	}
}

// Request-rate is obeyed like Crawl-delay, the slower of both wins, and the switch that
// ignores the one ignores the other.
func TestRequestRate(t *testing.T) {
	for _, tc := range []struct {
		rules  string
		ignore bool
		gap    time.Duration
	}{
		{"Request-rate: 1/5\n", false, 5 * time.Second},
		{"Request-rate: 2/20s 0600-0845\n", false, 10 * time.Second},
		{"Crawl-delay: 2\nRequest-rate: 1/4\n", false, 4 * time.Second},
		{"Crawl-delay: 4\nRequest-rate: 1/2\n", false, 4 * time.Second},
		{"Crawl-delay: 4\nRequest-rate: 1/5\n", true, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			w, network := served(t, map[string]http.Handler{"a.test": files{"/robots.txt": "User-agent: *\n" + tc.rules, "/": links(5)}})
			w.IgnoreCrawlDelay = tc.ignore
			w.must(t, "http://a.test/")
			require.Equal(t, 7, network.Count("a.test", ""))
			require.GreaterOrEqual(t, network.MinGap("a.test"), tc.gap, tc.rules)
			if tc.ignore {
				require.Less(t, network.MinGap("a.test"), 4*time.Second)
			}
		})
	}
}

// worldWithOutage is a crawl of a.test, whose port is closed from one instant to another, both counted from now.
func worldWithOutage(t *testing.T, down [2]time.Duration) (*world, *fetchtest.Net) {
	t.Helper()
	var shut atomic.Bool
	network := fetchtest.Serve(t, map[string]http.Handler{
		"shut.test": nil,
		"a.test": siteAfter(11, func(rw http.ResponseWriter, _ *http.Request) bool {
			rw.Header().Set("Connection", "close") // or a kept connection would outlive the port
			return false
		}),
	})
	shut.Store(down[0] == 0)
	time.AfterFunc(down[0], func() { shut.Store(true) })
	time.AfterFunc(down[1], func() { shut.Store(false) })
	return newWorldOn(t, fetch.Config{DialContext: gated(network, &shut)}), network
}

type dialFunc = func(context.Context, string, string) (net.Conn, error)

func gated(network *fetchtest.Net, shut *atomic.Bool) dialFunc {
	return func(ctx context.Context, n, addr string) (net.Conn, error) {
		if shut.Load() {
			addr = "shut.test:80"
		}
		return network.DialContext(ctx, n, addr)
	}
}
