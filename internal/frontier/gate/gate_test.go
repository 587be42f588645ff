package gate

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/neardup"
	"github.com/treadlight/crawl/internal/web/robots"
	"github.com/treadlight/crawl/internal/web/scope"
	"github.com/treadlight/crawl/internal/web/trap"
)

func leftPattern(t *testing.T, report bool) *trap.Detector {
	t.Helper()
	detector := trap.New(trap.Config{Report: report})
	var r neardup.Reader
	for i := range 100 {
		u := pageURL(t, i)
		detector.RecordAccepted(canonical.URL{}, u, 2026)
		if look := detector.RecordVisit(u, "Page"); look.Read {
			detector.RecordText(&look, r.Read([]byte("all pages of this site say the very same thing"), nil), false)
		}
	}
	require.Equal(t, trap.PatternBudget, detector.CheckLink(pageURL(t, 1000), 2026))
	return detector
}

func pageURL(t *testing.T, i int) canonical.URL {
	t.Helper()
	u, err := canonical.Parse(fmt.Sprintf("http://a.test/n/%d", i))
	require.NoError(t, err)
	return u
}

// What was queued before its pattern was left is refused, but for seeds, whichever run they
// were given to, for sitemaps, and where traps are only reported. Robots.txt goes first, and the scope before.
func TestTrapGate(t *testing.T) {
	for name, tc := range map[string]struct {
		item   frontier.Item
		report bool
		rules  bool // robots.txt is asked for
		want   frontier.Pass
	}{
		"a page":   {want: frontier.Refuse},
		"a seed":   {item: frontier.Item{Found: frontier.Found{Seed: true}}},
		"a list":   {item: frontier.Item{Kind: frontier.Sitemap}},
		"reported": {report: true},
		"no rules": {rules: true, want: frontier.Ask},
	} {
		t.Run(name, func(t *testing.T) {
			g := Gate{Traps: leftPattern(t, tc.report)}
			var err error
			g.Scope, err = scope.New(scope.Config{Mode: scope.Any, MaxDepth: scope.Unlimited})
			require.NoError(t, err)
			if tc.rules {
				g.Robots, err = robots.New(robots.Config{Agent: "Treadlight"})
				require.NoError(t, err)
			}
			tc.item.URL = pageURL(t, 1000)
			v := g.Check(&tc.item, time.Unix(0, 0))
			require.Equal(t, tc.want, v.Pass)
			if v.Pass == frontier.Refuse {
				require.Equal(t, &frontier.Refusal{Class: "trap", Reason: "pattern_budget: pages of URLs like it have nothing new"}, v.Refusal)
			}
		})
	}
}

// Under https a rate holds under http too, which has none: it is one host.
func TestPauseOfEitherScheme(t *testing.T) {
	cache, err := robots.New(robots.Config{Agent: "Treadlight"})
	require.NoError(t, err)
	var set []time.Duration
	g := Gate{Robots: cache, Log: slog.New(slog.DiscardHandler), SetCrawlDelay: func(host string, d time.Duration) {
		require.Equal(t, "a.test", host)
		set = append(set, d)
	}}
	now := time.Unix(1000, 0)
	found := func(rules string) robots.Result {
		return robots.Result{Kind: robots.Found, File: robots.Parse([]byte("User-agent: *\n" + rules))}
	}
	g.Answer("https://a.test", found("Request-rate: 1/10m\n"), false, now)
	g.Answer("http://a.test", found("Crawl-delay: 10\n"), false, now)
	g.Answer("https://a.test", found("Request-rate: 1/5\n"), false, now)
	require.Equal(t, []time.Duration{10 * time.Minute, 10 * time.Minute, 10 * time.Second}, set)
}
