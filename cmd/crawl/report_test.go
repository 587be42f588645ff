package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// golden compares with a file of testdata, which -update writes.
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

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// busy is a crawl under way over hosts in every situation.
func busy() *crawl.Snapshot {
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
	return &crawl.Snapshot{
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

// refusals are those of a host that names the wait.
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

// failures are those of a host whose circuit is open.
func failures() []ratelimit.Event {
	return []ratelimit.Event{{
		Time: noon.Add(-3 * time.Second), Cause: control.CauseFailures, State: breaker.Open,
		Text: "requests failed at 0.100/s: nothing for 15s, then one trial",
	}}
}

// One report at three widths: what is told first stays, what gives way is the detail.
func TestReport(t *testing.T) {
	for _, columns := range []int{40, 80, 140} {
		var b bytes.Buffer
		r := report{snap: busy(), columns: columns, records: "pages.jsonl", events: "8 in events.jsonl"}
		require.NoError(t, r.write(&b))
		golden(t, fmt.Sprintf("report-%d.golden", columns), b.String())
	}
}

// Of hundreds of hosts the table has the first, and the rest are counted.
func TestReportOfManyHosts(t *testing.T) {
	s := &crawl.Snapshot{State: pipeline.EndLimit, Reason: "max_pages 5000 reached", ElapsedSeconds: 0.4, Pages: 1}
	s.Frontier = frontier.Counts{Queued: 1, Hosts: 1500}
	for i := range 50 {
		s.Hosts = append(s.Hosts, frontier.HostState{Host: fmt.Sprintf("host-%d.example", i), Pages: 100 - i})
	}
	var b bytes.Buffer
	r := report{snap: s, columns: 80, names: map[string]string{"host-1.example": "the second"}}
	require.NoError(t, r.write(&b))
	golden(t, "report-many.golden", b.String())
}

// What is not there beside the pages, as robots.txt and sitemaps often are not, is no failure of a page.
func TestRequestsOfPagesAndOfHelpers(t *testing.T) {
	for want, s := range map[string]crawl.Snapshot{
		"":                                       {},
		"  requests: 3 (2 ok, 1 client_error)\n": {Outcomes: map[string]int64{"ok": 2, "client_error": 1}}, // of an older program
		"  requests: 4 for pages (3 ok, 1 client_error)\n  besides: 2 for robots.txt and sitemaps (2 client_error)\n": {
			Outcomes: map[string]int64{"ok": 3, "client_error": 3}, Helpers: map[string]int64{"client_error": 2},
		},
		"  requests: 2 for robots.txt and sitemaps (1 network, 1 ok)\n": {
			Outcomes: map[string]int64{"ok": 1, "network": 1}, Helpers: map[string]int64{"ok": 1, "network": 1},
		},
		"  requests: 7 for robots.txt and sitemaps (7 ok)\n": {Helpers: map[string]int64{"ok": 7}}, // of an edited file
	} {
		var b strings.Builder
		writeRequests(&b, &s)
		require.Equal(t, want, b.String())
	}
	absent := crawl.Snapshot{Outcomes: map[string]int64{"client_error": 2, "network": 1}, Helpers: map[string]int64{"client_error": 2, "network": 1}}
	require.Equal(t, []string{"1 network"}, inWords(failedAs(&absent)))
}

// Neither totals nor table are wider than a usual screen.
func TestReportFits(t *testing.T) {
	s := busy()
	for i := range 20 {
		s.Outcomes[fmt.Sprintf("class_%d", i)] = 1
	}
	for columns := usualWidth / 2; columns < 150; columns++ {
		var b strings.Builder
		require.NoError(t, (&report{snap: s, columns: columns}).write(&b))
		for line := range strings.Lines(b.String()) {
			require.LessOrEqual(t, cells(strings.TrimSuffix(line, "\n")), max(columns, 42), line)
		}
	}
}

// A table is never wider than the screen, down to what it must show.
func TestTableFits(t *testing.T) {
	for columns := 42; columns < 200; columns++ { // the name, pages and queued
		r := report{snap: busy(), columns: columns}
		var b strings.Builder
		layout(&b, r.hostColumns(), columns)
		for line := range strings.Lines(b.String()) {
			require.LessOrEqual(t, cells(strings.TrimSuffix(line, "\n")), columns, line)
		}
	}
}

func TestReportToNobody(t *testing.T) {
	r := report{snap: busy(), columns: 80}
	require.ErrorIs(t, r.write(brokenWriter{os.ErrClosed}), os.ErrClosed)
}
