package pipeline

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/header"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

type recorder struct {
	Limiter
	began time.Time

	mu   sync.Mutex // guards what follows
	told []told
	raw  []ratelimit.Feedback
}

type told struct {
	after  time.Duration
	status int
	class  outcome.Class
	wait   time.Duration
	quota  header.Quota
}

func (r *recorder) Feedback(domain string, fb ratelimit.Feedback) {
	r.mu.Lock()
	r.told = append(r.told, told{time.Since(r.began), fb.StatusCode, outcome.Of(fb.StatusCode, fb.Err), fb.RetryAfter, fb.Quota})
	r.raw = append(r.raw, fb)
	r.mu.Unlock()
	r.Limiter.Feedback(domain, fb)
}

func recorded(t *testing.T, w *world) (*Pipeline, *recorder) {
	t.Helper()
	w.build(t)
	r := &recorder{Limiter: w.Limiter, began: time.Now()}
	w.Limiter = r
	p, err := New(w.Config)
	require.NoError(t, err)
	return p, r
}

func once(bad http.HandlerFunc) http.Handler {
	var first sync.Once
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		handler := noRobots(func(rw http.ResponseWriter, _ *http.Request) {
			html(rw, "fine")
		})
		first.Do(func() { handler = bad })
		handler(rw, r)
	})
}

// answer is a handler: a status, header lines, then a body whose rest comes after rest, or never if that is negative.
func answer(status int, rest time.Duration, lines ...string) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		for _, line := range lines {
			name, value, _ := strings.Cut(line, ": ")
			rw.Header().Set(name, value)
		}
		rw.Header().Set("Content-Length", "8")
		rw.WriteHeader(status)
		_, _ = rw.Write([]byte("some"))
		_ = http.NewResponseController(rw).Flush()
		if rest < 0 {
			<-r.Context().Done()
			panic(http.ErrAbortHandler)
		}
		time.Sleep(rest)
		_, _ = rw.Write([]byte("body"))
	}
}

func raw(text string, after time.Duration) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(rw).Hijack()
		if err != nil {
			panic(err)
		}
		_, _ = c.Write([]byte(text))
		time.Sleep(after)
		_ = c.Close()
	}
}

const (
	bodyTimeout   = 15 * time.Second
	headerTimeout = 20 * time.Second
)

// behaviours is what hosts do and what the limiter is to hear of it, whether the request
// is for a page or for robots.txt.
var behaviours = []struct {
	name string
	host http.HandlerFunc
	want []told
}{
	{"a page", answer(200, 0), []told{{status: 200, class: outcome.OK}}},
	{"a slow page", answer(200, 5*time.Second), []told{{5 * time.Second, 200, outcome.OK, 0, header.Quota{}}}},
	{"not found", answer(404, 5*time.Second), []told{{status: 404, class: outcome.ClientError}}},
	{"forbidden", answer(403, 0), []told{{status: 403, class: outcome.ClientError}}},
	{"a timeout of the host's", answer(408, 0), []told{{status: 408, class: outcome.Timeout}}},
	{"redirect", answer(302, 0, "Location: /elsewhere"), []told{{status: 302, class: outcome.Redirect}}},
	{"429", answer(429, 0), []told{{status: 429, class: outcome.Throttled}}},
	{"429 with an order", answer(429, 9*time.Second, "Retry-After: 7"), []told{{status: 429, class: outcome.Throttled, wait: 7 * time.Second}}},
	{"429 that never ends", answer(429, -1, "Retry-After: 7"), []told{{status: 429, class: outcome.Throttled, wait: 7 * time.Second}}},
	{"503", answer(503, 9*time.Second), []told{{status: 503, class: outcome.Unavailable}}},
	{"503 with an order", answer(503, 0, "Retry-After: 7"), []told{{status: 503, class: outcome.Unavailable, wait: 7 * time.Second}}},
	{"503 that never ends", answer(503, -1), []told{{status: 503, class: outcome.Unavailable}}},
	{"503 badly coded", answer(503, 0, "Content-Encoding: gzip"), []told{{status: 503, class: outcome.Unavailable}}},
	{"408 badly coded", answer(408, 0, "Content-Encoding: gzip"), []told{{status: 408, class: outcome.Timeout}}},
	{"500", answer(500, 0), []told{{status: 500, class: outcome.ServerError}}},
	{"502", answer(502, 0), []told{{status: 502, class: outcome.Gateway}}},

	{"some quota left", answer(200, 5*time.Second, "X-RateLimit-Limit: 60", "X-RateLimit-Remaining: 3", "X-RateLimit-Reset: 30"), []told{
		{5 * time.Second, 200, outcome.OK, 0, header.Quota{Limit: 60, Remaining: 3, Reset: 25 * time.Second}},
	}},
	{"quota over before the body", answer(200, 5*time.Second, "X-RateLimit-Remaining: 3", "X-RateLimit-Reset: 4"), []told{
		{5 * time.Second, 200, outcome.OK, 0, header.Quota{}},
	}},
	{"quota without a reset", answer(200, 5*time.Second, "X-RateLimit-Remaining: 3"), []told{
		{5 * time.Second, 200, outcome.OK, 0, header.Quota{Remaining: 3}},
	}},
	{"quota used up", answer(200, 5*time.Second, "X-RateLimit-Limit: 60", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 30"), []told{
		{0, 200, outcome.OK, 0, header.Quota{Limit: 60, Reset: 30 * time.Second}},
	}},
	{"standard quota used up", answer(200, 5*time.Second, `RateLimit: "a";r=9;t=9, "b";r=0;t=12`), []told{
		{0, 200, outcome.OK, 0, header.Quota{Reset: 12 * time.Second}},
	}},
	{"429 with a quota", answer(429, 0, "X-RateLimit-Limit: 60", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 30"), []told{
		{0, 429, outcome.Throttled, 0, header.Quota{Limit: 60, Reset: 30 * time.Second}},
	}},
	{"a quota from a cache", answer(200, 0, "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 30", "Age: 100"), []told{{status: 200, class: outcome.OK}}},
	{"used up, then silent", answer(200, -1, "X-RateLimit-Limit: 60", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 30"), []told{
		{0, 200, outcome.OK, 0, header.Quota{Limit: 60, Reset: 30 * time.Second}},
		{bodyTimeout, 200, outcome.Timeout, 0, header.Quota{}},
	}},
	{"Retry-After on a page, then silent", answer(200, -1, "Retry-After: 9"), []told{{bodyTimeout, 200, outcome.Timeout, 0, header.Quota{}}}},
	{"Retry-After on a 404", answer(404, 0, "Retry-After: 9"), []told{{status: 404, class: outcome.ClientError}}},
	{"Retry-After on a redirect", answer(302, 0, "Location: /elsewhere", "Retry-After: 9"), []told{{status: 302, class: outcome.Redirect}}},
	{"420 with an order", answer(420, 0, "Retry-After: 9"), []told{{status: 420, class: outcome.Throttled, wait: 9 * time.Second}}},

	{"body stalls", answer(200, -1), []told{{bodyTimeout, 200, outcome.Timeout, 0, header.Quota{}}}},
	{"body breaks off", raw("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nsome", time.Second), []told{{time.Second, 200, outcome.Network, 0, header.Quota{}}}},
	{"badly coded", answer(200, 0, "Content-Encoding: gzip"), []told{{status: 200, class: outcome.Decode}}},
	{"longer than our bound", func(rw http.ResponseWriter, _ *http.Request) {
		_, _ = rw.Write(make([]byte, 600<<10))
	}, []told{{status: 200, class: outcome.OK}}},
	{"hangs", raw("", time.Minute), []told{{headerTimeout, 0, outcome.Timeout, 0, header.Quota{}}}},
	{"hangs up", raw("", time.Second), []told{{time.Second, 0, outcome.Network, 0, header.Quota{}}}},
	{"no HTTP", raw("220 mail.test ESMTP\r\n", time.Second), []told{{class: outcome.Protocol}}},
}

// The limiter hears everything a host says and does, once, and as soon as it is certain.
func TestFeedbackOfAnswers(t *testing.T) {
	for _, tc := range behaviours {
		for _, kind := range []string{"page", "robots"} {
			t.Run(tc.name+" for "+kind, bubble(func(t *testing.T) {
				network := fetchtest.Serve(t, map[string]http.Handler{"a.test": once(tc.host)})
				w := newWorldOn(t, fetch.Config{DialContext: network.DialContext, MaxBody: 100 << 10})
				if kind == "page" {
					w.Robots = nil
				}
				w.Retries = 0
				p, r := recorded(t, w)
				require.NoError(t, w.run(t.Context(), t, p, "http://a.test/"))
				require.GreaterOrEqual(t, len(r.told), len(tc.want), "%v", r.told)
				require.Equal(t, tc.want, r.told[:len(tc.want)])
				require.Len(t, r.told, len(tc.want)+len(network.Requests())-1, "one for each of the requests that followed")
			}))
		}
	}
}

// Where no header comes there is no status, and the class says in which way.
func TestFeedbackWithoutAnswer(t *testing.T) {
	silent := func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	for _, tc := range []struct {
		name, url string
		dial      func(context.Context, string, string) (net.Conn, error) // nil: the network below
		want      told
	}{
		{"refused", "http://shut.test/", nil, told{class: outcome.Network}},
		{"no name", "http://nowhere.test/", nil, told{class: outcome.NoHost}},
		{"no way", "http://a.test/", silent, told{after: 10 * time.Second, class: outcome.Timeout}},
		{"no TLS", "https://a.test/", nil, told{class: outcome.TLS}},
	} {
		for _, kind := range []string{"page", "robots"} {
			t.Run(tc.name+" for "+kind, bubble(func(t *testing.T) {
				network := fetchtest.Serve(t, map[string]http.Handler{"shut.test": nil, "a.test": http.NotFoundHandler()})
				cfg := fetch.Config{DialContext: network.DialContext}
				if tc.dial != nil {
					cfg.DialContext = tc.dial
				}
				w := newWorldOn(t, cfg)
				if kind == "page" {
					w.Robots = nil
				}
				w.Retries = 0
				p, r := recorded(t, w)
				require.NoError(t, w.run(t.Context(), t, p, tc.url))
				require.Equal(t, []told{tc.want}, r.told)
			}))
		}
	}
}

// Making a connection is no sign of a slow host, also when the header alone is reported. The limiter hears in which
// second of its own clock the host answered.
func TestFeedbackLatencyIsTheHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := fetchtest.Serve(t, map[string]http.Handler{"a.test": http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
			time.Sleep(200 * time.Millisecond)
			rw.Header().Set("Date", "Sun, 06 Nov 1994 08:49:37 GMT")
			rw.WriteHeader(http.StatusNotFound)
		})})
		w := newWorldOn(t, fetch.Config{DialContext: func(ctx context.Context, n, addr string) (net.Conn, error) {
			time.Sleep(3 * time.Second)
			return network.DialContext(ctx, n, addr)
		}})
		p, r := recorded(t, w)
		require.NoError(t, w.run(t.Context(), t, p, "http://a.test/"))
		require.Len(t, r.raw, 2)
		for i, fb := range r.raw {
			require.Equal(t, 200*time.Millisecond, fb.Latency, "%d", i)
			require.EqualValues(t, 38, fb.Second)
		}
		require.Equal(t, 3*time.Second, r.raw[0].SentAt.Sub(r.began))
	})
}

// Who gives up while a body comes in passes no verdict on the host.
func TestFeedbackWhenWeGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := served(t, map[string]http.Handler{"a.test": answer(200, -1)})
		w.Robots = nil
		p, r := recorded(t, w)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		require.ErrorIs(t, w.run(ctx, t, p, "http://a.test/"), context.Canceled)
		require.Equal(t, time.Second, time.Since(w.began))
		requireEnd(t, p, EndFailed)
		require.Equal(t, []told{{after: time.Second, status: 200, class: outcome.Canceled}}, r.told)
	})
}

// A Retry-After delays the host with 420, 429 and 5xx, the target alone with a redirect, and
// nothing with any other status.
func TestRetryAfterDelaysByStatus(t *testing.T) {
	const wait = 40 * time.Second
	for status, want := range map[int]struct{ others, target bool }{
		200: {}, 204: {}, 304: {}, 401: {}, 403: {}, 404: {}, 410: {}, 451: {},
		301: {target: true}, 302: {target: true}, 307: {target: true}, 308: {target: true},
		420: {others: true}, 429: {others: true},
		500: {others: true}, 502: {others: true}, 503: {others: true}, 504: {others: true}, 599: {others: true},
	} {
		t.Run(strconv.Itoa(status), bubble(func(t *testing.T) {
			var ordered, target time.Time
			var soonest time.Duration = -1 // from the order to the next request for another page
			site := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				now := time.Now()
				switch r.URL.Path {
				case "/robots.txt":
					rw.WriteHeader(http.StatusNotFound)
				case "/asks":
					if ordered.IsZero() {
						ordered = now
						rw.Header().Set("Retry-After", strconv.Itoa(int(wait.Seconds())))
						rw.Header().Set("Location", "/target")
						rw.WriteHeader(status)
						return
					}
					html(rw, "x")
				case "/target":
					target = now
					html(rw, "x")
				case "/":
					html(rw, "<a href=/asks>x</a>"+links(10))
				default:
					if !ordered.IsZero() && soonest < 0 {
						soonest = now.Sub(ordered)
					}
					html(rw, "x")
				}
			})
			w, _ := served(t, map[string]http.Handler{"a.test": site})
			w.Concurrency = 1
			w.finish(t, EndDone, "http://a.test/")
			require.Equal(t, want.others, soonest >= wait, "the others after %v", soonest)
			if want.target {
				require.GreaterOrEqual(t, target.Sub(ordered), wait)
			} else {
				require.Zero(t, target)
			}
		}))
	}
}

// The Retry-After of a 403 delays the host while that blocks the client.
func TestRetryAfterOfABlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var last time.Time
		inside, blocked := 0, 0
		site := noRobots(func(rw http.ResponseWriter, r *http.Request) {
			now := time.Now()
			if at := now.Sub(began); at > 10*time.Second && at < 5*time.Minute {
				if blocked++; blocked > 6 && now.Before(last.Add(100*time.Second)) {
					inside++
				}
				last = now
				rw.Header().Set("Retry-After", "100")
				rw.WriteHeader(http.StatusForbidden)
				return
			}
			if r.URL.Path == "/" {
				html(rw, links(200))
				return
			}
			html(rw, "x")
		})
		w, _ := served(t, map[string]http.Handler{"a.test": site})
		w.Concurrency, w.MaxBlocked = 1, time.Hour
		w.finish(t, EndDone, "http://a.test/")
		require.Greater(t, blocked, 6)
		require.Zero(t, inside, "requests inside the Retry-After of a block")
		for u, rec := range w.out.byURL(t) {
			require.Equal(t, http.StatusOK, rec.Status, u)
		}
	})
}

// The robots.txt and the sitemap that a redirect leads to wait too, and nothing else does.
func TestRetryAfterOfRedirectedFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := map[string]time.Time{}
		site := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			at[r.URL.Path] = time.Now()
			switch r.URL.Path {
			case "/robots.txt", "/sitemap.xml":
				rw.Header().Set("Retry-After", "30")
				rw.Header().Set("Location", "/moved"+r.URL.Path)
				rw.WriteHeader(http.StatusFound)
			case "/moved/robots.txt":
				fmt.Fprint(rw, "User-agent: *\nDisallow: /private\n")
			case "/moved/sitemap.xml":
				fmt.Fprint(rw, "<urlset><url><loc>http://a.test/listed</loc></url></urlset>")
			default:
				html(rw, strings.Repeat("<a href=/p>x</a>", 1))
			}
		})
		w, _ := served(t, map[string]http.Handler{"a.test": site})
		w.Sitemaps.Enabled = true
		w.finish(t, EndDone, "http://a.test/")
		for _, path := range []string{"/robots.txt", "/sitemap.xml"} {
			require.GreaterOrEqual(t, at["/moved"+path].Sub(at[path]), 30*time.Second, path)
		}
		require.Less(t, at["/p"].Sub(at["/sitemap.xml"]), 30*time.Second)
		require.Contains(t, at, "/listed")
	})
}

type located struct{ net.Conn }

func (located) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 80} }

// Fifty hosts at one address share its rate to the full, one page each in turn, and no worker waits for it: whose turn
// moves because another host took the token waits in the frontier.
func TestHostsOfOneAddressShareItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const hosts, pages, rate = 50, 6, 20
		handlers := map[string]http.Handler{}
		var seeds []string
		for i := range hosts {
			name := fmt.Sprintf("h%d.test", i)
			handlers[name] = noRobots(func(http.ResponseWriter, *http.Request) {
				time.Sleep(30 * time.Millisecond)
			})
			for k := range pages {
				seeds = append(seeds, fmt.Sprintf("http://%s/%d", name, k))
			}
		}
		network := fetchtest.Serve(t, handlers)
		w := newWorldOn(t, fetch.Config{DialContext: func(ctx context.Context, n, addr string) (net.Conn, error) {
			c, err := network.DialContext(ctx, n, addr)
			if err != nil {
				return nil, err
			}
			return located{c}, nil
		}})
		w.limits.IPRPS = rate
		p := w.must(t, seeds...)
		require.Len(t, w.out.byURL(t), hosts*pages)

		took := time.Since(w.began)
		require.GreaterOrEqual(t, took, time.Duration(hosts*pages-1)*time.Second/rate)
		// Ten per cent more: the start, when addresses are not known, and the last page.
		require.Less(t, took, time.Duration(hosts*pages)*time.Second/rate*11/10)
		s := p.Snapshot()
		busy, waited := s.Workers.BusySeconds, s.Workers.WaitSeconds
		require.Less(t, waited, busy/100)
		require.Less(t, s.Returned, int64(hosts), "leases that came to nothing")
	})
}
