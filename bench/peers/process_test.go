package peers_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// usage is what a process and its descendants took.
type usage struct {
	cpu  time.Duration // user and system
	wall time.Duration
	peak int64 // bytes of resident memory, all together
}

// look is how often the tree is looked at. The shortest crawl here takes a third of a
// second, and a look some tens of microseconds for each thread.
const look = 10 * time.Millisecond

var errLeft = errors.New("it left processes behind, whose time is not counted")

// measure runs a program to its end. It has a group of its own, which is killed when ctx
// ends. What it says on standard error is in the error, if its exit code is none of fine.
func measure(ctx context.Context, cmd *exec.Cmd, fine []int) (usage, error) {
	said, err := os.Create(filepath.Join(cmd.Dir, "said")) // no pipe: whoever is left behind would hold it open
	if err != nil {
		return usage{}, err
	}
	defer said.Close()
	cmd.Stderr = said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return usage{}, err
	}
	group := cmd.Process.Pid
	stop := context.AfterFunc(ctx, func() { _ = syscall.Kill(-group, syscall.SIGKILL) }) // fails if it has ended by now
	defer stop()
	watched, done := make(chan int64), make(chan struct{})
	go func() { watched <- watch(group, done) }()
	err = cmd.Wait()
	u := usage{wall: time.Since(begin), cpu: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}
	close(done)
	u.peak = <-watched
	left := syscall.Kill(-group, syscall.SIGKILL) == nil
	switch {
	case ctx.Err() != nil:
		return u, fmt.Errorf("after %v: %w", u.wall.Round(time.Second), ctx.Err())
	case left:
		return u, errLeft
	}
	if err != nil && !slices.Contains(fine, cmd.ProcessState.ExitCode()) {
		text, _ := os.ReadFile(said.Name()) // as much as there is
		return u, fmt.Errorf("%w: %s", err, bytes.TrimSpace(text[max(0, len(text)-1000):]))
	}
	return u, nil
}

// watch returns the peak of the tree's memory, once done is closed.
func watch(root int, done <-chan struct{}) (peak int64) {
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		var together int64
		for _, pid := range tree(root) {
			now, most := resident(pid)
			together += now
			peak = max(peak, most)
		}
		peak = max(peak, together)
		select {
		case <-done:
			return peak
		case <-tick.C:
		}
	}
}

// tree lists a process and its descendants. Who ends meanwhile is left out.
func tree(root int) []int {
	pids := []int{root}
	for i := 0; i < len(pids); i++ {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pids[i])) // the pattern is ours
		for _, task := range tasks {
			text, _ := os.ReadFile(task) // gone: no children any more
			for field := range strings.FieldsSeq(string(text)) {
				if pid, err := strconv.Atoi(field); err == nil {
					pids = append(pids, pid)
				}
			}
		}
	}
	return pids
}

// resident reads what a process has in memory and the most it ever had, in bytes; zeros
// if it has ended. The mark begins anew with the program, unlike that of the rusage,
// which remembers who started it.
func resident(pid int) (now, most int64) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // gone: zeros
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		switch {
		case err != nil:
		case name == "VmRSS":
			now = n << 10
		case name == "VmHWM":
			most = n << 10
		}
	}
	return now, most
}

// The environment makes the test a program that takes a known time and memory.
const (
	burnVar  = "PEERS_TEST_BURN"
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

func TestMeasure(t *testing.T) {
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
		{name: "leaves one behind", script: "sleep 60 & exit 0", want: errLeft.Error()},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cmd := exec.Command("/bin/sh", "-c", tc.script, self)
			cmd.Dir = t.TempDir()
			cmd.Env = append(os.Environ(), burnVar+"=1")
			u, err := measure(t.Context(), cmd, tc.fine)
			if tc.want != "" {
				require.EqualError(t, err, tc.want)
				return
			}
			require.NoError(t, err)
			require.GreaterOrEqual(t, u.cpu, time.Duration(tc.least)*burnTime)
			if tc.least > 0 {
				require.GreaterOrEqual(t, u.peak, int64(burnSize))
			}
		})
	}
}

// A program that does not end is ended, with all that it started.
func TestMeasureEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	cmd := exec.Command("/bin/sh", "-c", "sleep 60; sleep 60")
	cmd.Dir = t.TempDir()
	_, err := measure(ctx, cmd, nil)
	require.ErrorIs(t, err, context.Canceled)
}
