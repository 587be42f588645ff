package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/redistest"
)

// One of three masters dies under load, and a process with it: a replica takes the master's place,
// the crawl goes on by itself, and every URL is there once after the merge. With -fleet.hosts 200
// it is of 125,100 pages.
func TestFleetMasterDies(t *testing.T) {
	t.Parallel()
	masters, replica := redistest.Redis.Cluster(t, fsync...)
	f := newFleet(t, *fleetHosts, masters[1], masters[2], masters[0])
	procs := []*fleetProcess{f.start(""), f.start(""), f.start("")}
	pages := int64(f.site.Report().Total.URLs)
	f.served(pages / 4)
	died := time.Now()
	masters[0].Stop()
	i := f.owner(procs)
	dead := procs[i]
	f.kill(dead)
	procs[i] = f.start(dead.name)
	redistest.Eventually(t, replica, []string{"INFO", "replication"}, "role:master")
	took := time.Since(died)
	require.Greater(t, f.site.Report().Total.URLs, int(f.site.Report().Total.Distinct), "there is something left to do")
	f.finish(procs...)
	f.require()
	t.Logf("the replica was master %v after the death of its own; hosts of the process that died with it were asked again after %s; all was done %v after",
		took.Round(time.Millisecond), spread(f.log.recoveries(dead.agent, died)), time.Since(died).Round(time.Millisecond))
}
