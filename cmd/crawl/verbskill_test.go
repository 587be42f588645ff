//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
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
	"github.com/treadlight/crawl/internal/lab/realserver"
)

// A mirror that is killed at any instant, in its first round or a later one, has only whole files. The same command
// then completes it to what an uninterrupted run would make.
func TestMirrorKill(t *testing.T) {
	trials(t, min(*kills, 4), 7, func(t *testing.T, trial int, rnd *rand.Rand) {
		var version atomic.Value
		site := &killSite{}
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			site.note(r.URL.Path)
			n := 0
			if _, err := fmt.Sscanf(r.URL.Path, "/%d", &n); err != nil && r.URL.Path != "/" {
				http.NotFound(w, r)
				return
			}
			w.Header().Set("Content-Type", "text/html")
			body := fmt.Sprintf("<p>%s%d</p>", version.Load(), n)
			for i := range 3 {
				body += fmt.Sprintf("<a href=/%d>", (3*n+i+1)%pagesOfHost)
			}
			_, _ = fmt.Fprint(w, body, "<!--end-->")
		}))
		defer server.Close()
		dir := filepath.Join(t.TempDir(), "copy")
		args := []string{kept{program: shipped(t, trial)}.command(), "mirror", "-q", "--strategy", "off", "-o", dir, server.URL + "/"}
		for round, v := range []string{"a", "b"} {
			version.Store(v)
			for range 2 {
				killed(t, syscall.SIGKILL, site.after(1+rnd.IntN(150)), deadline, args)
				for name, text := range copied(t, dir) {
					require.Contains(t, text, "<!--end-->", "%s is not whole", name)
				}
			}
			code, out := ran(t, exec.CommandContext(t.Context(), args[0], args[1:]...))
			require.Zero(t, code, out)
			if round == 1 { // one that was killed may have seen all, and this has only finished it
				code, out = ran(t, exec.CommandContext(t.Context(), args[0], args[1:]...))
				require.Zero(t, code, out)
			}
			got := copied(t, dir)
			require.Len(t, got, pagesOfHost+1)
			for name, text := range got {
				require.Contains(t, text, "<p>"+v, name)
				require.NotContains(t, text, "href=/", name)
				require.NotContains(t, text, server.URL, name)
			}
		}
	})
}

// A mirror syncs a few times in all, however many pages it has: nothing else is lost by a power cut that cannot be
// fetched again. What the run is about is on disk before its first request.
func TestMirrorSyncs(t *testing.T) {
	requireStrace(t)
	dir := t.TempDir()
	var state atomic.Value // the database without its log, of which a power cut may leave nothing, at the first request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := os.ReadFile(filepath.Join(dir, "copy", ".crawl", "state", "state.db"))
		state.CompareAndSwap(nil, string(text))
		next := "/"
		if len(r.URL.Path) < 20 {
			next = r.URL.Path + "1"
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, "<a href=%s>", next)
	}))
	defer server.Close()
	calls := filepath.Join(dir, "calls")
	code, out := ran(t, exec.CommandContext(t.Context(), "strace", "-f", "-qq", "-e", "signal=none", "-e", "trace=fsync,fdatasync", "-o", calls,
		"crawl", "mirror", "-q", "--strategy", "off", "-o", filepath.Join(dir, "copy"), server.URL+"/"))
	if strings.Contains(out, "ptrace") {
		t.Skipf("no process can be traced here: %s", out)
	}
	require.Zero(t, code, out)
	require.Greater(t, len(copied(t, filepath.Join(dir, "copy"))), 10)
	text := readFile(t, calls)
	syncs := strings.Count(string(text), "sync(")
	require.NotZero(t, syncs, "the journal and the pack are synced")
	require.LessOrEqual(t, syncs, 9, "%s", text)
	require.Contains(t, state.Load(), server.URL)
}

// If the disk fills up, files stay whole, and the command says so. When there is room, the same command completes the
// mirror.
func TestMirrorFullDisk(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := 0
		if _, err := fmt.Sscanf(r.URL.Path, "/%d", &n); err != nil && r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, "<p>%d</p>%s<a href=/%d><a href=/%d><!--end-->", n, strings.Repeat("much ", 10_000), (2*n+1)%100, (2*n+2)%100)
	}))
	defer server.Close()
	disk, dir := ownDisk(t), t.TempDir()
	mirror := "run crawl mirror -q --contact a@b.example --strategy off -o " + disk + "/copy " + server.URL + "/"
	got := onDisk(t, fmt.Sprintf("mount -t tmpfs -o size=2m tmpfs %[1]s\n%[2]s\ncp -r %[1]s/copy %[3]s/full\nmount -o remount,size=64m %[1]s\n%[2]s\ncp -r %[1]s/copy %[3]s/done", disk, mirror, dir))
	require.Equal(t, cli.CodeIO, got[0].code, got[0].out)
	require.Regexp(t, "(no space left on device|disk is full)(.|\n)*free some|free some(.|\n)*(no space left on device|disk is full)", got[0].out) // of pages or the queue
	require.NotContains(t, got[0].out, "handler")
	require.Equal(t, cli.CodeDone, got[1].code, got[1].out)
	for name, text := range copied(t, filepath.Join(dir, "full")) {
		require.Contains(t, text, "<!--end-->", "%s is not whole", name)
	}
	code, out := ran(t, exec.CommandContext(t.Context(), "crawl", "mirror", "-q", "--strategy", "off", "-o", filepath.Join(dir, "room"), server.URL+"/"))
	require.Zero(t, code, out)
	want := copied(t, filepath.Join(dir, "room"))
	require.Len(t, want, 101)
	require.Equal(t, want, copied(t, filepath.Join(dir, "done")))
}

// copied returns the pages of a copy by their names in it.
func copied(t *testing.T, dir string) map[string]string {
	t.Helper()
	pages := map[string]string{}
	hosts, err := filepath.Glob(filepath.Join(dir, "127*"))
	require.NoError(t, err)
	for _, host := range hosts {
		require.NoError(t, filepath.WalkDir(host, func(p string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := os.ReadFile(p)
			pages[strings.TrimPrefix(p, host)] = string(text)
			return err
		}))
	}
	return pages
}

// If a crawl that writes a tree of Markdown is killed at any instant and resumed, the tree is that of an uninterrupted
// crawl: every file, the list and the chunks.
func TestMarkdownKill(t *testing.T) {
	site := &killSite{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		site.note(r.URL.Path)
		var n int
		if _, err := fmt.Sscanf(r.URL.Path, "/%d", &n); err != nil || n >= pagesOfHost || moved(n) {
			servePage(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, "<!DOCTYPE html><html lang=en><title>Page %d</title><main><h1>Page %[1]d</h1>", n)
		for i := range 2 + n%5 {
			_, _ = fmt.Fprintf(w, "<h2>Part %d</h2><p>%s</p><ul><li>one of %d<li>two</ul>", i, strings.Repeat("It says, in so many words, what there is to say. ", 8), n)
		}
		_, _ = fmt.Fprint(w, "</main><nav>")
		for _, next := range linksOf(n) {
			_, _ = fmt.Fprintf(w, "<a href=/%d>%d</a>", next, next)
		}
	}))
	t.Cleanup(server.Close)
	site.seeds = []string{server.URL + "/0"}
	crawlInto := func(dir string) kept {
		return kept{dir: dir, records: filepath.Join(dir, "chunks.jsonl"), format: "markdown"}
	}
	whole := crawlInto(filepath.Join(t.TempDir(), "whole"))
	code, out := plainly(t)(whole.first(site.seeds))
	require.Zero(t, code, out)
	want := treeOf(t, whole.dir)
	require.Greater(t, len(want), pagesOfHost*9/10)

	for trial := range max(1, *kills/20) {
		rnd := rand.New(rand.NewPCG(uint64(trial), 11))
		k := crawlInto(filepath.Join(t.TempDir(), "killed"))
		for range 3 {
			site.goOn(t, k, func(args []string) (int, string) {
				return killed(t, syscall.SIGKILL, site.after(1+rnd.IntN(30)), deadline, args)
			})
			for name, text := range treeOf(t, k.dir) {
				if strings.HasSuffix(name, ".md") {
					require.Equal(t, want[name], text, "%s is not whole", name)
				}
			}
		}
		code, out := site.goOn(t, k, plainly(t))
		require.Zero(t, code, out)
		require.Equal(t, want, treeOf(t, k.dir))
	}
}

// fetchedLine matches the line that says when a page was fetched.
var fetchedLine = regexp.MustCompile(`(?m)^fetched: .*\n`)

// treeOf returns the content of the files of a tree by their names. It sorts the lines of the chunks, since pages come
// in any order.
func treeOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !slices.Contains([]string{".md", ".txt", ".jsonl"}, filepath.Ext(path)) {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		files[name] = fetchedLine.ReplaceAllString(string(text), "")
		if strings.HasSuffix(name, ".jsonl") {
			lines := strings.Split(files[name], "\n")
			slices.Sort(lines)
			files[name] = strings.Join(lines, "\n")
		}
		return err
	}))
	return files
}

// watchSite has pages whose text is their current version. It is also the webhook that receives the changes.
type watchSite struct {
	killSite

	versions [pagesOfHost]int
	posted   map[string]string // id → text of the change
	repeated int               // changes received more than once
}

func (s *watchSite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.note(r.URL.Path)
	s.killSite.mu.Lock()
	defer s.killSite.mu.Unlock()
	if r.Method == http.MethodPost {
		body, _ := io.ReadAll(r.Body)
		id := r.Header.Get("Webhook-Id")
		if _, known := s.posted[id]; known {
			s.repeated++
		}
		s.posted[id] = string(body)
		return
	}
	n := 0
	if _, err := fmt.Sscanf(r.URL.Path, "/%d", &n); r.URL.Path != "/" && (err != nil || n >= pagesOfHost || s.versions[n] < 0) {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/html")
	_, _ = fmt.Fprintf(w, "<main><p>This page has version %d.</p>", s.versions[n])
	for i := range 3 {
		_, _ = fmt.Fprintf(w, "<a href=/%d>", (3*n+i+1)%pagesOfHost)
	}
}

// A watch that is killed at any request, ten times in each trial, reports each change once in its file and to its
// webhook with the same id, and loses none.
func TestWatchKill(t *testing.T) {
	trials(t, max(1, *kills/10), 9, func(t *testing.T, trial int, rnd *rand.Rand) {
		site := &watchSite{posted: make(map[string]string)}
		server := httptest.NewServer(site)
		defer server.Close()
		dir := t.TempDir()
		state, file := filepath.Join(dir, "state"), filepath.Join(dir, "changes.jsonl")
		args := []string{kept{program: shipped(t, trial)}.command(), "watch", state, "--once", "--all", "-q", "--budget", "100000", "-o", file, "--webhook", server.URL + "/hook"}
		first := append(slices.Clip(args), "--strategy", "off", "--contact", "a@b.example", server.URL+"/")
		for range 2 {
			killed(t, syscall.SIGKILL, site.after(1+rnd.IntN(pagesOfHost)), deadline, first)
		}
		code, out := ran(t, exec.CommandContext(t.Context(), first[0], first[1:]...))
		require.Zero(t, code, out)
		require.Empty(t, changesIn(t, file), "the first round tells nothing")

		site.killSite.mu.Lock()
		want := map[string]int{}
		for n := range site.versions {
			switch rnd.IntN(4) {
			case 0:
				site.versions[n] = 1
				want[fmt.Sprintf("changed %s/%d", server.URL, n)] = 1
			case 1:
				if n > 0 {
					site.versions[n] = -1
					want[fmt.Sprintf("gone %s/%d", server.URL, n)] = 1
				}
			}
		}
		if site.versions[0] == 1 { // the page has two URLs
			want["changed "+server.URL+"/"] = 1
		}
		site.killSite.mu.Unlock()
		for range 10 {
			killed(t, syscall.SIGKILL, site.after(1+rnd.IntN(pagesOfHost/3)), deadline, args)
		}
		code, out = ran(t, exec.CommandContext(t.Context(), args[0], args[1:]...))
		require.Zero(t, code, out)
		require.Equal(t, want, changesIn(t, file))
		site.killSite.mu.Lock()
		defer site.killSite.mu.Unlock()
		require.Len(t, site.posted, len(want), "of which %d came again", site.repeated)
		for id, text := range site.posted {
			require.Contains(t, text, `"id":"`+id+`"`)
		}
	})
}

// changesIn counts the changes in a file.
func changesIn(t *testing.T, path string) map[string]int {
	t.Helper()
	text := readFile(t, path)
	found := map[string]int{}
	for _, c := range recordsIn(t, "jsonl", text) {
		found[c.Change+" "+c.URL]++
	}
	return found
}

// A crawl that renders pages leaves no browser behind when it is killed, and the same command comes to the same result.
func TestKillWhileRendering(t *testing.T) {
	if _, err := exec.LookPath("chromium"); err != nil {
		realserver.Need(t, "chromium")
	}
	var pages atomic.Int64
	third := make(chan struct{})
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/robots.txt", "/sitemap.xml":
			http.NotFound(w, r)
		case "/app.js":
			w.Header().Set("Content-Type", "text/javascript")
			fmt.Fprint(w, `document.getElementById("app").innerHTML = [1,2,3,4].map(n => "<a href=/"+n+">"+n+"</a>").join("")`)
		default:
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, `<div id="app"></div><script src="/app.js"></script>`)
			if pages.Add(1) == 3 {
				close(third)
			}
		}
	}))
	defer site.Close()
	tmp, err := os.MkdirTemp("/tmp", "tlk") // a short name, and one that a browser gets to which is not root's
	require.NoError(t, err)
	defer os.RemoveAll(tmp)
	require.NoError(t, os.Chmod(tmp, 0o755))
	dir := filepath.Join(t.TempDir(), "state")
	records := filepath.Join(t.TempDir(), "records.jsonl")
	t.Setenv("TMPDIR", tmp)
	args := []string{"crawl", "--render", "auto", "--strategy", "off", "--state", dir, "-o", records, "-q", site.URL + "/"}
	code, out := killed(t, syscall.SIGKILL, third, 5*time.Minute, args)
	require.Equal(t, -1, code, "%s", out)
	require.Eventually(t, func() bool {
		left, _ := exec.CommandContext(t.Context(), "pgrep", "-f", "user-data-dir="+tmp).Output()
		return len(left) == 0
	}, time.Minute, 100*time.Millisecond, "a browser outlives the crawl")

	code, out = plainly(t)([]string{"crawl", "resume", "-q", dir})
	require.Zero(t, code, "%s", out)
	text := readFile(t, records)
	var got []string
	for line := range strings.Lines(string(text)) {
		var rec struct {
			URL      string
			Links    []string
			Rendered *struct{ Why string }
		}
		require.NoError(t, json.Unmarshal([]byte(line), &rec))
		require.NotNil(t, rec.Rendered, line)
		require.Len(t, rec.Links, 4)
		got = append(got, strings.TrimPrefix(rec.URL, site.URL))
	}
	slices.Sort(got)
	require.Equal(t, []string{"/", "/1", "/2", "/3", "/4"}, got)
}
