package pipeline

import (
	"fmt"
	"maps"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/fetch/fetchtest"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/classic"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// limitedSite is one host whose every answer takes 50 ms, and counts.
type limitedSite struct {
	mu       sync.Mutex // guards what follows
	requests int        // of pages
	refused  int
	status   int                                                          // of a refusal; zero means 429
	page     string                                                       // at /
	refuse   func(path string, n int, now time.Time) (header http.Header) // nil lets a request pass
}

func (c *limitedSite) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	time.Sleep(50 * time.Millisecond)
	if r.URL.Path == "/robots.txt" {
		rw.WriteHeader(http.StatusNotFound)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests++
	if h := c.refuse(r.URL.Path, c.requests, time.Now()); h != nil {
		c.refused++
		maps.Copy(rw.Header(), h)
		status := http.StatusTooManyRequests
		if c.status != 0 {
			status = c.status
		}
		rw.WriteHeader(status)
		return
	}
	if r.URL.Path == "/" {
		html(rw, c.page)
		return
	}
	html(rw, "x")
}

// refusing is a site of n pages, of which as many as bad are refused always. They stand
// spread among the others.
func refusing(n, bad int, header http.Header) *limitedSite {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "<a href=/%d>x</a>", i)
		if bad > 0 && i%(n/bad) == n/bad/4 {
			fmt.Fprintf(&b, "<a href=/login%d>x</a>", i)
		}
	}
	return &limitedSite{page: b.String(), refuse: func(path string, _ int, _ time.Time) http.Header {
		if strings.HasPrefix(path, "/login") {
			return header
		}
		return nil
	}}
}

func (c *limitedSite) crawl(t *testing.T, strategy string, change func(*world)) (*world, *Pipeline) {
	t.Helper()
	net := fetchtest.Serve(t, map[string]http.Handler{"a.test": c})
	w := newWorldOn(t, fetch.Config{DialContext: net.DialContext})
	w.limits.Strategy = strategy
	if change != nil {
		change(w)
	}
	p, err := w.crawl(t, "http://a.test/")
	require.NoError(t, err)
	return w, p
}

// A URL that is refused whenever it is asked for costs its host's others one pause, and
// ends in a record.
func TestURLsThatAlwaysRefuse(t *testing.T) {
	for _, tc := range []struct {
		bad, ofURL int
		within     time.Duration
	}{{0, 0, time.Minute}, {1, 5, 90 * time.Second}, {5, 21, 3 * time.Minute}} {
		for _, strategy := range []string{control.NameSteer, control.NameAIMD} {
			t.Run(fmt.Sprintf("%s/%d", strategy, tc.bad), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					site := refusing(200, tc.bad, http.Header{})
					w, p := site.crawl(t, strategy, nil)
					requireEnd(t, p, EndDone)
					t.Logf("%d pages and %d that refuse: %v", 201, tc.bad, time.Since(w.began).Round(time.Second))
					require.Less(t, time.Since(w.began), tc.within)
					// One refusal that may be the host's, then Retries + 2 that are the URL's; of
					// several such URLs the others have two.
					require.Equal(t, 6*tc.bad, site.refused)
					require.EqualValues(t, tc.ofURL, p.Snapshot().OfURL)
					records := w.out.byURL(t)
					require.Len(t, records, 201+tc.bad)
					for u, rec := range records {
						if strings.Contains(u, "login") {
							require.Equal(t, http.StatusTooManyRequests, rec.Status, u)
						} else {
							require.Equal(t, http.StatusOK, rec.Status, u)
						}
					}
				})
			})
		}
	}
}

// An order to wait is the host's, whichever URL brings it: it is obeyed each time.
func TestURLThatAlwaysOrdersToWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		site := refusing(200, 1, http.Header{"Retry-After": {"20"}})
		var ordered time.Time
		inside := 0
		refuse := site.refuse
		site.refuse = func(path string, n int, now time.Time) http.Header {
			if now.Before(ordered) {
				inside++
			}
			h := refuse(path, n, now)
			if h != nil {
				ordered = now.Add(20 * time.Second)
			}
			return h
		}
		w, p := site.crawl(t, control.NameSteer, func(w *world) { w.Concurrency = 1 })
		requireEnd(t, p, EndDone)
		require.Zero(t, inside, "requests inside a Retry-After")
		require.Zero(t, p.Snapshot().OfURL)
		require.Equal(t, http.StatusTooManyRequests, w.out.byURL(t)["http://a.test/login50"].Status)
	})
}

// What was the URL's affair to the end is no failure of its host.
func TestLastRefusalOfAURLIsNotTheHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, p := refusing(200, 1, http.Header{}).crawl(t, control.NameSteer, nil)
		hosts := p.Snapshot().Hosts
		require.Len(t, hosts, 1)
		require.Zero(t, hosts[0].Failures)
		require.Empty(t, hosts[0].Trouble)
	})
}

// Whichever request is the last of a quota, that of a suspect too, the crawl ends then and
// does not wait a day for the next one to clear the suspect.
func TestSuspicionEndsWithTheQuota(t *testing.T) {
	for quota := int64(20); quota < 60; quota++ { // the suspect is asked for the second time in between
		synctest.Test(t, func(t *testing.T) {
			w, p := refusing(60, 1, http.Header{}).crawl(t, control.NameSteer, func(w *world) {
				w.limits.InitialRPS, w.MaxBlocked = 10, 5*time.Minute
				w.limits.Hosts = []ratelimit.HostRule{{Match: "*", Quota: classic.Spec{Permits: quota, Per: 24 * time.Hour}}}
			})
			requireEnd(t, p, EndBlocked)
			require.Less(t, time.Since(w.began), time.Hour, "quota %d", quota)
		})
	}
}

// tokens refuses by a token bucket, for all URLs alike.
func tokens(rps, burst float64) func(string, int, time.Time) http.Header {
	level, at := burst, time.Time{}
	return func(_ string, _ int, now time.Time) http.Header {
		if at.IsZero() {
			at = now
		}
		level, at = min(burst, level+now.Sub(at).Seconds()*rps), now
		if level < 1 {
			return http.Header{}
		}
		level--
		return nil
	}
}

// window refuses what is more than a quota in fixed windows.
func window(quota int, length time.Duration) func(string, int, time.Time) http.Header {
	n, begun := 0, time.Time{}
	return func(_ string, _ int, now time.Time) http.Header {
		if now.Sub(begun) >= length {
			n, begun = 0, now.Truncate(length)
		}
		if n++; n > quota {
			return http.Header{}
		}
		return nil
	}
}

// closing refuses everything from a request on.
func closing(from int) func(string, int, time.Time) http.Header {
	return func(_ string, n int, _ time.Time) http.Header {
		if n >= from {
			return http.Header{}
		}
		return nil
	}
}

// Whoever limits all URLs sees no more of us than if every refusal were taken for the
// host's at once. The quotas are such that a URL that stands back until others were
// served returns at the worst time.
func TestDoubtIsNoWayRoundALimit(t *testing.T) {
	type limit = func(string, int, time.Time) http.Header
	for name, refuse := range map[string]func() limit{
		"bucket":              func() limit { return tokens(3, 1) },
		"bucket with a burst": func() limit { return tokens(3, 10) },
		"17 in 10s":           func() limit { return window(17, 10*time.Second) },
		"20 in 10s":           func() limit { return window(20, 10*time.Second) },
		"33 in 5s":            func() limit { return window(33, 5*time.Second) },
		"closes":              func() limit { return closing(100) },
		"is closed":           func() limit { return closing(3) },
	} {
		for _, strategy := range []string{control.NameSteer, control.NameAIMD} {
			t.Run(strategy+"/"+name, func(t *testing.T) {
				run := func(strikeAfter int) (site *limitedSite) {
					synctest.Test(t, func(t *testing.T) {
						site = &limitedSite{page: links(1000), refuse: refuse()}
						site.crawl(t, strategy, func(w *world) {
							w.MaxTime, w.MaxBlocked, w.strikeAfter = 10*time.Minute, time.Hour, strikeAfter
						})
					})
					return site
				}
				doubting, believing := run(0), run(math.MaxInt32)
				require.LessOrEqual(t, doubting.requests, believing.requests, "requests")
				require.LessOrEqual(t, doubting.refused, believing.refused, "refusals")
				require.Positive(t, believing.refused)
			})
		}
	}
}
