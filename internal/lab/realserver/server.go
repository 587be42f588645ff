// Package realserver runs common web servers with common limits for tests of politeness: nginx,
// HAProxy, Apache httpd, Varnish and a Python application.
//
// A [Kind] is a server and the rule it enforces; [Kinds] lists them and [Kind.Start] runs one on
// a loopback port and in a directory of its own. Every URL of [Server.Page] is another page to a
// crawler and the same small page to the server. [Server.Hits] reads the server's access log,
// and [Measure] computes the share of the available rate that was used, refusals, blocks and
// requests inside a Retry-After. [Nginx] serves a directory, and [HAProxy] forwards to another
// server.
//
// Servers end with their test. A Server is for one goroutine.
package realserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock"
)

// Server is a running web server. It ends with its test, or at [Server.Stop].
type Server struct {
	// URL is the origin: scheme, address and port, no slash at the end.
	URL string

	tb    testing.TB
	dir   string // configuration, log and whatever else the server writes
	procs []*Process
	words *strings.Replacer
	late  bool     // the log is written by someone who reads it off the server
	back  *back    // nil if it serves the page itself
	after []func() // what else is to be ended, once no process is left
}

// page is what every server serves under pagePath, without links.
const (
	page     = "<!DOCTYPE html><title>A page</title><p>The same small page under every query.\n"
	pagePath = "/page.html"
)

const logName = "access.log"

// Page is the n-th URL of the small page.
func (s *Server) Page(n int) string { return fmt.Sprintf("%s%s?q=%d", s.URL, pagePath, n) }

// Hits reads the log, which is complete after [Server.Stop].
func (s *Server) Hits() []Hit {
	s.tb.Helper()
	log, err := os.ReadFile(filepath.Join(s.dir, logName))
	require.NoError(s.tb, err)
	hits, err := ParseHits(bytes.NewReader(log))
	require.NoError(s.tb, err)
	return slices.DeleteFunc(hits, func(h Hit) bool { return strings.HasPrefix(h.URI, mark) })
}

// Stop ends the server and waits until it is gone. A second call does nothing.
func (s *Server) Stop() {
	if s.late && len(s.procs) > 1 {
		assert.NoError(s.tb, s.flush("end"))
	}
	for _, p := range s.procs {
		p.End()
	}
	for _, f := range s.after {
		f()
	}
	s.procs, s.after = nil, nil
}

// mark is a path that is requested to see how far a late log is.
const mark = "/mark-"

// flush waits until the log has everything so far. It requests the mark repeatedly, because the
// logger may have started after the first.
func (s *Server) flush(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	for {
		if err := s.ask(ctx, mark+name); err != nil {
			return err
		}
		for range 20 { // looks between two requests
			log, err := os.ReadFile(filepath.Join(s.dir, logName))
			if err == nil && bytes.Contains(log, []byte(mark+name)) {
				return nil
			}
			if clock.Sleep(ctx, clock.System(), 5*time.Millisecond) != nil {
				return errors.New("the log is not complete")
			}
		}
	}
}

func (s *Server) ask(ctx context.Context, path string) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // the answer does not matter
	_, err = fmt.Fprintf(conn, "GET %s HTTP/1.0\r\n\r\n", path)
	return err
}

// recipe is how a server is started. In its strings {{.Dir}} and its like stand for what [Server.words] has.
type recipe struct {
	needs    []string                        // files that must be there, beside the programs
	files    map[string]string               // name in the server's directory to content
	commands []command                       // the first one listens; all run until the end
	late     bool                            // the log comes from a program of its own
	serve    string                          // what stands for SERVE in files: directives that serve the page
	pass     string                          // the same, that pass everything on to {{.Upstream}}; empty if it is a program that fails by itself
	prepare  func(*Server) (upstream string) // what else is to be started first; nil means nothing
}

type command struct {
	words []string
	logs  bool // its standard output is the log of hits
}

// start runs a server. Another program may take the port before it listens: then it tries another one.
func start(tb testing.TB, r recipe) (s *Server) {
	tb.Helper()
	for _, path := range r.needs {
		if _, err := os.Stat(path); err != nil {
			Need(tb, path)
		}
	}
	var err error
	for range 3 {
		s = &Server{tb: tb, late: r.late}
		if err = s.run(r); err == nil {
			break
		}
		s.Stop()
	}
	require.NoError(tb, err)
	return s
}

func (s *Server) run(r recipe) (err error) {
	s.tb.Helper()
	// A directory that servers can read after they have dropped root's rights, unlike a test's own.
	s.dir, err = os.MkdirTemp("", "realserver")
	require.NoError(s.tb, err)
	require.NoError(s.tb, os.Chmod(s.dir, 0o755)) //nolint:gosec // the point of it
	s.tb.Cleanup(func() { s.Stop(); _ = os.RemoveAll(s.dir) })
	addr, upstream := FreeAddr(s.tb), ""
	if r.prepare != nil {
		upstream = r.prepare(s)
	}
	s.URL, s.words = "http://"+addr, words(s.dir, addr, upstream)
	s.write(r.files, r.serve)
	for i, c := range r.commands {
		s.command(c)
		if i > 0 {
			continue
		}
		if err := s.procs[0].Listening(addr); err != nil {
			return err
		}
	}
	if s.late {
		return s.flush("begin")
	}
	return nil
}

// words are what the strings of a recipe may have in them. Upstream is what prepare has put up.
func words(dir, addr, upstream string) *strings.Replacer {
	host, port, _ := strings.Cut(addr, ":")
	_, upstreamPort, _ := strings.Cut(upstream, ":")
	return strings.NewReplacer("{{.Dir}}", dir, "{{.Addr}}", addr, "{{.Host}}", host, "{{.Port}}", port, "{{.Page}}", page,
		"{{.Root}}", filepath.Join(dir, "root"), "{{.Log}}", filepath.Join(dir, logName), "{{.Upstream}}", upstream,
		"{{.UpstreamPort}}", upstreamPort, "{{.Away}}", filepath.Join(dir, awayName))
}

// given is the addresses that were chosen, a few for each server.
var given sync.Map

// FreeAddr is a loopback address with a free port, never the same twice: of two servers that
// start with one address, the second would end unnoticed.
func FreeAddr(tb testing.TB) string {
	tb.Helper()
	for {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(tb, err)
		require.NoError(tb, ln.Close())
		if _, taken := given.LoadOrStore(ln.Addr().String(), true); !taken {
			return ln.Addr().String()
		}
	}
}

func (s *Server) write(files map[string]string, serve string) {
	root := filepath.Join(s.dir, "root")
	require.NoError(s.tb, os.Mkdir(root, 0o755)) //nolint:gosec // as its parent
	all := map[string]string{filepath.Join(root, pagePath): page}
	for name, text := range files {
		all[filepath.Join(s.dir, name)] = s.words.Replace(expand(text, "SERVE", serve))
	}
	for path, text := range all {
		require.NoError(s.tb, os.WriteFile(path, []byte(text), 0o644)) //nolint:gosec // to be read by all
	}
}

func expand(text string, oldnew ...string) string {
	return strings.NewReplacer(oldnew...).Replace(text)
}

func (s *Server) command(c command) {
	path, err := exec.LookPath(c.words[0])
	if err != nil { // Debian installs servers outside of an ordinary user's path
		if path, err = exec.LookPath(filepath.Join("/usr/sbin", c.words[0])); err != nil {
			Need(s.tb, c.words[0])
		}
	}
	args := make([]string, len(c.words)-1)
	for i, w := range c.words[1:] {
		args[i] = s.words.Replace(w)
	}
	out := filepath.Join(s.dir, filepath.Base(path)+".out")
	if c.logs {
		out = filepath.Join(s.dir, logName)
	}
	s.procs = append(s.procs, StartProcess(s.tb, path, args, out))
}

// patience is how long a server may take to listen. Varnish runs a C compiler first.
const patience = 30 * time.Second

// Listening waits until something listens at an address, or the process has ended.
func (p *Process) Listening(addr string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var dialer net.Dialer
	for {
		conn, err := dialer.DialContext(ctx, "tcp", addr)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-p.gone:
			return fmt.Errorf("%s ended at its start: %s", p.cmd.Path, p.said())
		default:
		}
		if clock.Sleep(ctx, clock.System(), 10*time.Millisecond) != nil {
			return fmt.Errorf("%s does not listen: %s", p.cmd.Path, p.said())
		}
	}
}

// Process is one of our own.
type Process struct {
	cmd  *exec.Cmd
	err  string        // path of what it writes to its standard error
	gone chan struct{} // closed once it has been waited for
}

// StartProcess runs a program that writes its output to a file, in the directory of that.
func StartProcess(tb testing.TB, path string, args []string, out string) *Process {
	tb.Helper()
	p := &Process{cmd: exec.Command(path, args...), gone: make(chan struct{})} //nolint:gosec // of our own recipes
	p.cmd.Dir = filepath.Dir(out)
	p.err = filepath.Join(p.cmd.Dir, filepath.Base(path)+".err")
	for name, to := range map[string]*io.Writer{out: &p.cmd.Stdout, p.err: &p.cmd.Stderr} {
		f, err := os.Create(name)
		require.NoError(tb, err)
		defer f.Close() //nolint:errcheck // the process has a handle of its own
		*to = f
	}
	require.NoError(tb, p.cmd.Start())
	go func() {
		defer close(p.gone)
		_ = p.cmd.Wait() // the status of an ended server does not matter
	}()
	return p
}

// grace is how long a server may take to end. Apache signals its children in steps of up to 3 s.
const grace = 10 * time.Second

// End asks the process to end, and has it end after a while.
func (p *Process) End() {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); errors.Is(err, os.ErrProcessDone) {
		<-p.gone
		return
	}
	timer := clock.System().NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.gone:
	case <-timer.C():
		p.Kill()
	}
}

// Kill ends the process at once.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // fails only if it has ended by now
	<-p.gone
}

// Signal sends the process a signal.
func (p *Process) Signal(sig os.Signal) error { return p.cmd.Process.Signal(sig) }

func (p *Process) said() string {
	const enough = 2000           // bytes
	text, _ := os.ReadFile(p.err) // what it has not written it has not said
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
