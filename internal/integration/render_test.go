package integration_test

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/lab/realserver"
	_ "github.com/treadlight/crawl/internal/render"
)

var sites = flag.String("render.sites", "", "a directory with what npm installed for testdata/render; empty: TestSitesOfFrameworks is not run")

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

// Sites of four frameworks, as npm builds them, are crawled whole.
func TestSitesOfFrameworks(t *testing.T) {
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
	for name, built := range map[string]string{"react": "react/dist", "vue": "vue/dist", "svelte": "svelte/dist", "next": "next/out"} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(*sites, built)
			if _, err := os.Stat(dir); err != nil {
				cmd := exec.Command("npm", "run", name)
				cmd.Dir = *sites
				out, err := cmd.CombinedOutput()
				require.NoError(t, err, "%s", out)
			}
			log, origin := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
