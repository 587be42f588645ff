package main

import (
	"flag"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/lab/redistest"
)

var fleetHosts = flag.Int("fleet.hosts", 12, "hosts of the site that TestFleet crawls; with 200 it takes minutes, and troubles come again and again")

// long reports whether the long form was asked for.
func long() bool { return *fleetHosts > 50 }

// TestFleet has troubles of all kinds come upon processes that share a Redis, and nothing be
// lost.
func TestFleet(t *testing.T) {
	t.Parallel()
	f := newFleet(t, *fleetHosts)
	f.trouble([]*fleetProcess{f.start(""), f.start(""), f.start("")})
}

// Three masters are as one to whoever crawls by them. The long form has one process, two and
// four; without, four tell whether two or one would do.
func TestFleetOnCluster(t *testing.T) {
	counts := []int{4}
	if !long() {
		t.Parallel()
	} else {
		counts = []int{1, 2, 4}
	}
	for _, n := range counts {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			masters, _ := redistest.Redis.Cluster(t, fsync...)
			f := newFleet(t, *fleetHosts, masters...)
			var procs []*fleetProcess
			for range n {
				procs = append(procs, f.start(""))
			}
			f.trouble(procs)
		})
	}
}

// fsync has a server keep what it has said.
var fsync = []string{"--appendonly", "yes", "--appendfsync", "always"}

// trouble has the processes of a crawl fare badly until it is done, and holds what comes of it
// against what was promised.
func (f *fleetTest) trouble(procs []*fleetProcess) {
	t, pages := f.t, int64(f.site.Report().Total.URLs)
	rounds := int64(1)
	if long() {
		rounds = 4
	}
	var recovered []time.Duration
	for round := range rounds {
		at := func(share float64) { f.served(int64((float64(round) + share) / float64(rounds) * float64(pages))) }
		at(0.1)
		for _, server := range f.servers {
			server.Do(t, "SCRIPT", "FLUSH")
		}

		at(0.2) // one dies, and comes back under its name
		f.calm()
		i := f.owner(procs)
		dead, died := procs[i], time.Now()
		f.kill(dead)
		procs[i] = f.start(dead.name)
		at(0.4) // one is cut off for longer than its lease
		f.calm()
		i = f.owner(procs)
		cut := 1500 * time.Millisecond
		if rounds > 1 {
			cut = 10 * time.Second
		}
		f.freeze(procs[i], cut)

		at(0.6) // Redis, or a part of it, is away for a moment
		server := f.servers[len(f.servers)-1]
		server.Stop()
		time.Sleep(200 * time.Millisecond)
		server.Restart(t)
		if len(f.servers) > 1 {
			redistest.Eventually(t, server, []string{"CLUSTER", "INFO"}, "cluster_state:ok")
		}

		at(0.8) // one is restarted in order
		i = f.owner(procs)
		_ = procs[i].cmd.Process.Signal(syscall.SIGTERM) // of one that has ended, nothing: all may be done
		<-procs[i].done
		code := procs[i].cmd.ProcessState.ExitCode()
		require.Contains(t, []int{cli.CodeInterrupted, cli.CodeDone}, code, &procs[i].err)
		procs[i] = f.start(procs[i].name)
		recovered = append(recovered, f.log.recoveries(dead.agent, died)...)
	}
	f.finish(procs...)
	f.require()
	t.Logf("hosts of the dead were asked again after %s, with a lease of %v", spread(recovered), fleetLease())
	left, err := filepath.Glob(filepath.Join(f.dir, "records-w*.jsonl"))
	require.NoError(t, err)
	require.Len(t, left, len(procs), "each process has its file, and goes on in it")
}
