//go:build unix

package redis

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/redistest"
)

// What is done is told once the sinks are synced: many together, when some time has passed or
// others may depend on it, and at the end.
func TestSyncBeforeDone(t *testing.T) {
	r := newRig(t)
	server := redistest.Redis.Shared(t)
	var done func() int64 // as far as the job knows
	var syncs, early, told atomic.Int64
	a := r.open(func(c *Config) {
		c.Sync = func() error {
			syncs.Add(1)
			if done() > told.Load() {
				early.Add(1)
			}
			return nil
		}
	})
	done = func() int64 {
		n, err := server.Do(t, "HGET", counters(r.cfg.Job, 0), "done").AsInt64()
		require.NoError(t, err)
		return n
	}
	got := own(t, a, 9, "http://a.test/1", "http://a.test/2", "http://a.test/3", "http://a.test/4", "http://a.test/5", "http://b.test/1")
	require.Zero(t, syncs.Load(), "nothing is done")

	visit(a, &got.Items[0])
	visit(a, &got.Items[1])
	load(t, a, "a.test", 1) // which comes after them
	require.Zero(t, syncs.Load())
	require.Zero(t, done())
	r.clk.Advance(settleEvery)
	require.Eventually(t, func() bool { return done() == 2 }, redistest.Patience, time.Millisecond)
	require.EqualValues(t, 1, syncs.Load())
	told.Store(2)

	visit(a, &got.Items[2])
	activate(t, a, 1) // its answer says whether all is done
	require.EqualValues(t, 3, done())
	require.EqualValues(t, 2, syncs.Load())
	told.Store(3)

	visit(a, &got.Items[3])
	a.Deactivate("a.test", time.Time{})
	flush(t, a)
	require.EqualValues(t, 4, done(), "or it would be too late")
	told.Store(4)
	require.Equal(t, []string{"a.test"}, names(activate(t, a, 1)))
	require.EqualValues(t, 3, syncs.Load(), "there was nothing to sync for")

	_, got = load(t, a, "a.test", 9)
	visit(a, &got.Items[0])
	require.NoError(t, a.Close())
	require.EqualValues(t, 5, done())
	require.EqualValues(t, 4, syncs.Load())
	require.Zero(t, early.Load(), "what was told before its sync")
}

// A disk that takes nothing ends the store, and what it did not take is not done.
func TestSyncFails(t *testing.T) {
	r := newRig(t)
	full := errors.New("sync out.jsonl: no space left on device")
	a := r.open(func(c *Config) { c.Sync = func() error { return full } })
	got := own(t, a, 1, "http://a.test/1", "http://a.test/2")
	visit(a, &got.Items[0])
	a.Activate(1)
	<-a.Failed()
	require.ErrorIs(t, a.Err(), full)
	require.ErrorIs(t, a.Close(), full)
	st := r.status()
	require.Zero(t, st.Done)
	require.EqualValues(t, 2, st.Known)
}

// However much is done at once, as much waits as the store has room for, and no more.
func TestSyncOfMany(t *testing.T) {
	r := newRig(t)
	var syncs atomic.Int64
	a := r.open(func(c *Config) {
		c.Sync = func() error { syncs.Add(1); return nil }
		c.maxPending = 4
	})
	got := own(t, a, 9, "http://a.test/1", "http://a.test/2", "http://a.test/3", "http://a.test/4")
	require.Len(t, got.Items, 4)
	for i := range got.Items {
		visit(a, &got.Items[i])
	}
	require.NotNil(t, a.Room())
	flush(t, a)
	require.Nil(t, a.Room())
	require.EqualValues(t, 1, syncs.Load())
}
