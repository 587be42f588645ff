// Package process runs programs for benchmarks and tells what they took.
//
// Processor time is user and system time as the kernel gives it to whoever waits for a
// process: all threads, and all descendants that were waited for. A program that leaves a
// process behind, whose time would not be in that, fails. The peak of memory is that of
// the whole tree, looked at every few milliseconds: the most that the resident sets came
// to together, or the largest single one ever was, by the kernel's own mark, if that is
// more. It needs Linux's /proc.
package process

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
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// Usage is what a process and its descendants took.
type Usage struct {
	CPU  time.Duration // user and system
	Wall time.Duration
	Peak int64 // bytes of resident memory, all together
	// Written is the bytes that it had the disk write, as far as the last look saw. A page of
	// a file that is changed again before the disk has taken it counts once.
	Written int64
}

// look is how often the tree is looked at. The shortest crawl in a benchmark takes a third
// of a second, and a look some tens of microseconds for each thread.
const look = 10 * time.Millisecond

// saidMost is as much of standard error as an error repeats, in bytes: its end, where
// programs say why.
const saidMost = 1000

// ErrLeft says that a program has ended and not all that it started.
var ErrLeft = errors.New("it left processes behind, whose time is not counted")

// Build compiles the Go program in a directory, in the module it belongs to, into another
// directory, and returns its path.
func Build(ctx context.Context, dir, into string) (path string, err error) {
	path = filepath.Join(into, filepath.Base(dir))
	cmd := exec.CommandContext(ctx, "go", "build", "-o", path, ".")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w: %s", dir, err, bytes.TrimSpace(out))
	}
	return path, nil
}

// Process is a program that was started. Its methods are for one goroutine, but for Kill
// and CPU.
type Process struct {
	cmd   *exec.Cmd
	said  *os.File
	begun time.Time
	clk   clock.Clock
	over  func() error // of the context
	leave func() bool  // has the end of the context go unnoticed
	done  chan struct{}
	seen  chan seen
}

// Run runs a program to its end: see [Start] and [Process.Wait].
func Run(ctx context.Context, cmd *exec.Cmd, fine ...int) (Usage, error) {
	p, err := Start(ctx, cmd)
	if err != nil {
		return Usage{}, err
	}
	return p.Wait(fine...)
}

// Start starts a program, which must be waited for. It has a group of its own, which is
// killed when ctx ends. What it says on standard error goes into a file in its directory.
func Start(ctx context.Context, cmd *exec.Cmd) (*Process, error) {
	said, err := os.Create(filepath.Join(cmd.Dir, "said")) // no pipe: whoever is left behind would hold it open
	if err != nil {
		return nil, err
	}
	cmd.Stderr = said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p := &Process{cmd: cmd, said: said, clk: clock.System(), over: ctx.Err, done: make(chan struct{}), seen: make(chan seen)}
	p.begun = p.clk.Now()
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, said.Close())
	}
	p.leave = context.AfterFunc(ctx, p.Kill)
	go func() { p.seen <- p.watch() }()
	return p, nil
}

// Kill ends the program and all that it started, at once. It does nothing once they have
// ended.
func (p *Process) Kill() { _ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) }

// Signal sends the program a signal. The error says that it has ended.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// Wait waits for the end. The error says that the program was killed, that its exit code
// is neither zero nor one of fine, with what it said last, or is [ErrLeft].
func (p *Process) Wait(fine ...int) (Usage, error) {
	err := p.cmd.Wait()
	state := p.cmd.ProcessState
	u := Usage{Wall: p.clk.Now().Sub(p.begun), CPU: state.UserTime() + state.SystemTime()}
	close(p.done)
	saw := <-p.seen
	u.Peak, u.Written = saw.peak, saw.written
	left := syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) == nil
	p.leave()
	text, readErr := os.ReadFile(p.said.Name())
	if err := errors.Join(readErr, p.said.Close()); err != nil {
		return u, err
	}
	switch {
	case p.over() != nil:
		return u, fmt.Errorf("after %v: %w", u.Wall.Round(time.Second), p.over())
	case left:
		return u, ErrLeft
	}
	if err != nil && !slices.Contains(fine, state.ExitCode()) {
		return u, fmt.Errorf("%w: %s", err, bytes.TrimSpace(text[max(0, len(text)-saidMost):]))
	}
	return u, nil
}

// seen is what looks at a tree have found.
type seen struct{ peak, written int64 }

// watch returns what it has seen once the program has ended.
func (p *Process) watch() (s seen) {
	root := p.cmd.Process.Pid
	for {
		var together, written int64
		for _, pid := range tree(root) {
			now, most := resident(pid)
			together += now
			written += fields(pid, "io", "write_bytes")[0]
			s.peak = max(s.peak, most)
		}
		s.peak = max(s.peak, together)
		s.written = max(s.written, written) // of those that were waited for, who waited has it
		timer := p.clk.NewTimer(look)
		select {
		case <-p.done:
			timer.Stop()
			return s
		case <-timer.C():
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
	v := fields(pid, "status", "VmRSS", "VmHWM")
	return v[0] << 10, v[1] << 10
}

// fields reads numbers of a file of a process in /proc, by their names; zeros if it has ended.
func fields(pid int, file string, names ...string) []int64 {
	v := make([]int64, len(names))
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file)) // gone: zeros
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		if i := slices.Index(names, name); i >= 0 {
			v[i], _ = strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		}
	}
	return v
}

// tickLength is the unit of times in /proc, which Linux has had at a hundredth of a second
// on all its common machines.
const tickLength = 10 * time.Millisecond

// CPU is the user and system time of the program itself so far, of all its threads, to a
// hundredth of a second.
func (p *Process) CPU() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	return parseCPU(string(text))
}

// parseCPU reads utime and stime of proc_pid_stat(5), the fields 14 and 15. The second
// field is a name in parentheses that may hold anything, so that one counts behind it.
func parseCPU(stat string) (time.Duration, error) {
	const user, system = 14 - 3, 15 - 3
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) <= system {
		return 0, fmt.Errorf("%q has no times", stat)
	}
	u, uErr := strconv.ParseInt(fields[user], 10, 64)
	s, sErr := strconv.ParseInt(fields[system], 10, 64)
	return time.Duration(u+s) * tickLength, errors.Join(uErr, sErr)
}
