package peers_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/bench/process"
)

var (
	kills    = flag.Int("resume.kills", 1, "crawls of each contender, each killed at another moment")
	resumed  = flag.String("resume.names", "crawl,scrapy,crawlee,httrack,wget2,wget2 -nc", "contenders of TestResume, by comma")
	resumeTo = flag.String("resume.csv", "", "file to which each crawl of TestResume appends a line; empty means none")
)

// numbered is a site of pages that each link to the next ones, and counts how often each was served whole.
type numbered struct {
	*httptest.Server
	pages int

	mu     sync.Mutex
	served map[string]int
	reach  chan struct{} // closed once as many were served
	left   int           // until then
}

const (
	sitePages = 1000
	answering = 20 * time.Millisecond
)

func startNumbered(t *testing.T, kill int) *numbered {
	t.Helper()
	s := &numbered{pages: sitePages, served: map[string]int{}, reach: make(chan struct{}), left: kill}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var n int
		if _, err := fmt.Sscanf(r.URL.Path, "/%d.html", &n); err != nil || n >= s.pages {
			http.NotFound(w, r)
			return
		}
		time.Sleep(answering)
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, "<!DOCTYPE html><title>%d</title><p>This is page %d.", n, n)
		for _, to := range []int{2*n + 1, 2*n + 2, n + 1, n - 1} {
			if to >= 0 && to < s.pages {
				fmt.Fprintf(w, "<a href=\"/%d.html\">%d</a>\n", to, to)
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.served[r.URL.Path]++
		if s.left--; s.left == 0 {
			close(s.reach)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// resumer is a contender that can go on after it was killed, or says that it can.
type resumer struct {
	name    string
	program string
	args    func(seed, dir string) []string
	again   []string // the arguments after it was killed; empty means the same
	files   string   // pattern of the files that have its records
	fine    []int
}

func resumers(t *testing.T, crawl string) []resumer {
	t.Helper()
	here, err := os.Getwd()
	require.NoError(t, err)
	n := fmt.Sprint(inFlight)
	wget := func(flags ...string) func(string, string) []string {
		return func(seed, _ string) []string {
			return append([]string{"--quiet", "--no-config", "--no-hsts", "--recursive", "--level=inf", "--max-threads=" + n, seed}, flags...)
		}
	}
	return []resumer{
		{name: "crawl", program: crawl, files: "out.jsonl", args: func(seed, _ string) []string {
			return []string{seed, "--strategy", "off", "--concurrency", n, "--set", "per_host_max=" + n, "--quiet", "--state", "state", "--output", "out.jsonl"}
		}, again: []string{"resume", "state", "--quiet"}},
		{name: "scrapy", program: "scrapy", files: "out.jsonl", args: func(seed, _ string) []string {
			return []string{
				"runspider", filepath.Join(here, "spider.py"), "-a", "seed=" + seed, "-a", "items=yes", "-o", "out.jsonl:jsonlines",
				"-s", "JOBDIR=job", "-s", "ROBOTSTXT_OBEY=true", "-s", "CONCURRENT_REQUESTS=" + n, "-s", "CONCURRENT_REQUESTS_PER_DOMAIN=" + n,
				"-s", "TELNETCONSOLE_ENABLED=false", "-s", "LOG_LEVEL=ERROR",
			}
		}},
		{name: "crawlee", program: "node", files: "storage/datasets/default/*.json", args: func(seed, _ string) []string {
			return []string{filepath.Join(here, "crawlee/crawl.js"), "keep", seed, n}
		}},
		{name: "httrack", program: "httrack", files: "mirror/*/*.html", args: func(seed, dir string) []string {
			args := []string{seed, "-O", filepath.Join(dir, "mirror"), "-q", "-c" + n, "-%c10000", "-%!", "-A0", "-%v0"}
			if _, err := os.Stat(filepath.Join(dir, "mirror/hts-cache")); err == nil {
				args = append(args, "--continue")
			}
			return args
		}},
		{name: "wget2", program: "wget2", files: "*/*.html", fine: []int{8}, args: wget()},
		{name: "wget2 -nc", program: "wget2", files: "*/*.html", fine: []int{8}, args: wget("--no-clobber")},
	}
}

// aPage is what a record has of a page, whatever it is called: its URL, or the words of its text.
var aPage = regexp.MustCompile(`"url": ?"http://[^/]+(/\d+\.html)"|This is page (\d+)\.`)

// records counts how often each page is in the files.
func (r resumer) records(t *testing.T, dir string) map[string]int {
	t.Helper()
	found := map[string]int{}
	paths, err := filepath.Glob(filepath.Join(dir, r.files))
	require.NoError(t, err)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for line := range bytes.Lines(text) {
			if m := aPage.FindSubmatch(line); m != nil {
				name := string(m[1])
				if name == "" {
					name = "/" + string(m[2]) + ".html"
				}
				found[name]++
			}
		}
	}
	return found
}

// run crawls, and kills with SIGKILL when the channel is closed. It tells whether it had to.
func (r resumer) run(t *testing.T, seed, dir string, kill <-chan struct{}) (killed bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), *limit)
	defer cancel()
	args := r.args(seed, dir)
	if kill == nil && r.again != nil {
		args = r.again
	}
	cmd := exec.Command(r.program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir, "PYTHONDONTWRITEBYTECODE=1", "no_proxy=127.0.0.1", "NO_PROXY=127.0.0.1")
	p, err := process.Start(ctx, cmd)
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		select {
		case <-kill:
			p.Kill()
		case <-done:
		}
	}()
	_, err = p.Wait(r.fine...)
	close(done)
	if kill == nil && err != nil {
		t.Logf("%s: %v", r.name, err)
	}
	select {
	case <-kill:
		return true
	default:
		return false
	}
}

// TestResume kills each contender in the middle of its crawl, starts it again in the same way, and counts what the
// server and the records say. It fails when ours loses a page or has a record twice.
func TestResume(t *testing.T) {
	for _, r := range resumers(t, build(t, "../../cmd/crawl")) {
		if !strings.Contains(","+*resumed+",", ","+r.name+",") {
			continue
		}
		_, err := exec.LookPath(r.program)
		if r.name == "crawlee" && err == nil {
			_, err = os.Stat("crawlee/node_modules")
		}
		if err != nil {
			t.Logf("MISSING: %s: %v", r.name, err)
			continue
		}
		for i := range *kills {
			t.Run(fmt.Sprintf("%s/%d", r.name, i+1), func(t *testing.T) {
				site := startNumbered(t, sitePages*(i+1)/(*kills+1))
				dir := t.TempDir()
				require.True(t, r.run(t, site.URL+"/0.html", dir, site.reach), "it ended before it was killed")
				r.run(t, site.URL+"/0.html", dir, nil)
				r.count(t, site, dir, i)
			})
		}
	}
}

func (r resumer) count(t *testing.T, site *numbered, dir string, i int) {
	t.Helper()
	records := r.records(t, dir)
	site.mu.Lock()
	defer site.mu.Unlock()
	var never, again, lost, twice int
	for n := range site.pages {
		path := fmt.Sprintf("/%d.html", n)
		if site.served[path] == 0 {
			never++
		}
		again += max(0, site.served[path]-1)
		if records[path] == 0 {
			lost++
		}
		twice += max(0, records[path]-1)
	}
	t.Logf("%s: of %d pages %d never fetched, %d fetched again, %d without a record, %d records too many", r.name, site.pages, never, again, lost, twice)
	if *resumeTo != "" {
		appendTo(t, *resumeTo, "contender,kill,pages,never_fetched,fetched_again,lost,twice",
			fmt.Sprintf("%s,%d,%d,%d,%d,%d,%d", r.name, i+1, site.pages, never, again, lost, twice))
	}
	if r.name == "crawl" {
		require.Zero(t, never+lost+twice)
	}
}
