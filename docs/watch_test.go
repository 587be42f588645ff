package docs_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/docpage"
)

// The commands of the page about watching run in their order, and tell what it says; so does that of the unit for systemd.
func TestWatchPageRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the command")
	}
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var version atomic.Int64
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<title>Home</title><main><h1>Home %d</h1><p>Text %d of the home page.</p></main>`, version.Load(), version.Load())
	}))
	defer site.Close()
	bin, dir := program(t), t.TempDir()
	run := func(line string) string {
		out, err := shell(ctx, bin, dir, line).CombinedOutput()
		require.NoError(t, err, "%s:\n%s", line, out)
		return string(out)
	}
	lines := strings.Split(strings.TrimSpace(strings.ReplaceAll(blocks(docpage.Read(t, "docs/how-to/watch-for-changes.md"), "sh")[0], "https://example.com/", site.URL)), "\n")
	require.Len(t, lines, 3)
	require.Contains(t, run(lines[0]), "1 seen for the first time")
	version.Add(1)
	run(lines[1]) // nothing is due yet
	require.Contains(t, run(lines[2]), "1 seen for the first time", "by its heading")
	version.Add(1)
	require.Contains(t, run("crawl watch news --once --all"), "1 changed")
	changes, err := os.ReadFile(filepath.Join(dir, "changes.jsonl"))
	require.NoError(t, err)
	require.Contains(t, string(changes), `-Home 1\n+Home 2\n`)
	feed, err := os.ReadFile(filepath.Join(dir, "changes.xml"))
	require.NoError(t, err)
	require.Contains(t, string(feed), "changed: Home")

	unit, err := os.ReadFile("../deploy/systemd/crawl-watch@.service")
	require.NoError(t, err)
	start := regexp.MustCompile(`(?m)^ExecStart=/usr/local/bin/(crawl .*)$`).FindSubmatch(unit)
	require.NotNil(t, start)
	dir = t.TempDir()
	for _, want := range []string{"1 seen for the first time", "0 visits"} {
		require.Contains(t, run("WATCH='"+site.URL+"/ --contact me@example.com'; "+string(start[1])), want)
	}
}
