package view

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/records/summary"
)

// A report of everything fits a screen: only addresses are longer, as they are to be
// copied, and nothing in it reaches the terminal as it came.
func TestReportText(t *testing.T) {
	evil := "http://a.test/\x1b[2J\u202e\n" + strings.Repeat("x", 200)
	list := summary.List{Total: 12_345, URLs: []string{evil}}
	sum := &summary.Summary{
		Source: summary.Source{Path: "site/records.jsonl", Cut: true, Damaged: 3, FirstDamaged: 1234},
		Crawl:  &summary.Crawl{Round: 2, Queued: 1234, Known: 5678, Rates: []summary.Rate{{Host: evil, PerSecond: 0.5, Pause: 3}}},
		URLs:   10_000, Pages: 10_000, Failed: 7, Statuses: []summary.Count{{Name: "200", N: 9000}, {Name: "404", N: 1000}}, Errors: []summary.Count{{Name: evil, N: 1}},
		Types: []summary.Type{{Name: evil, Pages: 3, Bytes: 5}},
		Spent: []summary.Spent{{On: "waiting for the rate limiter", Seconds: 7300}, {On: "waiting for the first byte", Seconds: 61}},
		Hosts: summary.Hosts{Total: 30, Listed: []summary.Host{{Host: evil, URLs: 5, Failed: 1, Waited: 3, Latency: summary.Spread{P50: 1, P95: 1234, P99: 2}, Reason: evil}}},
		Broken: summary.Broken{Total: 4, Listed: []summary.BrokenLink{
			{URL: evil, Status: 404, Pages: 9, Referrers: []string{evil, evil, evil, evil}}, {URL: evil, Class: "dns"},
		}},
		Redirects:  summary.Redirects{Total: 3, Listed: []summary.Chain{{URLs: []string{evil, evil}, Loop: true}, {URLs: []string{evil, "b"}, Status: 500}, {URLs: []string{evil, "b"}, Class: "tls"}}},
		Duplicates: summary.Duplicates{Exact: 5, Groups: []summary.Group{{Of: evil, Total: 5, URLs: []string{evil}}}},
		Changes:    summary.Changes{Counts: []summary.Count{{Name: "gone", N: 1}}, Gone: list},
		Maps:       summary.Maps{Total: 1, URLs: 5, Listed: []summary.Map{{URL: evil, Problem: evil}}},
		Refused:    list, NoIndex: list, NoFollow: list, Untitled: list, Truncated: list, Filtered: list,
		Slowest: []summary.Page{{URL: evil, Value: 1234}}, Largest: []summary.Page{{URL: evil, Value: 5 << 20}},
		Left: []string{strings.Repeat("many words ", 30)},
	}
	text := cli.Clean((&Text{Sum: sum, Columns: 80}).String())
	for line := range strings.Lines(text) {
		if !strings.Contains(line, strings.Repeat("x", 60)) {
			require.LessOrEqual(t, cli.Cells(strings.TrimSuffix(line, "\n")), 80, "%s", line)
		}
	}
	require.NotContains(t, text, "\x1b")
	require.NotContains(t, text, "\u202e")
	require.Equal(t, 27, strings.Count(text, "http://a.test/"), "an address is on one line, whatever is in it")
	for _, want := range []string{
		", round 2: 10,000 pages of 30 hosts, 0 B, 7 errors\n", "still queued: 1,234 URLs of 5,678 known", "cut off, or still being written", "3 damaged lines passed over, the first is line 1,234",
		"the rate limiter 2h01m", "404     1,000  10%  not found", "4 broken pages", "  404  http", "and 6 more pages", "  dns  http", "and 2 more; --top",
		"a loop: ", "broken: 500", "broken: tls", "5 times more: ", "1 gone", "Kept back by robots.txt: 12,345", "1,234 ms  http", "5.0 MiB  http", "Left out",
	} {
		require.Contains(t, text, want)
	}
	require.Equal(t, "f: 0 pages of 0 hosts, 0 B\n", (&Text{Sum: &summary.Summary{Source: summary.Source{Path: "f"}}, Columns: 80}).String())
}
