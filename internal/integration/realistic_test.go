package integration_test

import (
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/lab/racetest"
	"github.com/treadlight/crawl/internal/lab/testsite"
)

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
	"fixed-window":    {0.90, 5},
	"fixed-silent":    {0.84, 10},
	"sliding-counter": {0.86, 5},
	// Its quota bears a bulge once: the rate that the search came to is found too high only
	// when all of it is used up, and comes back as slowly as the search began.
	"sliding-log": {0.62, 8},
	"concurrency": {0.80, 5},
	// What three limits together allow is less than what the tightest does alone.
	"several": {0.73, 14},
	// Five searches for one limit, which are one after twenty seconds.
	"shared": {0.95, 40},
	// Nobody is refused there: latency says when it is enough, and two thirds of what a
	// queue can do is where it has trebled.
	"queue":      {0.62, 1},
	"processors": {0.89, 1},
	// Capacity that goes down is noticed by refusals.
	"daily":     {0.84, 22},
	"timetable": {0.85, 14},
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

// A crawl that does not listen shows that the report does: the same hosts without pacing.
func TestLimiterReportsViolations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := unpaced()
		cfg.MaxTime = 5 * time.Second
		if racetest.Sample(t) {
			cfg.MaxTime = time.Second
		}
		cfg.RateLimit.RetryMaxAttempts = 1
		s, c, _ := inMemory(t, realistic(t, 300), cfg)
		require.NoError(t, c.Run(t.Context(), s.URLs()...))
		r := s.Report()
		logTable(t, r)
		require.Greater(t, r.Total.RefusedPer1000, 500.0)
		require.Positive(t, r.Total.InsideRetryAfter)
		for i := range r.Hosts {
			if h := &r.Hosts[i]; h.Name == "ban" {
				require.Positive(t, h.Bans)
				require.Positive(t, h.Banned)
			}
		}
	})
}

// The same over sockets, in short: a limit that several ports of one address share, one
// with headers, and one that answers late.
func TestRealisticLimitersOnSockets(t *testing.T) {
	t.Parallel() // it mostly waits
	bucket := testsite.Limiter{Kind: "token-bucket", Rate: 60, Burst: 20}
	// What arrives within two seconds of a refusal counts as sent before it, as the machine
	// may be busy, and a refusal asks for more than that.
	s := serveSite(t, testsite.Config{Base: "127.0.26.1", Seed: 5, Grace: 2 * time.Second, Hosts: []testsite.Host{
		{Name: "shared", Count: 3, OneAddress: true, Pages: 60, Limits: []testsite.Limiter{bucket}, Refusal: testsite.Refusal{RetryAfter: "seconds", Wait: 4 * time.Second}},
		{Name: "told", Pages: 150, Limits: []testsite.Limiter{{Kind: "fixed-window", Requests: 60, Window: time.Second}}, Refusal: testsite.Refusal{RetryAfter: "asctime", Wait: 4 * time.Second, Headers: "ietf"}},
		{Name: "paced", Pages: 150, Limits: []testsite.Limiter{{Kind: "leaky-bucket", Rate: 60, Burst: 20, Delay: true}}},
		{Name: "banning", Pages: 150, Limits: []testsite.Limiter{bucket}, Ban: testsite.Ban{After: 50, For: time.Minute, Mode: "drop"}},
	}})
	cfg := assembly.DefaultConfig()
	cfg.RateLimit.InitialRPS, cfg.RateLimit.MaxRPS, cfg.RateLimit.AIMDIncrease = 20, 200, 1
	list, _ := visit(t, cfg, s.URLs()...)
	byURL(t, list)
	r := s.Report()
	logTable(t, r)
	requireManners(t, r)
	require.Zero(t, r.Total.Bans)
	require.Len(t, r.Hosts, 6)
	require.Equal(t, r.Hosts[0].Usage, r.Hosts[2].Usage, "one address, one account")
}
