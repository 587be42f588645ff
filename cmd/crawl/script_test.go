//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/racetest"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
)

// update says to write the golden files.
var update = flag.Bool("update", false, "write what the commands print into the golden files")

func TestMain(m *testing.M) {
	testscript.Main(suite{m}, map[string]func(){"crawl": func() {
		wrongClock()
		main()
	}})
}

// TestScript drives the real binary: each file of testdata/script is a terminal session. Its own commands, besides
// those of testscript:
//
//	exits CODE PROGRAM ARGS...   runs a program that must end with this code
//	start NAME PROGRAM ARGS...   runs one in the background; with -silent its input never
//	                             ends, with -stuck nobody reads its output
//	until NAME REGEXP            waits until it has printed a match
//	signal NAME SIGNAL...        sends INT, TERM, HUP or USR1
//	finish NAME CODE             waits for its end; NAME.out and NAME.err are what it printed
//	site NAME ARGS...            starts `crawl testsite ARGS...`; $NAME is its first URL,
//	                             NAME.seeds a file of all
//	dead NAME                    $NAME is a URL at which nothing listens
//	scrub FILE TO                copies without what differs between runs
//	urls FILE TO                 the URLs of a file of records, sorted; none may be there twice
//	console NAME ENV             waits until it accepts orders; $ENV is where, ADDRESS:PORT
//	order NAME ORDER             gives it an order, which it must carry out
//	future DIR                   gives the state in DIR the version of a later program
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:           "../../testdata/script",
		UpdateScripts: *update,
		Setup: func(env *testscript.Env) error {
			// The settings of the developer must not reach the scripts.
			for _, kv := range os.Environ() {
				if strings.HasPrefix(kv, "CRAWL_") {
					t.Fatalf("unset %s: the scripts set what they need", kv)
				}
			}
			env.Setenv("TERM", "dumb")
			env.Setenv("GORACE", race)
			env.Values[background{}] = map[string]*process{}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":   usage("exits CODE PROGRAM ARGS...", 2, true, cmdExits),
			"start":   usage("start [-silent|-stuck] NAME PROGRAM ARGS...", 2, true, cmdStart),
			"until":   usage("until NAME REGEXP", 2, false, cmdUntil),
			"signal":  usage("signal NAME INT|TERM|HUP|USR1", 2, false, cmdSignal),
			"finish":  usage("finish NAME CODE", 2, false, finish),
			"site":    usage("site NAME ARGS...", 1, true, cmdSite),
			"dead":    usage("dead NAME", 1, false, cmdDead),
			"scrub":   usage("scrub [-sort] FILE TO", 2, true, cmdScrub),
			"urls":    usage("urls FILE TO", 2, false, cmdURLs),
			"sql":     usage("sql FILE STATEMENTS", 2, false, cmdSQL),
			"console": usage("console NAME ENV", 2, false, cmdConsole),
			"order":   usage("order NAME ORDER", 2, false, cmdOrder),
		},
	})
}

// usage returns a command that requires n arguments, or at least n if more is set.
func usage(text string, n int, more bool, run func(*testscript.TestScript, []string)) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) < n || len(args) > n && !more {
			ts.Fatalf("usage: %s", text)
		}
		run(ts, args)
	}
}

func cmdExits(ts *testscript.TestScript, args []string) {
	var exit *exec.ExitError
	code := 0
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if fmt.Sprint(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

func cmdStart(ts *testscript.TestScript, args []string) {
	how := plain
	if strings.HasPrefix(args[0], "-") {
		how, args = plumbing(args[0]), args[1:]
	}
	start(ts, how, args[0], args[1:])
}

func cmdUntil(ts *testscript.TestScript, args []string) {
	re, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	p := named(ts, args[0])
	if !p.until(re) {
		ts.Fatalf("%s ended before it printed %q:\n%s%s", args[0], args[1], &p.out, &p.err)
	}
}

func cmdSignal(ts *testscript.TestScript, args []string) {
	ts.Check(named(ts, args[0]).cmd.Process.Signal(map[string]os.Signal{
		"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP, "USR1": syscall.SIGUSR1,
	}[args[1]]))
}

var serving = regexp.MustCompile(`serving (\d+) hosts?;`)

func cmdSite(ts *testscript.TestScript, args []string) {
	p := start(ts, plain, args[0], append([]string{"crawl", "testsite"}, args[1:]...))
	if !p.until(serving) {
		ts.Fatalf("the site ended: %s", p.err.String())
	}
	hosts := serving.FindStringSubmatch(p.err.String())[1]
	// The URLs were written before the message, but through another pipe.
	list := regexp.MustCompile(`^(?:http\S+\n){` + hosts + `}`)
	if !p.until(list) {
		ts.Fatalf("the site ended: %s", p.err.String())
	}
	seeds := list.FindString(p.out.String() + p.err.String()) // with --json they are on standard error
	first, _, _ := strings.Cut(seeds, "\n")
	ts.Setenv(args[0], first)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+".seeds"), []byte(seeds), 0o644))
}

// cmdDead takes a port that was free a moment ago. No other process gets it soon, since the system assigns ports in
// turn.
func cmdDead(ts *testscript.TestScript, args []string) {
	ln, err := net.Listen("tcp", "127.0.3.1:0")
	ts.Check(err)
	ts.Setenv(args[0], "http://"+ln.Addr().String()+"/")
	ts.Check(ln.Close())
}

// scrubs are patterns of what differs between two runs of the same crawl.
var scrubs = []struct {
	what *regexp.Regexp
	to   string
}{
	{regexp.MustCompile(`\b127\.0\.(\d+\.\d+):\d+`), `127.0.$1:PORT`},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), `TIME`},
	{regexp.MustCompile(`in \d+(\.\d+)?s( \([\d.]+/s\))?`), `in SECONDS`},
	{regexp.MustCompile(`,\d+(\.\d+)?,(127\.0\.\d+\.\d+:PORT,)`), `,MS,$2`}, // in a line of CSV
	{regexp.MustCompile(`"timings_ms":\{[^}]*\}`), `"timings_ms":{}`},
	{regexp.MustCompile(`"elapsed_seconds":[\d.e-]+`), `"elapsed_seconds":N`},
}

func cmdScrub(ts *testscript.TestScript, args []string) {
	sorted := args[0] == "-sort"
	if sorted { // records come in the order of the responses
		args = args[1:]
	}
	text := ts.ReadFile(args[0])
	for _, s := range scrubs {
		text = s.what.ReplaceAllString(text, s.to)
	}
	if sorted {
		lines := strings.SplitAfter(text, "\n")
		slices.Sort(lines)
		text = strings.Join(lines, "")
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(text), 0o644))
}

func cmdURLs(ts *testscript.TestScript, args []string) {
	var urls []string
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		var r struct{ URL string }
		ts.Check(json.Unmarshal([]byte(line), &r))
		urls = append(urls, r.URL)
	}
	slices.Sort(urls)
	if once := slices.Compact(slices.Clone(urls)); len(once) < len(urls) {
		ts.Fatalf("%s has %d records of %d URLs", args[0], len(urls), len(once))
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(strings.Join(urls, "\n")+"\n"), 0o644))
}

// cmdSQL changes a database, which it must not leave with a log.
func cmdSQL(ts *testscript.TestScript, args []string) {
	db, err := sqlitedb.Open(ts.MkAbs(args[0]), sqlitedb.Config{})
	ts.Check(err)
	ts.Check(db.Exec(args[1]))
	_ = db.Exec("PRAGMA journal_mode = DELETE") // fails while somebody reads
	ts.Check(db.Close())
}

// race keeps a binary with the race detector from waiting a second at its end for reports of other threads. Our tests
// wait for their goroutines themselves.
const race = "atexit_sleep_ms=0"

// deadline bounds how long a script waits: far longer than necessary on a busy machine.
const deadline = 5 * time.Minute

// process is a program in the background, for whose output a test can wait.
type process struct {
	cmd      *exec.Cmd
	done     chan struct{} // closed when it has ended
	out, err lockedBuffer
}

// launch starts a program. Outputs that are not set go to buffers for which a test can wait.
func launch(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{})}
	if cmd.Stdout == nil {
		cmd.Stdout = &p.out
	}
	cmd.Stderr = &p.err
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = cmd.Wait() // the exit code is read later
		close(p.done)
	}()
	return p, nil
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

type background struct{}

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

// plumbing is what the streams of a process are connected to.
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
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = append(os.Environ(), "TERM=dumb", "GORACE="+race, "HOME="+ts.Getenv("HOME"), "TMPDIR="+ts.Getenv("TMPDIR"))
	if how != plain {
		r, w, err := os.Pipe()
		ts.Check(err)
		ts.Defer(func() { _ = errors.Join(r.Close(), w.Close()) })
		if how == silent {
			cmd.Stdin = r
		} else {
			cmd.Stdout = w
		}
	}
	p, err := launch(cmd)
	ts.Check(err)
	processes(ts)[name] = p
	ts.Defer(p.kill)
	return p
}

// until waits for output that matches. It returns false if the process has ended without any.
func (p *process) until(re *regexp.Regexp) bool {
	timeout := time.NewTimer(deadline)
	defer timeout.Stop()
	for ended := false; ; {
		inOut, out := p.out.has(re)
		inErr, err := p.err.has(re)
		if inOut || inErr || ended {
			return inOut || inErr
		}
		select {
		case <-out:
		case <-err:
		case <-p.done: // all of the output is there: look once more
			ended = true
		case <-timeout.C:
			return false
		}
	}
}

func finish(ts *testscript.TestScript, args []string) {
	name := args[0]
	p := named(ts, name)
	select {
	case <-p.done:
	case <-time.After(deadline):
		ts.Fatalf("%s has not ended in %v:\n%s%s", name, deadline, &p.out, &p.err)
	}
	delete(processes(ts), name)
	ts.Check(os.WriteFile(ts.MkAbs(name+".out"), []byte(p.out.String()), 0o644))
	ts.Check(os.WriteFile(ts.MkAbs(name+".err"), []byte(p.err.String()), 0o644))
	if got := p.cmd.ProcessState.ExitCode(); fmt.Sprint(got) != args[1] {
		ts.Fatalf("%s ended with %d, want %s:\n%s", name, got, args[1], &p.err)
	}
}

// lockedBuffer collects output and wakes those who wait for it.
type lockedBuffer struct {
	mu      sync.Mutex // guards what follows
	buf     bytes.Buffer
	changed chan struct{} // nil if nobody waits
}

func (b *lockedBuffer) Write(data []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
	return b.buf.Write(data)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// has reports whether there is a match, and returns a channel that is closed when it is time to look again.
func (b *lockedBuffer) has(re *regexp.Regexp) (bool, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.changed == nil {
		b.changed = make(chan struct{})
	}
	return re.Match(b.buf.Bytes()), b.changed
}

var steering = regexp.MustCompile(`the crawl can be seen and steered  url=(http://(\S+)/)`)

// consoleOf waits until the console of a crawl accepts orders, and returns where it listens.
func consoleOf(ts *testscript.TestScript, name string) (url, addr string) {
	p := named(ts, name)
	if !p.until(steering) {
		ts.Fatalf("%s ended: %s", name, p.err.String())
	}
	found := steering.FindStringSubmatch(p.err.String())
	return found[1], found[2]
}

func cmdConsole(ts *testscript.TestScript, args []string) {
	_, addr := consoleOf(ts, args[0])
	ts.Setenv(args[1], addr)
}

func cmdOrder(ts *testscript.TestScript, args []string) {
	url, _ := consoleOf(ts, args[0])
	order := strings.NewReplacer("http://", "", "//", "/").Replace(args[1]) // a host in it is written as a URL
	res, err := http.Post(url+"api/"+order, "application/json", strings.NewReader("{}"))
	ts.Check(err)
	ts.Check(res.Body.Close())
	if res.StatusCode != http.StatusOK {
		ts.Fatalf("%s answered %s", url, res.Status)
	}
}

// suite is all tests of this package. It removes what they have built.
type suite struct{ m *testing.M }

func (s suite) Run() int {
	code := s.m.Run()
	if builtIn != "" {
		_ = os.RemoveAll(builtIn) // a temporary directory
	}
	return code
}

// builtIn is the directory where buildShipped has put the command.
var builtIn string

// buildShipped builds the command without the race detector, as it is shipped.
var buildShipped = sync.OnceValues(func() (program string, err error) {
	if builtIn, err = os.MkdirTemp("", "crawl"); err != nil {
		return "", err
	}
	program = filepath.Join(builtIn, "crawl")
	out, err := exec.Command("go", "build", "-buildvcs=false", "-o", program, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w: %s", err, out)
	}
	return program, nil
})

// shipped returns the command that a trial kills. With the race detector a crawl is several times as slow, so it is
// used in one trial of five. The other trials kill the command as users have it, at more different instants. Without
// the race detector the command under test is that already.
func shipped(t *testing.T, trial int) string {
	t.Helper()
	if !racetest.Enabled || trial%5 == 0 {
		return ""
	}
	program, err := buildShipped()
	require.NoError(t, err)
	return program
}
