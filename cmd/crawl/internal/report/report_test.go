package report

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/clitest"
	"github.com/treadlight/crawl/cmd/crawl/internal/human"
	"github.com/treadlight/crawl/cmd/crawl/internal/terminal"
	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/pipeline"
)

// One report at three widths: what is told first stays, what gives way is the detail.
func TestReport(t *testing.T) {
	for _, columns := range []int{40, 80, 140} {
		var b bytes.Buffer
		r := Report{Snap: clitest.Busy(), Columns: columns, Records: "pages.jsonl", Events: "8 in events.jsonl"}
		require.NoError(t, r.Write(&b))
		clitest.Golden(t, fmt.Sprintf("report-%d.golden", columns), b.String())
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
	clitest.Golden(t, "report-many.golden", b.String())
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
}

// Neither totals nor table are wider than a usual screen.
func TestReportFits(t *testing.T) {
	s := clitest.Busy()
	for i := range 20 {
		s.Outcomes[fmt.Sprintf("class_%d", i)] = 1
	}
	for columns := terminal.UsualWidth / 2; columns < 150; columns++ {
		var b strings.Builder
		require.NoError(t, (&Report{Snap: s, Columns: columns}).Write(&b))
		for line := range strings.Lines(b.String()) {
			require.LessOrEqual(t, human.Cells(strings.TrimSuffix(line, "\n")), max(columns, 42), line)
		}
	}
}

// A table is never wider than the screen, down to what it must show.
func TestTableFits(t *testing.T) {
	for columns := 42; columns < 200; columns++ { // the name, pages and queued
		r := Report{Snap: clitest.Busy(), Columns: columns}
		var b strings.Builder
		human.Layout(&b, r.hostColumns(), columns)
		for line := range strings.Lines(b.String()) {
			require.LessOrEqual(t, human.Cells(strings.TrimSuffix(line, "\n")), columns, line)
		}
	}
}

func TestReportToNobody(t *testing.T) {
	r := Report{Snap: clitest.Busy(), Columns: 80}
	require.ErrorIs(t, r.Write(clitest.BrokenWriter{Err: os.ErrClosed}), os.ErrClosed)
}
