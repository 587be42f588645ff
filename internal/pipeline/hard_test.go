package pipeline

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/internal/web/canonical"
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
		net := fetchtest.Serve(t, map[string]http.Handler{
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
		w := newWorldOn(t, fetch.Config{DialContext: net.DialContext})
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
		net := fetchtest.Serve(t, map[string]http.Handler{
			"a.test": http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/robots.txt" {
					rw.WriteHeader(http.StatusNotFound)
					return
				}
				if n.Add(1) < 2 {
					rw.Header().Set("Retry-After", "1")
					rw.WriteHeader(http.StatusTooManyRequests)
					return
				}
				html(rw, `<a href=/1>1</a><a href=/2>1</a><a href=/3>1</a><a href=/4>1</a>`)
			}),
		})
		w := newWorldOn(t, fetch.Config{DialContext: net.DialContext})
		w.MaxPages = 1
		p, err := w.crawl(t, "http://a.test/")
		require.NoError(t, err)
		requireEnd(t, p, EndLimit)
		require.Len(t, w.out.records, 1)
	})
}

// One host, one pace: a Crawl-delay under https holds under http too, which has none.
func TestCrawlDelayOfEitherScheme(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// There is no TLS in the Net, so the gate itself is spoken to.
		w := newWorldOn(t, fetch.Config{})
		p := w.build(t)
		now := time.Now()
		p.gate.answer("https://a.test", &robotsAnswer{result: robots.Result{Kind: robots.Found, File: robots.Parse([]byte("User-agent: *\nCrawl-delay: 10\n"))}}, now)
		p.gate.answer("http://a.test", &robotsAnswer{result: robots.Result{Kind: robots.Absent}}, now)
		permit, err := w.Limiter.Acquire(t.Context(), "a.test")
		require.NoError(t, err)
		permit.Release()
		at, why := w.Limiter.ReadyAt("a.test", 0, 0)
		require.GreaterOrEqual(t, at.Sub(now), 10*time.Second, why.String())
	})
}

// Slow hosts that keep all slots busy make room for one that is new.
func TestNewHostBesideSlowOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var firstQuick atomic.Int64
		began := time.Now()
		slow := func(rw http.ResponseWriter, r *http.Request) {
			time.Sleep(3 * time.Second)
			if r.URL.Path == "/robots.txt" {
				rw.WriteHeader(http.StatusNotFound)
				return
			}
			html(rw, links(300))
		}
		hosts := map[string]http.Handler{"quick.test": http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
			firstQuick.CompareAndSwap(0, int64(time.Since(began)))
			html(rw, "x")
		})}
		var seeds []canonical.URL
		for i := range 4 {
			name := fmt.Sprintf("slow%d.test", i)
			hosts[name] = http.HandlerFunc(slow)
			u, _ := canonical.Parse("http://" + name + "/")
			seeds = append(seeds, u)
		}
		net := fetchtest.Serve(t, hosts)
		w := newWorldOn(t, fetch.Config{DialContext: net.DialContext})
		w.Concurrency = 16
		w.limits.LatencyTarget = 4 * time.Second
		p := w.build(t)
		err := p.Run(t.Context(), func(yield func(canonical.URL) bool) {
			for _, u := range seeds {
				if !yield(u) {
					return
				}
			}
			time.Sleep(2 * time.Minute)
			q, _ := canonical.Parse("http://quick.test/")
			yield(q)
		})
		require.NoError(t, err)
		require.Less(t, time.Duration(firstQuick.Load()), 2*time.Minute+10*time.Second)
	})
}

// A slow handler is no sign of slow hosts.
func TestNewHostBesideSlowHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hosts := map[string]http.Handler{}
		var first atomic.Int64
		began := time.Now()
		var seeds []canonical.URL
		for i := range 4 {
			name := fmt.Sprintf("h%d.test", i)
			u, _ := canonical.Parse("http://" + name + "/")
			seeds = append(seeds, u)
			hosts[name] = http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { html(rw, links(300)) })
		}
		hosts["new.test"] = http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
			first.CompareAndSwap(0, int64(time.Since(began)))
			html(rw, "x")
		})
		net := fetchtest.Serve(t, hosts)
		w := newWorldOn(t, fetch.Config{DialContext: net.DialContext})
		w.Concurrency = 16
		w.Handle = func(context.Context, *Page) error { time.Sleep(time.Second); return nil }
		p := w.build(t)
		require.NoError(t, p.Run(t.Context(), func(yield func(canonical.URL) bool) {
			for _, u := range seeds {
				if !yield(u) {
					return
				}
			}
			time.Sleep(time.Minute)
			q, _ := canonical.Parse("http://new.test/")
			yield(q)
		}))
		require.Less(t, time.Duration(first.Load()), 90*time.Second)
	})
}

// An order to wait holds from its header on, however long the body drips.
func TestRetryAfterHoldsFromTheHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told time.Time
		var after atomic.Int64
		net := fetchtest.Serve(t, map[string]http.Handler{
			"a.test": http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if !told.IsZero() && time.Since(told) < 60*time.Second {
					after.Add(1)
				}
				switch r.URL.Path {
				case "/robots.txt":
					rw.WriteHeader(http.StatusNotFound)
				case "/":
					var b strings.Builder
					for i := range 200 {
						fmt.Fprintf(&b, "<a href=/%d>x</a>", i)
					}
					html(rw, b.String())
				case "/5":
					if told.IsZero() {
						told = time.Now()
						rw.Header().Set("Retry-After", "60")
						rw.WriteHeader(http.StatusTooManyRequests)
						for range 10 {
							_, _ = rw.Write([]byte("please wait "))
							rw.(http.Flusher).Flush()
							time.Sleep(time.Second)
						}
						return
					}
					fallthrough
				default:
					html(rw, "x")
				}
			}),
		})
		w := newWorldOn(t, fetch.Config{DialContext: net.DialContext})
		w.limits.InitialRPS = 5
		_, err := w.crawl(t, "http://a.test/")
		require.NoError(t, err)
		require.Zero(t, after.Load(), "requests inside the Retry-After")
	})
}

// Under a rate for all hosts, leases are given out one by one: nobody gets a permit's
// place who then has to give it back.
func TestGlobalRateWithoutHerd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hosts := map[string]http.Handler{}
		var seeds []string
		for i := range 64 {
			name := fmt.Sprintf("h%d.test", i)
			seeds = append(seeds, "http://"+name+"/")
			hosts[name] = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/robots.txt" {
					rw.WriteHeader(http.StatusNotFound)
					return
				}
				var b strings.Builder
				for i := range 5 {
					fmt.Fprintf(&b, "<a href=/%d>x</a>", i)
				}
				html(rw, b.String())
			})
		}
		net := fetchtest.Serve(t, hosts)
		w := newWorldOn(t, fetch.Config{DialContext: net.DialContext})
		w.limits.GlobalRPS = 5
		p := w.build(t)
		require.NoError(t, w.run(t.Context(), t, p, seeds...))
		s := p.Snapshot()
		require.Zero(t, s.Limiter.Retries)
		require.Less(t, s.Returned, s.Requests/10)
	})
}

// After Stop, Discovery waits for what is under way; in a bubble a loop that spins would
// keep the clock from moving.
func TestStopDoesNotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := fetchtest.Serve(t, map[string]http.Handler{
			"a.test": http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
				time.Sleep(10 * time.Second)
				html(rw, "x")
			}),
		})
		w := newWorldOn(t, fetch.Config{DialContext: net.DialContext})
		p := w.build(t)
		time.AfterFunc(5*time.Second, p.Stop)
		require.NoError(t, w.run(t.Context(), t, p, "http://a.test/"))
		requireEnd(t, p, EndInterrupted)
	})
}

// Our own slow pace after a refusal is no reason to end.
func TestPaceIsNotBlockage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int32
		net := fetchtest.Serve(t, map[string]http.Handler{"a.test": http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
			if n.Add(1) == 3 {
				rw.Header().Set("Retry-After", "1")
				rw.WriteHeader(http.StatusTooManyRequests)
				return
			}
			html(rw, links(3))
		})})
		w := newWorldOn(t, fetch.Config{DialContext: net.DialContext})
		w.limits.MinDelay = 10 * time.Minute
		p, err := w.crawl(t, "http://a.test/")
		require.NoError(t, err)
		requireEnd(t, p, EndDone)
	})
}

// A connection lost between two requests is no refusal.
func TestStaleConnectionIsNotBlockage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int32
		net := fetchtest.Serve(t, map[string]http.Handler{"a.test": http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/robots.txt" {
				rw.WriteHeader(http.StatusNotFound)
				return
			}
			if n.Add(1) == 1 {
				panic(http.ErrAbortHandler) // the kept connection is gone
			}
			html(rw, "x")
		})})
		w := newWorldOn(t, fetch.Config{DialContext: net.DialContext})
		w.MaxBlocked = 0
		p, err := w.crawl(t, "http://a.test/")
		require.NoError(t, err)
		requireEnd(t, p, EndDone)
		require.Len(t, w.out.records, 1)
	})
}

// A host that keeps its pace is work to do, whoever else refuses.
func TestOneBlockedHostIsNotAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int32
		net := fetchtest.Serve(t, map[string]http.Handler{
			"a.test": http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
				if n.Add(1) == 2 {
					rw.Header().Set("Retry-After", "5")
					rw.WriteHeader(http.StatusTooManyRequests)
					return
				}
				html(rw, links(3))
			}),
			"b.test": http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/robots.txt" {
					_, _ = rw.Write([]byte("User-agent: *\nCrawl-delay: 20\n"))
					return
				}
				html(rw, links(3))
			}),
		})
		w := newWorldOn(t, fetch.Config{DialContext: net.DialContext})
		w.MaxBlocked = 0
		_, err := w.crawl(t, "http://a.test/", "http://b.test/")
		require.NoError(t, err)
		require.Equal(t, 1, net.Count("b.test", "/"), "b.test only keeps its pace")
	})
}
