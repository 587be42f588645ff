package redis

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/redistest"
)

// How the job stands is read with the next heartbeat once somebody looks; who does not hear of the server is cut off
// before its lease ends.
func TestFigures(t *testing.T) {
	r := newRig(t)
	r.cfg.Lease = time.Minute // so that nothing but this test has a heartbeat
	a := r.open()
	r.open(func(c *Config) { c.Worker = "w2" })
	put(t, a, "http://a.test/1", "http://a.test/2", "http://b.test/")
	flush(t, a)
	rouse(t, a, 9)
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
	of := func(f Figures) [6]any { return [6]any{f.AgeSeconds, f.Known, f.Done, f.Queued, f.Leased, f.Processes} }
	require.Equal(t, [6]any{0., int64(3), int64(0), int64(3), int64(1), 2}, of(a.Figures()))

	die(a)
	r.clk.Advance(44 * time.Second)
	require.EqualValues(t, Running, a.Figures().State)
	r.clk.Advance(2 * time.Second)
	require.EqualValues(t, CutOff, a.Figures().State)
	require.InDelta(t, 46, a.Figures().SilentSeconds, 0.001)
}
