package integration_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/conformance"
)

// crawlMaze serves the pages of testdata/conformance/crawl-maze, and notes what is asked for.
type crawlMaze struct {
	origin string
	names  []string
	pages  map[string]string // by name
	why    map[string]string // why a URL is not to be found, by name

	mu    sync.Mutex
	asked map[string]bool // paths
}

func newCrawlMaze(t *testing.T) *crawlMaze {
	t.Helper()
	text, err := os.ReadFile("../../testdata/conformance/crawl-maze/cases.txt")
	require.NoError(t, err)
	m := &crawlMaze{pages: map[string]string{}, why: map[string]string{}, asked: map[string]bool{}}
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if line[0] == '#' {
			continue
		}
		require.GreaterOrEqual(t, len(f), 2, line)
		m.names, m.pages[f[0]] = append(m.names, f[0]), f[1]
		if len(f) > 2 {
			m.why[f[0]] = strings.TrimPrefix(f[2], "differs: ")
		}
	}
	server := httptest.NewServer(m)
	t.Cleanup(server.Close)
	m.origin = server.URL
	return m
}

func (m *crawlMaze) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	m.asked[r.URL.Path] = true
	m.mu.Unlock()
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	name, isCase := strings.CutPrefix(r.URL.Path, "/case/")
	switch {
	case r.URL.Path == "/":
		for _, name := range m.names {
			fmt.Fprintf(w, "<a href='/case/%s'>x</a>", name)
		}
	case r.URL.Path == "/robots.txt":
		fmt.Fprintf(w, "User-agent: *\nDisallow: /found/misc/known-files/robots.txt\nSitemap: %s/sitemap.xml\n", m.origin)
	case r.URL.Path == "/sitemap.xml":
		w.Header().Set("Content-Type", "application/xml")
		fmt.Fprintf(w, "<urlset><url><loc>%s/found/misc/known-files/sitemap.xml</loc></url></urlset>", m.origin)
	case r.URL.Path == "/style.css":
		w.Header().Set("Content-Type", "text/css")
		fmt.Fprint(w, "@font-face { font-family: x; src: url(/found/css/font-face) }")
	case isCase:
		page := strings.NewReplacer("{}", "/found/"+name, "ORIGIN", m.origin, "HOST", strings.TrimPrefix(m.origin, "http://"),
			`"found/`, `"../../../../found/`).Replace(m.pages[name])
		if header, ok := strings.CutPrefix(page, ":"); ok {
			field, value, _ := strings.Cut(header, ": ")
			w.Header().Set(field, value)
			if field == "Location" {
				w.WriteHeader(http.StatusFound)
			}
			return
		}
		fmt.Fprint(w, page)
	default:
		w.Header().Set("Content-Type", "application/octet-stream") // nothing that leads on
	}
}

// Of the ways to hide a URL that security-crawl-maze has, those that need no browser are
// found, but for what a crawler should not ask for.
func TestSecurityCrawlMaze(t *testing.T) {
	m := newCrawlMaze(t)
	cfg := unpaced()
	cfg.Scope.Resources, cfg.Scope.Forms, cfg.Sitemaps.Enabled = true, true, true
	visit(t, cfg, m.origin+"/")
	result := conformance.Result{
		Cases: len(m.names) + 27, Differs: map[string]int{},
		NotRun: map[string]int{"scripts have to be run for them, and we run none": 27},
	}
	for _, name := range m.names {
		why, differs := m.why[name]
		switch found := m.asked["/found/"+name]; {
		case found && !differs:
			result.Passed++
		case !found && differs:
			result.Differs[why]++
		default:
			t.Errorf("%s: found %v, want %v: %s", name, found, !differs, m.pages[name])
		}
	}
	if !t.Failed() {
		conformance.Report(t, "security-crawl-maze", result)
	}
}
