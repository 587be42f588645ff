package integration_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/assembly/polite"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/transport"
)

// shared is a politeness for the time of a test.
func shared(t *testing.T, change func(*ratelimit.Config)) *polite.Shared {
	t.Helper()
	cfg := polite.SharedConfig{Limiter: ratelimit.DefaultConfig()}
	if change != nil {
		change(&cfg.Limiter)
	}
	s, err := polite.NewShared(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func fixed(rps float64) func(*ratelimit.Config) {
	return func(c *ratelimit.Config) { c.Strategy, c.InitialRPS, c.MaxRPS = "fixed", rps, rps }
}

// chainOf is a site of n pages under a path, each of which links to the next.
func chainOf(n int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		dir, page, _ := strings.Cut(strings.TrimPrefix(req.URL.Path, "/"), "/")
		i, err := strconv.Atoi(page)
		if err != nil {
			http.NotFound(w, req)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		if i < n {
			_, _ = fmt.Fprintf(w, "<a href=/%s/%d>next</a>", dir, i+1)
		}
	})
}

// sharing is a crawl with a shared politeness that leaves the pace to it.
func sharing(s *polite.Shared) assembly.Config {
	cfg := assembly.DefaultConfig()
	cfg.Shared = s
	return cfg
}

// Two crawls, a client and the program's own code ask one host at a time: its gap is kept between all of them, one
// permit is one request, and none of them starves.
func TestSharedPolitenessKeepsTheGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := fetchtest.Serve(t, map[string]http.Handler{"a.test": chainOf(1000)})
		s := shared(t, fixed(1))
		client, err := polite.New(polite.Config{
			Shared: s, UserAgent: "test", Resilience: []byte("{}"), Transport: &http.Transport{DialContext: net.DialContext},
		})
		require.NoError(t, err)
		defer client.HTTP.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		var all sync.WaitGroup
		for _, seed := range []string{"http://a.test/one/0", "http://a.test/two/0"} {
			c := newOver(t, sharing(s), net.DialContext)
			all.Go(func() { _ = c.Run(ctx, seed) }) // until the time is over
		}
		for range 3 {
			all.Go(func() {
				for ctx.Err() == nil {
					if res, err := client.HTTP.Get("http://a.test/client/0"); err == nil {
						_, _ = io.Copy(io.Discard, res.Body)
						_ = res.Body.Close()
					}
					if ctx.Err() != nil {
						_ = client.Close()
					}
				}
			})
		}
		all.Go(func() {
			own := &http.Client{Transport: &http.Transport{DialContext: net.DialContext}}
			defer own.CloseIdleConnections()
			for {
				permit, err := s.Acquire(ctx, "a.test")
				if err != nil {
					return
				}
				sent := time.Now()
				res, err := own.Get("http://a.test/own/0")
				if err == nil {
					_ = res.Body.Close()
					s.Feedback("a.test", ratelimit.Feedback{StatusCode: res.StatusCode, SentAt: sent, Latency: time.Since(sent)})
				}
				permit.Release()
			}
		})
		time.Sleep(10*time.Minute + time.Second)
		require.NoError(t, client.Close())
		all.Wait()

		require.GreaterOrEqual(t, net.MinGap("a.test"), time.Second)
		by := map[string]int{}
		requests := net.Requests("a.test")
		for _, r := range requests {
			dir, _, _ := strings.Cut(r.Path[1:], "/")
			by[dir]++
		}
		for _, dir := range []string{"one", "two", "client", "own"} {
			require.Greater(t, by[dir], 60, "%v", by)
		}
		require.Greater(t, len(requests), 570, "turns are not lost: %v", by)
		snap := s.Snapshot()
		require.Zero(t, snap.OverReleased)
		require.Zero(t, snap.InFlight)
		require.LessOrEqual(t, uint64(len(requests)), snap.Requests, "a request without a permit")
		require.LessOrEqual(t, snap.Requests, uint64(len(requests)+6), "each may have had one more when the time was over")
	})
}

// A pause that one of them was asked for holds for all, also for one that begins within it.
func TestSharedPolitenessObeysRetryAfterOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refused atomic.Int64 // when, in nanoseconds
		net := fetchtest.Serve(t, map[string]http.Handler{"a.test": http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if req.URL.Path == "/refuse" {
				refused.Store(time.Now().UnixNano())
				w.Header().Set("Retry-After", "60")
				w.WriteHeader(http.StatusTooManyRequests)
				return
			}
			chainOf(5).ServeHTTP(w, req)
		})})
		s := shared(t, fixed(10))
		running := newOver(t, sharing(s), net.DialContext)
		var all sync.WaitGroup
		all.Go(func() { require.NoError(t, running.Run(t.Context(), "http://a.test/one/0")) })
		time.Sleep(250 * time.Millisecond)
		own := &http.Client{Transport: s.Middleware()(&http.Transport{DialContext: net.DialContext})}
		defer own.CloseIdleConnections()
		res, err := own.Get("http://a.test/refuse")
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		late := newOver(t, sharing(s), net.DialContext)
		all.Go(func() { require.NoError(t, late.Run(t.Context(), "http://a.test/two/0")) })
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = s.Acquire(short, "a.test")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		all.Wait()
		at := time.Unix(0, refused.Load())
		after := 0
		for _, r := range net.Requests("a.test") {
			if r.At.After(at) {
				after++
				require.GreaterOrEqual(t, r.At.Sub(at), time.Minute, r.Path)
			}
		}
		require.Greater(t, after, 6)
	})
}

// The longest Crawl-delay that any of them was asked for holds for all, until who was asked for it is gone.
func TestSharedPolitenessTakesTheLongestCrawlDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := shared(t, fixed(10))
		gap := func() time.Duration {
			var at [2]time.Time
			for i := range at {
				permit, err := s.Acquire(t.Context(), "a.test")
				require.NoError(t, err)
				at[i] = time.Now()
				permit.Release()
			}
			return at[1].Sub(at[0])
		}
		one, two := s.Join(polite.MemberConfig{}), s.Join(polite.MemberConfig{MaxCrawlDelay: 3 * time.Second})
		one.SetCrawlDelay("A.test:443", 5*time.Second)
		two.SetCrawlDelay("a.test", 0)
		require.Equal(t, 5*time.Second, gap())
		two.SetCrawlDelay("a.test", time.Hour)
		require.Equal(t, 5*time.Second, gap())
		one.SetCrawlDelay("a.test", 0)
		require.InDelta(t, 3*time.Second, gap(), 1e7, "that of two, within what two obeys")
		two.Leave()
		two.Leave()
		require.InDelta(t, 3*time.Second, gap(), 1e7, "the host has not taken it back")
		one.SetCrawlDelay("a.test", 0)
		require.Equal(t, 100*time.Millisecond, gap())
	})
}

// What a state of an earlier run owes to a host holds for who has asked that host meanwhile.
func TestSharedPolitenessKeepsWhatAFileOwes(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "hosts.db")
	ask := func(p *crawl.Politeness, host string, fb crawl.Feedback) {
		permit, err := p.Acquire(t.Context(), "https://"+host+"/x")
		require.NoError(t, err)
		p.Feedback(host, fb)
		permit.Release()
		permit.Release()
	}
	first, err := crawl.NewPoliteness(crawl.PolitenessOptions{Remember: file})
	require.NoError(t, err)
	ask(first, "a.test", crawl.Feedback{StatusCode: 503, Header: http.Header{"Retry-After": {"600"}}})
	ask(first, "b.test", crawl.Feedback{StatusCode: 200, RetryAfter: time.Hour})
	require.Zero(t, first.Snapshot().OverReleased)
	require.NoError(t, first.Save(t.Context()))
	require.NoError(t, first.Close())
	require.NoError(t, first.Close())
	saved, err := os.ReadFile(file)
	require.NoError(t, err)

	next, err := crawl.NewPoliteness(crawl.PolitenessOptions{Remember: file})
	require.NoError(t, err)
	short, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for _, host := range []string{"a.test", "b.test"} {
		_, err = next.Acquire(short, host)
		rejected, ok := errors.AsType[*transport.RejectedError](err)
		require.True(t, ok, "%v", err)
		require.Greater(t, rejected.RetryAfter, 9*time.Minute)
	}
	at, why := next.ReadyAt("http://b.test")
	require.Equal(t, "retry_after", why)
	require.InDelta(t, 3600, time.Until(at).Seconds(), 60)
	require.NoError(t, next.Close())

	for what, content := range map[string][]byte{
		"a text": []byte("garbage"), "the beginning of one": saved[:1000], "noise": append(saved[:100:100], make([]byte, len(saved)-100)...),
	} {
		bad := filepath.Join(t.TempDir(), "bad.db")
		require.NoError(t, os.WriteFile(bad, content, 0o600))
		p, err := crawl.NewPoliteness(crawl.PolitenessOptions{Remember: bad})
		require.ErrorContains(t, err, "bad.db", what)
		require.Nil(t, p)
	}
}

func TestPolitenessRefuses(t *testing.T) {
	for want, o := range map[string]crawl.PolitenessOptions{
		"PolitenessOptions.MaxRPS":                          {MaxRPS: -1},
		"PolitenessOptions.IgnoreRobots is about":           {IgnoreRobots: true},
		"PolitenessOptions.Hosts[1].Auth is about":          {Hosts: []crawl.HostOptions{{Match: "a.test", MaxRPS: 1}, {Match: "b.test", Auth: "bearer x"}}},
		"PolitenessOptions: stat /nowhere: no such file or": {Remember: "/nowhere/hosts.db"},
	} {
		_, err := crawl.NewPoliteness(o)
		require.ErrorContains(t, err, want)
	}
	p, err := crawl.NewPoliteness(crawl.PolitenessOptions{})
	require.NoError(t, err)
	_, err = p.Acquire(t.Context(), "https:///path")
	require.ErrorContains(t, err, "the host is empty")
	p.Feedback("", crawl.Feedback{StatusCode: 999, Latency: -1, RetryAfter: -1})
	for want, o := range map[string]crawl.Options{
		"Options.Politeness.MaxRPS is set beside Shared": {Shared: p, Politeness: crawl.PolitenessOptions{MaxRPS: 1}},
		"Options.Fleet is set beside Shared":             {Shared: p, Fleet: crawl.FleetOptions{Redis: "redis://127.0.0.1", Job: "x"}},
	} {
		_, err := crawl.New(o)
		require.ErrorContains(t, err, want)
	}
	c, err := crawl.New(crawl.Options{Shared: p, Politeness: crawl.PolitenessOptions{IgnoreRobots: true, Retries: 1}})
	require.NoError(t, err)
	require.NoError(t, c.Close())
	require.NoError(t, p.Close())
}

// A client that obeys robots.txt asks for it once, paces by its Crawl-delay, and sends nothing that it forbids.
func TestClientObeysRobots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := true
		net := fetchtest.Serve(t, map[string]http.Handler{
			"a.test": http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				if req.URL.Path == "/robots.txt" {
					_, _ = io.WriteString(w, "User-agent: reader\nDisallow: /private\nCrawl-delay: 4\n")
				}
			}),
			"moved.test": http.RedirectHandler("http://a.test/robots.txt", http.StatusFound),
			"none.test":  http.NotFoundHandler(),
			"down.test": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if down {
					w.WriteHeader(http.StatusInternalServerError)
				}
			}),
		})
		base := &http.Transport{DialContext: net.DialContext}
		defer base.CloseIdleConnections()
		c, err := crawl.NewClient(crawl.ClientConfig{
			UserAgent: "reader/2.0 (+mailto:ops@example.org)", ObeyRobots: true, Transport: base, Resilience: []byte("{}"),
			Politeness: crawl.PolitenessOptions{InitialRPS: 10},
		})
		require.NoError(t, err)
		defer c.Close()
		get := func(url string) error {
			res, err := c.Get(url)
			if err == nil {
				err = res.Body.Close()
			}
			return err
		}
		var all sync.WaitGroup
		for i := range 3 {
			all.Go(func() { require.NoError(t, get("http://a.test/page/"+strconv.Itoa(i))) })
		}
		all.Wait()
		require.ErrorIs(t, get("http://a.test/private/x"), crawl.ErrRobots)
		require.NoError(t, get("http://a.test/robots.txt"))
		require.Equal(t, 2, net.Count("a.test", "/robots.txt"), "once by the client, once by the program")
		require.GreaterOrEqual(t, net.MinGap("a.test"), 4*time.Second)
		require.ErrorIs(t, get("http://moved.test/private"), crawl.ErrRobots, "rules from where the file has moved")
		require.NoError(t, get("http://none.test/private"))
		require.ErrorIs(t, get("http://down.test/"), crawl.ErrRobots)
		down = false
		time.Sleep(time.Hour)
		require.NoError(t, get("http://down.test/"))

		gone, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("enough"))
		req, err := http.NewRequestWithContext(gone, http.MethodGet, "http://new.test/", http.NoBody)
		require.NoError(t, err)
		_, err = c.Do(req)
		require.ErrorContains(t, err, "enough")
	})
}

// Crawls alone take turns: none of them is late every time.
func TestCrawlsThatShareTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := fetchtest.Serve(t, map[string]http.Handler{"a.test": chainOf(1000)})
		s := shared(t, fixed(2))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		var all sync.WaitGroup
		for _, seed := range []string{"http://a.test/one/0", "http://a.test/two/0", "http://a.test/three/0"} {
			c := newOver(t, sharing(s), net.DialContext)
			all.Go(func() { _ = c.Run(ctx, seed) }) // until the time is over
		}
		all.Wait()
		require.GreaterOrEqual(t, net.MinGap("a.test"), 500*time.Millisecond)
		by := map[string]int{}
		for _, r := range net.Requests("a.test") {
			dir, _, _ := strings.Cut(r.Path[1:], "/")
			by[dir]++
		}
		for _, dir := range []string{"one", "two", "three"} {
			require.Greater(t, by[dir], 150, "%v", by)
		}
	})
}
