package view

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/ratelimit/control"
	"github.com/treadlight/crawl/internal/web/neardup"
)

// One report at three widths: what is told first stays, what gives way is the detail.
func TestReport(t *testing.T) {
	for _, columns := range []int{40, 80, 140} {
		var b bytes.Buffer
		r := Report{Snap: busy(), Columns: columns, Records: "pages.jsonl", Events: "8 in events.jsonl"}
		require.NoError(t, r.Write(&b))
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
	r := Report{Snap: s, Columns: 80, Names: map[string]string{"host-1.example": "the second"}}
	require.NoError(t, r.Write(&b))
	golden(t, "report-many.golden", b.String())
}

// What is not there beside the pages, as robots.txt and sitemaps often are not, is no failure of a page;
// and of pages that repeat others the most often repeated are told.
func TestFacts(t *testing.T) {
	clusters := []neardup.Cluster{{URL: "http://a.test/", Exact: 3, Near: 4}, {URL: "http://b.test/", Near: 2}, {URL: "http://c.test/", Exact: 1}, {URL: "http://d.test/", Near: 1}}
	for want, s := range map[string]crawl.Snapshot{
		"":                                     {},
		"requests: 3 (2 ok, 1 client_error)\n": {Outcomes: map[string]int64{"ok": 2, "client_error": 1}}, // of an older program
		"requests: 4 for pages (3 ok, 1 client_error)\nbesides: 2 for robots.txt and sitemaps (2 client_error)\n": {
			Outcomes: map[string]int64{"ok": 3, "client_error": 3}, Helpers: map[string]int64{"client_error": 2},
		},
		"requests: 2 for robots.txt and sitemaps (1 network, 1 ok)\n": {
			Outcomes: map[string]int64{"ok": 1, "network": 1}, Helpers: map[string]int64{"ok": 1, "network": 1},
		},
		"requests: 7 for robots.txt and sitemaps (7 ok)\n":              {Helpers: map[string]int64{"ok": 7}}, // of an edited file
		"round 2: nothing is known to have changed\n":                   {Round: 2, Duplicates: &neardup.Totals{}},
		"repeated pages: 2 (2 near)\n: 2 repetitions: http://b.test/\n": {Duplicates: &neardup.Totals{Near: 2, Clusters: clusters[1:2]}},
		"repeated pages: 11 (7 near, 4 exact)\n: 7 repetitions: http://a.test/\n: 2 repetitions: http://b.test/\n: 1 repetition: http://c.test/\n": {
			Duplicates: &neardup.Totals{Exact: 4, Near: 7, Clusters: clusters},
		},
	} {
		got := ""
		for _, f := range (&Report{Snap: &s}).facts() {
			got += f.name + ": " + f.text + "\n"
		}
		require.Equal(t, want, got)
	}
}

// Hosts that are paced as one are told of even when none of them is in trouble by itself.
func TestTroubleOfGroups(t *testing.T) {
	snap := crawl.Snapshot{Time: noon}
	for i := range 6 {
		snap.Limiter.GroupEvents = append(snap.Limiter.GroupEvents, crawl.Event{
			Time: noon.Add(time.Duration(i-6) * time.Minute), Domain: "ip:192.0.2.1", Cause: control.CauseMerged, Text: "20 hosts are limited as one",
		})
	}
	var b strings.Builder
	(&Report{Snap: &snap, Columns: 100}).writeIncidents(&b)
	require.Equal(t, incidentEvents, strings.Count(b.String(), "ip:192.0.2.1: "), b.String())
	require.Contains(t, b.String(), "ip:192.0.2.1: 1m00s ago: 20 hosts are limited as one\n")
	require.NotContains(t, b.String(), "5m00s ago")
}

// Neither totals nor table are wider than a usual screen.
func TestReportFits(t *testing.T) {
	s := busy()
	for i := range 20 {
		s.Outcomes[fmt.Sprintf("class_%d", i)] = 1
	}
	for columns := cli.UsualWidth / 2; columns < 150; columns++ {
		var b strings.Builder
		require.NoError(t, (&Report{Snap: s, Columns: columns}).Write(&b))
		for line := range strings.Lines(b.String()) {
			require.LessOrEqual(t, cli.Cells(strings.TrimSuffix(line, "\n")), max(columns, 42), line)
		}
	}
}

// A table is never wider than the screen, down to what it must show.
func TestTableFits(t *testing.T) {
	for columns := 42; columns < 200; columns++ { // the name, pages and queued
		r := Report{Snap: busy(), Columns: columns}
		var b strings.Builder
		cli.Layout(&b, r.hostColumns(), columns)
		for line := range strings.Lines(b.String()) {
			require.LessOrEqual(t, cli.Cells(strings.TrimSuffix(line, "\n")), columns, line)
		}
	}
}

func TestReportToNobody(t *testing.T) {
	r := Report{Snap: busy(), Columns: 80}
	require.ErrorIs(t, r.Write(brokenWriter{Err: os.ErrClosed}), os.ErrClosed)
}
