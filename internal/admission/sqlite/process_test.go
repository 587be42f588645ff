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
	"github.com/treadlight/crawl/internal/admission/sqlite"
)

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
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
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

		r, err := sqlite.New(sqlite.Config{Path: path})
		require.NoError(t, err)
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
