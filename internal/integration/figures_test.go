package integration_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/internal/lab/testsite"
)

// inMemory makes a crawl of a site in memory, inside a bubble, and what it writes.
func inMemory(t *testing.T, site testsite.Config, cfg assembly.Config) (*testsite.Site, *assembly.Crawler, *records) {
	t.Helper()
	var network fetchtest.Memory
	site.Listen = network.Listen
	s := serveSite(t, site)
	out := &records{}
	cfg.Sinks = append(cfg.Sinks, out)
	c, err := newOver(cfg, network.DialContext)
	require.NoError(t, err)
	return s, c, out
}

// requireManners fails the test unless every host was crawled whole, once, and as it asked.
func requireManners(t *testing.T, r testsite.Report) {
	t.Helper()
	for _, h := range r.Hosts {
		require.EqualValues(t, h.URLs, h.Distinct, "%s: pages had", h.Name)
		require.Zero(t, h.Duplicates, "%s: served twice", h.Name)
		require.Zero(t, h.InsideRetryAfter, "%s: inside a Retry-After", h.Name)
		require.Zero(t, h.RobotsViolations, "%s: disallowed", h.Name)
		require.Zero(t, h.DelayViolations, "%s: under the Crawl-delay", h.Name)
		require.Zero(t, h.BeforeRobots, "%s: before robots.txt", h.Name)
	}
}

// logTable prints what the hosts have seen.
func logTable(t *testing.T, r testsite.Report) {
	t.Helper()
	require.NoError(t, r.WriteTable(t.Output()))
}

// limitedHosts are hosts with a limit, in the ways in which limits are made known.
func limitedHosts(rate float64, pages int) []testsite.Host {
	host := func(name string, l testsite.Limit, r testsite.Refusal) testsite.Host {
		return testsite.Host{
			Name: name, Pages: pages, Limit: l, Refusal: r,
			Latency: testsite.Latency{Typical: 20 * time.Millisecond, Dist: "lognormal", Spread: 0.4},
		}
	}
	return []testsite.Host{
		host("silent", testsite.Limit{Rate: rate, Burst: 5}, testsite.Refusal{}),
		host("silent-503", testsite.Limit{Rate: rate, Burst: 5}, testsite.Refusal{Status: 503}),
		host("strict", testsite.Limit{Rate: rate}, testsite.Refusal{RetryAfter: "seconds"}),
		host("dated", testsite.Limit{Rate: rate, Burst: 2}, testsite.Refusal{RetryAfter: "http-date", Wait: 2 * time.Second}),
		host("window", testsite.Limit{Requests: int(10 * rate), Window: 10 * time.Second}, testsite.Refusal{RetryAfter: "seconds"}),
	}
}

// After it has found a host's limit, a crawl keeps to it: none of its requests arrives
// inside a Retry-After, every page is had, and as many are served as the law of AIMD
// grants: a refusal halves the rate, each answer adds 0.1/s, so that a limit of L/s is met
// again after 5·L answers. That is more than nine in ten for limits of 2/s and above.
func TestLimitedHosts(t *testing.T) {
	const stable = 30 * time.Second
	for rate, pages := range map[float64]int{1: 200, 2: 250, 5: 400, 20: 900} {
		t.Run(fmt.Sprint(rate), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := assembly.DefaultConfig()
				cfg.RateLimit.MaxRPS = 100
				s, c, out := inMemory(t, testsite.Config{Hosts: limitedHosts(rate, pages)}, cfg)
				early := make(chan testsite.Report, 1)
				time.AfterFunc(stable, func() { early <- s.Report() })
				require.NoError(t, c.Run(t.Context(), s.URLs()...))
				first, last := <-early, s.Report()
				byURL(t, out.list)
				requireManners(t, last)
				logTable(t, last)
				for i := range last.Hosts {
					a, b := &first.Hosts[i], &last.Hosts[i]
					made, refused := b.Requests-a.Requests, b.Refusals-a.Refusals
					served := 1 - float64(refused)/float64(made)
					t.Logf("%s at %v/s: %.2f%% served after %v", b.Name, rate, 100*served, stable)
					// A hundredth for the sawtooth that the end of the crawl cuts.
					require.Greater(t, served, 1-1/(5*rate+1)-0.01, b.Name)
					if rate >= 5 {
						require.Greater(t, served, 0.9, b.Name)
					}
				}
			})
		})
	}
}

// breakerTimes are when a host's breaker was first seen open, and closed for good.
type breakerTimes struct{ opened, closed time.Duration }

// watchBreaker looks at a host's breaker ten times a second until ctx ends.
func watchBreaker(ctx context.Context, c *assembly.Crawler, domain string) (seen breakerTimes) {
	begun := time.Now()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return seen
		case <-tick.C:
		}
		for _, d := range c.Snapshot().Limiter.Top {
			if "http://"+d.Domain != domain {
				continue
			}
			switch state := fmt.Sprint(d.State); {
			case state != "closed":
				seen.closed = 0
				if seen.opened == 0 {
					seen.opened = time.Since(begun)
				}
			case seen.opened != 0 && seen.closed == 0:
				seen.closed = time.Since(begun)
			}
		}
	}
}

// A host that breaks down is left alone after a handful of requests, and taken up again
// without help when it is well; every page is had. Where the crawl was asking five times
// a second that takes less than five seconds; where it was slower, it takes as long as
// five failures do, each of which halves the rate.
func TestOverload(t *testing.T) {
	const well, ill = 10 * time.Second, 40 * time.Second
	for _, mode := range []testsite.Outage{{Mode: "refuse"}, {Mode: "status", Status: 500}, {Mode: "status", Status: 502}, {Mode: "reset"}, {Mode: "close-listener"}} {
		for _, rps := range []float64{1, 5} {
			t.Run(fmt.Sprintf("%s %d at %v per second", mode.Mode, mode.Status, rps), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					mode.After, mode.For = well, ill
					cfg := assembly.DefaultConfig()
					cfg.RateLimit.InitialRPS = rps
					s, c, out := inMemory(t, testsite.Config{Hosts: []testsite.Host{{
						Pages: 300, Outages: []testsite.Outage{mode}, Latency: testsite.Latency{Typical: 20 * time.Millisecond},
					}}}, cfg)
					ctx, stop := context.WithCancel(t.Context())
					watched := make(chan breakerTimes)
					go func() { watched <- watchBreaker(ctx, c, s.URL(0)) }()
					require.NoError(t, c.Run(t.Context(), s.URLs()...))
					stop()
					seen, snap := <-watched, c.Snapshot()
					failed := int64(0)
					for class, n := range snap.Outcomes {
						if class != "ok" && class != "client_error" {
							failed += n
						}
					}
					t.Logf("broken from %v to %v: breaker open after %v, closed %v after the end; %d requests, %d failed, in %.0f s",
						well, well+ill, seen.opened-well, seen.closed-well-ill, snap.Requests, failed, snap.ElapsedSeconds)
					require.Greater(t, seen.opened, well)
					if rps >= 5 {
						require.LessOrEqual(t, seen.opened-well, 5*time.Second)
					}
					// Five to open it, a probe every 15 s, and what was on its way.
					require.LessOrEqual(t, failed, int64(5+3+8))
					require.Greater(t, seen.closed, well+ill)
					byURL(t, out.list)
					if mode.Status == 500 { // final for a page, and for those that only it links to
						require.Zero(t, s.Report().Total.Duplicates)
						return
					}
					requireManners(t, s.Report())
				})
			})
		}
	}
}

// failures are requests that ended badly.
func failures(h testsite.HostReport) int64 {
	n := h.Resets + h.Hangs
	for status, count := range h.Statuses {
		if status >= 500 || status == 429 {
			n += count
		}
	}
	return n
}

// Of a host that fails one request in ten, every page is had, with less than three
// retries for each page that failed.
func TestFlakyHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c, out := inMemory(t, testsite.Config{Seed: 11, Hosts: []testsite.Host{{
			Pages: 1000, Latency: testsite.Latency{Typical: 20 * time.Millisecond},
			Flaky: testsite.Flaky{Probability: 0.1, Kinds: []string{"502", "503", "504", "reset"}},
		}}}, assembly.DefaultConfig())
		require.NoError(t, c.Run(t.Context(), s.URLs()...))
		r := s.Report()
		requireManners(t, r)
		again, retries := 0, 0
		for _, rec := range byURL(t, out.list) {
			if rec.Attempt > 1 {
				again++
				retries += rec.Attempt - 1
			}
		}
		snap := c.Snapshot()
		perFailure := float64(snap.Retries) / float64(failures(r.Total))
		perPage := float64(retries) / float64(again)
		t.Logf("%d requests, %d failed; %d retries (%.2f per failure), %.2f tries more for each of %d pages; %.0f s",
			r.Total.Requests, failures(r.Total), snap.Retries, perFailure, perPage, again, snap.ElapsedSeconds)
		require.NotZero(t, again)
		require.Less(t, perFailure, 3.0)
		require.Less(t, perPage, 3.0)
	})
}

// Robots.txt is asked for first and obeyed to the letter, whatever else goes wrong.
func TestRulesAreObeyed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flaky := testsite.Flaky{Probability: 0.1, Kinds: []string{"503", "reset"}}
		s, c, out := inMemory(t, testsite.Config{Seed: 2, Hosts: []testsite.Host{
			{Name: "disallow", Pages: 200, Private: 50, HostLinks: 2, Flaky: flaky, Robots: testsite.Robots{Disallow: []string{"/private/"}}},
			{Name: "delay", Pages: 100, Private: 20, HostLinks: 2, Flaky: flaky, Robots: testsite.Robots{Disallow: []string{"/private/"}, CrawlDelay: 3 * time.Second}},
			{Name: "late", Pages: 100, Private: 20, HostLinks: 2, Robots: testsite.Robots{Disallow: []string{"/private/"}, Status: 503, Times: 2, Latency: 5 * time.Second}},
			{Name: "refused", Pages: 100, Private: 20, HostLinks: 2, Limit: testsite.Limit{Rate: 5}, Robots: testsite.Robots{Disallow: []string{"/private/"}, Status: 429, Times: 3}},
			{Name: "broken", Pages: 50, HostLinks: 2, Robots: testsite.Robots{Status: 500}},
		}}, assembly.DefaultConfig())
		require.NoError(t, c.Run(t.Context(), s.URLs()...))
		r := s.Report()
		logTable(t, r)
		refused := 0
		for _, rec := range byURL(t, out.list) {
			if class(rec) == "robots" {
				refused++
				require.Zero(t, rec.Attempt)
			}
		}
		require.Zero(t, r.Total.RobotsViolations)
		require.Zero(t, r.Total.DelayViolations)
		require.Zero(t, r.Total.BeforeRobots)
		require.Zero(t, r.Total.InsideRetryAfter)
		require.Zero(t, r.Total.Duplicates)
		for _, h := range r.Hosts {
			if h.Name == "broken" {
				require.Zero(t, h.Distinct, "nothing is fetched under a robots.txt that cannot be had")
				continue
			}
			require.EqualValues(t, h.URLs, h.Distinct, h.Name)
		}
		require.GreaterOrEqual(t, refused, 50+20+20+20)
	})
}

// The same promises over sockets, all hosts at once, in real time.
func TestMannersOnSockets(t *testing.T) {
	t.Parallel() // it mostly waits
	quick := testsite.Latency{Typical: 5 * time.Millisecond}
	// On a busy machine a request can take a while from its permit to the host, so what
	// arrives within two seconds of a refusal counts as sent before it, and a refusal asks
	// for more than that.
	s := serveSite(t, testsite.Config{Base: "127.0.25.1", Seed: 5, Grace: 2 * time.Second, Hosts: []testsite.Host{
		{Name: "silent", Pages: 300, Latency: quick, Limit: testsite.Limit{Rate: 50, Burst: 10}},
		{Name: "told", Pages: 300, Latency: quick, Limit: testsite.Limit{Rate: 50, Burst: 10}, Refusal: testsite.Refusal{RetryAfter: "seconds", Wait: 4 * time.Second}},
		{Name: "flaky", Pages: 150, Latency: quick, Flaky: testsite.Flaky{Probability: 0.1, Kinds: []string{"502", "503", "reset"}}},
		{Name: "rules", Pages: 100, Private: 20, Latency: quick, Robots: testsite.Robots{Disallow: []string{"/private/"}}},
	}})
	cfg := assembly.DefaultConfig()
	cfg.RateLimit.InitialRPS, cfg.RateLimit.MaxRPS, cfg.RateLimit.AIMDIncrease = 20, 200, 1
	cfg.RateLimit.OpenStateDuration = time.Second
	list, snap := visit(t, cfg, s.URLs()...)
	byURL(t, list)
	r := s.Report()
	logTable(t, r)
	requireManners(t, r)
	t.Logf("%d pages, %d retries, %.1f s, workers waited %.4f s of %.1f s", snap.Pages, snap.Retries, snap.ElapsedSeconds,
		snap.Workers.WaitSeconds, snap.Workers.BusySeconds)
}
