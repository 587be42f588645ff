package pipeline

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/limit"
)

type counter struct {
	latency time.Duration
	page    string // every page but the first
	pages   int

	mu       sync.Mutex // guards what follows
	arrivals map[string][]time.Time
	open     map[string]int
	mostOpen map[string]int // of a host, and of all by the empty name
}

func (c *counter) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	c.enter(r.Host, 1)
	defer c.enter(r.Host, -1)
	if c.latency > 0 {
		time.Sleep(c.latency)
	}
	switch r.URL.Path {
	case "/robots.txt":
		http.NotFound(rw, r)
	case "/":
		html(rw, links(c.pages-1))
	default:
		html(rw, c.page)
	}
}

func (c *counter) enter(host string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n > 0 {
		c.arrivals[host] = append(c.arrivals[host], time.Now())
	}
	for _, name := range []string{host, ""} {
		c.open[name] += n
		c.mostOpen[name] = max(c.mostOpen[name], c.open[name])
	}
}

func cappedWorld(t *testing.T, c *counter, hosts ...string) *world {
	t.Helper()
	c.arrivals, c.open, c.mostOpen = map[string][]time.Time{}, map[string]int{}, map[string]int{}
	all := map[string]http.Handler{}
	for _, h := range hosts {
		all[h] = c
	}
	net := fetchtest.Serve(t, all)
	w := newWorldOn(t, fetch.Config{DialContext: net.DialContext, MaxConnsPerHost: 100})
	w.Concurrency, w.PerHost = 32, 20
	w.limits.Strategy = "fixed"
	w.limits.InitialRPS, w.limits.MaxRPS = 100, 100
	return w
}

func seedsOf(hosts []string) (seeds []string) {
	for _, h := range hosts {
		seeds = append(seeds, "http://"+h+"/")
	}
	return seeds
}

func requireIdleWorkers(t *testing.T, p *Pipeline) {
	t.Helper()
	requireQuietWorkers(t, p)
	s := p.Snapshot()
	require.LessOrEqual(t, s.Returned, s.Requests/100)
}

// requireCap fails the test if a host was ever asked for more than two windows side by side allow; what each kind
// allows to a request has tests in package ratelimit.
func requireCap(t *testing.T, at []time.Time) {
	t.Helper()
	for i := range at[:len(at)-2*capPermits] {
		require.Greater(t, at[i+2*capPermits].Sub(at[i]), time.Second)
	}
}

const capPermits = 5

// Whatever the kind, no host is ever asked beyond its cap in a whole crawl, each comes
// close to it, and no worker waits for it.
func TestCapsHoldOverACrawl(t *testing.T) {
	for _, kind := range limit.Kinds() {
		t.Run(string(kind), bubble(func(t *testing.T) {
			hosts := []string{"a.test", "b.test", "c.test"}
			c := &counter{latency: 30 * time.Millisecond, pages: 60, page: "x"}
			spec := limit.Spec{Kind: kind, Permits: capPermits, Per: time.Second}
			if kind == limit.KindConcurrency {
				spec.Per, c.latency = 0, time.Second
			}
			w := cappedWorld(t, c, hosts...)
			w.limits.Hosts = []ratelimit.HostRule{{Match: "*.test", Cap: spec}}
			p := w.finish(t, EndDone, seedsOf(hosts)...)
			took := time.Since(w.began)
			for _, h := range hosts {
				require.Len(t, c.arrivals[h], 61, "%s: each page once, and robots.txt", h)
				if kind == limit.KindConcurrency {
					require.Equal(t, capPermits, c.mostOpen[h], "as many as may be, and no more")
				} else {
					requireCap(t, c.arrivals[h])
				}
			}
			require.Less(t, took, 16*time.Second, "61 requests at 5 a second take 12 s; robots.txt and the first page of slow hosts two more")
			requireIdleWorkers(t, p)
		}))
	}
}

// A host whose quota is spent is a blocked one: it does not hold the crawl up, and the end says why.
func TestQuotaEndsTheCrawlOfAHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hosts := []string{"a.test", "b.test"}
		c := &counter{pages: 40, page: "x"}
		w := cappedWorld(t, c, hosts...)
		w.limits.Hosts = []ratelimit.HostRule{{Match: "a.test", Quota: limit.Spec{Permits: 10, Per: 24 * time.Hour}}}
		p := w.finish(t, EndBlocked, seedsOf(hosts)...)
		require.Len(t, c.arrivals["a.test"], 10, "robots.txt counts")
		require.Len(t, c.arrivals["b.test"], 41)
		require.Less(t, time.Since(w.began), time.Minute, "nobody waits for a day")
		s := p.Snapshot()
		i := slices.IndexFunc(s.Hosts, func(h frontier.HostState) bool { return h.Host == "a.test" })
		require.True(t, s.Hosts[i].Blocked)
		require.Equal(t, "quota", s.Hosts[i].Reason)
		require.Equal(t, 31, s.Hosts[i].Queued)
		require.Equal(t, w.began.Add(24*time.Hour), s.Hosts[i].Until)
		_, reason := p.End()
		day := w.began.Add(24 * time.Hour).Format(time.DateTime)
		require.Equal(t, "the quota of a.test is used up, 31 URLs of it are left; the first may be asked again at "+day, reason)
		requireIdleWorkers(t, p)
	})
}

// A quota that comes back within MaxBlocked is waited for.
func TestQuotaThatComesBackIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counter{pages: 40, page: "x"}
		w := cappedWorld(t, c, "a.test")
		w.limits.Hosts = []ratelimit.HostRule{{Match: "a.test", Quota: limit.Spec{Permits: 10, Per: time.Minute}}}
		w.finish(t, EndDone, "http://a.test/")
		require.Len(t, c.arrivals["a.test"], 41)
		require.Equal(t, 4*time.Minute, time.Since(w.began).Truncate(time.Second))
	})
}

// The most of a host's requests that are out is its rule's, or PerHost's if that is less; of 32 workers as many are at
// work as the cap of all hosts lets, all the time, and none waits.
func TestMaxInFlight(t *testing.T) {
	for _, global := range []int{0, 7} {
		synctest.Test(t, func(t *testing.T) {
			hosts := []string{"a.test", "b.test", "c.test"}
			c := &counter{latency: time.Second, pages: 60, page: "x"}
			w := cappedWorld(t, c, hosts...)
			w.PerHost, w.limits.GlobalConcurrency = 6, global
			w.limits.Hosts = []ratelimit.HostRule{{Match: "a.test", MaxInFlight: 2}, {Match: "b.test", MaxInFlight: 50}}
			p := w.finish(t, EndDone, seedsOf(hosts)...)
			require.Equal(t, 2, c.mostOpen["a.test"])
			require.LessOrEqual(t, max(c.mostOpen["b.test"], c.mostOpen["c.test"]), 6)
			if global == 0 {
				require.Equal(t, 6, min(c.mostOpen["b.test"], c.mostOpen["c.test"]))
			} else {
				require.Equal(t, global, c.mostOpen[""])
				require.Less(t, time.Since(w.began).Seconds(), 183./2+5, "a takes longest, two at a time")
			}
			requireIdleWorkers(t, p)
		})
	}
}

// The bytes of all hosts together come to the cap, in a crawl whose pages are far larger
// than what a second brings for each worker.
func TestGlobalBytesOverACrawl(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hosts := []string{"a.test", "b.test", "c.test", "d.test"}
		const size, rate = 40_000, 1 << 20
		c := &counter{latency: 50 * time.Millisecond, pages: 100, page: strings.Repeat("x", size)}
		w := cappedWorld(t, c, hosts...)
		w.limits.GlobalBytes = rate
		p := w.finish(t, EndDone, seedsOf(hosts)...)
		s := p.Snapshot()
		require.Greater(t, s.WireBytes, int64(396*size))
		took := time.Since(w.began).Seconds()
		require.LessOrEqual(t, float64(s.WireBytes), rate*(took+1)+32*size)
		require.GreaterOrEqual(t, float64(s.WireBytes), 0.9*rate*took)
		requireIdleWorkers(t, p)
	})
}
