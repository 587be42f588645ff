package docs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
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
	var hook struct {
		headers map[string]string
		body    string
	}
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hook" {
			body, _ := io.ReadAll(r.Body)
			hook.body, hook.headers = string(body), map[string]string{}
			for name := range r.Header {
				hook.headers[name] = r.Header.Get(name)
			}
			return
		}
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
	text := docpage.Read(t, "docs/how-to/watch-for-changes.md")
	lines := strings.Split(strings.TrimSpace(strings.ReplaceAll(blocks(text, "sh")[0], "https://example.com/", site.URL)), "\n")
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

	// What it says to check a signature with takes what was sent, and nothing else.
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("the check of signatures was NOT RUN: python3 is not here")
	}
	version.Add(1)
	const key = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	cmd := shell(ctx, bin, dir, "crawl watch news --once --all --webhook "+site.URL+"/hook")
	cmd.Env = append(cmd.Env, "CRAWL_WEBHOOK_SECRET=whsec_"+key)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	for body, want := range map[string]string{hook.body: "True", hook.body + " ": "False"} {
		headers, err := json.Marshal(hook.headers)
		require.NoError(t, err)
		check := exec.CommandContext(ctx, python, "-c", blocks(text, "python")[0]+"\nimport json, sys\nprint(genuine(json.loads(sys.argv[1]), sys.argv[2].encode()))", string(headers), body)
		check.Env = append(os.Environ(), "CRAWL_WEBHOOK_SECRET="+key)
		out, err := check.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Equal(t, want, strings.TrimSpace(string(out)))
	}

	unit, err := os.ReadFile("../deploy/systemd/crawl-watch@.service")
	require.NoError(t, err)
	start := regexp.MustCompile(`(?m)^ExecStart=/usr/local/bin/(crawl .*)$`).FindSubmatch(unit)
	require.NotNil(t, start)
	dir = t.TempDir()
	for _, want := range []string{"1 seen for the first time", "0 visits"} {
		require.Contains(t, run("WATCH='"+site.URL+"/ --contact me@example.com'; "+string(start[1])), want)
	}
}
