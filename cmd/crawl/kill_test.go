//go:build unix

package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
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
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/records/sink/warc"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
)

var kills = flag.Int("kills", 20, "how many crawls TestKill ends in each way")

// A crawl that is ended at any instant and resumed, again and again, ends with the records of one that never was:
// each of its URLs once, in files that can be read.

// pagesOfHost is the number of pages of each host of a killSite.
const pagesOfHost = 120

// killSite is three hosts. Their pages link to each other so that all can be found; some fail or redirect.
type killSite struct {
	seeds []string
	want  map[string]bool

	mu     sync.Mutex // guards what follows
	served int
	alarm  int             // number of served pages at which hit is closed
	hit    chan struct{}   // closed at the alarm
	acked  map[string]bool // URLs that the state had as visited when the last run began
	again  []string        // those of acked that were requested again
}

func serveKillSite(t *testing.T) *killSite {
	t.Helper()
	site := &killSite{want: make(map[string]bool)}
	for range 3 {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			site.note("http://" + r.Host + r.URL.Path)
			servePage(w, r)
		}))
		t.Cleanup(s.Close)
		site.seeds = append(site.seeds, s.URL+"/0")
		reach(s.URL, 0, site.want)
	}
	return site
}

func (s *killSite) note(u string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.acked[u] {
		s.again = append(s.again, u)
	}
	if s.served++; s.served == s.alarm {
		close(s.hit)
	}
}

func (s *killSite) after(n int) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alarm, s.hit = s.served+n, make(chan struct{})
	return s.hit
}

// begin records which URLs a run that begins now must not request: those that the state has as visited in a round. It
// reports whether the round has begun.
func (s *killSite) begin(t *testing.T, dir string, round int64) (begun bool) {
	t.Helper()
	copied := filepath.Join(t.TempDir(), "copy")
	require.NoError(t, os.CopyFS(copied, os.DirFS(dir)))
	acked := make(map[string]bool)
	db, err := sqlitedb.Open(filepath.Join(copied, "state.db"), sqlitedb.Config{})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	tables, err := db.QueryInt("SELECT count(*) FROM sqlite_schema WHERE name IN ('visits', 'rounds')")
	require.NoError(t, err)
	if tables == 2 {
		latest, err := db.QueryInt("SELECT max(round) FROM rounds")
		require.NoError(t, err)
		begun = latest == round
		urls, err := db.QueryText(fmt.Sprintf("SELECT coalesce(group_concat(u.url, char(10)), '') FROM visits v JOIN urls u ON u.id = v.url WHERE v.round = %d", round))
		require.NoError(t, err)
		for u := range strings.SplitSeq(urls, "\n") {
			acked[u] = true
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acked = acked
	return begun
}

// reach adds the pages that the links of one page lead to.
func reach(base string, n int, found map[string]bool) {
	u := fmt.Sprintf("%s/%d", base, n)
	if found[u] {
		return
	}
	found[u] = true
	for _, next := range linksOf(n) {
		reach(base, next, found)
	}
}

func moved(n int) bool { return n%17 == 16 }

func linksOf(n int) (next []int) {
	if moved(n) {
		return []int{n - 1}
	}
	for _, to := range []int{2*n + 1, 2*n + 2, n / 2, n + 1} {
		if to < pagesOfHost {
			next = append(next, to)
		}
	}
	return next
}

func servePage(w http.ResponseWriter, r *http.Request) {
	var n int
	if _, err := fmt.Sscanf(r.URL.Path, "/%d", &n); err != nil || n >= pagesOfHost {
		http.NotFound(w, r)
		return
	}
	time.Sleep(3 * time.Millisecond) // so that the crawl can be killed in the middle
	if moved(n) {
		http.Redirect(w, r, fmt.Sprintf("/%d", linksOf(n)[0]), http.StatusFound)
		return
	}
	w.Header().Set("Content-Type", "text/html")
	for _, next := range linksOf(n) {
		fmt.Fprintf(w, "<a href=/%d>%d</a>", next, next)
	}
}

// kept is where a crawl keeps its state, and how it writes its records.
type kept struct {
	dir, records, format, archive string
	listed                        bool   // robots.txt and sitemaps are requested
	program                       string // the crawler; empty means the one under test
}

// keptIn returns a crawl that is kept in a directory, with its records in it or elsewhere. Trials take turns through
// the formats whose records have URLs, JSON with archives, and archives alone, in a directory or in one file.
func keptIn(parent string, trial int) kept {
	k := kept{dir: filepath.Join(parent, "site"), format: []string{"jsonl", "warc", "csv"}[trial%3]}
	if k.records = filepath.Join(k.dir, "records."+k.format); trial%4 >= 2 {
		k.records = filepath.Join(parent, "apart")
	}
	switch k.format {
	case "warc":
		if k.archive = filepath.Join(k.dir, "archive"); trial%2 == 0 {
			k.archive = filepath.Join(parent, "one.warc.gz")
		}
		k.records = k.archive
	case "jsonl":
		k.archive = filepath.Join(filepath.Dir(k.records), "archive")
	}
	return k
}

// first returns the first command of a crawl, and resume the command after each interruption.
func (k kept) first(seeds []string) []string {
	args := []string{k.command(), "--strategy", "off", "--concurrency", "4", "--progress", "none", "--format", k.format}
	if !k.listed {
		args = append(args, "--no-robots", "--no-sitemaps")
	}
	if k.archive != "" && filepath.Ext(k.archive) == "" {
		args = append(args, "--set", "warc.max_size=64KiB") // several files per crawl
	}
	if k.format == "jsonl" {
		args = append(args, "--warc", k.archive)
	}
	if filepath.Dir(k.records) == k.dir {
		args = append(args, "-o", k.dir+"/")
	} else {
		args = append(args, "-o", k.records, "--state", k.dir)
	}
	return append(args, seeds...)
}

func (k kept) resume() []string { return []string{k.command(), "resume", k.dir, "--progress", "none"} }

func (k kept) command() string { return cmp.Or(k.program, "crawl") }

// unbegun matches what `crawl resume` says about a crawl that ended before its first seed was committed: the first
// command has to be given again.
var unbegun = regexp.MustCompile("holds no crawl|begin it again as it was")

// goOn runs a command of the crawl by run: the first command if there is nothing to resume, otherwise resume.
func (s *killSite) goOn(t *testing.T, k kept, run func(args []string) (code int, out string)) (code int, out string) {
	t.Helper()
	if _, err := os.Stat(k.dir); err == nil {
		s.begin(t, k.dir, 1)
		if code, out = run(k.resume()); code != cli.CodeIO || !unbegun.MatchString(out) {
			return code, out
		}
	}
	return run(k.first(s.seeds))
}

// requireRecords fails the test unless the records are those of the whole crawl, each once, and no URL was requested
// again that the state had as visited.
func (s *killSite) requireRecords(t *testing.T, k kept) {
	t.Helper()
	if k.format != "warc" {
		text := readFile(t, k.records)
		s.requireURLs(t, recordedURLs(t, k.format, text))
	}
	if k.archive != "" {
		s.requireURLs(t, archivedURLs(t, k.archive))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Empty(t, s.again, "asked for again")
}

// requireURLs fails the test unless urls are all pages, each once.
func (s *killSite) requireURLs(t *testing.T, urls []string) {
	t.Helper()
	got := make(map[string]bool)
	for _, u := range urls {
		require.False(t, got[u], "two records of %s", u)
		got[u] = true
	}
	require.Equal(t, s.want, got)
}

type recorded struct {
	URL    string
	Status int
	Change string
}

func recordsIn(t *testing.T, format string, text []byte) (all []recorded) {
	t.Helper()
	if format == "csv" {
		rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
		require.NoError(t, err)
		for _, row := range rows[1:] {
			status, err := strconv.Atoi(cmp.Or(row[slices.Index(rows[0], "status")], "0"))
			require.NoError(t, err)
			all = append(all, recorded{row[slices.Index(rows[0], "url")], status, row[slices.Index(rows[0], "change")]})
		}
		return all
	}
	for line := range bytes.Lines(text) {
		var rec recorded
		require.NoError(t, json.Unmarshal(line, &rec), "%q", line)
		all = append(all, rec)
	}
	return all
}

func recordedURLs(t *testing.T, format string, text []byte) (urls []string) {
	t.Helper()
	for _, r := range recordsIn(t, format, text) {
		urls = append(urls, r.URL)
	}
	return urls
}

// finish resumes the crawl and requires that it is done then.
func (s *killSite) finish(t *testing.T, k kept) {
	t.Helper()
	code, out := s.goOn(t, k, plainly(t))
	require.Zero(t, code, "%s", out)
	s.requireRecords(t, k)
}

// plainly returns a function that runs commands to their end.
func plainly(t *testing.T) func(args []string) (code int, out string) {
	return func(args []string) (int, string) {
		return ran(t, exec.CommandContext(t.Context(), args[0], args[1:]...))
	}
}

func trials(t *testing.T, n int, seed uint64, test func(t *testing.T, trial int, rnd *rand.Rand)) {
	t.Helper()
	for trial := range n {
		t.Run(fmt.Sprint(trial), func(t *testing.T) {
			t.Parallel()
			test(t, trial, rand.New(rand.NewPCG(uint64(trial), seed)))
		})
	}
}

// ran runs a command. It returns its exit code, or -1 if a signal ended it, and its output.
func ran(t *testing.T, cmd *exec.Cmd) (code int, out string) {
	t.Helper()
	cmd.Env = append(os.Environ(), "GORACE="+race)
	text, err := cmd.CombinedOutput()
	require.NotNil(t, cmd.ProcessState, "%v", err)
	return cmd.ProcessState.ExitCode(), string(text)
}

// killed runs a command and sends it a signal when the channel is closed, or after a while.
func killed(t *testing.T, sig syscall.Signal, when <-chan struct{}, after time.Duration, args []string) (code int, out string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), after)
	defer cancel()
	go func() {
		select {
		case <-when:
			cancel()
		case <-ctx.Done():
		}
	}()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(sig) }
	return ran(t, cmd)
}

// A crawl is killed at random instants, which hits the many instants of its start and end, and at random requests,
// which hits it while it crawls on a machine of any speed.
func TestKill(t *testing.T) {
	for name, sig := range map[string]syscall.Signal{"KILL": syscall.SIGKILL, "TERM": syscall.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			trials(t, *kills, uint64(sig), func(t *testing.T, trial int, rnd *rand.Rand) {
				site, k := serveKillSite(t), keptIn(t.TempDir(), trial)
				k.program = shipped(t, trial)
				for range 1 + rnd.IntN(4) {
					code, out := site.goOn(t, k, site.killedAtRandom(t, sig, rnd, 150, 700*time.Millisecond))
					// Until the crawl listens for signals, any signal ends the process.
					require.Contains(t, []int{cli.CodeDone, cli.CodeInterrupted, -1}, code, "%s", out)
				}
				site.finish(t, k)
			})
		})
	}
}

// killedAtRandom runs commands and sends each a signal, either at a random request or after a random time.
func (s *killSite) killedAtRandom(
	t *testing.T, sig syscall.Signal, rnd *rand.Rand, requests int, within time.Duration,
) func(args []string) (code int, out string) {
	return func(args []string) (int, string) {
		when, after := s.after(1+rnd.IntN(requests)), deadline
		if rnd.IntN(2) == 0 {
			when, after = nil, time.Duration(rnd.Int64N(int64(within)))
		}
		return killed(t, sig, when, after, args)
	}
}

// diskCalls are the system calls by which a state and its sinks reach the disk. A crawl is killed at each of them:
// between the write, the commit and the acknowledgement of a record.
var diskCalls = []string{"pwrite64", "write", "fsync,fdatasync", "ftruncate", "rename,renameat,renameat2"}

// requireStrace skips the test if strace is missing or may not trace.
func requireStrace(t *testing.T) {
	t.Helper()
	err := exec.CommandContext(t.Context(), "strace", "-qq", "-o", os.DevNull, "true").Run()
	switch {
	case err == nil:
	case os.Getenv("CI") != "":
		t.Fatalf("strace: %v: `make servers` installs it", err)
	default:
		t.Skipf("NOT RUN: strace: %v: `make servers` installs it", err)
	}
}

// inject runs a command under strace with a fault at system calls. It returns the exit code, or -1 after a signal, and
// the output.
func inject(t *testing.T, calls, fault string, args []string) (code int, out string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	trace := []string{"-f", "-qq", "-o", os.DevNull, "-e", "trace=" + calls, "-e", "inject=" + calls + ":" + fault}
	return ran(t, exec.CommandContext(ctx, "strace", append(trace, args...)...))
}

func TestKillAtSystemCalls(t *testing.T) {
	requireStrace(t)
	for _, calls := range diskCalls {
		t.Run(calls, func(t *testing.T) {
			trials(t, max(1, *kills/len(diskCalls)), uint64(len(calls)), func(t *testing.T, trial int, rnd *rand.Rand) {
				site, k := serveKillSite(t), keptIn(t.TempDir(), trial)
				k.program = shipped(t, trial)
				for range 1 + rnd.IntN(3) {
					// Early calls create the files; later ones fill them.
					nth := 1 + rnd.IntN([]int{10, 60, 400}[rnd.IntN(3)])
					site.goOn(t, k, func(args []string) (int, string) {
						return inject(t, calls, fmt.Sprintf("signal=KILL:when=%d", nth), args)
					})
				}
				site.finish(t, k)
			})
		})
	}
}

// An error of the disk ends the crawl with its reason, and a resume continues from what was committed.
func TestDiskFaults(t *testing.T) {
	requireStrace(t)
	for _, errno := range []string{"ENOSPC", "EIO", "EROFS"} {
		for _, calls := range []string{"pwrite64", "fsync,fdatasync"} {
			t.Run(errno+" of "+calls, func(t *testing.T) {
				t.Parallel()
				site, k := serveKillSite(t), keptIn(t.TempDir(), 0)
				rnd := rand.New(rand.NewPCG(uint64(len(calls)), 1))
				first := 3 + rnd.IntN(20) // there are more calls than that
				if calls != "pwrite64" {
					first = 2 // a commit makes one call, and a short crawl commits a few times
				}
				code, out := inject(t, calls, fmt.Sprintf("error=%s:when=%d+", errno, first), k.first(site.seeds))
				require.Equal(t, cli.CodeIO, code, "%s", out)
				require.Contains(t, out, k.dir, "the file is not named")
				require.NotContains(t, out, "panic")
				site.finish(t, k)
			})
		}
	}
}

// archivedURLs returns the URL of each response in a directory of archives, or in one archive. Each file must be
// complete gzip and, in a directory, have its index.
func archivedURLs(t *testing.T, dir string) (urls []string) {
	t.Helper()
	if filepath.Ext(dir) == ".gz" {
		text := readFile(t, dir)
		return answersOf(t, text)
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		base, archive := strings.CutSuffix(e.Name(), ".warc.gz")
		if !archive {
			require.True(t, strings.HasSuffix(e.Name(), ".cdxj"), "%s was left", e.Name())
			continue
		}
		text := readFile(t, filepath.Join(dir, e.Name()))
		gz, err := gzip.NewReader(bytes.NewReader(text))
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, gz)
		require.NoError(t, err, e.Name())
		index := readFile(t, filepath.Join(dir, base+".cdxj"))
		answers := answersOf(t, text)
		require.Equal(t, len(answers), bytes.Count(index, []byte("\n")), "the index of %s", e.Name())
		urls = append(urls, answers...)
	}
	return urls
}

// answersOf returns the URL of each response in an archive.
func answersOf(t *testing.T, archive []byte) (urls []string) {
	t.Helper()
	r := warc.NewReader(bytes.NewReader(archive))
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return urls
		}
		require.NoError(t, err)
		if kind := rec.Get("WARC-Type"); kind == "response" || kind == "revisit" {
			urls = append(urls, rec.Get("WARC-Target-URI"))
		}
	}
}
