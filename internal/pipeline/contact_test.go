package pipeline

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/frontier/attribution"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/internal/web/robots"
)

// A port where nobody listens is given up after two tries, each with a permit, whether
// it is robots.txt that is asked for or the page; every seed of it says why.
func TestDeadPort(t *testing.T) {
	for _, tc := range []struct {
		name   string
		robots bool
		seeds  int
		within time.Duration
	}{
		{"with robots.txt", true, 1, 4 * time.Second},
		{"many seeds with robots.txt", true, 50, 4 * time.Second},
		{"without robots.txt", false, 1, 4 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				network := fetchtest.Serve(t, map[string]http.Handler{"shut.test": nil})
				w := newWorldOn(t, fetch.Config{DialContext: network.DialContext})
				if !tc.robots {
					w.Robots = nil
				}
				p, r := recorded(t, w)
				var seeds []string
				for i := range tc.seeds {
					seeds = append(seeds, fmt.Sprintf("http://shut.test/%d", i))
				}
				require.NoError(t, w.run(t.Context(), t, p, seeds...))
				requireEnd(t, p, EndDone)
				t.Logf("given up after %v", time.Since(w.began))
				require.Less(t, time.Since(w.began), tc.within)
				require.Len(t, r.told, attribution.MaxContacts)
				require.GreaterOrEqual(t, r.told[1].after-r.told[0].after, 999*time.Millisecond, "the second try is paced")
				require.Len(t, w.out.records, tc.seeds)
				for _, rec := range w.out.records {
					require.Equal(t, outcome.Network.String(), rec.Error.Class)
					require.Contains(t, rec.Error.Message, "connection refused")
				}
			})
		})
	}
}

// A host that is being restarted at the first contact, and one that goes away later,
// are not given up so soon.
func TestOutageIsNoDeadPort(t *testing.T) {
	for name, down := range map[string][2]time.Duration{
		"at the first contact": {0, time.Second},
		"later":                {4 * time.Second, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, network := worldWithOutage(t, down)
				p, err := w.crawl(t, "http://a.test/")
				require.NoError(t, err)
				requireEnd(t, p, EndDone)
				for u, rec := range w.out.byURL(t) {
					require.Equal(t, 200, rec.Status, u)
				}
				require.Len(t, w.out.records, 11)
				require.Equal(t, 1, network.Count("a.test", "/"))
			})
		})
	}
}

// A robots.txt may be moved to a host that nobody listens at: that is no answer, and soon.
func TestRobotsMovedToDeadPort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := fetchtest.Serve(t, map[string]http.Handler{
			"a.test": http.RedirectHandler("http://shut.test/robots.txt", http.StatusFound), "shut.test": nil,
		})
		w := newWorldOn(t, fetch.Config{DialContext: network.DialContext})
		_, err := w.crawl(t, "http://a.test/")
		require.NoError(t, err)
		require.Len(t, w.out.records, 1)
		require.Equal(t, outcome.Network.String(), w.out.records[0].Error.Class)
		require.Less(t, time.Since(w.began), 6*time.Second)
		require.Zero(t, network.Count("a.test", "/"))
	})
}

// A 429 whose body is spoilt is a refusal of the moment all the same: no try is spent.
func TestRefusalWithSpoiltBody(t *testing.T) {
	for _, bad := range []http.HandlerFunc{answer(429, -1), answer(429, 0, "Content-Encoding: gzip")} {
		synctest.Test(t, func(t *testing.T) {
			network := fetchtest.Serve(t, map[string]http.Handler{"a.test": once(bad)})
			w := newWorldOn(t, fetch.Config{DialContext: network.DialContext})
			w.Robots = nil
			_, err := w.crawl(t, "http://a.test/")
			require.NoError(t, err)
			require.Len(t, w.out.records, 1)
			require.Equal(t, 200, w.out.records[0].Status)
			require.Equal(t, 1, w.out.records[0].Attempt)
		})
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
			network := fetchtest.Serve(t, map[string]http.Handler{"a.test": http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/robots.txt" {
					_, _ = rw.Write([]byte("User-agent: *\n" + tc.rules))
					return
				}
				html(rw, links(5))
			})})
			w := newWorldOn(t, fetch.Config{DialContext: network.DialContext})
			w.IgnoreCrawlDelay = tc.ignore
			_, err := w.crawl(t, "http://a.test/")
			require.NoError(t, err)
			require.Equal(t, 7, network.Count("a.test", ""))
			require.GreaterOrEqual(t, network.MinGap("a.test"), tc.gap, tc.rules)
			if tc.ignore {
				require.Less(t, network.MinGap("a.test"), 4*time.Second)
			}
		})
	}
}

// Under https a rate holds under http too, which has none: it is one host.
func TestPauseOfEitherScheme(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOn(t, fetch.Config{})
		p, delays := w.build(t), new(delays)
		p.gate.limiter = delays
		now := time.Now()
		found := func(rules string) *robotsAnswer {
			return &robotsAnswer{result: robots.Result{Kind: robots.Found, File: robots.Parse([]byte("User-agent: *\n" + rules))}}
		}
		p.gate.answer("https://a.test", found("Request-rate: 1/10m\n"), now)
		p.gate.answer("http://a.test", found("Crawl-delay: 10\n"), now)
		p.gate.answer("https://a.test", found("Request-rate: 1/5\n"), now)
		require.Equal(t, []time.Duration{10 * time.Minute, 10 * time.Minute, 10 * time.Second}, delays.set)
	})
}

// delays notes what is asked of a limiter; nothing else of it may be used.
type delays struct {
	Limiter
	set []time.Duration
}

func (d *delays) SetCrawlDelay(_ string, delay time.Duration) { d.set = append(d.set, delay) }

// worldWithOutage is a crawl of a.test, whose port is closed from one instant to another,
// both counted from now.
func worldWithOutage(t *testing.T, down [2]time.Duration) (*world, *fetchtest.Net) {
	t.Helper()
	var shut atomic.Bool
	network := fetchtest.Serve(t, map[string]http.Handler{
		"shut.test": nil,
		"a.test": http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Connection", "close") // or a kept connection would outlive the port
			if r.URL.Path == "/robots.txt" {
				rw.WriteHeader(http.StatusNotFound)
				return
			}
			html(rw, links(10))
		}),
	})
	shut.Store(down[0] == 0)
	time.AfterFunc(down[0], func() { shut.Store(true) })
	time.AfterFunc(down[1], func() { shut.Store(false) })
	return newWorldOn(t, fetch.Config{DialContext: gated(network, &shut)}), network
}

type dialFunc = func(context.Context, string, string) (net.Conn, error)

// gated dials shut.test, where nobody listens, while shut is set.
func gated(network *fetchtest.Net, shut *atomic.Bool) dialFunc {
	return func(ctx context.Context, n, addr string) (net.Conn, error) {
		if shut.Load() {
			addr = "shut.test:80"
		}
		return network.DialContext(ctx, n, addr)
	}
}
