package integration_test

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/lab/conformance"
	"github.com/treadlight/crawl/internal/lab/realserver"
	_ "github.com/treadlight/crawl/internal/render"
	"github.com/treadlight/crawl/record"
)

var sites = flag.String("render.sites", "", "a directory with what npm installed for testdata/render; empty: sites of frameworks are not crawled")

// asked notes when a server is asked for what.
type asked struct {
	http.Handler
	mu    sync.Mutex
	paths []string
	times []time.Time
}

func (a *asked) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.paths, a.times = append(a.paths, r.Method+" "+r.URL.Path), append(a.times, time.Now())
	a.mu.Unlock()
	a.Handler.ServeHTTP(w, r)
}

// serve serves a site that scripts build.
func serve(t *testing.T, h http.Handler) (*asked, string) {
	t.Helper()
	a := &asked{Handler: h}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	return a, server.URL
}

func needChromium(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("chromium"); err != nil {
		realserver.Need(t, "chromium")
	}
}

const shell = `<!doctype html><title>%s</title><div id="app"></div><script src="/app.js"></script>`

// A site that scripts build is crawled whole, each of its requests with a permit, within robots.txt and the scope; without
// a browser the crawl says what would help.
func TestRender(t *testing.T) {
	needChromium(t)
	other, elsewhere := serve(t, http.NotFoundHandler())
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		http.SetCookie(w, &http.Cookie{Name: "visit", Value: "1", Path: "/"})
		fmt.Fprintf(w, shell, r.URL.Path)
	})
	mux.HandleFunc("/robots.txt", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "User-agent: *\nDisallow: /private\n") })
	mux.HandleFunc("/sitemap.xml", http.NotFound)
	mux.HandleFunc("/app.js", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript")
		fmt.Fprintf(w, `fetch("/private/x.json").catch(() => {}); fetch("%s/y.json").catch(() => {});
fetch("/data.json").then(r => r.json()).then(l => { app.innerHTML = l.map(n => "<a href=/p/"+n+">"+n+"</a>").join("") });`, elsewhere)
	})
	var cookies []string
	var mu sync.Mutex
	mux.HandleFunc("/data.json", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		cookies = append(cookies, r.Header.Get("Cookie"))
		fmt.Fprint(w, "[1,2,3]")
	})
	log, origin := serve(t, mux)

	cfg := unpaced()
	_, snap := visit(t, cfg, origin+"/")
	require.EqualValues(t, 1, snap.Scripted)
	require.Equal(t, origin+"/", snap.ScriptedURL)
	plain := len(log.paths)

	cfg = assembly.DefaultConfig()
	const gap = 100 * time.Millisecond
	cfg.RateLimit.Strategy, cfg.RateLimit.InitialRPS, cfg.RateLimit.MaxRPS, cfg.RateLimit.MinDelay = "fixed", 10, 10, gap
	cfg.Render.Mode, cfg.Access.Cookies = "auto", true
	got, snap := visit(t, cfg, origin+"/")
	pages := byURL(t, got)
	require.ElementsMatch(t, []string{origin + "/", origin + "/p/1", origin + "/p/2", origin + "/p/3"}, slices.Collect(maps.Keys(pages)))
	home := pages[origin+"/"]
	require.Equal(t, []string{origin + "/p/1", origin + "/p/2", origin + "/p/3"}, home.Links)
	require.Equal(t, "app_root", home.Rendered.Why)
	require.GreaterOrEqual(t, home.Rendered.Refused, 2)
	require.EqualValues(t, 4, snap.Rendered)
	require.EqualValues(t, len(fmt.Sprintf(shell, "/")), home.Bytes, "size and digest are those of what was fetched")

	count := map[string]int{}
	for _, p := range log.paths[plain:] {
		count[p]++
	}
	require.Equal(t, 1, count["GET /"], "a page is asked for once")
	require.Equal(t, 1, count["GET /app.js"], "a script is asked for once in a crawl")
	require.Equal(t, 4, count["GET /data.json"])
	require.Zero(t, count["GET /private/x.json"])
	require.Empty(t, other.paths, "another host is not in scope, and not even asked for its robots.txt")
	require.Contains(t, cookies, "visit=1", "cookies are those of the crawl")
	times := log.times[plain:]
	n := len(times)
	require.GreaterOrEqual(t, times[n-1].Sub(times[0]), time.Duration(n-3)*gap, "%d requests", n)
}

// What a crawl has learned of the pages of a pattern is known to the run that resumes it.
func TestResumeKnowsWhichPagesNeedABrowser(t *testing.T) {
	needChromium(t)
	mux := http.NewServeMux()
	mux.HandleFunc("/", http.NotFound)
	mux.HandleFunc("/p/{n}", func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.PathValue("n"))
		w.Header().Set("Content-Type", "text/html")
		text := ""
		if n == 5 { // which has no sign
			text = strings.Repeat("<p>Words of a page that says something.</p>", 50)
		}
		if n < 6 {
			fmt.Fprintf(w, `%s<div id="root"></div><script>root.innerHTML = "<a href=/p/%d>next</a>"</script>`, text, n+1)
		}
	})
	_, origin := serve(t, mux)
	cfg, out := unpaced(), &ledger{}
	cfg.Render.Mode, cfg.State.Dir, cfg.MaxPages, cfg.Sinks = "auto", filepath.Join(t.TempDir(), "state"), 4, []record.Sink{out}
	dial := new(net.Dialer).DialContext
	runOver(t, cfg, dial, origin+"/p/1")
	resumed(t, cfg.State.Dir, dial, out, func(cfg *assembly.Config) { cfg.MaxPages = 0 })
	pages := byURL(t, out.list)
	require.Contains(t, pages, origin+"/p/6")
	require.Equal(t, "learned", pages[origin+"/p/5"].Rendered.Why)
}

// buildSites copies the sites of testdata/render to where npm has installed what they need, and builds those that are not.
func buildSites(t *testing.T, names ...string) {
	t.Helper()
	if *sites == "" {
		t.Skip("it needs what npm installs: -render.sites DIR")
	}
	needChromium(t)
	sources := os.DirFS("../../testdata/render")
	require.NoError(t, fs.WalkDir(sources, ".", func(path string, d fs.DirEntry, err error) error {
		to := filepath.Join(*sites, path)
		if err != nil || d.IsDir() {
			return errors.Join(err, os.MkdirAll(to, 0o755))
		}
		data, err := fs.ReadFile(sources, path)
		return errors.Join(err, os.WriteFile(to, data, 0o644))
	}))
	for _, name := range names {
		cmd := exec.CommandContext(t.Context(), "npm", "run", name)
		cmd.Dir = *sites
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
}

// serveApp serves a site that npm has built: every path that is no file is a page of its one script.
func serveApp(t *testing.T, built string) (*asked, string) {
	t.Helper()
	dir := filepath.Join(*sites, built)
	return serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/data.json" {
			fmt.Fprint(w, "[1,2,3,4,5,6,7,8,9,10,11,12]")
			return
		}
		path := filepath.Join(dir, filepath.FromSlash(r.URL.Path))
		for _, file := range []string{path, path + ".html", filepath.Join(path, "index.html"), filepath.Join(dir, "index.html")} {
			if info, err := os.Stat(file); err == nil && !info.IsDir() {
				http.ServeFileFS(w, r, os.DirFS(filepath.Dir(file)), filepath.Base(file))
				return
			}
		}
	}))
}

// Sites of four frameworks, as npm builds them, are crawled whole.
func TestSitesOfFrameworks(t *testing.T) {
	buildSites(t, "react", "vue", "svelte", "next")
	for name, built := range map[string]string{"react": "react/dist", "vue": "vue/dist", "svelte": "svelte/dist", "next": "next/out"} {
		t.Run(name, func(t *testing.T) {
			log, origin := serveApp(t, built)
			cfg := unpaced()
			cfg.Render.Mode, cfg.Sitemaps.Enabled, cfg.Robots.Enabled = "auto", false, false
			begin := time.Now()
			got, snap := visit(t, cfg, origin+"/")
			pages := byURL(t, got)
			for i := 1; i <= 12; i++ {
				require.Contains(t, pages, fmt.Sprintf("%s/item/%d", origin, i))
			}
			rendered := snap.Rendered
			t.Logf("%s: %d pages, %d rendered, %d requests, %.1f s", name, len(pages), rendered, len(log.paths), time.Since(begin).Seconds())
			require.False(t, slices.ContainsFunc(log.paths, func(p string) bool { return strings.HasSuffix(p, ".woff2") }))
		})
	}
}

// The ways that security-crawl-maze has scripts of pages and of four frameworks hide URLs are found by running them:
// without resources, no text of a script is taken for a URL.
func TestScriptsOfSecurityCrawlMaze(t *testing.T) {
	frameworks := map[string][]string{
		"angular": {"event-handler", "router-outlet"}, "angularjs": {"ng-href"}, "polymer": {"event-handler", "polymer-router"}, "react": {"search/", "route-path"},
	}
	for name := range frameworks {
		buildSites(t, "maze/"+name)
	}
	cfg := unpaced()
	cfg.Render.Mode, cfg.Scope.Forms = "auto", true
	var more conformance.Result
	for name, hidden := range frameworks {
		log, origin := serveApp(t, "maze/"+name+"/dist")
		visit(t, cfg, origin+"/")
		for _, way := range hidden {
			more.Cases++
			if assert.Contains(t, log.paths, "GET /found/"+way, name) {
				more.Passed++
			}
		}
	}
	cfg.Scope.Resources = true
	securityCrawlMaze(t, cfg, "security-crawl-maze-scripts", more, func(name string) bool { return strings.HasPrefix(name, "javascript/") })
}
