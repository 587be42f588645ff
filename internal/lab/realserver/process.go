package realserver

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// program finds a server, which Debian installs outside of an ordinary user's path.
func program(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	return exec.LookPath(filepath.Join("/usr/sbin", name))
}

type process struct {
	cmd  *exec.Cmd
	err  string        // path of what it writes to its standard error
	gone chan struct{} // closed once it has been waited for
}

func startProcess(path string, args []string, out string) (*process, error) {
	p := &process{cmd: exec.Command(path, args...), gone: make(chan struct{})} //nolint:gosec // of our own recipes
	p.cmd.Dir = filepath.Dir(out)
	p.err = filepath.Join(p.cmd.Dir, filepath.Base(path)+".err")
	stdout, err := os.Create(out)
	if err != nil {
		return nil, err
	}
	defer stdout.Close() //nolint:errcheck // the process has a handle of its own
	stderr, err := os.Create(p.err)
	if err != nil {
		return nil, err
	}
	defer stderr.Close() //nolint:errcheck // the process has a handle of its own
	p.cmd.Stdout, p.cmd.Stderr = stdout, stderr
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.gone)
		_ = p.cmd.Wait() // the status of an ended server does not matter
	}()
	return p, nil
}

// grace is how long a server may take to end. Apache signals its children in steps of up to 3 s.
const grace = 10 * time.Second

func (p *process) end() {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); errors.Is(err, os.ErrProcessDone) {
		<-p.gone
		return
	}
	timer := clock.System().NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.gone:
	case <-timer.C():
		_ = p.cmd.Process.Kill() // fails only if it has ended by now
		<-p.gone
	}
}

func (p *process) said() string {
	text, err := os.ReadFile(p.err)
	if err != nil {
		return err.Error()
	}
	const enough = 2000 // bytes
	return string(bytes.TrimSpace(text[max(0, len(text)-enough):]))
}

// Need ends a test because something that it needs is missing: in CI it fails, elsewhere it is
// skipped.
func Need(tb testing.TB, what string) {
	tb.Helper()
	if os.Getenv("CI") == "true" {
		tb.Fatalf("%s is missing: `make test` installs it on Debian and Ubuntu", what)
	}
	tb.Skipf("SKIPPED, NOT PASSED: %s is missing; `make servers` installs it on Debian and Ubuntu", what)
}
