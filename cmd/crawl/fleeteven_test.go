package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/redistest"
	"github.com/treadlight/crawl/internal/lab/testsite"
)

// Where the pace of hosts binds, one process keeps up with all of them; one that joins is given
// some even so, and a death then stops half of the crawl for a while and not all of it. No host is
// asked sooner for it. In the long form both crawl to the end, and what that costs is told.
func TestFleetEvens(t *testing.T) {
	t.Parallel()
	if long() {
		took, _ := crawlByPace(t, 1)
		t.Logf("one process took %v", took.Round(10*time.Millisecond))
		took, moved := crawlByPace(t, 2)
		t.Logf("two processes took %v", took.Round(10*time.Millisecond))
		require.GreaterOrEqual(t, moved, 3, "of 12 hosts the second process is given some, and about half")
		require.LessOrEqual(t, moved, 12, "and they do not go to and fro")
		return
	}
	f := newPaced(t, 1000) // more than there is time for, however slow the machine is
	first := f.start("")
	f.served(pacedHosts)
	second := f.start("")
	require.Eventually(t, func() bool { return len(f.log.handovers()) > 0 }, redistest.Patience, 20*time.Millisecond, "the second process is given no hosts")
	f.kill(first)
	f.kill(second)
	all := f.log.handovers()
	require.LessOrEqual(t, len(all), pacedHosts, "they do not go to and fro")
	f.courteous(all)
	for host, h := range f.site.Report().Hosts {
		require.LessOrEqual(t, h.MaxOpen, 1, "host %d was asked for two things at once", host)
	}
}

const (
	pacedHosts = 12
	pacedRate  = 5 // requests a second that each of them may be asked
)

// newPaced is a site that one process keeps up with.
func newPaced(t *testing.T, pages int) *fleetTest {
	f := &fleetTest{t: t, dir: t.TempDir(), redis: redistest.Redis.Start(t), apart: func(int) time.Duration { return time.Second / pacedRate }}
	cfg := testsite.Uniform(pacedHosts, pages, 2*time.Millisecond)
	cfg.Arrived = f.log.note
	f.serve(cfg)
	f.args = append([]string{
		"--redis", "redis://" + f.redis.Addr, "--job", "e2e", "-o", f.dir + "/", "-q", "--contact", "a@b.test", "--set", "fleet.lease=4s", // one that ends for want of a processor is no handover
		"--rate", fmt.Sprint(pacedRate), "--max-rate", fmt.Sprint(pacedRate), "--set", "per_host_max=1", "--no-sitemaps",
	}, f.site.URLs()...)
	return f
}

// crawlByPace has processes, one a moment after the other, crawl all of it, and returns how often
// a host went from one to another.
func crawlByPace(t *testing.T, n int) (took time.Duration, moved int) {
	f := newPaced(t, 300)
	begun := time.Now()
	procs := []*fleetProcess{f.start("")}
	f.served(pacedHosts)
	for len(procs) < n {
		procs = append(procs, f.start(""))
	}
	f.finish(procs...)
	took = time.Since(begun)
	f.require()
	t.Logf("pages by process: %v; requests by the second: %v", f.log.byProcess(), f.log.pace(begun))
	return took, len(f.log.handovers())
}
