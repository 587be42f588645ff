package docs_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/docpage"
	"github.com/treadlight/crawl/internal/lab/realserver"
)

// The commands of the page on rendering do what it says, on a shop that scripts build.
func TestRenderPageRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the program and starts browsers")
	}
	if _, err := exec.LookPath("chromium"); err != nil {
		realserver.Need(t, "chromium")
	}
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/robots.txt":
			http.NotFound(w, r)
		case "/sitemap.xml":
			fmt.Fprintf(w, "<urlset><url><loc>http://%[1]s/</loc></url><url><loc>http://%[1]s/list</loc></url><url><loc>http://%[1]s/about</loc></url></urlset>", r.Host)
		case "/app.js":
			w.Header().Set("Content-Type", "text/javascript")
			fmt.Fprint(w, `let n = 0; const grow = () => { n++; items.innerHTML += "<a href=/item/" + n + ">" + n + "</a>"; if (n === 3 && window.load) load.remove(); };
app.innerHTML = "<div id=items></div>" + (location.pathname === "/list" ? "<button id=load>more</button>" : "");
grow(); if (window.load) load.onclick = grow;`)
		default:
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, `<title>shop</title><div id="app"></div><script src="/app.js"></script>`)
		}
	}))
	defer shop.Close()
	text := strings.ReplaceAll(docpage.Read(t, "docs/how-to/render-javascript.md"), "https://shop.example.com", shop.URL)
	bin, dir := program(t), t.TempDir()
	run := func(line string) string {
		out, err := shell(ctx, bin, dir, line).CombinedOutput()
		require.NoError(t, err, "%s:\n%s", line, out)
		return string(out)
	}
	told := run("crawl --strategy off -o plain.jsonl " + shop.URL + "/")
	require.Contains(t, told, strings.TrimSpace(blocks(text, "text")[0]), "but for which of the pages it names")

	lines := strings.Split(strings.TrimSpace(blocks(text, "sh")[0]), "\n")
	require.Len(t, lines, 2)
	for i, want := range []string{"/item/1", "/item/3"} {
		run(strings.Replace(lines[i], "crawl ", "crawl --overwrite --strategy off ", 1))
		records, err := os.ReadFile(filepath.Join(dir, "pages.jsonl"))
		require.NoError(t, err)
		require.Contains(t, string(records), `"`+shop.URL+want+`"`)
	}
	pictures, err := filepath.Glob(filepath.Join(dir, "pictures", "*.png"))
	require.NoError(t, err)
	require.NotEmpty(t, pictures)
}
