package sqlite_test

import (
	"context"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/admission/admissiontest"
	"github.com/treadlight/crawl/internal/admission/sqlite"
	"github.com/treadlight/crawl/internal/clock"
)

func lock(t testing.TB, path string) (unlock func()) {
	t.Helper()
	db := shell(t, path)
	_, err := db.Exec(`BEGIN IMMEDIATE`)
	require.NoError(t, err)
	return func() {
		_, err := db.Exec(`ROLLBACK`)
		require.NoError(t, err)
	}
}

// pageInLog is what a changed page takes in the log: SQLite's page of 4096 bytes and a head of 24.
const pageInLog = 4096 + 24

// Those who come while the lock is not to be had are decided in one transaction for each hundred, which
// writes their one row once.
func TestBatch(t *testing.T) {
	for callers, transactions := range map[int]int{20: 1, 100: 1, 150: 2} {
		path := filepath.Join(t.TempDir(), "limits.db")
		r := open(t, sqlite.Config{Path: path})
		take(t, r, "key", 1, narrow)
		unlock := lock(t, path)
		before := sizeOf(t, path+"-wal")
		var wg sync.WaitGroup
		var sum atomic.Int64
		for range callers {
			wg.Go(func() { sum.Add(narrow.Capacity - take(t, r, "key", 1, narrow).Remaining) })
		}
		require.Eventually(t, func() bool { return sqlite.Waiting(r) == callers }, time.Minute, time.Millisecond)
		unlock()
		wg.Wait()
		require.EqualValues(t, callers*(callers+1)/2+callers, sum.Load(), "each caller finds the charges of those before")
		require.EqualValues(t, transactions*pageInLog, sizeOf(t, path+"-wal")-before)
	}
}

// What is asked in one transaction happens in its order, though rows are written at its end.
func TestOrderWithinBatch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	r := open(t, sqlite.Config{Path: path})
	unlock := lock(t, path)
	plans := []admission.Plan{narrow}
	var wg sync.WaitGroup
	results := make([]admission.Result, 4)
	for i, do := range []func() error{
		func() (err error) { results[0], err = r.Take(t.Context(), "key", plans, 1000); return err },
		func() (err error) { results[1], err = r.Take(t.Context(), "key", plans, 1); return err },
		func() error { return r.Remove(t.Context(), "key", plans) },
		func() (err error) { results[2], err = r.Take(t.Context(), "key", plans, 10); return err },
		func() (err error) { results[3], err = r.Take(t.Context(), "key", plans, 10); return err },
		func() error { return r.Remove(t.Context(), "other", plans) },
	} {
		wg.Go(func() {
			if err := do(); err != nil {
				t.Errorf("question %d = %v", i, err)
			}
		})
		require.Eventually(t, func() bool { return sqlite.Waiting(r) == i+1 }, time.Minute, time.Millisecond)
	}
	unlock()
	wg.Wait()
	for i, want := range []int64{0, 0, 990, 980} {
		require.Equal(t, want, results[i].Remaining, "take %d", i)
		require.Equal(t, i != 1, results[i].Allowed, "take %d", i)
	}
	require.EqualValues(t, 980, take(t, r, "key", 0, narrow).Remaining)
}

// hasty is the system's clock, but since any time a second has passed. It counts the
// pauses that leave the lock to others.
type hasty struct{ pauses atomic.Int64 }

func (c *hasty) Now() time.Time                { return clock.System().Now() }
func (c *hasty) Since(time.Time) time.Duration { return time.Second }

func (c *hasty) NewTimer(d time.Duration) clock.Timer {
	if d == sqlite.TurnPause {
		c.pauses.Add(1)
	}
	return clock.System().NewTimer(d)
}

// A worker that has gone on for long pauses if another connection has written meanwhile, and only then.
func TestRest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	clk := &hasty{}
	r, other := open(t, sqlite.Config{Path: path, Clock: clk}), open(t, sqlite.Config{Path: path})
	for range 3 {
		take(t, r, "key", 1, narrow)
	}
	require.Zero(t, clk.pauses.Load())
	take(t, other, "key", 1, narrow)
	take(t, r, "key", 1, narrow)
	for range 3 {
		take(t, r, "key", 1, narrow)
	}
	require.EqualValues(t, 1, clk.pauses.Load())
}

// While another has the lock, callers leave when their context ends, uncharged, and all
// others get their answer as soon as it is free.
func TestLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	r := open(t, sqlite.Config{Path: path, Clock: admissiontest.NewClock()})
	take(t, r, "key", 1, narrow)
	unlock := lock(t, path)

	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 3)
	for range 3 {
		go func() {
			_, err := r.Take(ctx, "key", []admission.Plan{narrow}, 100)
			left <- err
		}()
	}
	require.Eventually(t, func() bool { return sqlite.Waiting(r) == 3 }, time.Minute, time.Millisecond)
	cancel()
	for range 3 {
		require.ErrorIs(t, <-left, context.Canceled)
	}
	require.Eventually(t, func() bool { return !sqlite.Working(r) }, time.Minute, time.Millisecond, "the worker asks for nobody")

	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() { take(t, r, "key", 10, narrow) })
	}
	require.Eventually(t, func() bool { return sqlite.Waiting(r) == 3 }, time.Minute, time.Millisecond)
	unlock()
	wg.Wait()
	require.EqualValues(t, 1000-1-30, take(t, r, "key", 0, narrow).Remaining)
}

// One who does not let go makes an error after five seconds, which says so; then all works again.
func TestBusyTimeout(t *testing.T) {
	path, clk := filepath.Join(t.TempDir(), "limits.db"), admissiontest.NewClock()
	r := open(t, sqlite.Config{Path: path, Clock: clk})
	unlock := lock(t, path)
	for _, do := range []func() error{
		func() error { _, err := r.Take(context.Background(), "key", []admission.Plan{narrow}, 1); return err },
		func() error { return r.Remove(context.Background(), "key", []admission.Plan{narrow}) },
		func() error { _, err := sqlite.New(sqlite.Config{Path: path, Clock: clk}); return err },
	} {
		failed := make(chan error, 1)
		go func() { failed <- do() }()
		require.Eventually(t, func() bool { clk.Move(time.Second); return len(failed) == 1 }, time.Minute, time.Millisecond)
		require.ErrorContains(t, <-failed, "waited 5s: "+path+": another process has its lock: have it end its transaction")
	}
	unlock()
	require.EqualValues(t, 999, take(t, r, "key", 1, narrow).Remaining)
}

// Close does not wait for another's lock, and tells those who wait.
func TestCloseWhileLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	r := open(t, sqlite.Config{Path: path, Clock: admissiontest.NewClock()})
	unlock := lock(t, path)
	defer unlock()
	failed := make(chan error, 3)
	for range 3 {
		go func() {
			_, err := r.Take(context.Background(), "key", []admission.Plan{narrow}, 1)
			failed <- err
		}()
	}
	require.Eventually(t, func() bool { return sqlite.Waiting(r) == 3 }, time.Minute, time.Millisecond)
	require.NoError(t, r.Close())
	for range 3 {
		require.ErrorIs(t, <-failed, admission.ErrClosed)
	}
}
