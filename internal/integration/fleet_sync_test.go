package integration_test

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/internal/lab/redistest"
)

// What a job is told to be done is on a disk by then; a disk that fails ends the process's part
// in it, and its pages are others' to fetch.
func TestFleetSyncs(t *testing.T) {
	server := redistest.Redis.Start(t)
	net := fetchtest.Serve(t, map[string]http.Handler{"a.test": star(5)})
	run := func(job string, out ...crawl.Sink) error {
		cfg := assembly.DefaultConfig()
		cfg.RateLimit.Strategy, cfg.Robots.Enabled, cfg.Sitemaps.Enabled = "off", false, false
		cfg.Fleet.Redis, cfg.Fleet.Job = "redis://"+server.Addr, job
		cfg.Sinks = out
		c, err := newOver(cfg, net.DialContext)
		require.NoError(t, err)
		return c.Run(t.Context(), "http://a.test/")
	}
	done := func(job string) int { return doneOf(t, server, job) }
	out := &ledger{}
	require.NoError(t, run("kept", out))
	require.NotZero(t, out.synced)
	require.Len(t, out.list, done("kept"))

	err := run("lost", &failing{})
	var trouble *crawl.FleetError
	require.ErrorAs(t, err, &trouble)
	require.ErrorIs(t, err, errPower)
	require.ErrorContains(t, err, "sync ledger: no power")
	require.Zero(t, done("lost"))
}

// doneOf is how many URLs a job has done, over all its partitions.
func doneOf(t *testing.T, server *redistest.Server, job string) (n int) {
	t.Helper()
	for p := range 64 {
		text, err := server.Do(t, "HGET", fmt.Sprintf("crawl:{%s/%d}:n", job, p), "done").ToString()
		if rueidis.IsRedisNil(err) {
			continue // nothing is in it
		}
		require.NoError(t, err)
		part, err := strconv.Atoi(text)
		require.NoError(t, err)
		n += part
	}
	return n
}
