package sqlite_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
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
	must(db.Exec(`BEGIN IMMEDIATE`))
	return func() { must(db.Exec(`ROLLBACK`)) }
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
		before := sizeOf(path + "-wal")
		var wg sync.WaitGroup
		var sum atomic.Int64
		for range callers {
			wg.Go(func() { sum.Add(narrow.Capacity - take(t, r, "key", 1, narrow).Remaining) })
		}
		require.Eventually(t, func() bool { return sqlite.Waiting(r) == callers }, time.Minute, time.Millisecond)
		unlock()
		wg.Wait()
		require.EqualValues(t, callers*(callers+1)/2+callers, sum.Load(), "each caller finds the charges of those before")
		require.EqualValues(t, transactions*pageInLog, sizeOf(path+"-wal")-before)
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

// What a process that a test starts is told by its environment.
const (
	roleVariable = "ADMISSION_SQLITE_TEST_ROLE"
	pathVariable = "ADMISSION_SQLITE_TEST_PATH"
)

// Plans that refill by a token in 31 years, so that each grant counts for good.
var (
	narrow = bucket("narrow", 1000, 1e-9)
	wide   = bucket("wide", 1<<30, 1e-9)
)

const (
	goroutines = 8
	takes      = 200
)

type count struct {
	Narrow, Wide int64 // granted
	Errors       []string
}

func play(role string) int {
	r, err := sqlite.New(sqlite.Config{Path: os.Getenv(pathVariable)})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	switch role {
	case "count":
		fmt.Println("open")
		_, _ = io.ReadAll(os.Stdin) // until all are open
		_ = json.NewEncoder(os.Stdout).Encode(takeMany(r))
	case "forever":
		takeForever(r)
	}
	if err := r.Close(); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

func takeMany(r *sqlite.Repository) count {
	var c count
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for range takes {
				for _, p := range []admission.Plan{narrow, wide} {
					res, err := r.Take(context.Background(), "key", []admission.Plan{p}, 1)
					mu.Lock()
					switch {
					case err != nil:
						c.Errors = append(c.Errors, err.Error())
					case res.Allowed && p.Name == narrow.Name:
						c.Narrow++
					case res.Allowed:
						c.Wide++
					}
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	return c
}

// takeForever says a line for each grant, after it has it.
func takeForever(r *sqlite.Repository) {
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for {
				if res, err := r.Take(context.Background(), "key", []admission.Plan{wide}, 1); err != nil || !res.Allowed {
					fmt.Println("not granted:", res, err)
					return
				}
				fmt.Println("granted")
			}
		})
	}
	wg.Wait()
}

type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func start(t *testing.T, role, path string) *process {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"="+role, pathVariable+"="+path)
	cmd.Stderr = os.Stderr
	in := must(cmd.StdinPipe())
	out := must(cmd.StdoutPipe())
	require.NoError(t, cmd.Start())
	return &process{cmd, in, bufio.NewScanner(out)}
}

func (p *process) line(t *testing.T) string {
	t.Helper()
	require.True(t, p.out.Scan(), "the process ended early: %v", p.out.Err())
	return p.out.Text()
}

// Two processes that find no file make it at the same time, and then lose no count.
func TestTwoProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	both := []*process{start(t, "count", path), start(t, "count", path)}
	for _, p := range both {
		require.Equal(t, "open", p.line(t))
	}
	for _, p := range both {
		require.NoError(t, p.in.Close())
	}
	var sum count
	for _, p := range both {
		var c count
		require.NoError(t, json.Unmarshal([]byte(p.line(t)), &c))
		require.Empty(t, c.Errors)
		require.NoError(t, p.cmd.Wait())
		sum.Narrow += c.Narrow
		sum.Wide += c.Wide
	}
	require.Equal(t, count{Narrow: 1000, Wide: 2 * goroutines * takes}, sum)
	r := open(t, sqlite.Config{Path: path})
	require.Equal(t, wide.Capacity-sum.Wide, take(t, r, "key", 0, wide).Remaining)
	require.Zero(t, take(t, r, "key", 0, narrow).Remaining)
}

// A process that is killed has told nobody of a grant that is not in the file. What it
// had granted and not told yet is one for each goroutine at most.
func TestKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	told := int64(0)
	for _, lines := range []int{1, 10, 300, 2000} {
		p := start(t, "forever", path)
		for range lines {
			require.Equal(t, "granted", p.line(t))
		}
		require.NoError(t, p.cmd.Process.Kill())
		told += int64(lines)
		for p.out.Scan() { // what is still in the pipe was told too; its last line may be cut off
			if p.out.Text() == "granted" {
				told++
			}
		}
		require.Error(t, p.cmd.Wait())

		r := must(sqlite.New(sqlite.Config{Path: path}))
		charged := wide.Capacity - take(t, r, "key", 0, wide).Remaining
		require.NoError(t, r.Close())
		require.GreaterOrEqual(t, charged, told, "grants were told that are not in the file")
		require.LessOrEqual(t, charged, told+goroutines, "more was charged than was granted")
		told = charged
	}
}

// One process has the lock all the time, but for a moment between its transactions:
// another one gets it nevertheless, again and again.
func TestTurns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	p := start(t, "forever", path)
	require.Equal(t, "granted", p.line(t))
	var drained atomic.Int64
	var wg sync.WaitGroup
	wg.Go(func() {
		for p.out.Scan() {
			drained.Add(1)
		}
	})
	r := open(t, sqlite.Config{Path: path})
	for range 20 {
		before := drained.Load()
		require.True(t, take(t, r, "other", 1, wide).Allowed)
		require.Eventually(t, func() bool { return drained.Load() > before }, time.Minute, time.Millisecond)
	}
	require.NoError(t, p.cmd.Process.Kill())
	wg.Wait()
	require.Error(t, p.cmd.Wait())
}
