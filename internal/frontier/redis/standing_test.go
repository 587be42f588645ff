//go:build unix

package redis

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/lab/redistest"
)

// Each process is at what its last word and the job's order make of it.
func TestDoing(t *testing.T) {
	there := func(info WorkerInfo) Worker { return Worker{WorkerInfo: info, Alive: true} }
	for name, c := range map[string]struct {
		w       Worker
		control Control
		want    Doing
	}{
		"asks":             {there(WorkerInfo{Hosts: 2, Leased: 1, State: stateWorking}), Running, Crawling},
		"all is paced":     {there(WorkerInfo{Hosts: 2, State: stateWorking}), Running, Waiting},
		"has nothing":      {there(WorkerInfo{State: stateIdle}), Running, Idle},
		"is refused":       {there(WorkerInfo{Hosts: 2, State: stateBlocked}), Running, Refused},
		"is dead":          {Worker{WorkerInfo: WorkerInfo{Hosts: 2, Leased: 3}}, Running, Lost},
		"is dead, drained": {Worker{}, Draining, Lost},
		"ends":             {there(WorkerInfo{Hosts: 2, Leased: 1}), Draining, Finishing},
		"pauses soon":      {there(WorkerInfo{Hosts: 2, Leased: 1}), Paused, Crawling},
		"pauses":           {there(WorkerInfo{Hosts: 2}), Paused, Pausing},
	} {
		require.Equal(t, c.want, c.w.doing(c.control), name)
	}
}

// A job at which nobody is says why, and one that somebody is at has not ended.
func TestEnded(t *testing.T) {
	alive, dead := []Worker{{}, {Alive: true}}, []Worker{{}}
	pages := []Budget{{Name: maxTime, Plan: "1h", Used: 60}, {Name: maxPages, Plan: "100", Used: 100}}
	span := []Budget{{Name: "ratelimit.global_rps", Plan: "1", Used: 5}, {Name: maxTime, Plan: "1h", Used: 3601}}
	for name, c := range map[string]struct {
		s    Status
		want Ended
	}{
		"nothing is left":     {Status{Complete: true, Budgets: pages, Workers: alive}, EndedComplete},
		"somebody is there":   {Status{Workers: alive, Budgets: pages, Control: Draining, Blocked: "a.test"}, ""},
		"pages are used up":   {Status{Workers: dead, Budgets: pages}, EndedPages},
		"time is over":        {Status{Budgets: span, Control: Running}, EndedTime},
		"some pages are left": {Status{Budgets: []Budget{{Name: maxPages, Plan: "100", Used: 99}}}, EndedAlone},
		"drained":             {Status{Control: Draining, Blocked: "a.test"}, EndedDrained},
		"blocked":             {Status{Control: Running, Blocked: "a.test"}, EndedBlocked},
		"all have died":       {Status{Control: Running, Workers: dead}, EndedAlone},
	} {
		require.Equal(t, c.want, c.s.ended(), name)
	}
}

// A process that has come is heard of again as soon as it has hosts, and not only when its lease is renewed.
func TestFirstBeat(t *testing.T) {
	r := newRig(t)
	r.cfg.Lease = time.Minute
	s := r.open()
	put(t, s, "http://a.test/")
	require.Len(t, activate(t, s, 1).Hosts, 1)
	doing := func() Worker {
		st := r.status()
		return st.Workers[0]
	}
	require.Zero(t, doing().Hosts)
	r.clk.BlockUntil(2) // of the heartbeat, and of the lease
	r.clk.Advance(firstBeat)
	require.Eventually(t, func() bool { return doing().Hosts == 1 }, redistest.Patience, time.Millisecond)
	require.EqualValues(t, 2, s.counts.heartbeats.Load())
}

// How the job stands is read with the next heartbeat once somebody looks; who does not hear of the server is cut off
// before its lease ends.
func TestFigures(t *testing.T) {
	r := newRig(t)
	r.cfg.Lease = time.Minute // so that nothing but this test has a heartbeat
	a := r.open()
	r.open(func(c *Config) { c.Worker = "w2" })
	put(t, a, "http://a.test/1", "http://a.test/2", "http://b.test/")
	flush(t, a)
	activate(t, a, 9)
	load(t, a, "a.test", 1)
	r.clk.BlockUntil(4) // both have a first heartbeat, and look for the end of their leases
	r.clk.Advance(firstBeat)
	require.Eventually(t, func() bool { return a.counts.heartbeats.Load() == 2 }, redistest.Patience, time.Millisecond)
	r.clk.BlockUntil(4)
	beat := func() {
		require.NoError(t, a.beat(t.Context()))
		a.survey(t.Context())
	}
	beat()
	require.Zero(t, a.whole.added, "nobody had looked, so nothing was read")
	require.EqualValues(t, Running, a.Figures().State)
	require.Zero(t, a.Figures().SilentSeconds)
	beat()
	of := func(f frontier.JobFigures) [6]any {
		return [6]any{f.AgeSeconds, f.Known, f.Done, f.Queued, f.Leased, f.Processes}
	}
	require.Equal(t, [6]any{0., int64(3), int64(0), int64(3), int64(1), 2}, of(a.Figures()))

	die(a)
	r.clk.Advance(44 * time.Second)
	require.EqualValues(t, Running, a.Figures().State)
	r.clk.Advance(2 * time.Second)
	require.EqualValues(t, CutOff, a.Figures().State)
	require.InDelta(t, 46, a.Figures().SilentSeconds, 0.001)
}
