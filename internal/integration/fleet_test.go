package integration_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/internal/lab/redistest"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/web/request"
	"github.com/treadlight/crawl/record"
)

// What a job is told to be done is on a disk by then; a disk that fails ends the process's part
// in it, and its pages are others' to fetch.
func TestFleetSyncs(t *testing.T) {
	server := redistest.Redis.Start(t)
	net := fetchtest.Serve(t, map[string]http.Handler{"a.test": star(5)})
	run := func(job string, out ...record.Sink) error {
		cfg := assembly.DefaultConfig()
		cfg.RateLimit.Strategy, cfg.Robots.Enabled, cfg.Sitemaps.Enabled = "off", false, false
		cfg.Fleet.Redis, cfg.Fleet.Job = "redis://"+server.Addr, job
		cfg.Sinks = out
		c := newOver(t, cfg, net.DialContext)
		return c.Run(t.Context(), "http://a.test/")
	}
	done := func(job string) int { return doneOf(t, server, job) }
	out := &ledger{}
	require.NoError(t, run("kept", out))
	require.NotZero(t, out.synced)
	require.Len(t, out.list, done("kept"))

	err := run("lost", &failing{})
	var trouble *assembly.FleetError
	require.ErrorAs(t, err, &trouble)
	require.ErrorIs(t, err, errPower)
	require.ErrorContains(t, err, "sync ledger: no power")
	require.Zero(t, done("lost"))
}

// doneOf is how many URLs a job has done, over all its partitions.
func doneOf(t *testing.T, server *redistest.Server, job string) (n int) {
	t.Helper()
	for p := range 64 {
		text, err := server.Do(t, "HGET", fmt.Sprintf("crawl:{%s/%d}:n", job, p), "done").ToString()
		if rueidis.IsRedisNil(err) {
			continue // nothing is in it
		}
		require.NoError(t, err)
		part, err := strconv.Atoi(text)
		require.NoError(t, err)
		n += part
	}
	return n
}

// That no seed answers is so of all processes of a job or of none, whichever of them has asked for those that do.
func TestFleetIsUnreachableAsAWhole(t *testing.T) {
	server := redistest.Redis.Start(t)
	begin := func(job string, net *fetchtest.Net, seed string) <-chan error {
		cfg := assembly.DefaultConfig()
		cfg.RateLimit.Strategy, cfg.RateLimit.RetryMaxAttempts, cfg.Sitemaps.Enabled = "off", 0, false
		cfg.Fleet.Redis, cfg.Fleet.Job, cfg.Scope.Mode = "redis://"+server.Addr, job, "any"
		c := newOver(t, cfg, net.DialContext)
		ended := make(chan error, 1)
		go func() { ended <- c.Run(t.Context(), seed) }()
		return ended
	}
	done := func(job string) int { return doneOf(t, server, job) }
	nobody := fetchtest.Serve(t, nil)
	require.ErrorIs(t, <-begin("none", nobody, "http://gone.test/"), crawl.ErrUnreachable)
	require.ErrorIs(t, <-begin("none", nobody, "http://lost.test/"), crawl.ErrUnreachable, "though another has been here")

	asked, hold := make(chan struct{}), make(chan struct{})
	net := fetchtest.Serve(t, map[string]http.Handler{"a.test": http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			close(asked)
			<-hold
		}
	})})
	first := begin("some", net, "http://a.test/")
	<-asked
	second := begin("some", net, "http://gone.test/")
	require.Eventually(t, func() bool { return done("some") == 1 }, redistest.Patience, 10*time.Millisecond)
	close(hold)
	require.NoError(t, <-second, "another has reached one")
	require.NoError(t, <-first)
	require.NoError(t, <-begin("some", net, "http://lost.test/"), "one was reached before")
}

// In a fleet a process tells of what it has itself given to the job before. What another one has given is left out in
// silence: it is asked for once all the same.
func TestFleetTellsWhatItHasSeen(t *testing.T) {
	server := redistest.Redis.Start(t)
	net := fetchtest.Serve(t, map[string]http.Handler{"a.test": star(3)})
	run := func(on, seed string) (told []string) {
		cfg := assembly.DefaultConfig()
		cfg.RateLimit.Strategy, cfg.Robots.Enabled, cfg.Sitemaps.Enabled = "off", false, false
		cfg.Fleet.Redis, cfg.Fleet.Job = "redis://"+server.Addr, "seen"
		cfg.OnSkip = func(s pipeline.Skip) { told = append(told, s.Reason+" "+s.URL) }
		cfg.Handle = func(_ context.Context, page *pipeline.Page) error {
			if page.URL == on {
				_, _, err := page.Follow("/1", request.Request{})
				return err
			}
			return nil
		}
		require.NoError(t, newOver(t, cfg, net.DialContext).Run(t.Context(), seed))
		return told
	}
	require.Equal(t, []string{"seen http://a.test/1"}, run("http://a.test/1", "http://a.test/"))
	require.Empty(t, run("http://a.test/more", "http://a.test/more"), "the other one has given it")
	asked := 0
	for _, r := range net.Requests() {
		if r.Path == "/1" {
			asked++
		}
	}
	require.Equal(t, 1, asked)
}

// What a seed opens is open in every process of a fleet, also in one that has no seeds, and so is
// nothing else: where a name leads is decided by the first process that was given it.
func TestFleetOpensWhatItsSeedsOpen(t *testing.T) {
	const at, elsewhere, public = "127.0.24.1", "127.0.24.2", "192.0.66.2"
	server := redistest.Redis.Start(t)
	names := new(answers)
	var links []string
	served := make(chan struct{}, 1000)
	host := fetchtest.NewRaw(t, func(c net.Conn, _ string) bool { served <- struct{}{}; return sayPage(c, anchors(links...)) })
	port := portOf(t, host.Listen(t, at+":0"))
	other := fetchtest.NewRaw(t, func(c net.Conn, _ string) bool { return sayPage(c, "internal") })
	another := portOf(t, other.Listen(t, at+":0"))
	other.Listen(t, elsewhere+":"+port)
	seed, literal := "http://seed.test:"+port, "http://"+at+":"+port
	siblings := []string{
		"http://seed.test:" + another + "/", "http://sub.seed.test:" + port + "/", "http://" + at + ":" + another + "/",
		"http://" + elsewhere + ":" + port + "/", "http://localhost:" + another + "/",
	}
	names.set("sub.seed.test", at)
	for _, path := range []string{"/a", "/b", "/c"} {
		links = append(links, seed+path, literal+path)
	}
	links = append(links, siblings...)
	for i, tc := range []struct {
		first, then string // where the name leads for the first process, and for the others
		seeds       []string
		want        string // of the name, in the others
	}{
		{at, at, nil, ""},
		{at, elsewhere, nil, "address_denied"},
		{at, elsewhere, []string{seed + "/again"}, "address_denied"},
		{public, at, []string{seed + "/again"}, "address_denied"},
		{public, at, nil, "address_denied"},
		{"", at, []string{seed + "/again"}, ""},
	} {
		process := func(join bool, stop func(*assembly.Crawler), seeds ...string) []record.Record {
			c, out := probed(t, names, func(cfg *assembly.Config) {
				cfg.Fleet.Redis, cfg.Fleet.Job, cfg.Join = "redis://"+server.Addr, fmt.Sprint("job", i), join
				cfg.Concurrency, cfg.PerHostMax, cfg.Sitemaps.Enabled = 1, 1, false
			})
			go stop(c)
			require.NoError(t, c.Run(t.Context(), seeds...))
			return out.list
		}
		for len(served) > 0 {
			<-served
		}
		names.set("seed.test", tc.first)
		first := process(false, func(c *assembly.Crawler) { <-served; c.Stop() }, literal+"/", seed+"/")
		names.set("seed.test", tc.then)
		rest := process(len(tc.seeds) == 0, func(*assembly.Crawler) {}, tc.seeds...)
		require.NotEmpty(t, first)
		n := 0
		for url, rec := range byURL(t, rest) {
			switch {
			case strings.HasPrefix(url, literal):
				require.Equal(t, 200, rec.Status, url)
			case strings.HasPrefix(url, seed):
				require.Equal(t, tc.want, class(rec), "%s, %+v", url, tc)
				n++
			default:
				require.Equal(t, "address_denied", class(rec), url)
			}
		}
		require.Positive(t, n, "%+v", tc)
	}
	require.Empty(t, other.Heads())
}
