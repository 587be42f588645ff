//go:build unix

package main

import (
	"bytes"
	"flag"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/frontier/redis"
	"github.com/treadlight/crawl/internal/lab/redistest"
	"github.com/treadlight/crawl/internal/lab/testsite"
)

type arrival struct {
	at   time.Time
	from string // the process, by its User-Agent
	path string
}

func (a arrival) robots() bool { return a.path == "/robots.txt" }

// requestLog has all requests of a crawl, in the order in which each host received them.
type requestLog struct {
	mu    sync.Mutex
	hosts map[int][]arrival
}

func (a *requestLog) note(host int, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.hosts == nil {
		a.hosts = make(map[int][]arrival)
	}
	a.hosts[host] = append(a.hosts[host], arrival{time.Now(), r.UserAgent(), r.URL.Path})
}

// anyOwner returns the process that sent the last request to some host that received one a moment ago.
func (a *requestLog) anyOwner() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, list := range a.hosts { // in any order
		if last := list[len(list)-1]; time.Since(last.at) < fleetLease() {
			return last.from
		}
	}
	return ""
}

// handover is a request to a host by another process than the request before.
type handover struct {
	host     int
	from, to string
	at       time.Time     // arrival of the first request of the new process
	gap      time.Duration // time since the last request of the old process
}

func (a *requestLog) handovers() (all []handover) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for host, list := range a.hosts {
		for i := 1; i < len(list); i++ {
			last, first := list[i-1], list[i]
			if last.from != first.from {
				all = append(all, handover{host: host, from: last.from, to: first.from, at: first.at, gap: first.at.Sub(last.at)})
			}
		}
	}
	return all
}

// jitter returns by how much the requests of one process to a host came closer together than they may, at most: time
// that is lost on the way, and won back by the next request.
func (a *requestLog) jitter(apart func(host int) time.Duration) (most time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for host, list := range a.hosts {
		for i := 1; i < len(list); i++ {
			last, next := list[i-1], list[i]
			if last.from == next.from && !last.robots() && !next.robots() {
				most = max(most, apart(host)-next.at.Sub(last.at))
			}
		}
	}
	return most
}

// recoveries returns, for each host of a dead process, how long after the death another process sent it a request.
func (a *requestLog) recoveries(dead string, died time.Time) (spans []time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, list := range a.hosts { // in no particular order
		i := slices.IndexFunc(list, func(r arrival) bool { return r.at.After(died) && r.from != dead })
		if i > 0 && list[i-1].from == dead {
			spans = append(spans, list[i].at.Sub(died))
		}
	}
	slices.Sort(spans)
	return spans
}

func spread(spans []time.Duration) string {
	if len(spans) == 0 {
		return "none"
	}
	slices.Sort(spans)
	var b strings.Builder
	for _, q := range []float64{0, 0.5, 0.9, 1} {
		fmt.Fprintf(&b, "%.0f%% %v  ", 100*q, spans[int(q*float64(len(spans)-1))].Round(time.Millisecond))
	}
	return fmt.Sprintf("%sof %d", b.String(), len(spans))
}

// The status for operators is true for each kind of job, and says what to do next.
func TestWriteFleet(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	status := func(change func(*redis.Status)) string {
		s := redis.Status{
			Job: "news", Control: redis.Running, Created: now.Add(-2 * time.Hour), Now: now, MemoryBytes: 2 << 20,
			Counted: redis.Counted{Known: 1200, Done: 1000, Queued: 200, Owned: 20, Waiting: 3, Reclaimed: 4},
		}
		change(&s)
		var b bytes.Buffer
		require.NoError(t, writeStatus(&b, &s, 100))
		return b.String()
	}
	require.Equal(t, `news: running, begun 2h00m ago
  URLs: 1,200 known, 1,000 done, 200 queued
  hosts: 20 with a process, 3 without: 0 due, 3 not due yet; 4 taken back from processes that had died
  memory: 2.0 MiB
  max_pages: 1,000 of 5000
  ratelimit.ip_rps: 4.2 a second of 5 at 192.0.2.1, the busiest
  ratelimit.site_rps: nothing of 9 a second each

process  state     hosts   done  found  lease
w1       crawling     20  1,000  1,200  for 14s
w2       no host       0      0      0  for 9s
w3       lost          7     12      0  ended
`, status(func(s *redis.Status) {
		s.Budgets = []redis.Budget{
			{Name: "max_pages", Plan: "5000", Used: 1000},
			{Name: "ratelimit.ip_rps", Plan: "5", Used: 4.2, Scope: "192.0.2.1"},
			{Name: "ratelimit.site_rps", Plan: "9"},
		}
		s.Workers = []redis.Worker{
			{WorkerInfo: redis.WorkerInfo{Name: "w1", Hosts: 20, Done: 1000, Added: 1200}, Alive: true, Until: now.Add(14 * time.Second), Doing: redis.Crawling},
			{WorkerInfo: redis.WorkerInfo{Name: "w2"}, Alive: true, Until: now.Add(9 * time.Second), Doing: redis.Idle},
			{WorkerInfo: redis.WorkerInfo{Name: "w3", Hosts: 7, Done: 12}, Until: now.Add(-time.Minute), Doing: redis.Lost},
		}
	}))
	for _, c := range []struct {
		ended    redis.Ended
		is, then string
	}{
		{redis.EndedComplete, "complete", ""},
		{redis.EndedPages, "ended: max_pages", "to go on: crawl fleet set --job news --max-pages N, and begin its processes again"},
		{redis.EndedTime, "ended: max_time", "to go on: crawl fleet set --job news --max-time TIME, and begin its processes again"},
		{redis.EndedDrained, "drained", "to go on: crawl fleet resume --job news, and begin its processes again"},
		{redis.EndedBlocked, "ended: only blocked hosts remain", "a.test refuses; to try them once more begin its processes again"},
		{redis.EndedAlone, "running, but no process is at it", "to go on: begin its processes again, by the same commands"},
	} {
		lines := strings.Split(status(func(s *redis.Status) { s.Ended, s.Blocked = c.ended, "a.test refuses" }), "\n")
		require.Equal(t, "news: "+c.is+", begun 2h00m ago", lines[0])
		if c.then != "" {
			require.Equal(t, "  "+c.then, lines[1])
		} else {
			require.Contains(t, lines[1], "  URLs:")
		}
	}
	lines := strings.Split(status(func(s *redis.Status) {
		s.Unread, s.Partitions, s.Away = 21, 64, []string{"192.0.2.7:6379"}
	}), "\n")
	require.Equal(t, "  the master 192.0.2.7:6379 of the cluster is away: 21 of 64 partitions are not in these figures", lines[1])
	lines = strings.Split(status(func(s *redis.Status) { s.Ended, s.Unvisited = redis.EndedComplete, "http://a.test: why" }), "\n")
	require.Equal(t, "  nothing could be asked for: http://a.test: why", lines[1])
	require.Contains(t, status(func(s *redis.Status) { s.Budgets = []redis.Budget{{Name: "max_pages", Plan: "100", Used: 100}} }), "news: ending: max_pages, ")
}

// TestFleetGrowth measures what further processes gain if neither processors nor hosts are the limit. A page takes 200
// ms and a process has 16 slots, so one process fetches 80 pages/s on any computer; 200 hosts tolerate 1,000. The
// crawls of one process, two and four take turns.
func TestFleetGrowth(t *testing.T) {
	if !long() {
		t.Skip("of the long form alone: give -fleet.hosts 200")
	}
	for range 2 {
		alone := 0.0
		for _, n := range []int{1, 2, 4} {
			took := measureGrowth(t, n).Seconds()
			if n == 1 {
				alone = took
			}
			t.Logf("%d processes: %.2f times one", n, alone/took)
		}
	}
}

func measureGrowth(t *testing.T, n int) time.Duration {
	const pages, slots = 16, 16
	server := redistest.Redis.Start(t)
	f := newJob(t, server, "--rate", "5", "--max-rate", "5", "-c", strconv.Itoa(slots), "--no-sitemaps", "--no-robots")
	f.apart = func(int) time.Duration { return time.Second / 5 }
	f.serve(testsite.Uniform(*fleetHosts, pages, 200*time.Millisecond))
	before := calls(t, server)
	begun := time.Now()
	var procs []*fleetProcess
	for range n {
		procs = append(procs, f.start(""))
	}
	f.finish(procs...)
	took := time.Since(begun)
	total := int64(*fleetHosts * pages)
	require.Equal(t, total, f.site.Report().Total.Distinct)
	require.Zero(t, f.site.Report().Total.Duplicates)
	f.courteous(f.log.handovers())
	scripts, all := calls(t, server).minus(before)
	t.Logf("%d processes: %.1fs for %d pages; %.2f scripts and %.2f commands in all a page",
		n, took.Seconds(), total, scripts/float64(total), all/float64(total))
	return took
}

type commandCalls map[string]float64

func calls(t *testing.T, s *redistest.Server) commandCalls {
	t.Helper()
	text, err := s.Do(t, "INFO", "commandstats").ToString()
	require.NoError(t, err)
	all := commandCalls{}
	for line := range strings.Lines(text) {
		if name, rest, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls="); ok {
			n, _, _ := strings.Cut(rest, ",")
			all[name], err = strconv.ParseFloat(n, 64)
			require.NoError(t, err)
		}
	}
	return all
}

// minus returns the scripts and all commands since before; all includes commands within scripts.
func (c commandCalls) minus(before commandCalls) (scripts, all float64) {
	for name, n := range c {
		all += n - before[name]
	}
	return c["evalsha"] + c["eval"] - before["evalsha"] - before["eval"], all
}

var fleetLeaseFlag = flag.Duration("fleet.lease", 0, "lease of TestFleetRecovery, 15s by default elsewhere; 0 = the test is skipped")

// TestFleetRecovery measures how soon other processes send requests to the hosts of a process that was killed, with the
// default lease: three times, each with another process.
func TestFleetRecovery(t *testing.T) {
	lease := *fleetLeaseFlag
	if lease == 0 {
		t.Skip("give -fleet.lease 15s: it takes a minute and a half")
	}
	f := newFleet(t, *fleetHosts)
	f.args = append(f.args, "--set", "fleet.lease="+lease.String()) // the last one counts
	procs := []*fleetProcess{f.start(""), f.start("")}
	var all []time.Duration
	for round := range 3 {
		f.served(int64(10 * (round + 1)))
		i := f.owner(procs)
		dead, died := procs[i], time.Now()
		f.kill(dead)
		procs[i] = f.start("")
		var spans []time.Duration
		for deadline := died.Add(3 * lease); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
			if spans = f.log.recoveries(dead.agent, died); len(spans) > 0 && time.Since(died) > lease+5*time.Second {
				break
			}
		}
		require.NotEmpty(t, spans, "nobody asks the hosts of the dead")
		// No process sends them requests while the lease of the dead one may still hold.
		require.Greater(t, spans[0], lease*2/3-time.Second)
		t.Logf("round %d: hosts of the dead were asked again after %s", round, spread(spans))
		all = append(all, spans...)
	}
	t.Logf("with a lease of %v the hosts of the dead were asked again after %s", lease, spread(all))
	for _, p := range procs {
		f.kill(p)
	}
	for host, h := range f.site.Report().Hosts {
		require.LessOrEqual(t, h.MaxOpen, 1, "host %d was asked for two things at once", host)
	}
	require.Zero(t, f.site.Report().Total.InsideRetryAfter)
}

// If the pace of the hosts is the limit, one process can crawl all of them. A process that joins still gets some of
// them, so that a death stops only half of the crawl for a while. No host gets a request sooner because of that. In the
// long form both crawl to the end, and the test prints what that costs.
func TestFleetEvens(t *testing.T) {
	t.Parallel()
	if long() {
		took, _ := crawlByPace(t, 1)
		t.Logf("one process took %v", took.Round(10*time.Millisecond))
		took, moved := crawlByPace(t, 2)
		t.Logf("two processes took %v", took.Round(10*time.Millisecond))
		require.GreaterOrEqual(t, moved, 3, "of 12 hosts the second process is given some, and about half")
		require.LessOrEqual(t, moved, 12, "and they do not go to and fro")
		return
	}
	f := newPaced(t, 1000) // more than there is time for, on any machine
	first := f.start("")
	f.served(pacedHosts)
	second := f.start("")
	require.Eventually(t, func() bool { return len(f.log.handovers()) > 0 }, redistest.Patience, 20*time.Millisecond, "the second process is given no hosts")
	f.kill(first)
	f.kill(second)
	all := f.log.handovers()
	require.LessOrEqual(t, len(all), pacedHosts, "they do not go to and fro")
	f.courteous(all)
	for host, h := range f.site.Report().Hosts {
		require.LessOrEqual(t, h.MaxOpen, 1, "host %d was asked for two things at once", host)
	}
}

const (
	pacedHosts = 12
	pacedRate  = 5 // requests per second that each host tolerates
)

// newPaced returns a site that one process alone can crawl at the hosts' pace.
func newPaced(t *testing.T, pages int) *fleetTest {
	f := newJob(t, redistest.Redis.Start(t), "--set", "fleet.lease=4s", // long enough for a busy machine
		"--rate", fmt.Sprint(pacedRate), "--max-rate", fmt.Sprint(pacedRate), "--set", "per_host_max=1", "--no-sitemaps")
	f.apart = func(int) time.Duration { return time.Second / pacedRate }
	f.serve(testsite.Uniform(pacedHosts, pages, 2*time.Millisecond))
	return f
}

// crawlByPace crawls the whole site by n processes that start shortly one after another. It returns how often a host
// went from one process to another.
func crawlByPace(t *testing.T, n int) (took time.Duration, moved int) {
	f := newPaced(t, 300)
	begun := time.Now()
	procs := []*fleetProcess{f.start("")}
	f.served(pacedHosts)
	for len(procs) < n {
		procs = append(procs, f.start(""))
	}
	f.finish(procs...)
	took = time.Since(begun)
	f.require()
	return took, len(f.log.handovers())
}
