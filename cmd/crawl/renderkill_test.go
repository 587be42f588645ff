//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/realserver"
)

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
	text, err := os.ReadFile(records)
	require.NoError(t, err)
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
