package integration_test

import (
	"net/http"
	"testing"

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
		cfg.Fleet.Redis, cfg.Fleet.Job, cfg.Fleet.Partitions = "redis://"+server.Addr, job, 1
		cfg.Sinks = out
		c, err := newOver(cfg, net.DialContext)
		require.NoError(t, err)
		return c.Run(t.Context(), "http://a.test/")
	}
	done := func(job string) int64 {
		n, err := server.Do(t, "HGET", "crawl:{"+job+"/0}:n", "done").AsInt64()
		require.NoError(t, err)
		return n
	}
	out := &ledger{}
	require.NoError(t, run("kept", out))
	require.NotZero(t, out.synced)
	require.EqualValues(t, len(out.list), done("kept"))

	err := run("lost", &failing{})
	var trouble *crawl.FleetError
	require.ErrorAs(t, err, &trouble)
	require.ErrorIs(t, err, errPower)
	require.ErrorContains(t, err, "sync ledger: no power")
	require.Zero(t, done("lost"))
}
