package estimate_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/plan/estimate"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/web/robots"
)

// listing returns a host with one sitemap of n URLs.
func listing(n int, robotsTxt string) *estimate.Host {
	h := &estimate.Host{Host: "a.test", Obtained: true, Rules: robots.Parse([]byte(robotsTxt)).Agent("treadlight")}
	h.Sitemaps = []*estimate.Sitemap{{URL: "https://a.test/sitemap.xml", Status: 200, URLs: n, InScope: n, Read: true}}
	return h
}

// The expected rate is the lowest of its bounds, and the duration follows from it.
func TestPaceAndDuration(t *testing.T) {
	const delay = "User-agent: *\nCrawl-delay: 5\n"
	for _, tc := range []struct {
		name        string
		robots      string
		options     crawl.Options
		quota       float64
		refused     int
		took        int64 // milliseconds for a page
		now         crawl.HostSnapshot
		least, most float64 // requests per second
		why         string
		fast, slow  float64 // seconds for 1,000 pages
	}{
		{name: "nothing is said", least: 1, most: 10, why: "--max-rate 10", fast: 102.8, slow: 1000},
		{name: "Crawl-delay", robots: delay, least: 0.2, most: 0.2, why: "robots.txt asks for 5s", fast: 5000, slow: 5000},
		{
			name: "a Crawl-delay that is longer than is obeyed", robots: "User-agent: *\nCrawl-delay: 600\n",
			options: crawl.Options{Politeness: crawl.PolitenessOptions{MaxCrawlDelay: 10 * time.Second}}, least: 0.1, most: 0.1, why: "10s", fast: 10_000, slow: 10_000,
		},
		{
			name: "a Crawl-delay that is not obeyed", robots: delay,
			options: crawl.Options{Politeness: crawl.PolitenessOptions{IgnoreRobots: true}}, least: 1, most: 10, why: "--max-rate", fast: 102.8, slow: 1000,
		},
		{
			name: "a fixed rate", options: crawl.Options{Politeness: crawl.PolitenessOptions{Strategy: "fixed", InitialRPS: 4}},
			least: 4, most: 4, why: "--rate 4", fast: 250, slow: 250,
		},
		{name: "no pacing", took: 100, options: crawl.Options{Politeness: crawl.PolitenessOptions{Strategy: "off"}}, least: 80, most: 80, why: "100ms", fast: 12.5, slow: 12.5},
		{name: "a quota", quota: 2, least: 1, most: 2, why: "the host announces", fast: 500.3, slow: 1000},
		{name: "a slow host", took: 4000, least: 1, most: 2, why: "4000ms", fast: 500.3, slow: 1000},
		{name: "a rule for the host", now: crawl.HostSnapshot{Host: "a.test", CeilingRPS: 0.5}, least: 0.5, most: 0.5, why: "hosts", fast: 2000, slow: 2000},
		{name: "refusals", refused: 2, now: crawl.HostSnapshot{Host: "a.test", CeilingRPS: 10, FillRate: 3}, least: 1, most: 3, why: "refused", fast: 334.2, slow: 1000},
		{name: "all hosts together", options: crawl.Options{Politeness: crawl.PolitenessOptions{GlobalRPS: 5}}, least: 1, most: 5, why: "--global-rate 5", fast: 201.5, slow: 1000},
		{name: "fewer pages", options: crawl.Options{MaxPages: 100}, least: 1, most: 10, why: "--max-rate", fast: 12.8, slow: 100},
		{name: "less time", options: crawl.Options{MaxTime: time.Minute}, least: 1, most: 10, why: "--max-rate", fast: 60, slow: 60},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := listing(1000, tc.robots)
			h.QuotaRPS, h.Pace.Quota, h.Pace.Refused = tc.quota, "2 requests in 1s", tc.refused
			r := &estimate.Report{Hosts: []*estimate.Host{h}, Pages: []estimate.Page{{URL: "https://a.test/", Milliseconds: tc.took}}}
			r.Estimate(estimate.Facts{Options: &tc.options, Limiter: []crawl.HostSnapshot{tc.now}})
			require.InDelta(t, tc.least, h.Pace.LeastRPS, 1e-9)
			require.InDelta(t, tc.most, h.Pace.MostRPS, 1e-9)
			require.Contains(t, h.Pace.Why, tc.why)
			require.InDelta(t, tc.fast, h.Duration.LeastSeconds, 0.1)
			require.InDelta(t, tc.slow, h.Duration.MostSeconds, 0.1)
		})
	}
}

// The size by sitemaps is exact only if all were read. Links that are in none of them mean that there are more pages.
func TestSize(t *testing.T) {
	links, listed := map[string]bool{"https://b.test/other": true, "https://a.test/out": false}, map[string]bool{}
	for i := range 40 {
		link := fmt.Sprintf("https://a.test/%d", i)
		links[link] = true
		if i%2 == 0 {
			listed[link] = true
		}
	}
	var text string
	size := func(h *estimate.Host) estimate.Host {
		r := &estimate.Report{Hosts: []*estimate.Host{h}}
		r.Estimate(estimate.Facts{Options: &crawl.Options{}, Links: links, Listed: listed})
		var b bytes.Buffer
		require.NoError(t, r.Write(&b, 80))
		text = strings.Join(strings.Fields(b.String()), " ")
		return *h
	}
	whole := size(listing(1000, ""))
	require.EqualValues(t, 1000, whole.Size.URLs)
	require.EqualValues(t, 2000, whole.Size.Most, "half of the links that were seen are in no sitemap")
	require.False(t, whole.Size.Estimated)
	require.Contains(t, text, "link to 40 URLs in scope, of which the sitemaps list 20: if they list that share of all pages, there are some 2,000 ")
	require.Contains(t, text, "the crawl begins with 1/s and goes up")

	h := listing(1000, "")
	h.Robots.Sitemaps = 7
	some := size(h)
	require.EqualValues(t, 7000, some.Size.URLs)
	require.True(t, some.Size.Estimated)
	require.EqualValues(t, 7000, some.Size.Most, "links may be in those that were not read")

	h = listing(1000, "")
	h.Sitemaps[0].Cut = true
	require.True(t, size(h).Size.Estimated)

	index := &estimate.Sitemap{Status: 200, Children: 10, Read: true}
	inner := &estimate.Sitemap{Status: 200, Children: 4, Read: true, Parent: index}
	leaf := &estimate.Sitemap{Status: 200, URLs: 5, InScope: 5, Read: true, Parent: index}
	list := listing(1000, "").Sitemaps[0]
	for _, tc := range []struct {
		name     string
		sitemaps []*estimate.Sitemap
		named    int
		want     int64
		of       string
	}{
		{"an index of which nothing was read, and a list", []*estimate.Sitemap{index, list}, 2, 2000, "in the sitemaps"},
		{"an index of which nothing was read", []*estimate.Sitemap{index}, 1, 40, "none of the sitemaps of the index"},
		{"an index in an index of which nothing was read", []*estimate.Sitemap{index, inner}, 1, 40, "none of the sitemaps of the index"},
		{"an index in an index of which another list was read", []*estimate.Sitemap{index, inner, leaf}, 1, 50, "in the sitemaps"},
	} {
		h := &estimate.Host{Host: "a.test", Obtained: true, Sitemaps: tc.sitemaps}
		h.Robots.Sitemaps = tc.named
		got := size(h)
		require.Equal(t, tc.want, got.Size.URLs, tc.name)
		require.Contains(t, got.Size.Of, tc.of, tc.name)
	}

	none := size(&estimate.Host{Host: "a.test", Obtained: true})
	require.EqualValues(t, 40, none.Size.URLs)
	require.True(t, none.Duration.Unknown)
	require.EqualValues(t, 1000, none.Duration.Pages)
	require.Contains(t, text, "duration the 40 URLs seen: 6s; each 1,000 pages: 1m42s at 10/s, 16m40s if the host bears no more than 1/s")
}

// Rates have no exponent.
func TestRates(t *testing.T) {
	for want, rps := range map[string]float64{"10,000/s": 10_000, "1,000/s": 999.7, "10/s": 10, "33.3/s": 100. / 3, "0.0000116/s": 1. / 86_400} {
		h := listing(1000, "")
		r := &estimate.Report{Hosts: []*estimate.Host{h}}
		r.Estimate(estimate.Facts{Options: &crawl.Options{Politeness: crawl.PolitenessOptions{Strategy: "fixed", InitialRPS: rps, MaxRPS: rps}}})
		var b bytes.Buffer
		require.NoError(t, r.Write(&b, 80))
		require.Contains(t, b.String(), "at most "+want+": ")
		require.Contains(t, b.String(), " at "+want+"\n")
	}
}

// The command has the flags that the plan was given, and no secret.
func TestCommand(t *testing.T) {
	for _, tc := range []struct {
		given []config.FlagValue
		want  string
	}{
		{nil, "crawl --output a.test/ https://a.test/"},
		{[]config.FlagValue{{Name: "resources", Value: "true"}, {Name: "include", Value: "a b"}}, "crawl --resources --include 'a b' --output a.test/ https://a.test/"},
		{[]config.FlagValue{{Name: "resources", Value: "false"}, {Name: "no-robots", Value: "0"}, {Name: "include", Value: "true"}}, "crawl --resources=false --no-robots=0 --include true --output a.test/ https://a.test/"},
		{[]config.FlagValue{{Name: "output", Value: "x.csv"}}, "crawl --output x.csv https://a.test/"},
		{[]config.FlagValue{{Name: "auth", Value: "h=u:hush"}, {Name: "set", Value: "fetch.headers=A: hush"}, {Name: "set", Value: "listen.token=hush"}, {Name: "proxy", Value: "http://u:hush@p/"}}, "crawl --output a.test/ https://a.test/"},
		{[]config.FlagValue{{Name: "header", Value: "A: hush"}, {Name: "redis", Value: "redis://u:hush@r/"}, {Name: "set", Value: "traces.headers=A: hush"}, {Name: "login", Value: "a.login"}}, "crawl --login a.login --output a.test/ https://a.test/"},
	} {
		r := &estimate.Report{Hosts: []*estimate.Host{listing(1, "")}}
		r.Estimate(estimate.Facts{Options: &crawl.Options{}, Given: tc.given, Args: []string{"https://a.test/"}})
		require.Equal(t, tc.want, r.Command)
		require.Equal(t, len(tc.given) == 4, strings.Contains(fmt.Sprint(r.Advice), "give it again"))
	}
	for host, want := range map[string]string{"a.test:8080": "a.test_8080/", "[::1]:80": "__1_80/"} {
		h := listing(1, "")
		h.Host = host
		r := &estimate.Report{Hosts: []*estimate.Host{h}}
		r.Estimate(estimate.Facts{Options: &crawl.Options{}})
		require.Equal(t, "crawl --output "+want, r.Command)
	}
}
