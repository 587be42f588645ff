package growth_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/treadlight/crawl/bench/process"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
	_ "github.com/treadlight/crawl/sqlite"
)

// siteVar makes the test the server of a site.
const siteVar = "GROWTH_TEST_SITE"

func TestMain(m *testing.M) {
	if config := os.Getenv(siteVar); config != "" {
		if err := serve(config); err != nil {
			fmt.Fprintln(os.Stderr, "serve:", err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// How large it is to grow. The defaults are for `make test`: they show that every run comes
// to its end and is counted.
var (
	pages   = flag.String("growth.pages", "100,3000", "pages of the sites that are crawled whole, by comma; of a thousand and more a crawl looks for traps")
	rounds  = flag.Int("growth.rounds", 1, "how often each of them is")
	visits  = flag.Int64("growth.visits", 20, "pages visited of a site that is not, with 1,000 new links each")
	hosts   = flag.String("growth.hosts", "1,50", "over how many hosts that site is spread, by comma")
	run     = flag.Int64("growth.run", 50, "how many neighbouring links are of the same one of them")
	waiting = flag.Int64("growth.waiting", 100, "hosts that all have the crawl wait")
	wait    = flag.Duration("growth.wait", time.Second, "how long that is looked at")
	limit   = flag.Duration("growth.timeout", 2*time.Minute, "how long one crawl may take")
	binary  = flag.String("growth.crawl", "", "the crawl to measure; empty means that of this tree")
	outFile = flag.String("growth.out", "", "file that the tables are added to; empty means none")
)

// program is what is measured.
func program(t *testing.T) crawler {
	t.Helper()
	if *binary != "" {
		return crawler{*binary, *limit}
	}
	path, err := process.Build(t.Context(), "../../cmd/crawl", t.TempDir())
	require.NoError(t, err)
	return crawler{path, *limit}
}

// numbers reads a list of numbers.
func numbers(t *testing.T, list string) (v []int64) {
	t.Helper()
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.ParseInt(text, 10, 64)
		require.NoError(t, err)
		v = append(v, n)
	}
	return v
}

// TestGrowth crawls whole sites, each larger than the last, with the frontier in memory and
// with a state.
func TestGrowth(t *testing.T) {
	c := program(t)
	g := newTable("pages", "frontier", "CPU s", "pages per CPU-s", "× the smallest", "pages/s", "peak MB", "state B/URL", "seen B/URL")
	first := make(map[string]float64)
	for range *rounds {
		for _, n := range numbers(t, *pages) {
			for _, where := range []string{"memory", "disk"} {
				t.Run(fmt.Sprintf("%d/%s", n, where), func(t *testing.T) {
					u, k := whole(t, c, n, where)
					rate := float64(n) / u.CPU.Seconds()
					if first[where] == 0 {
						first[where] = rate
					}
					g.add(n, where, u.CPU.Seconds(), rate, rate/first[where], float64(n)/u.Wall.Seconds(), mega(u.Peak),
						share(k.database+k.seen, n), share(k.seen, n))
				})
			}
		}
	}
	g.print(t)
}

// whole crawls a site of n pages to its end, and sees to it that each was visited once.
func whole(t *testing.T, c crawler, n int64, where string) (u process.Usage, k kept) {
	t.Helper()
	s := start(t, site{Pages: n, Links: 20, Fan: 4, Hosts: 1, Run: 1, Size: 3000})
	dir := t.TempDir()
	out := "records.jsonl"
	if where == "disk" {
		out = "out/"
	}
	u = c.run(t, dir, 0, s.seed(0), "--strategy", "off", "--no-sitemaps", "--output", out)
	r := s.report(t)
	require.Equal(t, n, r.Pages, "pages visited")
	require.Zero(t, r.Again, "pages visited twice")
	if where == "disk" {
		k = look(t, filepath.Join(dir, "out"))
		require.Equal(t, []int64{n, 0, n}, []int64{k.known, k.queued, k.visited}, "known, queued, visited")
		out = "out/records.jsonl"
	}
	all, different := records(t, filepath.Join(dir, out))
	require.Equal(t, []int{int(n), int(n)}, []int{all, different}, "records")
	return u, k
}

// fan is how many new links a page has on the site that is known and not visited.
const fan = 1000

// wide is that site. Its end is six links away from its beginning: who comes there is led all
// over it, to pages that no other leads to either, as there are so many.
func wide(hosts int64) site {
	return site{Pages: 1 << 62, Links: fan + nav, Fan: fan, Hosts: hosts, Run: *run}
}

// TestKnown visits some pages of a site of which each leads to a thousand new ones, and goes
// on with that state: once in peace, and once after a kill in the middle.
func TestKnown(t *testing.T) {
	c := program(t)
	g := newTable("hosts", "what", "visited", "known", "CPU s", "CPU µs per new URL", "wall s", "first request after s", "peak MB", "state B/URL", "seen B/URL", "written B per new URL")
	for _, h := range numbers(t, *hosts) {
		t.Run(strconv.FormatInt(h, 10), func(t *testing.T) {
			k := &known{crawler: c, served: start(t, wide(h)), dir: t.TempDir(), table: g}
			k.crawl(t)
			k.resume(t, "resume", *visits+min(*visits, 1000))
		})
		t.Run(fmt.Sprintf("%d/killed", h), func(t *testing.T) {
			k := &known{crawler: c, served: start(t, wide(h)), dir: t.TempDir(), table: g}
			k.kill(t, *visits/2)
			k.resume(t, "after a kill", *visits)
		})
	}
	g.print(t)
}

// known is a crawl that knows more than it visits.
type known struct {
	crawler
	*served
	dir   string
	table *table
	had   kept  // when it was last looked at
	twice int64 // pages that may be visited again: those that a kill kept from the state
}

// args are those of the first run. The links are left out of the records, which would be
// larger than the state.
func (k *known) args() []string {
	return []string{
		k.seed(0), "--strategy", "off", "--no-sitemaps", "--output", "out/", "--record", "no-links", "--no-robots", "--scope", "any", "--allow-private",
		"--max-pages", strconv.FormatInt(*visits, 10),
	}
}

const limitReached = 10 // the exit code

func (k *known) crawl(t *testing.T) {
	t.Helper()
	u := k.run(t, k.dir, limitReached, k.args()...)
	require.Zero(t, k.report(t).Again, "pages visited twice")
	k.add(t, "crawl", u, 0, *visits)
}

// kill ends the crawl when it has asked for so many pages.
func (k *known) kill(t *testing.T, after int64) {
	t.Helper()
	p := k.begin(t, k.dir, k.args()...)
	for k.report(t).Pages < after {
		time.Sleep(10 * time.Millisecond)
	}
	p.Kill()
	_, err := p.Wait()
	require.ErrorContains(t, err, "killed")
	// The server counts what was on its way to a crawl that is no more when it is done with
	// it, which may be later than now.
	k.twice = k.report(t).Pages + inFlight - look(t, filepath.Join(k.dir, "out")).visited
}

// resume goes on until so many pages have been visited in all.
func (k *known) resume(t *testing.T, what string, upTo int64) {
	t.Helper()
	before := k.report(t) // and so the next one has the first request after
	begun := time.Now()
	u := k.run(t, k.dir, limitReached, "resume", "out", "--max-pages", strconv.FormatInt(upTo, 10))
	after := k.report(t)
	require.LessOrEqual(t, after.Again-before.Again, k.twice, "pages visited twice")
	k.add(t, what, u, after.First.Sub(begun), upTo)
}

// add is a row of the table, once the state has been found whole: of each page visited all
// links are known, and of no other.
func (k *known) add(t *testing.T, what string, u process.Usage, first time.Duration, visited int64) {
	t.Helper()
	now := look(t, filepath.Join(k.dir, "out"))
	require.Equal(t, visited, now.visited, "visited")
	require.Equal(t, visited*fan+1, now.known, "known; pages that led to fewer: %s", k.short(t))
	require.Equal(t, now.known-visited, now.queued, "queued")
	all, different := records(t, filepath.Join(k.dir, "out", "records.jsonl"))
	require.Equal(t, []int{int(visited), int(visited)}, []int{all, different}, "records")
	found := now.known - k.had.known
	k.table.add(k.Hosts, what, visited, now.known, u.CPU.Seconds(), float64(u.CPU.Microseconds())/float64(found), u.Wall.Seconds(),
		first.Seconds(), mega(u.Peak), share(now.database+now.seen, now.known), share(now.seen, now.known), share(u.Written, found))
	k.had = now
}

// short tells which pages have not all of their links in the state.
func (k *known) short(t *testing.T) string {
	t.Helper()
	db, err := sqlitedb.Open(filepath.Join(k.dir, "out", "state.db"), sqlitedb.Config{ReadOnly: true})
	require.NoError(t, err)
	list, err := db.QueryText(fmt.Sprintf(`SELECT group_concat(u.url || ': ' || f.n || ' links, ' || v.status || ', ' || v.bytes || ' bytes, ' || coalesce(v.class, 'whole'), '; ')
		FROM visits v JOIN urls u ON u.id = v.url LEFT JOIN (SELECT referrer, count(*) AS n FROM urls GROUP BY referrer) f ON f.referrer = u.id
		WHERE coalesce(f.n, 0) <> %d`, fan))
	require.NoError(t, err)
	require.NoError(t, db.Close())
	return list
}

// TestWaiting looks at a crawl all of whose hosts have it wait.
func TestWaiting(t *testing.T) {
	c := program(t)
	g := newTable("hosts", "wait for", "frontier", "looked at for s", "CPU ms", "CPU %")
	for name, s := range map[string]site{
		"Crawl-delay": {Pages: 2 * *waiting, Links: 8, Fan: 4, Hosts: *waiting, Run: 1, Delay: 3000},
		"Retry-After": {Pages: 2 * *waiting, Links: 8, Fan: 4, Hosts: *waiting, Run: 1, Sorry: 3000},
	} {
		for _, out := range []string{"records.jsonl", "out/"} {
			t.Run(name+"/"+out, func(t *testing.T) {
				took := idle(t, c, s, out)
				g.add(*waiting, name, map[string]string{"out/": "disk", "records.jsonl": "memory"}[out], wait.Seconds(), float64(took.Milliseconds()), 100*took.Seconds()/wait.Seconds())
			})
		}
	}
	g.print(t)
}

// idle is the processor time that a crawl takes while all hosts have it wait.
func idle(t *testing.T, c crawler, s site, out string) time.Duration {
	t.Helper()
	v := start(t, s)
	dir := t.TempDir()
	var seeds strings.Builder
	for h := range s.Hosts {
		fmt.Fprintln(&seeds, v.seed(h))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "seeds"), []byte(seeds.String()), 0o600))
	p := c.begin(t, dir, "--input-file", "seeds", "--no-sitemaps", "--output", out, "--set", "robots.max_crawl_delay=1h", "--set", "max_blocked=2h", "--rate", "1000", "--max-rate", "1000")
	// A page of each host that is sorry, robots.txt of each that is not.
	for r := v.report(t); r.Other < s.Hosts || s.Sorry > 0 && r.Pages < s.Hosts; r = v.report(t) {
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(settle)
	before, err := p.CPU()
	require.NoError(t, err)
	time.Sleep(*wait)
	after, err := p.CPU()
	require.NoError(t, err)
	require.NoError(t, p.Signal(syscall.SIGTERM))
	_, err = p.Wait(interrupted)
	require.NoError(t, err)
	return after - before
}

const (
	interrupted = 11 // the exit code
	// settle is for the last answers to be taken in and for a collection of what they left.
	settle = 500 * time.Millisecond
)
