package redis

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/redistest"
)

// How the job stands is read while somebody looks, and by nobody else; who does not hear of
// the server is cut off before its lease ends.
func TestWhole(t *testing.T) {
	r := newRig(t)
	r.cfg.Lease = time.Minute // so that nothing but this test has a heartbeat
	a := r.open()
	r.open(func(c *Config) { c.Worker = "w2" })
	put(t, a, "http://a.test/1", "http://a.test/2", "http://b.test/")
	flush(t, a)
	rouse(t, a, 9)
	load(t, a, "a.test", 1)
	r.clk.BlockUntil(3) // both have a first heartbeat, and a the end of its lease
	r.clk.Advance(firstBeat)
	require.Eventually(t, func() bool { return a.Statistics().Heartbeats == 2 }, redistest.Patience, time.Millisecond)
	r.clk.BlockUntil(3)
	control, silent := a.Standing()
	require.Equal(t, Running, control)
	require.Zero(t, silent)

	r.clk.Advance(wholeEvery)
	require.NoError(t, a.beat(t.Context()))
	a.survey(t.Context())
	require.Zero(t, a.Whole().Known, "nobody had looked, so nothing was read")
	a.survey(t.Context())
	want := Whole{At: r.clk.Now(), Known: 3, Queued: 3, Leased: 1, Processes: 2}
	require.Equal(t, want, a.Whole())
	put(t, a, "http://b.test/2")
	flush(t, a)
	r.clk.Advance(wholeEvery - time.Second)
	a.survey(t.Context())
	require.Equal(t, want, a.Whole(), "it is not read that often")

	die(a)
	r.clk.Advance(45*time.Second - wholeEvery)
	control, _ = a.Standing()
	require.Equal(t, Running, control)
	r.clk.Advance(wholeEvery)
	control, silent = a.Standing()
	require.Equal(t, CutOff, control)
	require.Equal(t, 49*time.Second, silent)
}
