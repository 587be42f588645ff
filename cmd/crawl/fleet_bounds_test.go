package main

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/frontier/redis"
	"github.com/treadlight/crawl/internal/lab/redistest"
	"github.com/treadlight/crawl/internal/lab/testsite"
)

// fleet runs `crawl fleet` on the job.
func (f *fleetTest) fleet(args ...string) string {
	f.t.Helper()
	out, err := exec.Command("crawl", append(append([]string{"fleet"}, args...), "--job", "e2e", "--redis", "redis://"+f.redis.Addr)...).CombinedOutput()
	require.NoError(f.t, err, string(out))
	return string(out)
}

// A job that has ended by its bound says so and what to do, and by that it goes on: its processes
// are begun as before, and what was visited is not asked for again.
func TestFleetSet(t *testing.T) {
	t.Parallel()
	f := &fleetTest{t: t, dir: t.TempDir(), redis: redistest.Redis.Start(t), apart: func(int) time.Duration { return 0 }}
	f.serve(testsite.Uniform(2, 40, 0))
	f.args = append([]string{
		"--redis", "redis://" + f.redis.Addr, "--job", "e2e", "-o", f.dir + "/", "-q", "--contact", "a@b.test",
		"--rate", "200", "--max-rate", "200", "--no-sitemaps", "--no-robots", "--max-pages", "30", "--set", "fleet.lease=1s",
	}, f.site.URLs()...)
	both := func() {
		for _, p := range []*fleetProcess{f.start("w1"), f.start("w2")} {
			require.NoError(t, <-p.done, &p.err)
		}
	}
	both()
	require.EqualValues(t, 30, f.site.Report().Total.Requests)
	said := f.fleet("status")
	require.Contains(t, said, "e2e: ended: max_pages, begun ")
	require.Contains(t, said, "to go on: crawl fleet set --job e2e --max-pages N, and begin its processes again")
	require.Equal(t, "e2e: max_pages is 50, was 30\nto go on: begin its processes again, by the same commands\n", f.fleet("set", "--max-pages", "50"))
	both()
	require.EqualValues(t, 50, f.site.Report().Total.Requests)
	f.fleet("set", "--max-pages", "0", "--max-time", "1h")
	both()
	require.EqualValues(t, 80, f.site.Report().Total.Requests)
	require.Zero(t, f.site.Report().Total.Duplicates)
	said = f.fleet("status")
	require.Contains(t, said, "e2e: complete, begun ")
	require.NotContains(t, said, "max_pages")
}

// A process hears while it crawls that the job's time is to be over, or its pages.
func TestFleetSetWhileItCrawls(t *testing.T) {
	t.Parallel()
	f := &fleetTest{t: t, dir: t.TempDir(), redis: redistest.Redis.Start(t), apart: func(int) time.Duration { return 0 }}
	f.serve(testsite.Uniform(2, 200, 0))
	f.args = append([]string{
		"--redis", "redis://" + f.redis.Addr, "--job", "e2e", "-o", f.dir + "/", "-q", "--contact", "a@b.test",
		"--rate", "10", "--max-rate", "10", "--no-sitemaps", "--no-robots", "--set", "fleet.lease=1s",
	}, f.site.URLs()...)
	p := f.start("w1")
	f.served(3)
	out, err := exec.Command("crawl", "fleet", "set", "--max-pages", "5", "--job", "e2e", "--redis", "redis://"+f.redis.Addr).CombinedOutput()
	require.ErrorContains(t, err, "exit status 2")
	require.Contains(t, string(out), "--max-pages: the job e2e has no max_pages")
	f.fleet("set", "--max-time", "2s")
	require.ErrorContains(t, <-p.done, "exit status 10", &p.err)
	require.Contains(t, f.fleet("status"), "e2e: ended: max_time, begun ")
}

// A flag that would have no effect is refused, and nothing is done.
func TestFleetFlagsOfAnother(t *testing.T) {
	for said, args := range map[string][]string{
		"--json is for 'fleet status', and not for 'fleet set'":                      {"set", "--max-pages", "5", "--json"},
		"--json is for 'fleet status', and not for 'fleet drain'":                    {"drain", "--json"},
		"--yes is for 'fleet purge', and not for 'fleet set', which asks nothing":    {"set", "--max-pages", "5", "--yes"},
		"--yes is for 'fleet purge', and not for 'fleet status', which asks nothing": {"status", "--yes"},
	} {
		out, err := exec.Command("crawl", append([]string{"fleet", "--job", "e2e", "--redis", "redis://127.0.0.1:1"}, args...)...).CombinedOutput()
		require.ErrorContains(t, err, "exit status 2")
		require.Contains(t, string(out), said)
	}
}

// What operators read is true of each kind of job, and says what to do next.
func TestWriteFleet(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	status := func(change func(*redis.Status)) string {
		s := redis.Status{
			Job: "news", Control: redis.Running, Created: now.Add(-2 * time.Hour), Now: now, Known: 1200, Done: 1000, Queued: 200,
			Owned: 20, Waiting: 3, Reclaimed: 4, MemoryBytes: 2 << 20,
		}
		change(&s)
		var b bytes.Buffer
		require.NoError(t, writeFleet(&b, &s, 100))
		return b.String()
	}
	require.Equal(t, `news: running, begun 2h00m ago
  URLs: 1,200 known, 1,000 done, 200 queued
  hosts: 20 owned, 0 ready, 3 waiting, 4 taken back from processes that had died
  memory: 2.0 MiB
  max_pages: 1,000 of 5000
  ratelimit.ip_rps: 4.2 a second of 5 at 192.0.2.1, the busiest
  ratelimit.site_rps: nothing of 9 a second each

process  state        hosts   done  found  lease
w1       crawling        20  1,000  1,200  for 14s
w2       standing by      0      0      0  for 9s
w3       lost             7     12      0  ended
`, status(func(s *redis.Status) {
		s.Budgets = []redis.Budget{
			{Name: "max_pages", Plan: "5000", Used: 1000},
			{Name: "ratelimit.ip_rps", Plan: "5", Used: 4.2, Scope: "192.0.2.1"},
			{Name: "ratelimit.site_rps", Plan: "9"},
		}
		s.Workers = []redis.Worker{
			{WorkerInfo: redis.WorkerInfo{Name: "w1", Hosts: 20, Done: 1000, Added: 1200}, Alive: true, Until: now.Add(14 * time.Second), Doing: redis.Crawling},
			{WorkerInfo: redis.WorkerInfo{Name: "w2"}, Alive: true, Until: now.Add(9 * time.Second), Doing: redis.StandsBy},
			{WorkerInfo: redis.WorkerInfo{Name: "w3", Hosts: 7, Done: 12}, Until: now.Add(-time.Minute), Doing: redis.Lost},
		}
	}))
	for _, c := range []struct {
		ended    redis.Ended
		is, then string
	}{
		{redis.EndedComplete, "complete", ""},
		{redis.EndedPages, "ended: max_pages", "to go on: crawl fleet set --job news --max-pages N, and begin its processes again"},
		{redis.EndedTime, "ended: max_time", "to go on: crawl fleet set --job news --max-time TIME, and begin its processes again"},
		{redis.EndedDrained, "drained", "to go on: crawl fleet resume --job news, and begin its processes again"},
		{redis.EndedBlocked, "ended: only blocked hosts remain", "a.test refuses; to try them once more begin its processes again"},
		{redis.EndedAlone, "running, but no process is at it", "to go on: begin its processes again, by the same commands"},
	} {
		lines := strings.Split(status(func(s *redis.Status) { s.Ended, s.Blocked = c.ended, "a.test refuses" }), "\n")
		require.Equal(t, "news: "+c.is+", begun 2h00m ago", lines[0])
		if c.then != "" {
			require.Equal(t, "  "+c.then, lines[1])
		} else {
			require.Contains(t, lines[1], "  URLs:")
		}
	}
	lines := strings.Split(status(func(s *redis.Status) {
		s.Unread, s.Partitions, s.Away = 21, 64, []string{"192.0.2.7:6379"}
	}), "\n")
	require.Equal(t, "  the master 192.0.2.7:6379 of the cluster is away: 21 of 64 partitions are not in these figures", lines[1])
	lines = strings.Split(status(func(s *redis.Status) { s.Ended, s.Unvisited = redis.EndedComplete, "http://a.test: why" }), "\n")
	require.Equal(t, "  nothing could be asked for: http://a.test: why", lines[1])
	require.Contains(t, status(func(s *redis.Status) { s.Budgets = []redis.Budget{{Name: "max_pages", Plan: "100", Used: 100}} }), "news: ending: max_pages, ")
}
