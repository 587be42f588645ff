package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// process is a program in the background of a script, whose output can be waited for.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended

	mu       sync.Mutex // guards what follows
	changed  chan struct{}
	out, err lockedBuffer
	exit     error
}

// background is the key under which a script keeps its processes.
type background struct{}

var signals = map[string]os.Signal{
	"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP, "USR1": syscall.SIGUSR1,
}

func processes(ts *testscript.TestScript) map[string]*process {
	return ts.Value(background{}).(map[string]*process)
}

func named(ts *testscript.TestScript, name string) *process {
	p := processes(ts)[name]
	if p == nil {
		ts.Fatalf("there is no process %q: start it", name)
	}
	return p
}

// plumbing is what a process is connected to.
type plumbing string

const (
	plain  plumbing = ""        // no input, and output that is read
	silent plumbing = "-silent" // input that never comes and never ends
	stuck  plumbing = "-stuck"  // output that nobody reads
)

func start(ts *testscript.TestScript, how plumbing, name string, args []string) *process {
	if processes(ts)[name] != nil {
		ts.Fatalf("%q is running: finish it first", name)
	}
	p := &process{cmd: exec.Command(args[0], args[1:]...), done: make(chan struct{}), changed: make(chan struct{})}
	p.out.p, p.err.p = p, p
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
	p.cmd.Dir = ts.MkAbs(".")
	p.cmd.Env = append(os.Environ(), "TERM=dumb", "GORACE="+race, "HOME="+ts.Getenv("HOME"), "TMPDIR="+ts.Getenv("TMPDIR"))
	if how != plain {
		r, w, err := os.Pipe()
		ts.Check(err)
		ts.Defer(func() { _ = errors.Join(r.Close(), w.Close()) })
		if how == silent {
			p.cmd.Stdin = r
		} else {
			p.cmd.Stdout = w
		}
	}
	ts.Check(p.cmd.Start())
	processes(ts)[name] = p
	go func() {
		err := p.cmd.Wait()
		p.mu.Lock()
		p.exit = err
		p.mu.Unlock()
		close(p.done)
	}()
	ts.Defer(func() {
		_ = p.cmd.Process.Kill() // of one that has ended, nothing
		<-p.done
	})
	return p
}

// until waits for output that matches. It is false if the process ended without.
func (p *process) until(re *regexp.Regexp) bool {
	timeout := time.NewTimer(deadline)
	defer timeout.Stop()
	for ended := false; ; {
		p.mu.Lock()
		found := re.Match(p.out.buf.Bytes()) || re.Match(p.err.buf.Bytes())
		changed := p.changed
		p.mu.Unlock()
		if found || ended {
			return found
		}
		select {
		case <-changed:
		case <-p.done: // then all of the output is here: look once more
			ended = true
		case <-timeout.C:
			return false
		}
	}
}

// finish waits for the end and leaves what was printed in files.
func finish(ts *testscript.TestScript, name, code string) {
	p := named(ts, name)
	timeout := time.NewTimer(deadline)
	defer timeout.Stop()
	select {
	case <-p.done:
	case <-timeout.C:
		ts.Fatalf("%s has not ended in %v:\n%s%s", name, deadline, p.out.String(), p.err.String())
	}
	delete(processes(ts), name)
	ts.Check(os.WriteFile(ts.MkAbs(name+".out"), []byte(p.out.String()), 0o644))
	ts.Check(os.WriteFile(ts.MkAbs(name+".err"), []byte(p.err.String()), 0o644))
	if got := exitCode(ts, p.exit); got != number(ts, code) {
		ts.Fatalf("%s ended with %d, want %s:\n%s", name, got, code, p.err.String())
	}
}

// exitCode is the code in the error of a command that ran.
func exitCode(ts *testscript.TestScript, err error) int {
	if err == nil {
		return 0
	}
	var e *exec.ExitError
	if !errors.As(err, &e) {
		ts.Fatalf("the command did not run: %v", err)
	}
	return e.ExitCode()
}

// lockedBuffer collects output and wakes those who wait for it.
type lockedBuffer struct {
	p   *process
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(data []byte) (int, error) {
	b.p.mu.Lock()
	defer b.p.mu.Unlock()
	close(b.p.changed)
	b.p.changed = make(chan struct{})
	return b.buf.Write(data)
}

func (b *lockedBuffer) String() string {
	b.p.mu.Lock()
	defer b.p.mu.Unlock()
	return strings.Clone(b.buf.String())
}
