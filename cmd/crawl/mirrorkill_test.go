//go:build unix

package main

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
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
		program := shipped(t, trial)
		if program == "" {
			program = "crawl"
		}
		args := []string{program, "mirror", "-q", "--strategy", "off", "-o", dir, server.URL + "/"}
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
	text, err := os.ReadFile(calls)
	require.NoError(t, err)
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
	small, dir := t.TempDir(), t.TempDir()
	const script = `
		mount -t tmpfs -o size=2m none "$1" || exit 77
		mirror="crawl mirror -q --contact a@b.example --strategy off -o $1/copy $3"
		$mirror 2>$2/said; echo $? >$2/code; cp -r $1/copy $2/full
		mount -o remount,size=64m "$1" && $mirror && cp -r $1/copy $2/done`
	code, out := ran(t, exec.CommandContext(t.Context(), "unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh", small, dir, server.URL+"/"))
	if code == 77 || strings.Contains(out, "unshare") {
		t.Skipf("no file system can be made here: %s", out)
	}
	require.Zero(t, code, out)
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		return string(text)
	}
	require.Equal(t, "3\n", read("code"))
	require.Regexp(t, "(no space left on device|disk is full)(.|\n)*free some|free some(.|\n)*(no space left on device|disk is full)", read("said")) // of pages or the queue
	require.NotContains(t, read("said"), "handler")
	for name, text := range copied(t, filepath.Join(dir, "full")) {
		require.Contains(t, text, "<!--end-->", "%s is not whole", name)
	}
	code, out = ran(t, exec.CommandContext(t.Context(), "crawl", "mirror", "-q", "--strategy", "off", "-o", filepath.Join(dir, "room"), server.URL+"/"))
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
