package integration_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/internal/lab/racetest"
	"github.com/treadlight/crawl/internal/lab/testsite"
)

// inMemory makes a crawl of a site in memory, inside a bubble, and what it writes.
func inMemory(t *testing.T, site testsite.Config, cfg assembly.Config) (*testsite.Site, *assembly.Crawler, *records) {
	t.Helper()
	var network fetchtest.Memory
	site.Listen = network.Listen
	s := serveSite(t, site)
	c, out := recorded(t, cfg, network.DialContext)
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
	require.NoError(t, json.NewEncoder(t.Output()).Encode(r))
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

// A host that breaks down is left alone after a handful of requests, and taken up again without help when it is well;
// every page is had. Where the crawl was asking five times a second that takes less than five seconds; where it was
// slower, it takes as long as five failures do, each of which halves the rate.
func TestOverload(t *testing.T) {
	const well, ill = 10 * time.Second, 40 * time.Second
	for _, mode := range []testsite.Outage{{Mode: "refuse"}, {Mode: "status", Status: 500}, {Mode: "status", Status: 502}, {Mode: "reset"}, {Mode: "close-listener"}} {
		for _, rps := range []float64{1, 5} {
			t.Run(fmt.Sprintf("%s %d at %v per second", mode.Mode, mode.Status, rps), bubble(func(t *testing.T) {
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
				// Five to open it, and a trial in two seconds at most.
				require.LessOrEqual(t, failed, 5+int64(ill/(2*time.Second)))
				require.Greater(t, seen.closed, well+ill)
				byURL(t, out.list)
				if mode.Status == 500 { // final for a page, and for those that only it links to
					require.Zero(t, s.Report().Total.Duplicates)
					return
				}
				requireManners(t, s.Report())
			}))
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

// Of a host that fails one request in ten, every page is had, with less than three retries for each page that failed.
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

// realistic is the scenario of that name, with so many pages per address. They are short:
// it is about when they are asked for.
func realistic(t *testing.T, pages int) testsite.Config {
	t.Helper()
	text, err := os.ReadFile("../../testdata/scenarios/realistic.yaml")
	require.NoError(t, err)
	cfg, err := testsite.Parse(text)
	require.NoError(t, err)
	for i := range cfg.Hosts {
		h := &cfg.Hosts[i]
		h.Pages = pages / max(1, h.Count)
		h.Size = testsite.Size{Max: 200}
	}
	return cfg
}

// wanted is what a crawl of a host must reach: the share of what was possible, and at
// most how many of a thousand requests refused. The shares lie three to five hundredths
// below what was measured, and the refusals half as high again as they were, or a handful.
type wanted struct{ used, refused float64 }

// wantedFigures are those of 1500 pages per address, which is some two and a half minutes,
// the search for the limit included.
var wantedFigures = map[string]wanted{
	"leaky-bucket":    {0.91, 10},
	"leaky-delay":     {0.88, 5},
	"token-bucket":    {0.93, 10},
	"fixed-window":    {0.88, 6},
	"fixed-silent":    {0.84, 14},
	"sliding-counter": {0.86, 5},
	// Its quota bears a bulge once: the rate that the search came to is found too high only
	// when all of it is used up, and comes back as slowly as the search began.
	"sliding-log": {0.62, 8},
	"concurrency": {0.76, 5},
	// What three limits together allow is less than what the tightest does alone.
	"several": {0.67, 14},
	// Five searches for one limit, which are one after twenty seconds.
	"shared": {0.95, 40},
	// Nobody is refused there: latency says when it is enough, and two thirds of what a
	// queue can do is where it has trebled.
	"queue":      {0.62, 1},
	"processors": {0.89, 1},
	// Capacity that goes down is noticed by refusals.
	"daily":     {0.90, 22},
	"timetable": {0.90, 14},
	"ban":       {0.93, 10},
	"past":      {0.93, 10},
	"garbage":   {0.93, 10},
	// Its search ends in a block, which has to be waited for.
	"forbidding": {0.80, 30},
}

// TestRealisticLimiters: with a raised maximum and every other setting as it is, a crawl
// finds the limit of every kind, keeps to it, has every page once, never comes inside a
// Retry-After and is banned nowhere. The judge is the site's own report.
func TestRealisticLimiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := assembly.DefaultConfig()
		cfg.RateLimit.MaxRPS = 100
		cfg.Sitemaps.Enabled = false // the site counts every request
		pages, few := 1500, racetest.Sample(t)
		if few {
			pages = 150 // of which the first minute, the search, is all
		}
		s, c, out := inMemory(t, realistic(t, pages), cfg)
		require.NoError(t, c.Run(t.Context(), s.URLs()...))
		byURL(t, out.list)
		r := s.Report()
		logTable(t, r)
		seen := map[string]bool{}
		for i := range r.Hosts {
			h := &r.Hosts[i]
			require.Zero(t, h.InsideRetryAfter, "%s: inside a Retry-After", h.Name)
			require.Zero(t, h.Duplicates, "%s: served twice", h.Name)
			require.Zero(t, h.Bans, "%s: banned", h.Name)
			kind := h.Name
			if strings.HasPrefix(kind, "shared-") {
				kind = "shared"
			}
			seen[kind] = true
			want, ok := wantedFigures[kind]
			require.True(t, ok, "no figures for %s", kind)
			require.EqualValues(t, h.URLs, h.Distinct, "%s: pages had", h.Name)
			if few {
				continue
			}
			require.Greater(t, h.UsedShare, want.used, "%s: used share", h.Name)
			require.LessOrEqual(t, h.RefusedPer1000, want.refused, "%s: refused of 1000", h.Name)
		}
		require.Len(t, seen, len(wantedFigures), "every kind has been crawled")
	})
}

// The same over sockets, in short: a limit that several ports of one address share, one with headers, one that answers
// late, and a host that fails now and then or has rules.
func TestRealisticLimitersOnSockets(t *testing.T) {
	t.Parallel() // it mostly waits
	bucket := testsite.Limiter{Kind: "token-bucket", Rate: 60, Burst: 20}
	// What arrives within two seconds of a refusal counts as sent before it, as the machine
	// may be busy, and a refusal asks for more than that.
	quick := testsite.Latency{Typical: 5 * time.Millisecond}
	s := serveSite(t, testsite.Config{Base: "127.0.26.1", Seed: 5, Grace: 2 * time.Second, Hosts: []testsite.Host{
		{Name: "shared", Count: 3, OneAddress: true, Pages: 60, Limits: []testsite.Limiter{bucket}, Refusal: testsite.Refusal{RetryAfter: "seconds", Wait: 4 * time.Second}},
		{Name: "told", Pages: 150, Limits: []testsite.Limiter{{Kind: "fixed-window", Requests: 60, Window: time.Second}}, Refusal: testsite.Refusal{RetryAfter: "asctime", Wait: 4 * time.Second, Headers: "ietf"}},
		{Name: "paced", Pages: 150, Limits: []testsite.Limiter{{Kind: "leaky-bucket", Rate: 60, Burst: 20, Delay: true}}},
		{Name: "banning", Pages: 150, Limits: []testsite.Limiter{bucket}, Ban: testsite.Ban{After: 50, For: time.Minute, Mode: "drop"}},
		{Name: "flaky", Pages: 150, Latency: quick, Flaky: testsite.Flaky{Probability: 0.1, Kinds: []string{"502", "503", "reset"}}},
		{Name: "rules", Pages: 100, Private: 20, Latency: quick, Robots: testsite.Robots{Disallow: []string{"/private/"}}},
	}})
	cfg := assembly.DefaultConfig()
	cfg.RateLimit.InitialRPS, cfg.RateLimit.MaxRPS, cfg.RateLimit.AIMDIncrease = 20, 200, 1
	cfg.RateLimit.OpenStateDuration = time.Second
	list, _ := visit(t, cfg, s.URLs()...)
	byURL(t, list)
	r := s.Report()
	logTable(t, r)
	requireManners(t, r)
	require.Zero(t, r.Total.Bans)
	require.Len(t, r.Hosts, 8)
	require.Equal(t, r.Hosts[0].Usage, r.Hosts[2].Usage, "one address, one account")
}

// crawlLimited crawls a host with a hidden limit for that long and tells what the host has
// seen, and what the crawl said.
func crawlLimited(t *testing.T, d time.Duration, limit testsite.Limit, remember string) (testsite.HostReport, string) {
	t.Helper()
	var said bytes.Buffer
	cfg := assembly.DefaultConfig()
	cfg.RateLimit.MaxRPS, cfg.RateLimit.Remember, cfg.MaxTime = 100, remember, d
	cfg.Log = slog.New(slog.NewTextHandler(&said, nil))
	s, c, _ := inMemory(t, testsite.Config{Hosts: []testsite.Host{{
		Pages: 20_000, Limit: limit, Latency: testsite.Latency{Typical: 20 * time.Millisecond},
	}}}, cfg)
	require.NoError(t, c.Run(t.Context(), s.URLs()...))
	return s.Report().Hosts[0], said.String()
}

// The second crawl begins near what the first has learned: it gets more from the host in
// its first half minute, and is refused no more often.
func TestSecondCrawlBeginsNearTheKnownRate(t *testing.T) {
	const rate, span = 12, 30 * time.Second
	limit := testsite.Limit{Rate: rate, Burst: 5}
	path := filepath.Join(t.TempDir(), "hosts")
	synctest.Test(t, func(t *testing.T) {
		stranger, _ := crawlLimited(t, span, limit, "")
		first, said := crawlLimited(t, 5*time.Minute, limit, path)
		require.NotContains(t, said, "earlier crawls")
		require.NotZero(t, first.Refusals, "the limit was not met")
		time.Sleep(time.Hour)
		second, said := crawlLimited(t, span, limit, path)
		require.Contains(t, said, "going on from what earlier crawls have learned")
		t.Logf("in %v: %d requests, %d refused; knowing: %d requests, %d refused", span, stranger.Requests, stranger.Refusals, second.Requests, second.Refusals)
		require.Greater(t, second.Requests-second.Refusals, stranger.Requests-stranger.Refusals)
		require.LessOrEqual(t, second.Refusals, stranger.Refusals)
		require.LessOrEqual(t, second.Refusals, first.Refusals)
		require.Greater(t, float64(second.Requests), 0.8*rate*span.Seconds(), "of what the host would give")
		time.Sleep(25 * time.Hour)
		_, said = crawlLimited(t, time.Second, limit, path)
		require.NotContains(t, said, "earlier crawls", "a day later")
	})
}

// A host that has told one crawl to wait is not asked by the next before it is over, robots.txt included.
func TestRetryAfterOutlastsTheCrawl(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hosts")
	synctest.Test(t, func(t *testing.T) {
		site := testsite.Config{Hosts: []testsite.Host{{
			Pages: 5, Script: []testsite.Step{{Status: 503, Times: -1}}, Refusal: testsite.Refusal{RetryAfter: "seconds", Wait: 10 * time.Minute},
		}}}
		cfg := assembly.DefaultConfig()
		cfg.RateLimit.Remember, cfg.MaxBlocked = path, 0
		s, c, _ := inMemory(t, site, cfg)
		require.ErrorIs(t, c.Run(t.Context(), s.URLs()...), crawl.ErrBlocked)
		asked := s.Report().Hosts[0].Requests
		require.NotZero(t, asked)

		time.Sleep(9 * time.Minute)
		s, c, _ = inMemory(t, site, cfg)
		require.ErrorIs(t, c.Run(t.Context(), s.URLs()...), crawl.ErrBlocked)
		require.Zero(t, s.Report().Hosts[0].Requests)
	})
}

// It is saved every minute, not only at the end: a crash costs a minute.
func TestSavesEveryMinute(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hosts")
	synctest.Test(t, func(t *testing.T) {
		exists := make(chan bool, 2)
		go func() {
			for _, d := range []time.Duration{time.Minute - 1, 2} {
				time.Sleep(d)
				_, err := os.Stat(path)
				exists <- err == nil
			}
		}()
		crawlLimited(t, 2*time.Minute, testsite.Limit{Rate: 5, Burst: 2}, path)
		require.False(t, <-exists, "before the minute was over")
		require.True(t, <-exists, "when it was over")
	})
}

// An order to wait is kept as soon as it is given: whoever kills a crawl within it and
// resumes it at once does not ask that host.
func TestRetryAfterOutlastsAKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		site := testsite.Config{Hosts: []testsite.Host{{
			Pages: 5, Script: []testsite.Step{{Status: 200, Times: 2}, {Status: 429, Times: -1}},
			Refusal: testsite.Refusal{RetryAfter: "seconds", Wait: 10 * time.Minute},
		}}}
		dir, killed := filepath.Join(t.TempDir(), "state"), make(chan string, 1)
		cfg := assembly.DefaultConfig()
		cfg.State.Dir, cfg.MaxTime, cfg.MaxBlocked = dir, time.Minute-1, time.Hour // it ends before all is saved anyway
		cfg.RateLimit.InitialRPS = 5
		s, c, _ := inMemory(t, site, cfg)
		time.AfterFunc(10*time.Second, func() { killed <- copyState(t, dir) })
		require.NoError(t, c.Run(t.Context(), s.URLs()...))
		require.NotZero(t, s.Report().Hosts[0].Requests)

		cfg.State.Dir, cfg.MaxTime, cfg.MaxBlocked = "", 0, 0
		cfg.Kept = openState(t, <-killed)
		s, c, _ = inMemory(t, site, cfg)
		require.ErrorIs(t, c.Run(t.Context()), crawl.ErrBlocked)
		require.Zero(t, s.Report().Hosts[0].Requests)
	})
}

// What is wrong with the file is told before anything is asked for.
func TestMemoryThatIsNone(t *testing.T) {
	cfg := assembly.DefaultConfig()
	cfg.RateLimit.Remember = t.TempDir()
	c := newOver(t, cfg, cfg.Dial)
	err := c.Run(t.Context(), "http://127.0.0.1:1/")
	require.ErrorContains(t, err, "ratelimit.remember: "+cfg.RateLimit.Remember+" is no regular file")
	require.EqualError(t, assembly.CheckMemory(&cfg.Settings), err.Error())
	require.Zero(t, c.Snapshot().Requests)
	cfg.RateLimit.Strategy = "off"
	require.NoError(t, assembly.CheckMemory(&cfg.Settings), "which nobody reads")
}
