package pipeline

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/control"
	"github.com/treadlight/crawl/record"
)

// site answers robots.txt with one status and pages with another, but for the first few,
// and links from its root to as many pages as it is given.
func site(robots, pages int, good int64, n int) http.Handler {
	var served atomic.Int64
	return siteAfter(n+1, func(rw http.ResponseWriter, r *http.Request) bool {
		time.Sleep(50 * time.Millisecond)
		status := pages
		if r.URL.Path == "/robots.txt" {
			status = robots
		} else if served.Add(1) <= good {
			return false
		}
		rw.WriteHeader(status)
		return true
	})
}

// A host of which every page fails is given up when MaxBlocked has passed without a page,
// whatever the status; another one is crawled to its end first.
func TestServerErrorsAreGivenUp(t *testing.T) {
	for _, status := range []int{500, 502, 503} {
		for _, strategy := range control.Names() {
			synctest.Test(t, func(t *testing.T) {
				w, _ := served(t, map[string]http.Handler{
					"sick.test": site(404, status, 50, 1000), "well.test": site(404, 0, 1e6, 1000),
				})
				w.limits.Strategy = strategy
				p := w.finish(t, EndBlocked, "http://sick.test/", "http://well.test/")
				_, reason := p.End()
				require.Regexp(t, `^sick\.test failed \d+ times in a row \(\w+\), \d+ URLs of it are left; the first may be asked again at `, reason)
				records := w.out.byURL(t)
				well, sick := 0, 0
				for _, rec := range records {
					if rec.Status == http.StatusOK {
						well++
					} else {
						sick++
					}
				}
				require.Equal(t, 1001+50, well)
				require.EqualValues(t, 1001-50-sick, p.Snapshot().Frontier.Queued, "what was not fetched is left")
				// 1000 pages go at ten per second at most, from one; then come the five minutes.
				require.Less(t, time.Since(w.began), 25*time.Minute)
				require.Less(t, sick, 150)
			})
		}
	}
}

// One page among failures is reason enough to go on.
func TestSomeServerErrorsAreNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		w, _ := served(t, map[string]http.Handler{
			"a.test": siteAfter(101, func(rw http.ResponseWriter, r *http.Request) bool {
				fails := r.URL.Path != "/robots.txt" && r.URL.Path != "/" && n.Add(1)%10 != 0
				if fails {
					rw.WriteHeader(http.StatusInternalServerError)
				}
				return fails
			}),
		})
		w.finish(t, EndDone, "http://a.test/")
		require.Len(t, w.out.records, 101)
	})
}

// Without a robots.txt there is no page to ask for: that is no crawl that is done.
func TestRobotsThatCannotBeHad(t *testing.T) {
	for _, tc := range []struct {
		name  string
		hosts map[string]http.Handler
		want  End
	}{
		{"of the only host", map[string]http.Handler{"a.test": site(503, 200, 0, 0)}, EndUnruled},
		{"of all hosts", map[string]http.Handler{"a.test": site(500, 200, 0, 0), "b.test": site(503, 200, 0, 0)}, EndUnruled},
		{"of one host", map[string]http.Handler{"a.test": site(503, 200, 0, 0), "b.test": site(404, 200, 10, 3)}, EndDone},
		{"but pages fail", map[string]http.Handler{"a.test": site(404, 404, 0, 0)}, EndDone},
	} {
		t.Run(tc.name, bubble(func(t *testing.T) {
			w, _ := served(t, tc.hosts)
			var seeds []string
			for name := range tc.hosts {
				seeds = append(seeds, "http://"+name+"/")
			}
			p := w.must(t, seeds...)
			requireEnd(t, p, tc.want)
			if _, reason := p.End(); tc.want == EndUnruled {
				require.Regexp(t, `^http://[ab]\.test: robots\.txt cannot be had: status 50[03]`, reason)
				require.EqualValues(t, len(seeds), p.Snapshot().Unruled)
			}
		}))
	}
}

// lateCircuit refuses every third permit, as a circuit does that opens when a worker has its URL already.
type lateCircuit struct {
	Limiter
	asked, refused atomic.Int64
}

func (l *lateCircuit) Acquire(ctx context.Context, domain string) (ratelimit.Permit, error) {
	if l.asked.Add(1)%3 == 0 {
		l.refused.Add(1)
		return nil, ratelimit.ErrCircuitOpen
	}
	return l.Limiter.Acquire(ctx, domain)
}

// What a worker gives back unasked is counted, spends no try, and is asked for later.
func TestLeasesThatAreGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := served(t, map[string]http.Handler{"a.test": site(404, 200, 10, 20)})
		w.Retries = 0
		w.build(t)
		late := &lateCircuit{Limiter: w.Limiter}
		w.Limiter = late
		p, err := New(w.Config)
		require.NoError(t, err)
		require.NoError(t, w.run(t.Context(), t, p, "http://a.test/"))
		requireEnd(t, p, EndDone)
		for u, rec := range w.out.byURL(t) {
			require.Nil(t, rec.Error, u)
		}
		require.Positive(t, late.refused.Load())
		require.Equal(t, late.refused.Load(), p.Snapshot().Returned)
	})
}

// forbidding is a site of n pages, with private ones spread among them. Of the others it
// forbids those that locked says.
func forbidding(n, private int, locked func(now time.Time) bool) *limitedSite {
	site := failing(n, private, "")
	site.status = http.StatusForbidden
	site.refuse = func(path string, _ int, now time.Time) http.Header {
		if strings.HasPrefix(path, "/login") || locked != nil && locked(now) {
			return http.Header{}
		}
		return nil
	}
	return site
}

func requireStatuses(t *testing.T, w *world, pages, private int) {
	t.Helper()
	records := w.out.byURL(t)
	require.Len(t, records, pages+private)
	for u, rec := range records {
		want := http.StatusOK
		if strings.Contains(u, "login") {
			want = http.StatusForbidden
		}
		require.Equal(t, want, rec.Status, u)
	}
}

// What a host keeps private costs a handful of requests, however much it is.
func TestPrivatePagesAreFinal(t *testing.T) {
	for private, refused := range map[int]int{0: 0, 1: 2, 5: 10, 40: 50} {
		for _, strategy := range []string{control.NameSteer, control.NameAIMD} {
			t.Run(fmt.Sprintf("%s/%d", strategy, private), bubble(func(t *testing.T) {
				began := time.Now()
				site := forbidding(200, private, nil)
				w, p := site.crawl(t, strategy, nil)
				requireEnd(t, p, EndDone)
				requireStatuses(t, w, 201, private)
				require.LessOrEqual(t, site.refused, refused)
				t.Logf("%d private pages: %d times 403, %v", private, site.refused, time.Since(began).Round(time.Second))
			}))
		}
	}
	synctest.Test(t, func(t *testing.T) { // a host that forbids everything has said so with its first answer to each
		site := forbidding(200, 0, func(time.Time) bool { return true })
		w, p := site.crawl(t, control.NameSteer, nil)
		requireEnd(t, p, EndDone)
		require.Equal(t, 1, site.requests)
		require.Equal(t, http.StatusForbidden, w.out.byURL(t)["http://a.test/"].Status)
	})
}

// Who is locked out for a while, or told "later" with a 403, has every page in the end, and
// of private ones knows that they are.
func TestNoPageIsLostToA403(t *testing.T) {
	began := time.Time{}
	for name, tc := range map[string]struct {
		private, refused int
		locked           func() func(time.Time) bool
	}{
		"bucket": {0, 60, func() func(time.Time) bool {
			level, last := 20.0, began
			return func(now time.Time) bool {
				level, last = min(20, level+4*now.Sub(last).Seconds()), now
				if level < 1 {
					return true
				}
				level--
				return false
			}
		}},
		"lockout": {0, 12, func() func(time.Time) bool {
			return func(now time.Time) bool { at := now.Sub(began); return at > 10*time.Second && at < 40*time.Second }
		}},
		"renewed by each request": {2, 40, func() func(time.Time) bool {
			var second, until time.Time
			count := 0
			return func(now time.Time) bool {
				if s := now.Truncate(time.Second); s != second {
					second, count = s, 0
				}
				count++
				if count > 5 || now.Before(until) {
					until = now.Add(10 * time.Second)
					return true
				}
				return false
			}
		}},
	} {
		t.Run(name, bubble(func(t *testing.T) {
			began = time.Now()
			site := forbidding(400, tc.private, tc.locked())
			w, p := site.crawl(t, control.NameSteer, nil)
			requireEnd(t, p, EndDone)
			requireStatuses(t, w, 401, tc.private)
			require.LessOrEqual(t, site.refused, tc.refused)
			t.Logf("%d refused, %v", site.refused, time.Since(began).Round(time.Second))
		}))
	}
}

// A crawl waits in its frontier and not in Acquire; what the limiter made it wait for is
// counted all the same, once for each request, and so is what an open circuit held back.
func TestWaitsForTheLimiterAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := served(t, map[string]http.Handler{"paced.test": site(404, 0, 1e6, 30)})
		w.limits.Strategy, w.limits.InitialRPS, w.limits.MaxRPS = control.NameFixed, 1, 1
		p := w.must(t, "http://paced.test/")
		l := p.Snapshot().Limiter
		require.EqualValues(t, 32, l.Requests, "robots.txt and 31 pages")
		require.InDelta(t, 32, l.Throttled, 2, "all but those of the first burst had to wait")
		require.LessOrEqual(t, l.Throttled, l.Requests)
		require.Zero(t, l.Denied)
	})
	synctest.Test(t, func(t *testing.T) {
		w, _ := served(t, map[string]http.Handler{"sick.test": site(404, 500, 3, 1000)})
		p := w.finish(t, EndBlocked, "http://sick.test/")
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
		w, _ := served(t, map[string]http.Handler{
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
		var said bytes.Buffer
		w.Log = slog.New(slog.NewTextHandler(&said, nil))
		w.MaxBlocked = 2 * time.Hour
		w.finish(t, EndBlocked, "http://shut.test/", "http://well.test/", "http://good.test/")
		require.Contains(t, said.String(), "only blocked hosts remain")
		for line := range bytes.Lines(said.Bytes()) {
			if bytes.Contains(line, []byte("only blocked hosts remain")) {
				require.Contains(t, string(line), "host=shut.test")
				require.NotContains(t, string(line), "until=0001")
			}
		}
	})
}

// A record is a page, an error, both (its body broke off) or neither, whoever counts it. The changes of a round are those
// of pages, as in a report about its records.
func TestRecordsAreCounted(t *testing.T) {
	var s stats
	s.init()
	for _, rec := range []record.Record{
		{Kind: "page", Status: 200, Change: "unchanged"},
		{Kind: "page", Status: 404},
		{Kind: "page", Status: 301},
		{Kind: "page", Error: &record.Error{Class: "network"}},
		{Kind: "page", Error: &record.Error{Class: "robots"}},
		{Kind: "page", Status: 200, Error: &record.Error{Class: "filtered"}},
		{Kind: "resource", Status: 304, Change: "unchanged"},
		{Kind: "sitemap", Status: 200, Change: "unchanged"},
		{Kind: "sitemap", Status: 500},
		{Kind: "robots", Status: 200, Change: "unchanged"},
	} {
		s.record(&rec, false)
	}
	require.Equal(t, map[string]int64{"unchanged": 2}, s.snapshot().Changes)
	require.EqualValues(t, 1, s.n.Pages)
	require.EqualValues(t, 2, s.n.Errors)
}
