package main

import (
	"flag"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var fleetLeaseFlag = flag.Duration("fleet.lease", 0, "lease of TestFleetRecovery, 15s by default elsewhere; 0 = the test is skipped")

// TestFleetRecovery measures how soon the hosts of a process that was killed are asked by others,
// with a lease as crawls have it: three times, and another process each time.
func TestFleetRecovery(t *testing.T) {
	lease := *fleetLeaseFlag
	if lease == 0 {
		t.Skip("give -fleet.lease 15s: it takes a minute and a half")
	}
	f := newFleet(t, *fleetHosts)
	f.args = append(f.args, "--set", "fleet.lease="+lease.String()) // the last one counts
	procs := []*fleetProcess{f.start(""), f.start("")}
	var all []time.Duration
	for round := range 3 {
		f.served(int64(10 * (round + 1)))
		i := f.owner(procs)
		dead, died := procs[i], time.Now()
		f.kill(dead)
		procs[i] = f.start("")
		var spans []time.Duration
		for deadline := died.Add(3 * lease); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
			if spans = f.log.recoveries(dead.agent, died); len(spans) > 0 && time.Since(died) > lease+5*time.Second {
				break
			}
		}
		require.NotEmpty(t, spans, "nobody asks the hosts of the dead")
		// Nobody asks them while the dead may still be there, by what it told last.
		require.Greater(t, spans[0], lease*2/3-time.Second)
		t.Logf("round %d: hosts of the dead were asked again after %s", round, spread(spans))
		all = append(all, spans...)
	}
	t.Logf("with a lease of %v the hosts of the dead were asked again after %s", lease, spread(all))
	for _, p := range procs {
		f.kill(p)
	}
	for host, h := range f.site.Report().Hosts {
		require.LessOrEqual(t, h.MaxOpen, 1, "host %d was asked for two things at once", host)
	}
	require.Zero(t, f.site.Report().Total.InsideRetryAfter)
}
