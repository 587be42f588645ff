package view

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
	"github.com/treadlight/crawl/internal/ratelimit/control"
	"github.com/treadlight/crawl/internal/records/summary"
	"github.com/treadlight/crawl/internal/web/neardup"
)

// One report at three widths: the first facts stay, details are dropped.
func TestReport(t *testing.T) {
	for _, columns := range []int{40, 80, 140} {
		var b bytes.Buffer
		r := Report{Snap: busy(), Columns: columns, Records: "pages.jsonl", Events: "8 in events.jsonl"}
		require.NoError(t, r.Write(&b))
		golden(t, fmt.Sprintf("report-%d.golden", columns), b.String())
	}
}

// The table has the first of hundreds of hosts; the rest are counted.
func TestReportOfManyHosts(t *testing.T) {
	s := &pipeline.Snapshot{State: pipeline.EndLimit, Reason: "max_pages 5000 reached", ElapsedSeconds: 0.4, Pages: 1}
	s.Frontier = frontier.Counts{Queued: 1, Hosts: 1500}
	for i := range 50 {
		s.Hosts = append(s.Hosts, frontier.HostState{Host: fmt.Sprintf("host-%d.example", i), Pages: 100 - i})
	}
	var b bytes.Buffer
	r := Report{Snap: s, Columns: 80, Names: map[string]string{"host-1.example": "the second"}}
	require.NoError(t, r.Write(&b))
	golden(t, "report-many.golden", b.String())
}

// A missing robots.txt or sitemap is not a failure of a page. Of repeated pages, the report lists those that are
// repeated most often.
func TestFacts(t *testing.T) {
	clusters := []neardup.Cluster{{URL: "http://a.test/", Exact: 3, Near: 4}, {URL: "http://b.test/", Near: 2}, {URL: "http://c.test/", Exact: 1}, {URL: "http://d.test/", Near: 1}}
	for want, s := range map[string]pipeline.Snapshot{
		"":                                     {},
		"requests: 3 (2 ok, 1 client_error)\n": {Outcomes: map[string]int64{"ok": 2, "client_error": 1}}, // of an older program
		"requests: 4 for pages (3 ok, 1 client_error)\nbesides: 2 for robots.txt and sitemaps (2 client_error)\n": {
			Outcomes: map[string]int64{"ok": 3, "client_error": 3}, Helpers: map[string]int64{"client_error": 2},
		},
		"requests: 2 for robots.txt and sitemaps (1 network, 1 ok)\n": {
			Outcomes: map[string]int64{"ok": 1, "network": 1}, Helpers: map[string]int64{"ok": 1, "network": 1},
		},
		"requests: 7 for robots.txt and sitemaps (7 ok)\n":                                        {Helpers: map[string]int64{"ok": 7}}, // of an edited file
		"see details with: crawl report kept\nround 2: 1 new, 2 gone; which: crawl report kept\n": {Round: 2, Changes: map[string]int64{"new": 1, "gone": 2}},
		"see details with: crawl report kept\nround 2: 3 unchanged\n":                             {Round: 2, Changes: map[string]int64{"unchanged": 3}},
		"round 2: nothing is known to have changed\n":                                             {Round: 2, Duplicates: &neardup.Totals{}},
		"repeated pages: 2 (2 near)\n: 2 repetitions: http://b.test/\n":                           {Duplicates: &neardup.Totals{Near: 2, Clusters: clusters[1:2]}},
		"repeated pages: 11 (7 near, 4 exact)\n: 7 repetitions: http://a.test/\n: 2 repetitions: http://b.test/\n: 1 repetition: http://c.test/\n": {
			Duplicates: &neardup.Totals{Exact: 4, Near: 7, Clusters: clusters},
		},
	} {
		got := ""
		for _, f := range (&Report{Snap: &s, Closer: closerOf(&s)}).facts() {
			got += f.name + ": " + f.text + "\n"
		}
		require.Equal(t, want, got)
	}
}

// closerOf returns a command for reports of rounds with known changes.
func closerOf(s *pipeline.Snapshot) string {
	if len(s.Changes) == 0 {
		return ""
	}
	return "crawl report kept"
}

// Hosts that are paced as one are reported even if none of them has trouble by itself.
func TestTroubleOfGroups(t *testing.T) {
	snap := pipeline.Snapshot{Time: noon}
	for i := range 6 {
		snap.Limiter.GroupEvents = append(snap.Limiter.GroupEvents, ratelimit.Event{
			Time: noon.Add(time.Duration(i-6) * time.Minute), Domain: "ip:192.0.2.1", Cause: control.CauseMerged, Text: "20 hosts are limited as one",
		})
	}
	var b strings.Builder
	(&Report{Snap: &snap, Columns: 100}).writeIncidents(&b)
	require.Equal(t, incidentEvents, strings.Count(b.String(), "ip:192.0.2.1: "), b.String())
	require.Contains(t, b.String(), "ip:192.0.2.1: 1m00s ago: 20 hosts are limited as one\n")
	require.NotContains(t, b.String(), "5m00s ago")
}

// Neither the totals nor the table are wider than a usual screen.
func TestReportFits(t *testing.T) {
	s := busy()
	for i := range 20 {
		s.Outcomes[fmt.Sprintf("class_%d", i)] = 1
	}
	for columns := cli.UsualWidth / 2; columns < 200; columns++ { // name, pages and queued take 42
		var b strings.Builder
		require.NoError(t, (&Report{Snap: s, Columns: columns}).Write(&b))
		for line := range strings.Lines(b.String()) {
			require.LessOrEqual(t, cli.Cells(strings.TrimSuffix(line, "\n")), max(columns, 42), line)
		}
	}
}

func TestReportToNobody(t *testing.T) {
	r := Report{Snap: busy(), Columns: 80}
	require.ErrorIs(t, r.Write(brokenWriter{Err: os.ErrClosed}), os.ErrClosed)
}

// A report with everything fits a screen, except for URLs, which are to be copied. Nothing in it reaches the terminal
// uncleaned.
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

// Foreign text cannot control the screen, whichever way it gets there: in a message, an attribute, an error, the status
// line or a line of the report.
func TestEverythingForPeopleIsHarmless(t *testing.T) {
	for _, s := range []string{
		"\x1b[2J\x1b[31m", "\x1b]0;owned\a", "\x1b]8;;http://evil.test\x1b\\click\x1b]8;;\x1b\\", "\u009b31m\u009d0;x\u009c", "\x1bP+q\x1b\\",
		"bad\rgood", "\b\b\b", "one\ntwo", "one\u2028two\u0085three", "exe.\u202etxt", "\u2066x\u2069\u200e\u061c", "a\x00b\x7f", "\xff\xfe\xc3(", "\ufeff\u200b",
	} {
		for way, write := range map[string]func(*cli.Terminal, *bytes.Buffer){
			"written": func(term *cli.Terminal, _ *bytes.Buffer) { _, _ = io.WriteString(term, s+"\n") },
			"beside":  func(term *cli.Terminal, _ *bytes.Buffer) { _, _ = fmt.Fprintln(term, "error:", s) },
			"status":  func(term *cli.Terminal, _ *bytes.Buffer) { term.Show("1s", s) },
			"group": func(term *cli.Terminal, _ *bytes.Buffer) {
				cli.NewLogger(term, &config.Log{}, slog.LevelDebug).Warn("m", slog.Group(s, slog.String("a", s)))
			},
			"as JSON": func(term *cli.Terminal, _ *bytes.Buffer) {
				cli.NewLogger(term, &config.Log{Format: "json"}, slog.LevelDebug).Warn("m", slog.String(s, s))
			},
			"subject": func(term *cli.Terminal, _ *bytes.Buffer) {
				cli.NewLogger(term, &config.Log{}, slog.LevelDebug).Info("m", slog.String("host", s))
			},
			"an error": func(term *cli.Terminal, _ *bytes.Buffer) {
				cli.NewLogger(term, &config.Log{}, slog.LevelDebug).Error("m", slog.Any("error", errors.New(s)))
			},
			"reported": func(_ *cli.Terminal, b *bytes.Buffer) {
				r := Report{Columns: 80, Records: s, Events: s, GoOn: s, Over: s, Snap: hostileSnapshot(s)}
				require.NoError(t, r.Write(b))
			},
		} {
			term, b := screen()
			write(term, b)
			text := strings.ReplaceAll(b.String(), cli.ClearLine, "") // our own sequence
			require.True(t, utf8.ValidString(text), "%q %s", s, way)
			for _, r := range text {
				if r != '\n' && (unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp) || unicode.Is(unicode.Bidi_Control, r)) {
					t.Errorf("%q %s: %q holds %U", s, way, text, r)
				}
			}
		}
	}
}

func hostileSnapshot(s string) *pipeline.Snapshot {
	snap := busy()
	snap.Reason = s
	snap.OutOfScope, snap.Dropped = map[string]int64{s: 1}, map[string]int64{s: 2}
	snap.Hosts = []frontier.HostState{{Host: s, Pages: 1, Queued: 2, Reason: s, Trouble: s, Failures: 3}}
	return snap
}

// golden compares got with a file of testdata. With -update it writes the file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got, "%s; -update writes it anew", path)
}

// noon is the time of [busy].
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func busy() *pipeline.Snapshot {
	host := func(name string, pages, queued int) frontier.HostState {
		return frontier.HostState{Host: name, Pages: pages, Queued: queued}
	}
	fine := host("fine.example", 1500, 20)
	fine.InFlight = 3
	asked := host("asked.example", 40, 700)
	asked.Reason, asked.Until, asked.Blocked = "retry_after", noon.Add(95*time.Second), true
	down := host("a-host-with-a-very-long-name.in.a.subdomain.example:8443", 7, 90)
	down.Reason, down.Until, down.Blocked = "breaker", noon.Add(12*time.Second), true
	closed := host("closed.example", 0, 4)
	closed.Reason, closed.Until, closed.Blocked = "robots.txt cannot be had yet: status 503", noon.Add(8*time.Second), true
	return &pipeline.Snapshot{
		Time: noon, ElapsedSeconds: 3725, State: pipeline.EndNone,
		Records: 1560, Pages: 1547, Errors: 13, Retries: 1, Refused: 2, Bytes: 123456789,
		Outcomes:   map[string]int64{"ok": 1547, "throttled": 3, "unavailable": 9, "client_error": 12},
		Helpers:    map[string]int64{"ok": 2, "client_error": 5},
		OutOfScope: map[string]int64{"other_host": 4321, "depth": 1},
		Frontier:   frontier.Counts{Queued: 814, Leased: 3, Hosts: 4},
		Hosts:      []frontier.HostState{asked, down, fine, closed},
		Limiter: ratelimit.LimiterSnapshot{Enabled: true, Open: 1, HalfOpen: 2, Top: []ratelimit.DomainSnapshot{
			{Domain: "fine.example", FillRate: 9.8, AvgLatencyMS: 41.6, P95LatencyMS: 120, Reason: "learned rate 9.8/s"},
			{Domain: "asked.example", FillRate: 2, AvgLatencyMS: 12, P95LatencyMS: 14, ErrorRate: 0.034, LimitedBy: ratelimit.LimitRetryAfter, Reason: "the server asked to wait 1m35s more", Events: refusals()},
			{Domain: down.Host, FillRate: 0.1, AvgLatencyMS: 900, P95LatencyMS: 2100, ErrorRate: 1, State: breaker.Open, LimitedBy: ratelimit.LimitBreaker, Reason: "circuit open after failures, next try in 12s", Events: failures()},
		}},
	}
}

func refusals() []ratelimit.Event {
	at := func(ago time.Duration) time.Time { return noon.Add(-ago) }
	return []ratelimit.Event{
		{Time: at(time.Hour), Cause: control.CauseCrawlDelay, Text: "forgotten: there are four after it"},
		{Time: at(300 * time.Second), Cause: control.CauseRefused, Text: "the host refused at 4.00/s: nothing for 60s, then one trial"},
		{Time: at(240 * time.Second), Cause: control.CauseHalfOpen, Text: "never told: the trial is"},
		{Time: at(240 * time.Second), Cause: control.CauseTrial, Text: "the trial failed: nothing for 2s, then one trial"},
		{Time: at(238 * time.Second), Cause: control.CauseMeasured, Text: "the ceiling was measured between two refusals: on at 2.00/s"},
		{Time: at(5 * time.Second), Cause: control.CauseRetryAfter, Text: "never told: the refusal is"},
		{Time: at(5 * time.Second), Cause: control.CauseRefused, Text: "the host refused at 2.00/s: nothing for 1m40s, then one trial"},
	}
}

func failures() []ratelimit.Event {
	return []ratelimit.Event{{
		Time: noon.Add(-3 * time.Second), Cause: control.CauseFailures, State: breaker.Open,
		Text: "requests failed at 0.100/s: nothing for 15s, then one trial",
	}}
}

// update says to write the golden files.
var update = flag.Bool("update", false, "write what the commands print into the golden files")

type brokenWriter struct{ Err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.Err }

func screen() (*cli.Terminal, *bytes.Buffer) {
	var b bytes.Buffer
	return cli.NewTerminal(&b, nil, "tty"), &b
}
