package main

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/redistest"
	"github.com/treadlight/crawl/internal/lab/testsite"
)

// TestFleetGrowth measures what further processes are worth where neither processors nor hosts
// are what is short: a page takes 200 ms, a process has 16 slots, and so comes to 80 pages/s
// whatever the computer, and 200 hosts would bear 1,000. The crawls of one process, two and
// four take turns.
func TestFleetGrowth(t *testing.T) {
	if !long() {
		t.Skip("of the long form alone: give -fleet.hosts 200")
	}
	for range 2 {
		alone := 0.0
		for _, n := range []int{1, 2, 4} {
			took := measureGrowth(t, n).Seconds()
			if n == 1 {
				alone = took
			}
			t.Logf("%d processes: %.2f times one", n, alone/took)
		}
	}
}

// measureGrowth is how long so many processes take.
func measureGrowth(t *testing.T, n int) time.Duration {
	const pages, slots = 16, 16
	server := redistest.Redis.Start(t)
	f := &fleetTest{t: t, dir: t.TempDir(), redis: server, apart: func(int) time.Duration { return time.Second / 5 }}
	cfg := testsite.Uniform(*fleetHosts, pages, 200*time.Millisecond)
	cfg.Arrived = f.log.note
	f.serve(cfg)
	f.args = append([]string{
		"--redis", "redis://" + server.Addr, "--job", "e2e", "-o", f.dir + "/", "-q", "--contact", "a@b.test",
		"--rate", "5", "--max-rate", "5", "-c", strconv.Itoa(slots), "--no-sitemaps", "--no-robots",
	}, f.site.URLs()...)
	before := calls(t, server)
	begun := time.Now()
	var procs []*fleetProcess
	for range n {
		procs = append(procs, f.start(""))
	}
	f.finish(procs...)
	took := time.Since(begun)
	total := int64(*fleetHosts * pages)
	require.Equal(t, total, f.site.Report().Total.Distinct)
	require.Zero(t, f.site.Report().Total.Duplicates)
	f.courteous(f.log.handovers())
	var steady []string
	for i, share := range f.log.pace(begun) {
		steady = append(steady, fmt.Sprintf("%ds %d", i, share))
	}
	scripts, all := calls(t, server).minus(before)
	first, last := f.log.ends()
	t.Logf("%d processes: %.1fs for %d pages, %.1fs from the first request to the last; %.2f scripts and %.2f commands in all a page; pages by the second: %s",
		n, took.Seconds(), total, last.Sub(first).Seconds(), scripts/float64(total), all/float64(total), strings.Join(steady, ", "))
	return took
}

// commandCalls is how often a server was called, by commands.
type commandCalls map[string]float64

func calls(t *testing.T, s *redistest.Server) commandCalls {
	t.Helper()
	text, err := s.Do(t, "INFO", "commandstats").ToString()
	require.NoError(t, err)
	all := commandCalls{}
	for line := range strings.Lines(text) {
		if name, rest, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls="); ok {
			n, _, _ := strings.Cut(rest, ",")
			all[name], err = strconv.ParseFloat(n, 64)
			require.NoError(t, err)
		}
	}
	return all
}

// minus are the scripts and all commands since, those within scripts among them.
func (c commandCalls) minus(before commandCalls) (scripts, all float64) {
	for name, n := range c {
		all += n - before[name]
	}
	return c["evalsha"] + c["eval"] - before["evalsha"] - before["eval"], all
}
