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
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A mirror that is killed at any instant, in its first round or a later one, has whole files, and the same command makes
// of it what one has that never was.
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
			pages[p] = string(text)
			return err
		}))
	}
	return pages
}
