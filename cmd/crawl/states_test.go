//go:build unix

package main

import (
	"flag"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

var makeStates = flag.String("states.make", "", "write the states of this program anew into this directory below testdata/states")

// statesSite is a proxy that answers for site.test, so that a state that is kept can name its URLs without a port.
type statesSite struct {
	mu    sync.Mutex      // guards what follows
	text  string          // of page /a
	asked map[string]bool // by path
}

// begin sets what page /a says, and forgets what was asked.
func (s *statesSite) begin(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text, s.asked = text, map[string]bool{}
}

// pages returns how many pages were asked.
func (s *statesSite) pages() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asked)
}

func (s *statesSite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := strings.TrimPrefix(r.URL.Path, "/")
	if r.URL.Host != "site.test" || !strings.Contains("abcde", name) {
		http.NotFound(w, r)
		return
	}
	s.asked[r.URL.Path] = true
	text := "a text that stays as it is"
	if name == "a" {
		text = s.text
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = fmt.Fprintf(w, "<title>%s</title><main><h1>Page %s</h1><p>This page has %s.</p></main>", name, name, text)
	for _, next := range "abcde" {
		_, _ = fmt.Fprintf(w, "<a href='/%c'>%c</a>\n", next, next)
	}
}

// States that a release of 1.x has written are opened, and gone on with, by each later one. A state is only ever added
// to testdata/states; -states.make writes that of the next version.
func TestKeptStates(t *testing.T) {
	site := new(statesSite)
	site.begin("its first text")
	server := httptest.NewServer(site)
	defer server.Close()
	run := func(t *testing.T, dir string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "crawl", append(args, "--proxy", server.URL, "--contact", "a@b.test", "--strategy", "off")...)
		cmd.Dir = dir
		code, out := ran(t, cmd)
		require.Zero(t, code, "%q: %s", args, out)
		return out
	}
	if *makeStates != "" {
		dir := filepath.Join("..", "..", "testdata", "states", *makeStates)
		require.NoError(t, os.Mkdir(dir, 0o755))
		run(t, dir, "-o", "crawl/", "--max-pages", "3", "http://site.test/")
		run(t, dir, "mirror", "http://site.test/", "-o", "mirror")
		run(t, dir, "watch", "watch", "--once", "http://site.test/")
		_, _ = ran(t, exec.CommandContext(t.Context(), "crawl", "--proxy", server.URL, "--contact", "a@b.test", "--max-rate", "100",
			"--remember", filepath.Join(dir, "hosts.db"), "-o", "-", "http://site.test/"))
		return
	}
	all, err := os.ReadDir(filepath.Join("..", "..", "testdata", "states"))
	require.NoError(t, err)
	require.NotEmpty(t, all)
	for _, one := range all {
		t.Run(one.Name(), func(t *testing.T) {
			dir := t.TempDir()
			kept := os.DirFS(filepath.Join("..", "..", "testdata", "states", one.Name()))
			require.NoError(t, os.CopyFS(dir, kept.(fs.ReadDirFS)))
			site.begin("another text")

			require.Contains(t, run(t, dir, "resume", "crawl", "--max-pages", "0"), "done: 3 pages")
			require.Equal(t, 3, site.pages(), "what was done is not asked again")
			records := readFile(t, filepath.Join(dir, "crawl", "records.jsonl"))
			require.Len(t, recordedURLs(t, "jsonl", records), 6)
			require.Contains(t, run(t, dir, "again", "crawl"), "6 pages")
			require.Contains(t, run(t, dir, "mirror", "-o", "mirror"), "1 changed, 5 unchanged")
			require.Contains(t, run(t, dir, "watch", "watch", "--once", "--all"), `+This page has another text.`)
			_, out := ran(t, exec.CommandContext(t.Context(), "crawl", "hosts", filepath.Join(dir, "hosts.db")))
			require.Equal(t, "nothing that was learned within a day\n", out, "what is in a memory counts for a day")
		})
	}
}
