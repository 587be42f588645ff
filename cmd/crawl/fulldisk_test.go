//go:build unix

package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/cmd/crawl/internal/job"
)

// ownDisk returns a directory on which scripts can mount a file system of its own.
func ownDisk(t *testing.T) (dir string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "unshare", "-Urm", "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", t.TempDir()).CombinedOutput(); err != nil {
		t.Skipf("NOT RUN: no file system of one's own here: %s", strings.TrimSpace(string(out)))
	}
	return t.TempDir()
}

type answer struct {
	code int
	out  string
}

// onDisk runs a script that may mount file systems. It returns an answer for each of its commands `run PROGRAM
// ARGS...`.
func onDisk(t *testing.T, script string) (all []answer) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "unshare", "-Urm", "sh", "-c", `set -e
run() { code=0; "$@" >"$LOG" 2>&1 </dev/null || code=$?; printf '\n== %d\n' $code; cat "$LOG"; }
`+script)
	cmd.Env = append(os.Environ(), "GORACE="+race, "LOG="+filepath.Join(t.TempDir(), "log"))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, part := range strings.Split(string(out), "\n== ")[1:] {
		first, rest, _ := strings.Cut(part, "\n")
		code, err := strconv.Atoi(first)
		require.NoError(t, err)
		all = append(all, answer{code, rest})
	}
	return all
}

// before returns what stands in front of the detail of an error.
func before(said, detail string) string {
	head, _, _ := strings.Cut(said, detail)
	return head
}

// wholeRecords returns how many records are safe, according to the message of a failed write.
func wholeRecords(t *testing.T, said string) int {
	t.Helper()
	m := regexp.MustCompile(`no space left on device; it has (\d+) whole records? `).FindStringSubmatch(said)
	require.NotNil(t, m, said)
	n, err := strconv.Atoi(m[1])
	require.NoError(t, err)
	return n
}

// A full disk ends a crawl without a state. The message has the reason and what to do, and the records written are
// whole.
func TestFullDiskWithoutState(t *testing.T) {
	disk, site := ownDisk(t), serveKillSite(t)
	for _, name := range []string{"out.jsonl", "out.csv", "out.jsonl.gz", "one.warc.gz", "one.warc"} {
		t.Run(name, func(t *testing.T) {
			saved := filepath.Join(t.TempDir(), name)
			got := onDisk(t, fmt.Sprintf("mount -t tmpfs -o size=8k tmpfs %[1]s\nrun crawl -q --strategy off -o %[1]s/%[2]s %[3]s\ncp %[1]s/%[2]s %[4]s",
				disk, name, strings.Join(site.seeds, " "), saved))
			require.Equal(t, cli.CodeIO, got[0].code, got[0].out)
			require.Contains(t, got[0].out, "; free some room there, then begin anew with --overwrite (a crawl with --state DIR goes on where it was)\n")
			require.Contains(t, before(got[0].out, "write "), "The disk of "+disk+" is full: make room, then begin anew with --overwrite\n")
			n := wholeRecords(t, got[0].out)
			text := readFile(t, saved)
			if strings.HasSuffix(name, ".jsonl.gz") {
				r, err := gzip.NewReader(bytes.NewReader(text))
				if n > 0 {
					require.NoError(t, err)
					text, err = io.ReadAll(r)
					require.NoError(t, err)
				}
			}
			if strings.Contains(name, ".warc") {
				require.Len(t, answersOf(t, text), n)
				return
			}
			format := strings.TrimPrefix(filepath.Ext(strings.TrimSuffix(name, ".gz")), ".")
			require.Len(t, recordedURLs(t, format, text), n)
		})
	}
}

// A crawl with a state whose records fill their disk says how to resume, and the resume loses and repeats nothing.
func TestFullDiskOfRecords(t *testing.T) {
	for _, name := range []string{"out.jsonl", "out.csv", "one.warc.gz"} {
		t.Run(name, func(t *testing.T) {
			disk, site, dir := ownDisk(t), serveKillSite(t), t.TempDir()
			state, saved := filepath.Join(dir, "state"), filepath.Join(dir, name)
			got := onDisk(t, fmt.Sprintf(`mount -t tmpfs -o size=8k tmpfs %[1]s
run crawl -q --strategy off -o %[1]s/%[2]s --state %[3]s %[4]s
mount -o remount,size=64m %[1]s
run crawl resume %[3]s -q
cp %[1]s/%[2]s %[5]s`, disk, name, state, strings.Join(site.seeds, " "), saved))
			require.Equal(t, cli.CodeIO, got[0].code, got[0].out)
			wholeRecords(t, got[0].out)
			require.Contains(t, before(got[0].out, "write "), "The disk of "+disk+" is full: make room, then crawl resume "+state+"\n")
			require.Contains(t, got[0].out, "; free some room there, then go on with 'crawl resume "+state+"'\n")
			require.Equal(t, cli.CodeDone, got[1].code, got[1].out)
			text := readFile(t, saved)
			if name == "one.warc.gz" {
				urls := answersOf(t, text)
				pages := urls[:0]
				for _, u := range urls {
					if !strings.HasSuffix(u, "/robots.txt") && !strings.HasSuffix(u, "/sitemap.xml") {
						pages = append(pages, u)
					}
				}
				site.requireURLs(t, pages)
				return
			}
			site.requireURLs(t, recordedURLs(t, strings.TrimPrefix(filepath.Ext(name), "."), text))
		})
	}
}

// A crawl whose state, records and archives fill one disk can be resumed when there is room.
func TestFullDisk(t *testing.T) {
	site, dir, copied := serveKillSite(t), ownDisk(t), t.TempDir()
	k := keptIn(dir, 0)
	got := onDisk(t, fmt.Sprintf("mount -t tmpfs -o size=400k tmpfs %[1]s\nrun %[2]s\nmount -o remount,size=64m %[1]s\nrun %[3]s\ncp -r %[1]s/site %[4]s",
		dir, strings.Join(k.first(site.seeds), " "), strings.Join(k.resume(), " "), copied))
	require.Equal(t, cli.CodeIO, got[0].code, got[0].out)
	// The state, the records or the archives may be the first to fail.
	require.Regexp(t, "(?s)The disk of \\S+ is full: make room, then crawl resume .*(disk is full|no space left on device)", got[0].out)
	require.Equal(t, cli.CodeDone, got[1].code, got[1].out)
	site.requireRecords(t, keptIn(copied, 0))
}

// Commands that only read work where there is no room for the files that SQLite creates next to its own.
func TestFullDiskIsRead(t *testing.T) {
	disk, site := ownDisk(t), serveKillSite(t)
	got := onDisk(t, fmt.Sprintf(`mount -t tmpfs -o size=4m tmpfs %[1]s
cd %[1]s
run crawl -q --strategy off --max-pages 3 -o site/ %[2]s
dd if=/dev/zero of=fill bs=1k 2>/dev/null || true
run crawl report site
run crawl check site
run crawl again site
run crawl report site
rm fill
run crawl resume site -q --max-pages 4`, disk, site.seeds[0]))
	require.Equal(t, answer{cli.CodeDone, ""}, got[0])
	for _, i := range []int{1, 2, 4} {
		require.Equal(t, cli.CodeDone, got[i].code, got[i].out)
	}
	require.Contains(t, got[1].out, "3 pages")
	require.Equal(t, cli.CodeIO, got[3].code, got[3].out)
	require.Contains(t, got[3].out, "there is no room for it: free some on its disk")
	require.Equal(t, cli.CodeDone, got[5].code, got[5].out)
}

// Where nothing can be written, each command says so before its first request, and commands that only read work.
func TestReadOnlyPlace(t *testing.T) {
	disk, site := ownDisk(t), serveKillSite(t)
	const writable = "read-only file system: make the place writable for this user, or name another\n"
	script := fmt.Sprintf("mount -t tmpfs -o size=64m tmpfs %[1]s\ncd %[1]s\nrun crawl -q --strategy off --max-pages 3 -o site/ %[2]s\ncp -r site killed\nprintf something >killed/state.db-wal\nmount -o remount,ro %[1]s\n", disk, site.seeds[0])
	crawl := "crawl -q --rate 1000 --max-rate 1000 --max-pages 2 " + site.seeds[0] + " "
	cases := []struct {
		command string
		code    int
		said    string
	}{
		{crawl + "-o new.jsonl", cli.CodeIO, writable},
		{crawl + "-o new/", cli.CodeIO, writable},
		{crawl + "-o one.warc.gz", cli.CodeIO, writable},
		{crawl + "--warc archive", cli.CodeIO, writable},
		{crawl + "--stats stats.json", cli.CodeIO, writable},
		{crawl + "--set output.events=events.jsonl", cli.CodeIO, writable},
		{crawl + "--set output.skipped=skipped.jsonl", cli.CodeIO, writable},
		{crawl + "--state state", cli.CodeIO, "read-only file system: name a directory that can be made\n"},
		{crawl + "--set log.level=warn --remember hosts.jsonl -o /dev/null", cli.CodeDone, "what was learned of hosts could not be kept: later crawls learn it again, unless the file can be written by then"},
		{"crawl resume site", cli.CodeIO, "make it and its directory writable for this user\n"},
		{"crawl report site", cli.CodeDone, "3 pages"},
		{"crawl check site", cli.CodeDone, "nothing is wrong"},
		{"crawl report killed", cli.CodeIO, "make it and its directory readable and writable for this user, or copy it, with its -wal, to where they are"},
		{"crawl explain --offline --state site " + site.seeds[0], cli.CodeDone, "in: it is a seed"},
	}
	for _, c := range cases {
		script += "run " + c.command + "\n"
	}
	got := onDisk(t, script)
	require.Equal(t, cli.CodeDone, got[0].code, got[0].out)
	for i, c := range cases {
		require.Equal(t, c.code, got[i+1].code, "%s: %s", c.command, got[i+1].out)
		require.Contains(t, got[i+1].out, c.said, c.command)
	}
}

// roundSite is a killSite whose pages have versions. In the second round some of them have changed, are gone or are
// new.
type roundSite struct {
	killSite
	second  atomic.Bool
	changes map[string]string // in the second round, by URL: status and change
	whole   atomic.Int64      // bodies sent in the second round although they had not changed
}

// newPages is how many pages the second round adds.
const newPages = 5

func serveRounds(t *testing.T) *roundSite {
	t.Helper()
	site := &roundSite{killSite: killSite{want: make(map[string]bool)}, changes: make(map[string]string)}
	for range 2 {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			site.note("http://" + r.Host + r.URL.Path)
			site.page(w, r)
		}))
		t.Cleanup(s.Close)
		site.seeds = append(site.seeds, s.URL+"/0")
		reach(s.URL, 0, site.want)
		for n := range pagesOfHost + newPages {
			if u := fmt.Sprintf("%s/%d", s.URL, n); site.want[u] || n >= pagesOfHost {
				site.changes[u] = site.changeOf(n)
			}
		}
	}
	return site
}

// changeOf returns what the second round should find out about a page.
func (s *roundSite) changeOf(n int) string {
	switch {
	case n >= pagesOfHost:
		return "200 new"
	case moved(n):
		return "302 unchanged"
	case n%10 == 7:
		return "404 gone"
	case n%3 == 0:
		return "200 changed"
	}
	return "304 unchanged"
}

func (s *roundSite) page(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.Atoi(r.URL.Path[1:])
	change := s.changeOf(n)
	if err != nil || !s.second.Load() && n >= pagesOfHost || s.second.Load() && change == "404 gone" {
		http.NotFound(w, r)
		return
	}
	if moved(n) && n < pagesOfHost {
		servePage(w, r)
		return
	}
	tag := `"1"`
	if s.second.Load() && change == "200 changed" {
		tag = `"2"`
	}
	w.Header().Set("ETag", tag)
	if r.Header.Get("If-None-Match") == tag {
		time.Sleep(3 * time.Millisecond)
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if s.second.Load() && change == "304 unchanged" {
		s.whole.Add(1)
	}
	if n >= pagesOfHost {
		w.Header().Set("Content-Type", "text/html")
		return
	}
	fmt.Fprintf(w, "<!doctype html>version %s", tag)
	servePage(w, r)
	for i := range newPages {
		if s.second.Load() && n == 0 {
			fmt.Fprintf(w, "<a href=/%d>new</a>", pagesOfHost+i)
		}
	}
}

// goOnAgain runs the command that begins the second round, or resumes it.
func (s *roundSite) goOnAgain(t *testing.T, k kept, run func(args []string) (code int, out string)) (code int, out string) {
	t.Helper()
	verb := "again"
	if s.begin(t, k.dir, 2) {
		verb = "resume"
	}
	return run([]string{k.command(), verb, k.dir, "--progress", "none"})
}

// A second round that is killed at random instants and resumed has the records of an uninterrupted one, in a file of
// their own. Pages that have not changed are never sent again.
func TestKillAgain(t *testing.T) {
	trials(t, *kills, 9, func(t *testing.T, trial int, rnd *rand.Rand) {
		site, k := serveRounds(t), kept{dir: filepath.Join(t.TempDir(), "site"), format: []string{"jsonl", "csv"}[trial%2]}
		k.records, k.program = filepath.Join(k.dir, "records."+k.format), shipped(t, trial)
		code, out := plainly(t)(append(k.first(site.seeds), "--no-sitemaps"))
		require.Zero(t, code, "%s", out)
		first := readFile(t, k.records)

		site.second.Store(true)
		sig := []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM}[rnd.IntN(2)]
		for range 1 + rnd.IntN(4) {
			code, out = site.goOnAgain(t, k, site.killedAtRandom(t, sig, rnd, 120, 500*time.Millisecond))
			require.Contains(t, []int{cli.CodeDone, cli.CodeInterrupted, -1}, code, "%s", out)
			if code == cli.CodeDone {
				break
			}
		}
		code, out = site.goOnAgain(t, k, plainly(t))
		require.Zero(t, code, "%s", out)

		same := readFile(t, k.records)
		require.Equal(t, string(first), string(same), "the records of the first round are as they were")
		text := readFile(t, job.RoundPath(k.records, 2))
		got := make(map[string]string)
		for _, r := range recordsIn(t, k.format, text) {
			require.NotContains(t, got, r.URL, "two records")
			got[r.URL] = fmt.Sprint(r.Status, " ", r.Change)
		}
		for u, want := range site.changes { // one by one, for readable messages
			require.Equal(t, want, got[u], u)
		}
		require.Len(t, got, len(site.changes))
		require.Zero(t, site.whole.Load(), "pages that have not changed were sent")
		site.mu.Lock()
		defer site.mu.Unlock()
		require.Empty(t, site.again, "asked for again")
	})
}

const (
	killSitemaps = 8  // of a site, with an index that names them
	killListed   = 25 // pages in each, to which nothing else leads
)

// serveListedSite returns a killSite whose pages are only in its sitemaps.
func serveListedSite(t *testing.T) *killSite {
	t.Helper()
	site := &killSite{want: make(map[string]bool)}
	var base string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		site.note("http://" + r.Host + r.URL.Path)
		time.Sleep(3 * time.Millisecond)
		var n int
		if r.URL.Path == "/robots.txt" {
			fmt.Fprintf(w, "Sitemap: %s/index.xml\n", base)
		} else if r.URL.Path == "/index.xml" {
			listOf(w, "sitemap", base+"/s%d.xml", 0, killSitemaps)
		} else if _, err := fmt.Sscanf(r.URL.Path, "/s%d.xml", &n); err == nil {
			listOf(w, "url", base+"/p%d", n*killListed, killListed)
		} else {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<title>A page</title>")
		}
	}))
	t.Cleanup(s.Close)
	base = s.URL
	site.seeds = []string{base + "/"}
	site.want[base+"/"], site.want[base+"/index.xml"] = true, true
	for i := range killSitemaps {
		site.want[fmt.Sprintf("%s/s%d.xml", base, i)] = true
	}
	for i := range killSitemaps * killListed {
		site.want[fmt.Sprintf("%s/p%d", base, i)] = true
	}
	return site
}

// listOf writes a sitemap with n URLs beginning at first, or an index.
func listOf(w http.ResponseWriter, element, format string, first, n int) {
	root := map[string]string{"sitemap": "sitemapindex", "url": "urlset"}[element]
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "<%s><loc>"+format+"</loc></%s>\n", element, first+i, element)
	}
	w.Header().Set("Content-Type", "application/xml")
	fmt.Fprintf(w, "<?xml version=\"1.0\"?><%s>%s</%s>", root, b.String(), root)
}

// TestKillSitemaps is TestKill while sitemaps are read. The sitemaps of an index and their pages are found, however
// often the crawl is killed meanwhile, and each is requested once.
func TestKillSitemaps(t *testing.T) {
	trials(t, *kills, 7, func(t *testing.T, trial int, rnd *rand.Rand) {
		dir := filepath.Join(t.TempDir(), "site")
		site, k := serveListedSite(t), kept{dir: dir, records: filepath.Join(dir, "records.csv"), format: "csv", listed: true, program: shipped(t, trial)}
		for range 1 + rnd.IntN(4) {
			code, out := site.goOn(t, k, func(args []string) (int, string) {
				// The first requests are for the sitemaps.
				return killed(t, syscall.SIGKILL, site.after(1+rnd.IntN(2*killSitemaps)), deadline, args)
			})
			require.Contains(t, []int{cli.CodeDone, -1}, code, "%s", out)
		}
		site.finish(t, k)
	})
}
