package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch/testsite"
	"github.com/treadlight/crawl/internal/ratelimit/redistest"
)

// Where the pace of hosts binds, one process keeps up with all of them; one that joins is given
// some even so, and a death then stops half of the crawl for a while and not all of it. No host is
// asked sooner for it.
func TestFleetEvens(t *testing.T) {
	t.Parallel()
	if long() { // what it costs
		took, _ := crawlByPace(t, 1)
		t.Logf("one process took %v", took.Round(10*time.Millisecond))
	}
	took, moved := crawlByPace(t, 2)
	t.Logf("two processes took %v", took.Round(10*time.Millisecond))
	require.GreaterOrEqual(t, moved, 3, "of 12 hosts the second process is given some, and about half")
	require.LessOrEqual(t, moved, 12, "and they do not go to and fro")
}

// crawlByPace has processes, one a moment after the other, crawl hosts of which each may be
// asked five times a second, and returns how often a host went from one to another.
func crawlByPace(t *testing.T, n int) (took time.Duration, moved int) {
	const hosts, rate = 12, 5
	pages := 45
	if long() {
		pages = 300
	}
	f := &fleetTest{t: t, dir: t.TempDir(), redis: redistest.Redis.Start(t), apart: func(int) time.Duration { return time.Second / rate }}
	cfg := testsite.Uniform(hosts, pages, 2*time.Millisecond)
	cfg.Arrived = f.log.note
	f.serve(cfg)
	f.args = append([]string{
		"--redis", "redis://" + f.redis.Addr, "--job", "e2e", "-o", f.dir + "/", "-q", "--contact", "a@b.test", "--lease", fleetLease().String(),
		"--rate", fmt.Sprint(rate), "--max-rate", fmt.Sprint(rate), "--per-host-max", "1", "--no-sitemaps",
	}, f.site.URLs()...)
	begun := time.Now()
	procs := []*fleetProcess{f.start("")}
	f.served(hosts)
	for len(procs) < n {
		procs = append(procs, f.start(""))
	}
	f.finish(procs...)
	took = time.Since(begun)
	f.require()
	t.Logf("pages by process: %v; requests by the second: %v", f.log.byProcess(), f.log.pace(begun))
	return took, len(f.log.handovers())
}
