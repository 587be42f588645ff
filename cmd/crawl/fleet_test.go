package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch/testsite"
	"github.com/treadlight/crawl/internal/pipeline/frontier/redis"
	"github.com/treadlight/crawl/internal/pipeline/merge"
	"github.com/treadlight/crawl/internal/ratelimit/redistest"
)

var fleetHosts = flag.Int("fleet.hosts", 12, "hosts of the site that TestFleet crawls; with 200 it takes minutes, and troubles come again and again")

// fleetTest is a site, a Redis, and the processes that crawl the one by the other.
type fleetTest struct {
	t     *testing.T
	site  *testsite.Site
	redis *redistest.Server
	dir   string
	args  []string
	names atomic.Int32
	procs []*fleetProcess
}

type fleetProcess struct {
	cmd  *exec.Cmd
	name string
	err  bytes.Buffer
	done chan error
}

// newFleet has hosts that refuse what comes too fast. No host is to be
// asked for two things at once.
func newFleet(t *testing.T, hosts int) *fleetTest {
	t.Helper()
	pages := 40
	if hosts > 50 {
		pages = 600 // or all is done while one process is cut off
	}
	cfg := testsite.Uniform(hosts, pages, 2*time.Millisecond)
	for i := range cfg.Hosts {
		cfg.Hosts[i].Limit = testsite.Limit{Rate: 12, Burst: 4}
		cfg.Hosts[i].Refusal.RetryAfter = "seconds"
	}
	f := &fleetTest{t: t, dir: t.TempDir()}
	var err error
	f.site, err = testsite.New(cfg)
	require.NoError(t, err)
	require.NoError(t, f.site.Listen())
	serving, stop := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- f.site.Run(serving) }()
	t.Cleanup(func() { stop(); require.NoError(t, <-over) })
	f.redis = redistest.Redis.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	f.args = append([]string{
		"--redis", "redis://" + f.redis.Addr, "--job", "e2e", "--lease", "1s", "-o", f.dir + "/", "-q",
		"--contact", "a@b.test", "--rate", "10", "--max-rate", "20", "--per-host-max", "1", "--no-sitemaps", "--retries", "10",
	}, f.site.URLs()...)
	t.Cleanup(func() {
		for _, p := range f.procs {
			_ = p.cmd.Process.Kill() // of one that has ended, nothing
			<-p.done
		}
	})
	return f
}

// start starts one more process, under a name of its own or that of one that is no more.
func (f *fleetTest) start(name string) *fleetProcess {
	f.t.Helper()
	if name == "" {
		name = fmt.Sprintf("w%d", f.names.Add(1))
	}
	p := &fleetProcess{cmd: exec.Command("crawl", append([]string{"--worker", name}, f.args...)...), name: name, done: make(chan error, 1)}
	p.cmd.Stderr = &p.err
	p.cmd.Env = append(os.Environ(), "GORACE="+race)
	require.NoError(f.t, p.cmd.Start())
	go func() { p.done <- p.cmd.Wait(); close(p.done) }()
	f.procs = append(f.procs, p)
	return p
}

// kill ends a process as a failure of power does.
func (f *fleetTest) kill(p *fleetProcess) {
	require.NoError(f.t, p.cmd.Process.Kill())
	<-p.done // what ended it
}

// finish waits until all of some processes have ended well.
func (f *fleetTest) finish(procs ...*fleetProcess) {
	f.t.Helper()
	for _, p := range procs {
		select {
		case err := <-p.done:
			require.NoError(f.t, err, "%s: %s", p.name, &p.err)
		case <-time.After(3 * redistest.Patience):
			_ = p.cmd.Process.Signal(syscall.SIGQUIT)
			<-p.done
			f.t.Fatalf("%s does not end:\n%s", p.name, &p.err)
		}
	}
}

// served waits until the site has served so many pages.
func (f *fleetTest) served(n int64) {
	f.t.Helper()
	for deadline := time.Now().Add(redistest.Patience); f.site.Report().Total.Distinct < n; time.Sleep(10 * time.Millisecond) {
		require.True(f.t, time.Now().Before(deadline), "%d pages are never served", n)
	}
}

// status is what operators are told.
func (f *fleetTest) status() (s redis.Status) {
	f.t.Helper()
	out, err := exec.Command("crawl", "fleet", "status", "--job", "e2e", "--redis", "redis://"+f.redis.Addr, "--json").Output()
	require.NoError(f.t, err)
	require.NoError(f.t, json.Unmarshal(out, &s))
	return s
}

// require holds the whole against what was promised: every URL of the site is there once in
// the merged records, and no host was asked for two things at once, nor while it had ordered
// to wait.
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
	f.t.Logf("%d records for %d URLs, %d pages served again; Redis holds %d bytes", m.Report().Read, len(seen), report.Total.Duplicates, s.MemoryBytes)
}

// TestFleet has troubles of all kinds come upon three processes, and nothing be lost.
func TestFleet(t *testing.T) {
	f := newFleet(t, *fleetHosts)
	pages := int64(f.site.Report().Total.URLs)
	procs := []*fleetProcess{f.start(""), f.start(""), f.start("")}
	rounds := int64(1)
	if *fleetHosts > 50 {
		rounds = 4
	}
	for round := range rounds {
		at := func(share float64) { f.served(int64((float64(round) + share) / float64(rounds) * float64(pages))) }
		at(0.1)
		f.redis.Do(t, "SCRIPT", "FLUSH")

		at(0.2) // one dies, and comes back under its name
		i := rand.IntN(len(procs))
		died := time.Now()
		f.kill(procs[i])
		before := f.status().Reclaimed
		procs[i] = f.start(procs[i].name)
		at(0.4) // one is cut off for longer than its lease
		i = rand.IntN(len(procs))
		_ = procs[i].cmd.Process.Signal(syscall.SIGSTOP)
		cut := 1500 * time.Millisecond
		if rounds > 1 {
			cut = 10 * time.Second
		}
		time.Sleep(cut)
		_ = procs[i].cmd.Process.Signal(syscall.SIGCONT)
		t.Logf("hosts taken back %v after a death: %d", time.Since(died).Round(100*time.Millisecond), f.status().Reclaimed-before)

		at(0.6) // Redis is away for a moment
		f.redis.Stop()
		time.Sleep(200 * time.Millisecond)
		f.redis.Restart(t)

		at(0.8) // one is restarted in order
		i = rand.IntN(len(procs))
		_ = procs[i].cmd.Process.Signal(syscall.SIGTERM) // of one that has ended, nothing: all may be done
		<-procs[i].done
		code := procs[i].cmd.ProcessState.ExitCode()
		require.Contains(t, []int{exitInterrupted, exitDone}, code, &procs[i].err)
		procs[i] = f.start(procs[i].name)
	}
	f.finish(procs...)
	f.require()
	left, err := filepath.Glob(filepath.Join(f.dir, "records-w*.jsonl"))
	require.NoError(t, err)
	require.Len(t, left, 3, "each process has its file, and goes on in it")
}
