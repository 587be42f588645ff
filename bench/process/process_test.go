package process_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/treadlight/crawl/bench/process"
)

func TestMain(m *testing.M) {
	if os.Getenv(burnVar) != "" { // see TestRun
		burn()
		return
	}
	goleak.VerifyTestMain(m)
}

// The environment makes the test a program that takes a known time and memory.
const (
	burnVar  = "PROCESS_TEST_BURN"
	burnTime = 300 * time.Millisecond // of the processor; some dozens of looks
	burnSize = 64 << 20
)

func burn() {
	held := bytes.Repeat([]byte{1}, burnSize)
	for {
		var r syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
			panic(err)
		}
		if time.Duration(r.Utime.Nano()+r.Stime.Nano()) >= burnTime {
			break
		}
		for i := range 1 << 16 { // some work between two looks at the clock
			held[i]++
		}
	}
}

func TestRun(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	for _, tc := range []struct {
		name, script, want string
		fine               []int
		least              int // burns that must be counted
	}{
		{name: "itself", script: `exec "$0"`, least: 1},
		{name: "children", script: `"$0"; "$0"; true`, least: 2},
		{name: "grandchildren", script: `sh -c '"$0"; true' "$0"; true`, least: 1},
		{name: "fails", script: "echo no such luck >&2; exit 3", want: "exit status 3: no such luck"},
		{name: "another exit", script: "exit 8", fine: []int{8}},
		{name: "leaves one behind", script: "sleep 60 & exit 0", want: process.ErrLeft.Error()},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cmd := exec.Command("/bin/sh", "-c", tc.script, self)
			cmd.Dir = t.TempDir()
			cmd.Env = append(os.Environ(), burnVar+"=1")
			u, err := process.Run(t.Context(), cmd, tc.fine...)
			if tc.want != "" {
				require.EqualError(t, err, tc.want)
				return
			}
			require.NoError(t, err)
			require.GreaterOrEqual(t, u.CPU, time.Duration(tc.least)*burnTime)
			if tc.least > 0 {
				require.GreaterOrEqual(t, u.Peak, int64(burnSize))
			}
		})
	}
}

// A program that does not end is ended, with all that it started.
func TestRunEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	cmd := exec.Command("/bin/sh", "-c", "sleep 60; sleep 60")
	cmd.Dir = t.TempDir()
	_, err := process.Run(ctx, cmd)
	require.ErrorIs(t, err, context.Canceled)
}

// What a program has taken is told while it runs, and it can be asked to end.
func TestProcess(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command("/bin/sh", "-c", `"$0"; exec "$0"`, self)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), burnVar+"=1")
	p, err := process.Start(t.Context(), cmd)
	require.NoError(t, err)
	for took := time.Duration(0); took < burnTime/10; {
		took, err = p.CPU()
		require.NoError(t, err)
	}
	require.NoError(t, p.Signal(syscall.SIGTERM))
	u, err := p.Wait()
	require.EqualError(t, err, "signal: terminated: ")
	require.GreaterOrEqual(t, u.CPU, burnTime/10)
	_, err = p.CPU()
	require.ErrorIs(t, err, os.ErrNotExist)
}

// What cannot be built is told with the reason.
func TestBuild(t *testing.T) {
	_, err := process.Build(t.Context(), t.TempDir(), t.TempDir())
	require.ErrorContains(t, err, "go.mod file not found")
	path, err := process.Build(t.Context(), "../peers/contender", t.TempDir())
	require.NoError(t, err)
	require.FileExists(t, path)
}
