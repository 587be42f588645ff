package docs_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/docpage"
	"github.com/treadlight/crawl/internal/lab/realserver"
)

// The commands of the page about audits run in their order, and end as it says.
func TestAuditPageRuns(t *testing.T) {
	c := newTerminal(t)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<title>Home</title><a href="/gone">gone</a>`)
	}))
	defer site.Close()
	var codes []int
	for _, block := range blocks(docpage.Read(t, "docs/how-to/audit.md"), "sh") {
		for line := range strings.Lines(strings.ReplaceAll(block, "https://example.com/", site.URL)) {
			cmd := c.command(line)
			out, _ := cmd.CombinedOutput() // the exit code is checked below
			require.True(t, cmd.ProcessState.Exited(), "%s", out)
			codes = append(codes, cmd.ProcessState.ExitCode())
		}
	}
	require.Equal(t, []int{20, 20, 20, 0, 0}, codes)
	for _, name := range []string{"report.html", "findings.csv", "audit.json", "junit.xml"} {
		require.FileExists(t, filepath.Join(c.dir, "audit", name))
	}
}

// The commands of the page about plans print what it shows, but for times and sizes.
func TestPlanPageRuns(t *testing.T) {
	c := newTerminal(t)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		switch path := r.URL.Path; {
		case path == "/robots.txt":
			fmt.Fprintf(w, "User-agent: *\nDisallow: /private\nCrawl-delay: 0.1\nSitemap: http://%s/sitemaps.xml\n", r.Host)
		case path == "/sitemaps.xml":
			fmt.Fprint(w, "<sitemapindex>")
			for i := range 40 {
				fmt.Fprintf(w, "<sitemap><loc>/%d.xml</loc></sitemap>", i+1)
			}
			fmt.Fprint(w, "</sitemapindex>")
		case strings.HasSuffix(path, ".xml"):
			fmt.Fprint(w, "<urlset>")
			for i := range 1000 {
				fmt.Fprintf(w, "<url><loc>/news%s/%d</loc></url>", path, i)
			}
			fmt.Fprint(w, "</urlset>")
		default:
			fmt.Fprint(w, "<title>A page</title>", strings.Repeat("<p>text ", 100), `<a href="https://shop.example/">s</a><a href="/private/a">p</a>`)
			for i := range 60 {
				fmt.Fprintf(w, `<a href="/news/%d">n</a>`, i)
			}
		}
	}))
	defer site.Close()
	digits := regexp.MustCompile(`in \d+s|\d+ B|[:_]\d+`) // times, and what has a port in it
	plain := func(s string) string { return digits.ReplaceAllString(strings.Join(strings.Fields(s), " "), "N") }
	text := strings.ReplaceAll(docpage.Read(t, "docs/how-to/plan-a-crawl.md"), "http://127.0.0.1:8123", site.URL)
	for _, block := range blocks(text, "console") {
		line, shown, _ := strings.Cut(strings.TrimPrefix(block, "$ "), "\n")
		out := c.run(line)
		for want := range strings.SplitSeq(shown, "\n\n") {
			require.Contains(t, plain(out), plain(want), "%s\n%s", line, out)
		}
	}
}

// Each plot of the pages is what the command below it draws, but for where the lines are: they move with every change of the
// controller.
func TestPlotsOfThePages(t *testing.T) {
	c := newTerminal(t)
	var (
		plot  = regexp.MustCompile("\\]\\(\\.\\./images/([a-z]+\\.svg)\\)\n\n```sh\n(crawl simulate .*)\n```")
		words = regexp.MustCompile(`<(?:title|desc|text)[^>]*>([^<0-9]*[A-Za-z][^<]*)<`)
	)
	drawn := map[string]bool{}
	for _, page := range docpage.Pages(t) {
		for _, m := range plot.FindAllStringSubmatch(docpage.Read(t, page), -1) {
			drawn[m[1]] = true
			c.run(m[2])
			var said [2][]string
			for i, file := range []string{filepath.Join(c.dir, m[1]), filepath.Join("images", m[1])} {
				text := readFile(t, file)
				for _, word := range words.FindAllStringSubmatch(string(text), -1) {
					said[i] = append(said[i], word[1])
				}
			}
			require.NotEmpty(t, said[0])
			require.Equal(t, said[0], said[1], "`make plots` draws %s anew", m[1])
		}
	}
	pictures, err := filepath.Glob("images/*.svg")
	require.NoError(t, err)
	pictures = slices.DeleteFunc(pictures, func(name string) bool { return strings.HasPrefix(name, "images/bench-") }) // bench/results draws those
	require.Len(t, drawn, len(pictures), "each has its command")
}

// The commands of the page on rendering do what it says, on a shop that scripts build.
func TestRenderPageRuns(t *testing.T) {
	if _, err := exec.LookPath("chromium"); err != nil {
		realserver.Need(t, "chromium")
	}
	c := newTerminal(t)
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
	told := c.run("crawl --strategy off -o plain.jsonl " + shop.URL + "/")
	require.Contains(t, told, strings.TrimSpace(blocks(text, "text")[0]), "but for which of the pages it names")

	lines := strings.Split(strings.TrimSpace(blocks(text, "sh")[0]), "\n")
	require.Len(t, lines, 2)
	for i, want := range []string{"/item/1", "/item/3"} {
		c.run(strings.Replace(lines[i], "crawl ", "crawl --overwrite --strategy off ", 1))
		require.Contains(t, c.file("pages.jsonl"), `"`+shop.URL+want+`"`)
	}
	pictures, err := filepath.Glob(filepath.Join(c.dir, "pictures", "*.png"))
	require.NoError(t, err)
	require.NotEmpty(t, pictures)
}

// The commands of the page about watching run in their order, and tell what it says; so does that of the unit for systemd.
func TestWatchPageRuns(t *testing.T) {
	c := newTerminal(t)
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
	text := docpage.Read(t, "docs/how-to/watch-for-changes.md")
	lines := strings.Split(strings.TrimSpace(strings.ReplaceAll(blocks(text, "sh")[0], "https://example.com/", site.URL)), "\n")
	require.Len(t, lines, 3)
	require.Contains(t, c.run(lines[0]), "1 seen for the first time")
	version.Add(1)
	c.run(lines[1]) // nothing is due yet
	require.Contains(t, c.run(lines[2]), "1 seen for the first time", "by its heading")
	version.Add(1)
	require.Contains(t, c.run("crawl watch news --once --all"), "1 changed")
	require.Contains(t, c.file("changes.jsonl"), `-Home 1\n+Home 2\n`)
	require.Contains(t, c.file("changes.xml"), "changed: Home")

	// What it says to check a signature with takes what was sent, and nothing else.
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("the check of signatures was NOT RUN: python3 is not here")
	}
	version.Add(1)
	const key = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	c.run("crawl watch news --once --all --webhook "+site.URL+"/hook", "CRAWL_WEBHOOK_SECRET=whsec_"+key)
	for body, want := range map[string]string{hook.body: "True", hook.body + " ": "False"} {
		headers, err := json.Marshal(hook.headers)
		require.NoError(t, err)
		check := exec.CommandContext(c.ctx, python, "-c", blocks(text, "python")[0]+"\nimport json, sys\nprint(genuine(json.loads(sys.argv[1]), sys.argv[2].encode()))", string(headers), body)
		check.Env = append(os.Environ(), "CRAWL_WEBHOOK_SECRET="+key)
		out, err := check.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Equal(t, want, strings.TrimSpace(string(out)))
	}

	unit := readFile(t, "../deploy/systemd/crawl-watch@.service")
	start := regexp.MustCompile(`(?m)^ExecStart=/usr/local/bin/(crawl .*)$`).FindSubmatch(unit)
	require.NotNil(t, start)
	c.dir = t.TempDir()
	for _, want := range []string{"1 seen for the first time", "0 visits"} {
		require.Contains(t, c.run("WATCH='"+site.URL+"/ --contact me@example.com'; "+string(start[1])), want)
	}
}
