package redis

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// How the job stands is read while somebody looks, and by nobody else; who does not hear of
// the server is cut off before its lease ends.
func TestWhole(t *testing.T) {
	r := newRig(t)
	a, b := r.open(), r.open(func(c *Config) { c.Worker = "w2" })
	put(t, a, "http://a.test/1", "http://a.test/2", "http://b.test/")
	flush(t, a)
	rouse(t, a, 9)
	load(t, a, "a.test", 1)
	control, silent := a.Standing()
	require.Equal(t, Running, control)
	require.Zero(t, silent)
	period := r.cfg.Lease / 3
	beats := func() int64 { return a.Statistics().Heartbeats + b.Statistics().Heartbeats }
	advance := func() {
		t.Helper()
		want := beats() + 2
		r.clk.BlockUntil(2) // both are between two beats
		r.clk.Advance(period)
		require.Eventually(t, func() bool { return beats() >= want }, time.Minute, time.Millisecond)
	}
	advance()
	advance()
	require.Zero(t, a.Whole().Known, "nobody has looked, so nothing was read") // and now it is wanted
	advance()
	advance()
	require.Eventually(t, func() bool { return a.Whole().Known == 3 }, time.Minute, time.Millisecond)
	w := a.Whole()
	require.Equal(t, Whole{At: w.At, Known: 3, Queued: 3, Leased: 1, Processes: 2}, w)

	die(a)
	r.clk.Advance(r.cfg.Lease)
	control, silent = a.Standing()
	require.Equal(t, CutOff, control)
	require.GreaterOrEqual(t, silent, r.cfg.Lease)
}
