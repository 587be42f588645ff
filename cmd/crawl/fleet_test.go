//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/clock/clocktest"
	"github.com/treadlight/crawl/internal/frontier/redis"
	"github.com/treadlight/crawl/internal/lab/redistest"
	"github.com/treadlight/crawl/internal/lab/testsite"
	"github.com/treadlight/crawl/internal/records/merge"
)

var fleetHosts = flag.Int("fleet.hosts", 12, "hosts of the site that TestFleet crawls; with 200 it takes minutes, and troubles come again and again")

// long reports whether the flag requests the long form of the test.
func long() bool { return *fleetHosts > 50 }

// TestFleet disturbs processes that share a Redis in many ways, and checks that nothing is lost.
func TestFleet(t *testing.T) {
	t.Parallel()
	f := newFleet(t, *fleetHosts)
	f.trouble([]*fleetProcess{f.start(""), f.start(""), f.start("")})
}

// A cluster of three masters works like one server. The long form runs with one process, two and four; otherwise four
// processes show whether one or two would work.
func TestFleetOnCluster(t *testing.T) {
	counts := []int{4}
	if !long() {
		t.Parallel()
	} else {
		counts = []int{1, 2, 4}
	}
	for _, n := range counts {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			masters, _ := redistest.Redis.Cluster(t, fsync...)
			f := newFleet(t, *fleetHosts, masters...)
			var procs []*fleetProcess
			for range n {
				procs = append(procs, f.start(""))
			}
			f.trouble(procs)
		})
	}
}

// fsync has a server write every acknowledged change to its disk.
var fsync = []string{"--appendonly", "yes", "--appendfsync", "always"}

// trouble disturbs the processes of a crawl until it is done, and checks what the fleet promises.
func (f *fleetTest) trouble(procs []*fleetProcess) {
	t, pages := f.t, int64(f.site.Report().Total.URLs)
	rounds := int64(1)
	if long() {
		rounds = 4
	}
	var recovered []time.Duration
	for round := range rounds {
		at := func(share float64) { f.served(int64((float64(round) + share) / float64(rounds) * float64(pages))) }
		at(0.1)
		for _, server := range f.servers {
			server.Do(t, "SCRIPT", "FLUSH")
		}

		at(0.2) // one is killed, and starts again under its name
		f.awaitQuiet()
		i := f.owner(procs)
		dead, died := procs[i], time.Now()
		f.kill(dead)
		procs[i] = f.start(dead.name)
		at(0.4) // one stands still for longer than its lease
		f.awaitQuiet()
		i = f.owner(procs)
		cut := 1500 * time.Millisecond
		if rounds > 1 {
			cut = 10 * time.Second
		}
		f.freeze(procs[i], cut)

		at(0.6) // Redis, or a part of it, is gone for a moment
		server := f.servers[len(f.servers)-1]
		server.Stop()
		time.Sleep(200 * time.Millisecond)
		server.Restart(t)
		if len(f.servers) > 1 {
			redistest.Eventually(t, server, []string{"CLUSTER", "INFO"}, "cluster_state:ok")
		}

		at(0.8) // one is restarted in order
		i = f.owner(procs)
		_ = procs[i].cmd.Process.Signal(syscall.SIGTERM) // it may have ended, if everything is done
		<-procs[i].done
		code := procs[i].cmd.ProcessState.ExitCode()
		require.Contains(t, []int{cli.CodeInterrupted, cli.CodeDone}, code, &procs[i].err)
		procs[i] = f.start(procs[i].name)
		recovered = append(recovered, f.log.recoveries(dead.agent, died)...)
	}
	f.finish(procs...)
	f.require()
	t.Logf("hosts of the dead were asked again after %s, with a lease of %v", spread(recovered), fleetLease())
	left, err := filepath.Glob(filepath.Join(f.dir, "records-w*.jsonl"))
	require.NoError(t, err)
	require.Len(t, left, len(procs), "each process has its file, and goes on in it")
}

const (
	fleetMaxRate = 20
	fleetDelay   = 250 * time.Millisecond // Crawl-delay of the slow hosts
)

// fleetLease is short, so that disturbances are over soon. In the long form 2,000 pages a second are served and
// requested on the same cores, so that a lease of one second would often end for want of processor time.
func fleetLease() time.Duration {
	if long() {
		return 3 * time.Second
	}
	return time.Second
}

// clockEnv is a variable with the error of the clock of a process that a test starts.
const clockEnv = "TEST_WRONG_CLOCK"

// wrongClock sets the clock of this process wrong, as the test that started it requests.
func wrongClock() {
	if by, err := time.ParseDuration(os.Getenv(clockEnv)); err == nil {
		clock.SetSystemForTest(clocktest.Wrong(by))
	}
}

// clocks are the errors of the processes' clocks, in the order in which they start.
var clocks = []time.Duration{0, 7 * time.Minute, -5 * time.Minute, 26 * time.Hour}

type fleetTest struct {
	t       *testing.T
	site    *testsite.Site
	redis   *redistest.Server
	servers []*redistest.Server // one server, or the masters of a cluster
	dir     string
	args    []string
	names   atomic.Int32
	procs   []*fleetProcess
	log     requestLog
	apart   func(host int) time.Duration // least time between two requests to a host
	thaws   []thaw
}

// thaw is the moment at which a process that had stood still went on.
type thaw struct {
	agent string
	at    time.Time
}

// of reports whether a request was the first after a handover from or to the process that has just gone on.
func (w thaw) of(h handover) bool {
	since := h.at.Sub(w.at)
	return (h.from == w.agent || h.to == w.agent) && since >= 0 && since < 100*time.Millisecond
}

type fleetProcess struct {
	*process
	name  string
	agent string // its User-Agent for hosts: the name, and how often it was used
}

// newFleet returns a fleet with hosts that refuse requests that come too fast, half of them until a date, some with a
// Crawl-delay, and a Redis of its own unless servers are given. No host may get two requests at once.
func newFleet(t *testing.T, hosts int, servers ...*redistest.Server) *fleetTest {
	t.Helper()
	pages := 40
	if long() {
		pages = 600 // with fewer, all would be done while one process is cut off
	}
	cfg := testsite.Uniform(hosts/2, pages, 2*time.Millisecond)
	cfg.Hosts[0].Limit = testsite.Limit{Rate: 12, Burst: 4}
	cfg.Hosts[0].Refusal.RetryAfter = "seconds"
	cfg.Hosts = append(cfg.Hosts, cfg.Hosts[0])
	cfg.Hosts[1].Name, cfg.Hosts[1].Count, cfg.Hosts[1].Refusal.RetryAfter = "dated", hosts-hosts/2, "http-date"
	slow := testsite.Uniform(1+hosts/12, pages/2, 2*time.Millisecond).Hosts[0]
	slow.Name, slow.Robots.CrawlDelay = "slow", fleetDelay
	cfg.Hosts = append(cfg.Hosts, slow)
	if len(servers) == 0 {
		servers = append(servers, redistest.Redis.Start(t, fsync...))
	}
	f := newJob(t, servers[0], "--set", "fleet.lease="+fleetLease().String(), "--rate", "10", "--max-rate", fmt.Sprint(fleetMaxRate),
		"--set", "per_host_max=1", "--no-sitemaps", "--retries", "10")
	f.servers, f.apart = servers, func(host int) time.Duration {
		if host >= hosts {
			return fleetDelay
		}
		return time.Second / fleetMaxRate
	}
	f.serve(cfg)
	return f
}

// newJob returns a job in that Redis, whose processes have the given arguments. Everything ends with the test.
func newJob(t *testing.T, server *redistest.Server, args ...string) *fleetTest {
	f := &fleetTest{t: t, dir: t.TempDir(), redis: server, apart: func(int) time.Duration { return 0 }}
	f.args = append([]string{"--redis", "redis://" + server.Addr, "--job", "e2e", "-o", f.dir + "/", "-q", "--contact", "a@b.test"}, args...)
	t.Cleanup(f.reap)
	return f
}

// serve starts the site, whose hosts are the seeds of all processes.
func (f *fleetTest) serve(cfg testsite.Config) {
	f.t.Helper()
	cfg.Arrived = f.log.note
	f.site = serveSite(f.t, cfg)
	f.t.Cleanup(f.reap) // runs before the site ends
	f.args = append(slices.Clip(f.args), f.site.URLs()...)
}

func (f *fleetTest) reap() {
	for _, p := range f.procs {
		p.kill()
	}
}

// start starts one more process, under a new name or under that of a process that has ended, and with a clock of its
// own.
func (f *fleetTest) start(name string, more ...string) *fleetProcess {
	f.t.Helper()
	if name == "" {
		name = fmt.Sprintf("w%d", f.names.Add(1))
	}
	n := len(f.procs)
	agent := fmt.Sprintf("%s/%d", name, n)
	cmd := exec.Command("crawl", slices.Concat([]string{"--set", "fleet.worker=" + name, "-U", agent}, f.args, more)...)
	cmd.Env = append(os.Environ(), "GORACE="+race, clockEnv+"="+clocks[n%len(clocks)].String())
	started, err := launch(cmd)
	require.NoError(f.t, err)
	p := &fleetProcess{started, name, agent}
	f.procs = append(f.procs, p)
	return p
}

func (f *fleetTest) kill(p *fleetProcess) {
	require.NoError(f.t, p.cmd.Process.Kill())
	<-p.done
}

// finish waits until all given processes have ended successfully.
func (f *fleetTest) finish(procs ...*fleetProcess) {
	f.t.Helper()
	for _, p := range procs {
		select {
		case <-p.done:
			f.ends(p, cli.CodeDone)
		case <-time.After(3 * redistest.Patience):
			f.t.Logf("the goroutines of each process are in %s", f.dumps())
			f.t.Fatalf("%s does not end, and %s\n%s", p.name, f.unserved(), f.fleet(0, "status", "--json"))
		}
	}
}

// ends waits for the end of a process, and requires that exit code.
func (f *fleetTest) ends(p *fleetProcess, code int) {
	f.t.Helper()
	<-p.done
	require.Equal(f.t, code, p.cmd.ProcessState.ExitCode(), "%s: %s", p.name, &p.err)
}

// fleet returns the output of `crawl fleet` for the job, and requires that exit code.
func (f *fleetTest) fleet(code int, args ...string) string {
	f.t.Helper()
	cmd := exec.Command("crawl", append(append([]string{"fleet"}, args...), "--job", "e2e", "--redis", "redis://"+f.redis.Addr)...)
	out, _ := cmd.CombinedOutput() // the exit code is checked below
	require.Equal(f.t, code, cmd.ProcessState.ExitCode(), string(out))
	return string(out)
}

func (f *fleetTest) served(n int64) {
	f.t.Helper()
	for deadline := time.Now().Add(redistest.Patience); f.site.Report().Total.Distinct < n; time.Sleep(10 * time.Millisecond) {
		require.True(f.t, time.Now().Before(deadline), "%d pages are never served: %d are", n, f.site.Report().Total.Distinct)
	}
}

// unserved returns which hosts have pages that were never requested, as a help to find the cause of a failure.
func (f *fleetTest) unserved() string {
	var b strings.Builder
	for _, h := range f.site.Report().Hosts {
		if h.Distinct < int64(h.URLs) {
			fmt.Fprintf(&b, "%s has served %d of %d pages, with %d refusals; ", h.Name, h.Distinct, h.URLs, h.Refusals)
		}
	}
	return b.String()
}

// dumps ends the processes that still run. It returns the directory where their output is, which ends with their goroutines.
func (f *fleetTest) dumps() (dir string) {
	f.t.Helper()
	dir, err := os.MkdirTemp("", "fleet-stuck-") // which outlives the test
	require.NoError(f.t, err)
	for _, p := range f.procs {
		_ = p.cmd.Process.Signal(syscall.SIGQUIT) // it may have ended
		<-p.done
		require.NoError(f.t, os.WriteFile(filepath.Join(dir, strings.ReplaceAll(p.agent, "/", "-")), []byte(p.err.String()), 0o600))
	}
	return dir
}

// awaitQuiet waits until no host has refused a request for a moment, or gives up. If a host has refused the last request of a
// process that is then killed, nobody knows its Retry-After.
func (f *fleetTest) awaitQuiet() {
	const moment, most = 250 * time.Millisecond, 3 * time.Second
	begun, since, last := time.Now(), time.Now(), int64(-1)
	for time.Since(since) < moment && time.Since(begun) < most {
		if n := f.site.Report().Total.Refusals; n != last {
			since, last = time.Now(), n
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// owner returns the index of some process that owns hosts.
func (f *fleetTest) owner(procs []*fleetProcess) int {
	agent := f.log.anyOwner()
	return max(0, slices.IndexFunc(procs, func(p *fleetProcess) bool { return p.agent == agent }))
}

// freeze stops a process for a while: for the others it is cut off.
func (f *fleetTest) freeze(p *fleetProcess, span time.Duration) {
	_ = p.cmd.Process.Signal(syscall.SIGSTOP)
	time.Sleep(span)
	f.thaws = append(f.thaws, thaw{p.agent, time.Now()})
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
}

// courteous requires that after a handover the new process leaves the host the time it requires, by the arrivals of
// requests. It allows as much less as one process alone comes too close on a busy machine, and 20 ms. A process that
// stood still between its decision and the request cannot know that, so its first requests after that do not count.
func (f *fleetTest) courteous(all []handover) {
	f.t.Helper()
	tolerance := 20*time.Millisecond + max(0, f.log.jitter(f.apart))
	spare := time.Hour
	for _, h := range all {
		if slices.ContainsFunc(f.thaws, func(w thaw) bool { return w.of(h) }) {
			continue
		}
		early := f.apart(h.host) - h.gap
		require.LessOrEqual(f.t, early, tolerance, "host %d was asked by %s %v after %s", h.host, h.to, h.gap, h.from)
		spare = min(spare, -early)
	}
	if len(all) > 0 {
		f.t.Logf("of %d handovers the soonest left %v more than the host is owed; %v less would be let pass", len(all), spare, tolerance)
	}
}

func (f *fleetTest) status() (s redis.Status) {
	f.t.Helper()
	require.NoError(f.t, json.Unmarshal([]byte(f.fleet(0, "status", "--json")), &s))
	return s
}

// require checks what the fleet promises: every URL of the site is in the merged records once, and no host got two
// requests at once, or a request before its Retry-After was over.
func (f *fleetTest) require() {
	f.t.Helper()
	files, err := merge.Files([]string{f.dir})
	require.NoError(f.t, err)
	m, err := merge.Prepare(f.t.Context(), files, merge.Config{})
	require.NoError(f.t, err)
	var out bytes.Buffer
	require.NoError(f.t, m.Write(f.t.Context(), &out))
	seen, ids := make(map[string]bool), make(map[string]bool)
	for line := range strings.Lines(out.String()) {
		var r struct {
			URL, ID string
			Status  int
		}
		require.NoError(f.t, json.Unmarshal([]byte(line), &r))
		require.Equal(f.t, 200, r.Status, r.URL)
		require.False(f.t, seen[r.URL], "%s is there twice", r.URL)
		require.Len(f.t, r.ID, 32)
		require.False(f.t, ids[r.ID])
		seen[r.URL], ids[r.ID] = true, true
	}
	report := f.site.Report()
	require.Len(f.t, seen, report.Total.URLs, "every URL is there")
	require.Zero(f.t, report.Total.InsideRetryAfter, "requests while a host had ordered to wait")
	for _, h := range report.Hosts {
		require.LessOrEqual(f.t, h.MaxOpen, 1, "%s was asked for two things at once", h.Name)
	}
	s := f.status()
	require.True(f.t, s.Complete)
	require.Zero(f.t, s.Queued)
	all := f.log.handovers()
	f.courteous(all)
	var gaps []time.Duration
	for _, h := range all {
		gaps = append(gaps, h.gap)
	}
	f.t.Logf("%d records for %d URLs, %d pages served again, %d refusals; Redis holds %d bytes; hosts changed hands with gaps of %s",
		m.Report().Read, len(seen), report.Total.Duplicates, report.Total.Refusals, s.MemoryBytes, spread(gaps))
}
