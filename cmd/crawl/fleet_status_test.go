package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/frontier/redis"
)

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
		require.NoError(t, writeStatus(&b, &s, 100))
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
