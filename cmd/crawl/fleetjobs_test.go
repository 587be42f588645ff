//go:build unix

package main

import (
	"bytes"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/lab/redistest"
	"github.com/treadlight/crawl/internal/lab/testsite"
)

// A crawl over TLS, with a password from a file, prints the password nowhere.
func TestFleetSecrets(t *testing.T) {
	t.Parallel()
	site, secure, dir := serveSite(t, manyPages(1)), redistest.NewTLS(t), t.TempDir()
	const secret = "hunter2-p@ss/w#1"
	redistest.Redis.Start(t, append(secure.Args, "--requirepass", secret)...)
	file, config := filepath.Join(dir, "secret"), filepath.Join(dir, "crawl.yaml")
	require.NoError(t, os.WriteFile(file, []byte(secret+"\n"), 0o600))
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil,
		"fleet:\n  redis: rediss://%s\n  job: j\n  worker: w\n  ca_file: %s\n  password_file: %s\n", secure.Addr, secure.CAFile, file), 0o600))
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("crawl", args...)
		cmd.Env = append(os.Environ(), "GORACE="+race, "CRAWL_FLEET_REDIS=rediss://:${SECRET}@"+secure.Addr, "CRAWL_FLEET_JOB=j", "CRAWL_FLEET_CA_FILE="+secure.CAFile, "SECRET="+secret)
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, &said
		_ = cmd.Run() // the output is checked
		return said.String()
	}
	said := run("--config", config, "--warc", dir+"/warc", "-o", dir+"/", "--set", "output.events="+dir+"/events", "--stats", dir+"/stats", "-v",
		"--contact", "a@b.test", "--rate", "50", "--max-rate", "50", "-d", "0", site.URLs()[0])
	require.Contains(t, said, "done: 1 page")
	status := run("fleet", "status") // with a variable, which the configuration file does not know
	require.Contains(t, status, "j: complete")
	said += status + run("config", "--config", config)
	said += run("fleet", "status", "--redis-passfile", config) // with a wrong password
	require.Contains(t, said, "is not one line with a password")
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && path != file {
			var text []byte
			text, err = os.ReadFile(path)
			said += string(text)
		}
		return err
	}))
	for _, form := range []string{secret, "hunter2", "p%40ss"} {
		require.NotContains(t, said, form)
	}
}

// If the server does not allow a user to count rates, the processes say so at once, since no request could ever be
// sent.
func TestFleetMayNotCountRates(t *testing.T) {
	t.Parallel()
	srv := redistest.Redis.Start(t)
	srv.Do(t, "ACL", "SETUSER", "norates", "on", ">hunter2", "~crawl:*", "+@all")
	cmd := exec.Command("crawl", "--redis", "redis://norates:hunter2@"+srv.Addr, "--job", "j", "--global-rate", "5", "--contact", "a@b.test", "http://127.0.0.1:1/")
	said, err := cmd.CombinedOutput()
	require.ErrorContains(t, err, "exit status 3", "%s", said)
	require.Contains(t, string(said), "ACL SETUSER it ~crawl:* ~rate_limiter:* ")
	require.NotContains(t, string(said), "hunter2")
}

// The master is killed while two processes crawl. The Sentinels name another one, and the crawl goes on.
func TestFleetFailover(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 6)
	host, port, err := net.SplitHostPort(f.redis.Addr)
	require.NoError(t, err)
	f.redis.Do(t, "CONFIG", "SET", "repl-diskless-sync-delay", "0")
	replica := redistest.Redis.Start(t, "--replicaof", host+" "+port)
	redistest.Eventually(t, replica, []string{"INFO", "replication"}, "master_link_status:up")
	conf := filepath.Join(t.TempDir(), "sentinel.conf")
	require.NoError(t, os.WriteFile(conf, fmt.Appendf(nil,
		"sentinel monitor crawl %s %s 1\nsentinel down-after-milliseconds crawl 500\nsentinel failover-timeout crawl 2000\n", host, port), 0o600))
	sentinel := redistest.Redis.Start(t, conf, "--sentinel")
	redistest.Eventually(t, sentinel, []string{"INFO", "sentinel"}, "slaves=1")
	f.args[1] = "redis://" + sentinel.Addr + "?master_set=crawl"
	require.True(t, strings.HasPrefix(f.args[0], "--redis"))
	procs := []*fleetProcess{f.start(""), f.start("")}
	f.served(int64(f.site.Report().Total.URLs) / 3)
	f.redis.Stop()
	f.finish(procs...)
	f.redis.Addr = replica.Addr // for the queries of the test
	f.require()
}

// serveAt serves a host at an address of its own.
func serveAt(t *testing.T, ip string, h http.HandlerFunc) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", ip+":0")
	require.NoError(t, err)
	s := httptest.NewUnstartedServer(h)
	require.NoError(t, s.Listener.Close())
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	return s.URL
}

// One process has only a host that refuses. Another one works for some seconds, and finds a third host in the end.
// Neither ends before everything that may be requested was, and then both end for the same reason.
func TestFleetIsBlockedAsAWhole(t *testing.T) {
	t.Parallel()
	const chain, late = 25, 5
	var asked, pages atomic.Int64
	var served sync.Map // the pages: on a busy machine a lease may end, and a page is requested again
	visit := func(host string, page int) {
		if _, again := served.LoadOrStore(fmt.Sprint(host, page), true); !again {
			pages.Add(1)
		}
	}
	serve := func(ip string, h func(w http.ResponseWriter, page int)) string {
		return serveAt(t, ip, func(w http.ResponseWriter, r *http.Request) {
			page, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
			if err != nil {
				http.NotFound(w, r) // robots.txt
				return
			}
			w.Header().Set("Content-Type", "text/html")
			h(w, page)
		})
	}
	shut := serve("127.0.71.1", func(w http.ResponseWriter, _ int) {
		asked.Add(1)
		w.Header().Set("Retry-After", "600")
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	last := serve("127.0.71.2", func(w http.ResponseWriter, page int) {
		visit("last ", page)
		if page < late-1 {
			_, _ = fmt.Fprintf(w, `<a href="/%d">x</a>`, page+1)
		}
	})
	slow := serve("127.0.71.3", func(w http.ResponseWriter, page int) {
		visit("slow ", page)
		time.Sleep(100 * time.Millisecond)
		next := fmt.Sprintf("/%d", page+1)
		if page == chain-1 {
			next = last + "/0"
		}
		_, _ = fmt.Fprintf(w, `<a href="%s">x</a>`, next)
	})

	f := newJob(t, redistest.Redis.Start(t), "--set", "fleet.lease=3s", "--scope", "any", "-d", "100", "--allow-private",
		"--rate", "50", "--max-rate", "50", "--no-sitemaps", "--set", "max_blocked=1s", "--set", "log.level=info", "--progress", "none")
	first := f.start("w1", shut+"/0")
	require.Eventually(t, func() bool { return asked.Load() > 0 }, redistest.Patience, 5*time.Millisecond)
	reasons := make(map[string]bool)
	for _, p := range []*fleetProcess{first, f.start("w2", slow+"/0")} {
		f.ends(p, cli.CodeBlocked)
		require.EqualValues(t, chain+late, pages.Load(), "%s ended before the others had nothing to do", &p.err)
		reason := regexp.MustCompile(`only blocked hosts remain: the first may be asked again at .*`).FindString(p.err.String())
		require.NotEmpty(t, reason, &p.err)
		reasons[reason] = true
	}
	require.Len(t, reasons, 1)
	require.EqualValues(t, 1, asked.Load(), "nor is who refuses asked by another")
}

// A job that has ended by its limit says so and what to do. After that it goes on: its processes start as before, and
// request nothing twice.
func TestFleetSet(t *testing.T) {
	t.Parallel()
	f := newJob(t, redistest.Redis.Start(t), "--rate", "200", "--max-rate", "200", "--no-sitemaps", "--no-robots", "--max-pages", "30", "--set", "fleet.lease=1s")
	f.serve(testsite.Uniform(2, 40, 0))
	both := func(pages int) {
		for _, p := range []*fleetProcess{f.start("w1"), f.start("w2")} {
			f.ends(p, cli.CodeDone)
		}
		require.EqualValues(t, pages, f.site.Report().Total.Requests)
	}
	both(30)
	said := f.fleet(0, "status")
	require.Contains(t, said, "e2e: ended: max_pages, begun ")
	require.Contains(t, said, "to go on: crawl fleet set --job e2e --max-pages N, and begin its processes again")
	require.Equal(t, "e2e: max_pages is 50, was 30\nto go on: begin its processes again, by the same commands\n", f.fleet(0, "set", "--max-pages", "50"))
	both(50)
	f.fleet(0, "set", "--max-pages", "0", "--max-time", "1h")
	both(80)
	require.Zero(t, f.site.Report().Total.Duplicates)
	said = f.fleet(0, "status")
	require.Contains(t, said, "e2e: complete, begun ")
	require.NotContains(t, said, "max_pages")
}

// A process learns while it crawls that the limit on time or pages of its job has changed.
func TestFleetSetWhileItCrawls(t *testing.T) {
	t.Parallel()
	for bound, end := range map[string]struct {
		value string
		code  int
	}{"max_pages": {"5", cli.CodeDone}, "max_time": {"2s", cli.CodeLimit}} {
		f := newJob(t, redistest.Redis.Start(t), "--rate", "10", "--max-rate", "10", "--no-sitemaps", "--no-robots", "--set", "fleet.lease=1s")
		f.serve(testsite.Uniform(2, 200, 0))
		p := f.start("w1")
		f.served(3)
		f.fleet(0, "set", "--"+strings.ReplaceAll(bound, "_", "-"), end.value)
		f.ends(p, end.code)
		require.Contains(t, f.fleet(0, "status"), "e2e: ended: "+bound+", begun ")
	}
}

// A process without URLs may start before the one that has them: it waits, and says so.
func TestJoinBeforeTheSeeds(t *testing.T) {
	t.Parallel()
	f := newJob(t, redistest.Redis.Start(t), "--set", "fleet.lease=1s", "--rate", "50", "--max-rate", "50", "--set", "log.level=info", "--progress", "none")
	args := f.args
	f.serve(testsite.Uniform(2, 5, 0))
	withSeeds := f.args
	begin := func(name string, args []string, says string) *fleetProcess {
		t.Helper()
		f.args = args
		p := f.start(name)
		require.Eventually(t, func() bool { return strings.Contains(p.err.String(), says) }, redistest.Patience, 5*time.Millisecond, says)
		return p
	}
	joiner := begin("joiner", args, "the job does not exist yet: waiting until a process brings it URLs")
	impatient := begin("impatient", args, "waiting until")
	require.NoError(t, impatient.cmd.Process.Signal(syscall.SIGTERM))
	f.ends(impatient, cli.CodeInterrupted)
	seeder := begin("seeder", withSeeds, "")
	f.ends(joiner, cli.CodeDone)
	f.ends(seeder, cli.CodeDone)
	require.EqualValues(t, f.site.Report().Total.URLs, f.site.Report().Total.Distinct)
	f.ends(begin("late", args, "the job is complete: there is nothing left to do"), cli.CodeDone)
	f.ends(begin("again", withSeeds, "the job is complete: only URLs that are new to it"), cli.CodeDone)
	left, err := filepath.Glob(filepath.Join(f.dir, "records-*"))
	require.NoError(t, err)
	require.NotContains(t, strings.Join(left, " "), "late", "who has nothing to do makes no files")
}

// One process has a host whose robots.txt cannot be fetched; another has a host that answers, or one that does not. All
// processes agree on whether nothing could be requested.
func TestFleetIsUnruledAsAWhole(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		robots int // status of the other host's robots.txt
		code   int
	}{
		"neither": {http.StatusServiceUnavailable, cli.CodeBlocked},
		"one":     {http.StatusNotFound, 0},
	} {
		t.Run(name, func(t *testing.T) {
			asked, came := make(chan struct{}), make(chan struct{})
			var once, first sync.Once
			serve := func(ip string, status int, before func()) string {
				return serveAt(t, ip, func(w http.ResponseWriter, r *http.Request) {
					before()
					if r.URL.Path == "/robots.txt" {
						w.WriteHeader(status)
					}
				})
			}
			shut := serve("127.0.72.1", http.StatusServiceUnavailable, func() { once.Do(func() { close(asked) }) })
			other := serve("127.0.72.2", c.robots, func() {
				first.Do(func() { close(came) })
				select { // the job is not done before both were requested
				case <-asked:
				case <-t.Context().Done():
				}
			})
			f := newJob(t, redistest.Redis.Start(t), "--set", "fleet.lease=2s", "--allow-private", "--no-sitemaps", "--retries", "0", "--scope", "any", "-d", "0")
			begun := f.start("", other+"/")
			<-came
			for _, p := range []*fleetProcess{begun, f.start("", shut+"/")} {
				if f.ends(p, c.code); c.code != 0 {
					require.Contains(t, p.err.String(), "robots.txt cannot be had: status 503")
				}
			}
			out := f.fleet(0, "status")
			if c.code != 0 {
				require.Contains(t, out, "complete, begun ")
				require.Contains(t, out, "nothing could be asked for: http://127.0.72.")
			} else {
				require.NotContains(t, out, "nothing could be asked for")
			}
		})
	}
}

var fleetPages = flag.Int("fleet.pages", 0, "pages of TestFleetBudgets, which then asks that nine tenths of the plan are used; 0 = 90 pages, and no speed is asked for")

type arrivals struct {
	at []time.Duration
	n  []int64
}

// most returns by how many the arrivals in any period exceed what rate allows in it, at most.
func (a *arrivals) most(rate float64) (worst float64) {
	low := 0.0
	for i := range a.at {
		level := float64(a.n[i]) - rate*a.at[i].Seconds()
		low = min(low, level)
		worst = max(worst, level-low)
	}
	return worst
}

// The limits of a crawl hold for all its processes together, by the count of the server: the rate over all hosts, the
// requests in flight and the pages. One of the processes is killed and starts again.
func TestFleetBudgets(t *testing.T) {
	t.Parallel()
	plan, hosts := 90, 4
	if *fleetPages > 0 {
		plan, hosts = *fleetPages, *fleetPages/20
	}
	const rate, flight = 30, 3
	f := newFleet(t, hosts)
	f.args = append([]string{
		"--global-rate", strconv.Itoa(rate), "--set", "ratelimit.global_concurrency=" + strconv.Itoa(flight), "--max-pages", strconv.Itoa(plan),
	}, f.args...)
	var seen arrivals
	begun := time.Now()
	look := func() int64 {
		n := f.site.Report().Total.Requests
		seen.at, seen.n = append(seen.at, time.Since(begun)), append(seen.n, n)
		return n
	}
	until := func(n int) {
		for deadline := time.Now().Add(redistest.Patience); look() < int64(n); time.Sleep(10 * time.Millisecond) {
			require.True(t, time.Now().Before(deadline), "%d requests never come", n)
		}
	}
	a, b := f.start(""), f.start("")
	until(plan / 4)
	f.kill(a)
	until(plan / 2)
	a = f.start(a.name)
	status := f.fleet(0, "status")
	for _, want := range []string{" of " + strconv.Itoa(plan) + "\n", " a second of 30\n", "ratelimit.global_concurrency: "} {
		require.Contains(t, status, want)
	}
	said, err := exec.Command("crawl", append([]string{"--set", "fleet.worker=other", "--global-rate", "31"}, f.args[2:]...)...).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(said), "ratelimit.global_rps: 30 there, 31 here")
	for _, p := range []*fleetProcess{a, b} {
		for deadline := time.Now().Add(3 * redistest.Patience); !p.ended(); time.Sleep(10 * time.Millisecond) {
			require.True(t, time.Now().Before(deadline), "%s does not end", p.name)
			look()
		}
		f.ends(p, cli.CodeDone)
	}

	report := f.site.Report().Total
	pages := report.Distinct + report.Duplicates
	lost := 2*(plan/64+1) + flight
	t.Logf("%d requests in %v, at most %.1f more in any span than %d/s; %d of %d pages, %d of them twice",
		report.Requests, (seen.at[len(seen.at)-1] - seen.at[slices.IndexFunc(seen.n, func(n int64) bool { return n > 0 })]).Round(time.Millisecond),
		seen.most(rate), rate, pages, plan, report.Duplicates)
	require.LessOrEqual(t, pages, int64(plan))
	require.GreaterOrEqual(t, pages, int64(plan-lost), "what a process that is killed takes with it")
	// Tokens for a quarter of a second at once, and those up to half a second old; also requests that were on their way
	// for up to a second on a busy machine.
	require.LessOrEqual(t, seen.most(rate), float64(rate)*(0.75+1)+1)
	st := f.status()
	require.EqualValues(t, plan, st.Budgets[0].Used)
	if *fleetPages > 0 {
		first, last := seen.at[slices.IndexFunc(seen.n, func(n int64) bool { return n > 0 })], seen.at[slices.Index(seen.n, report.Requests)]
		require.GreaterOrEqual(t, float64(report.Requests), 0.9*rate*(last-first).Seconds())
	}
}

// Two processes with archives are restarted in turn, as for a new version, and one of them is killed once. Each goes on
// in its own files, and the result is right.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 8)
	archives := filepath.Join(f.dir, "archives")
	f.args = append([]string{"--warc", archives}, f.args...)
	pages := int64(f.site.Report().Total.URLs)
	procs := []*fleetProcess{f.start("w1"), f.start("w2")}
	indexes := func() []string {
		found, err := filepath.Glob(filepath.Join(archives, "w[12]", "*.cdxj"))
		require.NoError(t, err)
		return found
	}
	var complete []string
	for _, share := range []float64{0.2, 0.4} {
		f.served(int64(share * float64(pages)))
		i := f.owner(procs) // one without hosts has no archives
		require.NoError(t, procs[i].cmd.Process.Signal(syscall.SIGTERM))
		<-procs[i].done
		require.Equal(t, cli.CodeInterrupted, procs[i].cmd.ProcessState.ExitCode(), &procs[i].err)
		complete = append(complete, indexes()...)
		require.NotEmpty(t, complete)
		procs[i] = f.start(procs[i].name)
	}
	f.served(int64(0.6 * float64(pages)))
	f.kill(procs[0])
	procs[0] = f.start("w1")

	// No other process may write under that name.
	second, err := exec.Command("crawl", append([]string{"--set", "fleet.worker=w2"}, f.args...)...).CombinedOutput()
	if f.site.Report().Total.Distinct < pages { // else it has ended meanwhile
		require.ErrorContains(t, err, "exit status 3", string(second))
		require.Contains(t, string(second), "another process called w2 is writing")
	}
	f.finish(procs...)
	f.require()

	open, err := filepath.Glob(filepath.Join(archives, "*", "*.open"))
	require.NoError(t, err)
	require.Empty(t, open, "all archives are complete")
	require.Subset(t, indexes(), complete, "those that were complete stay")
	captured := make(map[string]bool)
	for _, path := range indexes() {
		text := readFile(t, path)
		for line := range strings.Lines(string(text)) {
			key, _, _ := strings.Cut(line, " ")
			captured[key] = true
		}
	}
	require.GreaterOrEqual(t, len(captured), f.site.Report().Total.URLs, "every page is archived")
}

// One of three masters is killed under load, and a process with it. A replica replaces the master, the crawl goes on by
// itself, and after the merge every URL is there once. With -fleet.hosts 200 the site has 125,100 pages.
func TestFleetMasterDies(t *testing.T) {
	t.Parallel()
	masters, replica := redistest.Redis.Cluster(t, fsync...)
	f := newFleet(t, *fleetHosts, masters[1], masters[2], masters[0])
	procs := []*fleetProcess{f.start(""), f.start(""), f.start("")}
	pages := int64(f.site.Report().Total.URLs)
	f.served(pages / 4)
	died := time.Now()
	masters[0].Stop()
	i := f.owner(procs) // a process without hosts has no archives
	dead := procs[i]
	f.kill(dead)
	procs[i] = f.start(dead.name)
	redistest.Eventually(t, replica, []string{"INFO", "replication"}, "role:master")
	took := time.Since(died)
	require.Greater(t, f.site.Report().Total.URLs, int(f.site.Report().Total.Distinct), "there is something left to do")
	f.finish(procs...)
	f.require()
	t.Logf("the replica was master %v after the death of its own; hosts of the process that died with it were asked again after %s; all was done %v after",
		took.Round(time.Millisecond), spread(f.log.recoveries(dead.agent, died)), time.Since(died).Round(time.Millisecond))
}
