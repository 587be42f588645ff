package pipeline

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

// leftPattern is a detector that has left the URLs /n/… of a.test.
func leftPattern(t *testing.T) *trap.Detector {
	t.Helper()
	detector := trap.New(trap.Config{})
	var r neardup.Reader
	for i := range 100 {
		u := pageURL(t, i)
		detector.RecordAccepted(canonical.URL{}, u, 2026)
		if look := detector.RecordVisit(u, "Page"); look.Read {
			detector.RecordText(u, &look, r.Read([]byte("all pages of this site say the very same thing"), nil), false)
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
			cfg := &Config{Log: slog.New(slog.DiscardHandler), Traps: Traps{Detector: leftPattern(t), Report: tc.report}}
			var err error
			cfg.Scope, err = scope.New(scope.Config{Mode: scope.Any, MaxDepth: scope.Unlimited})
			require.NoError(t, err)
			if tc.rules {
				cfg.Robots, err = robots.New(robots.Config{Agent: "Treadlight"})
				require.NoError(t, err)
			}
			g := newGate(cfg)
			tc.item.URL = pageURL(t, 1000)
			v := g.Check(&tc.item, time.Unix(0, 0))
			require.Equal(t, tc.want, v.Pass)
			if v.Pass == frontier.Refuse {
				require.Equal(t, &frontier.Refusal{Class: "trap", Reason: "pattern_budget: pages of URLs like it have nothing new"}, v.Refusal)
			}
		})
	}
}
