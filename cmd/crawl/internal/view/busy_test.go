package view

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
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

// noon is the time of [busy].
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

// update has golden files written anew.
var update = flag.Bool("update", false, "write what the commands print into the golden files")

// brokenWriter fails with err.
type brokenWriter struct{ Err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.Err }

// screen is a terminal of 80 columns that writes to a buffer.
func screen() (*cli.Terminal, *bytes.Buffer) {
	var b bytes.Buffer
	return cli.NewTerminal(&b, nil, "tty"), &b
}
