//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

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
		program := shipped(t, trial)
		if program == "" {
			program = "crawl"
		}
		state, file := filepath.Join(dir, "state"), filepath.Join(dir, "changes.jsonl")
		args := []string{program, "watch", state, "--once", "--all", "-q", "--budget", "100000", "-o", file, "--webhook", server.URL + "/hook"}
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
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	found := map[string]int{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var c struct{ Change, URL string }
		require.NoError(t, json.Unmarshal(lines.Bytes(), &c), "%s", lines.Text())
		found[c.Change+" "+c.URL]++
	}
	return found
}
