package pipeline

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// site answers robots.txt with one status and pages with another, but for the first few,
// and links from its root to as many pages as it is given.
func site(robots, pages int, good int64, n int) http.Handler {
	var served atomic.Int64
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		time.Sleep(50 * time.Millisecond)
		switch {
		case r.URL.Path == "/robots.txt":
			rw.WriteHeader(robots)
		case served.Add(1) > good:
			rw.WriteHeader(pages)
		case r.URL.Path == "/":
			html(rw, links(n))
		default:
			html(rw, "x")
		}
	})
}

// A host of which every page fails is given up when MaxBlocked has passed without a page,
// whatever the status; another one is crawled to its end first.
func TestServerErrorsAreGivenUp(t *testing.T) {
	for _, status := range []int{500, 502, 503} {
		for _, strategy := range []string{control.NameSteer, control.NameAIMD, control.NameFixed} {
			synctest.Test(t, func(t *testing.T) {
				net := fetchtest.Serve(t, map[string]http.Handler{
					"sick.test": site(404, status, 50, 1000), "well.test": site(404, 0, 1e6, 1000),
				})
				w := newWorldOn(t, fetch.Config{DialContext: net.DialContext})
				w.limits.Strategy = strategy
				p, err := w.crawl(t, "http://sick.test/", "http://well.test/")
				require.NoError(t, err)
				requireEnd(t, p, EndBlocked)
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
		net := fetchtest.Serve(t, map[string]http.Handler{
			"a.test": http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				switch {
				case r.URL.Path == "/robots.txt":
					rw.WriteHeader(http.StatusNotFound)
				case r.URL.Path == "/":
					html(rw, links(100))
				case n.Add(1)%10 == 0:
					html(rw, "x")
				default:
					rw.WriteHeader(http.StatusInternalServerError)
				}
			}),
		})
		w := newWorldOn(t, fetch.Config{DialContext: net.DialContext})
		p, err := w.crawl(t, "http://a.test/")
		require.NoError(t, err)
		requireEnd(t, p, EndDone)
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
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net := fetchtest.Serve(t, tc.hosts)
				w := newWorldOn(t, fetch.Config{DialContext: net.DialContext})
				var seeds []string
				for name := range tc.hosts {
					seeds = append(seeds, "http://"+name+"/")
				}
				p, err := w.crawl(t, seeds...)
				require.NoError(t, err)
				requireEnd(t, p, tc.want)
				if _, reason := p.End(); tc.want == EndUnruled {
					require.Regexp(t, `^http://[ab]\.test: robots\.txt cannot be had: status 50[03]`, reason)
					require.EqualValues(t, len(seeds), p.Snapshot().Unruled)
				}
			})
		})
	}
}

// lateCircuit refuses every third permit, as a circuit does that opens when a worker has its
// URL already.
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
		net := fetchtest.Serve(t, map[string]http.Handler{"a.test": site(404, 200, 10, 20)})
		w := newWorldOn(t, fetch.Config{DialContext: net.DialContext})
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
