//go:build unix

package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/lab/redistest"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
)

// busySite has pages that are served at once, and one that takes ten minutes until fast is set.
type busySite struct {
	url     string
	trickle bool // its body comes slowly; false means that no response comes
	fast    atomic.Bool
	served  atomic.Int32
	busy    chan struct{} // closed when enough was served for the crawl to be blocked
}

const (
	busyPages  = 60
	busyServed = 20 // more than fits into a pipe
	busyFor    = 10 * time.Minute
)

func serveBusySite(t *testing.T, trickle bool) *busySite {
	t.Helper()
	site := &busySite{trickle: trickle, busy: make(chan struct{})}
	server := httptest.NewServer(site)
	t.Cleanup(server.Close)
	site.url = server.URL
	return site
}

func (s *busySite) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	rw.Header().Set("Content-Type", "text/html")
	if s.served.Add(1) == busyServed {
		close(s.busy)
	}
	switch {
	case r.URL.Path == "/":
		_, _ = io.WriteString(rw, "<a href=/busy>")
		for i := range busyPages {
			_, _ = fmt.Fprintf(rw, "<a href=/%d>", i)
		}
	case r.URL.Path == "/busy" && !s.fast.Load():
		for end := time.Now().Add(busyFor); time.Now().Before(end); {
			if s.trickle {
				_, _ = rw.Write([]byte("x"))
				_ = http.NewResponseController(rw).Flush()
			}
			select {
			case <-time.After(100 * time.Millisecond):
			case <-r.Context().Done():
				return
			}
		}
	default:
		_, _ = io.WriteString(rw, strings.Repeat("<p>words", 2000))
	}
}

func (s *busySite) all() []string {
	urls := []string{s.url + "/", s.url + "/busy"}
	for i := range busyPages {
		urls = append(urls, fmt.Sprintf("%s/%d", s.url, i))
	}
	slices.Sort(urls)
	return urls
}

// Whatever a crawl waits for, the end of its time, the first interrupt and the stop of the console end it, each with
// its exit code, and the resume visits the rest.
func TestEndsThoughBusy(t *testing.T) {
	for _, way := range []string{"max-time", "interrupt", "interrupted twice", "console"} {
		for _, what := range []string{"no answer", "trickle", "sink"} {
			t.Run(what+"/"+way, func(t *testing.T) {
				t.Parallel()
				endsThoughBusy(t, way, what)
			})
		}
	}
}

func endsThoughBusy(t *testing.T, way, what string) {
	site, dir := serveBusySite(t, what == "trickle"), t.TempDir()
	state, records := filepath.Join(dir, "state"), filepath.Join(dir, "records")
	args := []string{
		"--strategy", "off", "--no-robots", "--no-sitemaps", "--progress", "none", "--state", state, "-o", records,
		"--timeout", "1h", "--concurrency", "4", "--listen", "127.0.0.1:0",
	}
	if what == "sink" { // a pipe that nobody reads, full after two pages
		require.NoError(t, syscall.Mkfifo(records, 0o600))
		unread, err := os.OpenFile(records, os.O_RDWR, 0)
		require.NoError(t, err)
		t.Cleanup(func() { _ = unread.Close() })
		args = append(args, "--record", "body")
	}
	want := cli.CodeInterrupted
	switch way {
	case "max-time":
		args, want = append(args, "--max-time", "2s"), cli.CodeLimit
	case "interrupted twice":
		args, want = append(args, "--set", "grace=0"), cli.CodeForced
	}
	c := begin(t, append(args, site.url+"/"))
	c.says(t, steering)
	<-site.busy
	asked := time.Now()
	switch way {
	case "max-time":
		asked = asked.Add(2 * time.Second)
	case "interrupt":
		require.NoError(t, c.cmd.Process.Signal(os.Interrupt))
	case "interrupted twice":
		require.NoError(t, c.cmd.Process.Signal(os.Interrupt))
		c.says(t, regexp.MustCompile("interrupt again to give it up"))
		asked = time.Now()
		require.NoError(t, c.cmd.Process.Signal(os.Interrupt))
	case "console":
		res, err := http.Post(steering.FindStringSubmatch(c.err.String())[1]+"api/stop", "application/json", strings.NewReader("{}"))
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
	}
	code := c.wait(t)
	took := time.Since(asked)
	require.Equal(t, want, code, "%s", c.err.String())
	require.Less(t, took, busyFor/20, "%s", c.err.String())
	require.Contains(t, c.err.String(), "crawl resume "+state)
	t.Logf("ended %v after it was to", took)

	site.fast.Store(true)
	rest := []string{"resume", state, "--progress", "none", "--max-time", "0", "--listen", ""}
	if what != "sink" {
		c = begin(t, rest)
		require.Zero(t, c.wait(t), "%s", c.err.String())
		text := readFile(t, records)
		require.Equal(t, site.all(), sorted(recordedURLs(t, "jsonl", text)))
		return
	}
	urls := resumedIntoPipe(t, records, rest)
	for _, u := range site.all() {
		require.True(t, urls[u], "%s is lost", u)
	}
}

// resumedIntoPipe returns the URLs that a crawl writes to a pipe, including those after a record that was cut off. The
// records in a pipe cannot be taken back, so some may come twice.
func resumedIntoPipe(t *testing.T, records string, rest []string) map[string]bool {
	t.Helper()
	r, err := os.OpenFile(records, os.O_RDWR|syscall.O_NONBLOCK, 0)
	require.NoError(t, err)
	defer func() { _ = r.Close() }()
	read := make(chan []byte)
	go func() {
		var text bytes.Buffer
		_, _ = io.Copy(&text, r) // until the deadline of r
		read <- text.Bytes()
	}()
	c := begin(t, rest)
	require.Zero(t, c.wait(t), "%s", c.err.String())
	require.NoError(t, r.SetReadDeadline(time.Now().Add(100*time.Millisecond)))
	urls := map[string]bool{}
	for line := range bytes.Lines(<-read) {
		for _, u := range startOfRecord.FindAllSubmatch(line, -1) {
			urls[string(u[1])] = true
		}
	}
	return urls
}

var startOfRecord = regexp.MustCompile(`\{"url":"([^"]+)"`)

func sorted(urls []string) []string {
	slices.Sort(urls)
	return urls
}

func begin(t *testing.T, args []string) *process {
	t.Helper()
	cmd := exec.Command("crawl", args...)
	cmd.Env = append(os.Environ(), "GORACE="+race)
	p, err := launch(cmd)
	require.NoError(t, err)
	t.Cleanup(p.kill)
	return p
}

// says waits until the process has printed a match.
func (p *process) says(t *testing.T, re *regexp.Regexp) {
	t.Helper()
	require.True(t, p.until(re), "%s", &p.err)
}

func (p *process) wait(t *testing.T) (code int) {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(deadline):
		require.Fail(t, "it does not end", "%s", &p.err)
	}
	return p.cmd.ProcessState.ExitCode()
}

// A process of a fleet ends in time too, even if Redis does not answer, and the next one visits the rest.
func TestFleetProcessEndsThoughBusy(t *testing.T) {
	for _, what := range []string{"no answer", "redis is silent"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			server := redistest.Redis.Start(t, fsync...)
			site, dir := serveBusySite(t, false), t.TempDir()
			args := []string{
				"--redis", "redis://" + server.Addr, "--job", "busy", "--set", "fleet.lease=2s", "--progress", "none", "--no-robots", "--no-sitemaps",
				"--strategy", "off", "--set", "per_host_max=4", "--timeout", "1h", "-o", dir + "/", site.url + "/",
			}
			c := begin(t, append([]string{"--set", "fleet.worker=one"}, args...))
			<-site.busy
			if what == "redis is silent" {
				server.Signal(t, syscall.SIGSTOP)
			}
			asked := time.Now()
			require.NoError(t, c.cmd.Process.Signal(os.Interrupt))
			require.Equal(t, cli.CodeInterrupted, c.wait(t), "%s", c.err.String())
			t.Logf("ended %v after it was to", time.Since(asked))
			require.Less(t, time.Since(asked), busyFor/20, "%s", c.err.String())
			if what == "redis is silent" {
				server.Signal(t, syscall.SIGCONT)
			}

			site.fast.Store(true)
			c = begin(t, append([]string{"--set", "fleet.worker=two"}, args...))
			require.Zero(t, c.wait(t), "%s", c.err.String())
			var urls []string
			for _, worker := range []string{"one", "two"} {
				text := readFile(t, filepath.Join(dir, "records-"+worker+".jsonl"))
				text = text[:bytes.LastIndexByte(text, '\n')+1]
				urls = append(urls, recordedURLs(t, "jsonl", text)...)
			}
			if urls = sorted(urls); what == "redis is silent" { // Redis did not receive the last ones
				urls = slices.Compact(urls)
			}
			require.Equal(t, site.all(), urls)
		})
	}
}

// While the state cannot be opened yet, the limit on time and an interrupt still end the crawl, and the state does not
// change.
func TestEndsThoughTheStateIsNotOpen(t *testing.T) {
	site, dir := serveBusySite(t, false), t.TempDir()
	site.fast.Store(true)
	state, records := filepath.Join(dir, "state"), filepath.Join(dir, "records")
	c := begin(t, []string{"--strategy", "off", "--no-robots", "--no-sitemaps", "--state", state, "-o", records, "--max-pages", "5", site.url + "/"})
	require.Zero(t, c.wait(t), "%s", c.err.String())
	for _, verb := range []string{"resume", "again"} {
		for _, way := range []string{"max-time", "interrupt"} {
			db, err := sqlitedb.Open(filepath.Join(state, "state.db"), sqlitedb.Config{})
			require.NoError(t, err)
			// No other process can open it: others wait for five seconds and fail.
			require.NoError(t, db.Exec("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; UPDATE meta SET value = value"))
			args, want := []string{verb, state, "-v"}, cli.CodeInterrupted
			if way == "max-time" {
				args, want = append(args, "--max-time", "1s"), cli.CodeLimit
			}
			c := begin(t, args)
			c.says(t, regexp.MustCompile("opening the state"))
			if way == "interrupt" {
				require.NoError(t, c.cmd.Process.Signal(os.Interrupt))
			}
			require.Equal(t, want, c.wait(t), "%s", c.err.String())
			require.Contains(t, c.err.String(), "before the crawl has begun")
			require.Contains(t, c.err.String(), "crawl resume "+state)
			require.NoError(t, db.Exec("ROLLBACK"))
			require.NoError(t, db.Close())
		}
	}
	c = begin(t, []string{"resume", state, "--max-pages", "0"})
	require.Zero(t, c.wait(t), "%s", c.err.String())
	text := readFile(t, records)
	require.Equal(t, site.all(), sorted(recordedURLs(t, "jsonl", text)))
}
