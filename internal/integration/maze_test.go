package integration_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/lab/conformance"
	"github.com/treadlight/crawl/record"
)

// maze is a site of own pages that hides URLs in every way that HTML, CSS, XML, headers, robots.txt and sitemaps have.
// Each way has a URL of its own, below /found/, that nothing else leads to; what is below /decoy/ looks like a link
// and is none, or is not to be followed.
type maze struct {
	http.Handler
	origin  string
	headers map[string]http.Header // by path

	mu    sync.Mutex
	asked map[string]int // by path and query
}

const mazeDir = "../../testdata/maze"

func newMaze(t *testing.T) *maze {
	t.Helper()
	m := &maze{headers: map[string]http.Header{}, asked: map[string]int{}}
	for _, line := range mazeLines(t, "HEADERS") {
		uri, rest, _ := strings.Cut(line, " ")
		name, value, _ := strings.Cut(rest, ": ")
		if m.headers[uri] == nil {
			m.headers[uri] = http.Header{}
		}
		m.headers[uri].Add(name, value)
	}
	server := httptest.NewServer(m)
	t.Cleanup(server.Close)
	m.origin = server.URL
	return m
}

// mazeLines are the lines of a list, without comments.
func mazeLines(t *testing.T, name string) (lines []string) {
	t.Helper()
	f, err := os.Open(path.Join(mazeDir, name))
	require.NoError(t, err)
	defer f.Close()
	for in := bufio.NewScanner(f); in.Scan(); {
		if line := strings.TrimSpace(in.Text()); line != "" && line[0] != '#' {
			lines = append(lines, line)
		}
	}
	return lines
}

// mazeTypes are the media types of files, by extension.
var mazeTypes = map[string]string{
	".html": "text/html", ".xhtml": "application/xhtml+xml", ".css": "text/css", ".svg": "image/svg+xml", ".xml": "application/xml",
	".webmanifest": "application/manifest+json", ".rss": "application/rss+xml", ".atom": "application/atom+xml", ".txt": "text/plain", ".gz": "application/gzip",
}

func (m *maze) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	m.asked[r.URL.RequestURI()]++
	m.mu.Unlock()
	maps.Copy(w.Header(), m.headers[r.URL.Path])
	if w.Header().Get("Location") != "" {
		w.WriteHeader(http.StatusFound)
		return
	}
	file := r.URL.Path
	if file == "/" {
		file = "/index.html"
	}
	body, err := os.ReadFile(path.Join(mazeDir, path.Clean(strings.TrimSuffix(file, ".gz"))))
	if err != nil { // what was hidden: nothing that leads on
		w.Header().Set("Content-Type", "application/octet-stream")
		fmt.Fprintln(w, "found")
		return
	}
	body = bytes.ReplaceAll(body, []byte("{{ORIGIN}}"), []byte(m.origin))
	body = bytes.ReplaceAll(body, []byte("{{HOST}}"), []byte(strings.TrimPrefix(m.origin, "http://")))
	w.Header().Set("Content-Type", mazeTypes[path.Ext(file)])
	if path.Ext(file) == ".gz" {
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		_, _ = z.Write(body)
		_ = z.Close()
		body = packed.Bytes()
	}
	_, _ = w.Write(body)
}

// Every link in the maze that can be found without a browser is found, asked for once, and no decoy is followed.
func TestMaze(t *testing.T) {
	want := map[string]string{} // the way in which a URL is hidden, by path and query
	for _, line := range mazeLines(t, "found.txt") {
		uri, way, _ := strings.Cut(line, " ")
		require.NotContains(t, want, uri, "each way has its own URL")
		want[uri] = strings.TrimSpace(way)
	}
	m := newMaze(t)
	cfg := unpaced()
	cfg.Sitemaps.Enabled = true
	cfg.Scope.Forms = true
	visit(t, cfg, m.origin+"/")
	asked := m.asked
	m.asked = map[string]int{}
	cfg.Scope.Forms, cfg.Scope.Resources = false, true
	got, snap := visit(t, cfg, m.origin+"/")
	for uri, n := range m.asked {
		asked[uri] = max(asked[uri], n)
	}
	m.asked = asked

	found := 0
	for _, uri := range slices.Sorted(maps.Keys(want)) {
		switch m.asked[uri] {
		case 1:
			found++
		case 0:
			t.Errorf("not found: %s (%s)", uri, want[uri])
		default:
			t.Errorf("asked for %d times: %s", m.asked[uri], uri)
		}
	}
	for uri := range m.asked {
		if _, listed := want[uri]; strings.Contains(uri, "found") && !listed {
			t.Errorf("found, and not in found.txt: %s", uri)
		}
		if strings.HasPrefix(uri, "/decoy/") {
			t.Errorf("a decoy was followed: %s", uri)
		}
	}
	if !t.Failed() {
		conformance.Report(t, "maze", conformance.Result{Cases: len(want) + decoys(t), Passed: found + decoys(t)})
	}
	require.NotZero(t, snap.OutOfScope["nofollow"], "links that are not followed are counted: %v", snap.OutOfScope)
	mazeRecords(t, m.origin, got)

	// With both settings, what texts name is asked for too, but for what is forbidden.
	cfg.Scope.Forms = true
	m.asked = map[string]int{}
	visit(t, cfg, m.origin+"/")
	for uri := range want {
		require.Equal(t, 1, m.asked[uri], uri)
	}
	for named := range strings.FieldsSeq("comment script-string json onclick ping template data-x text-absolute form-post form-password") {
		require.Equal(t, 1, m.asked["/decoy/"+named], named)
	}
	for uri := range m.asked {
		if strings.HasPrefix(uri, "/decoy/") && (strings.Contains(uri, "nofollow") || strings.Contains(uri, "disallow")) {
			t.Errorf("asked for against the will of the site: %s", uri)
		}
	}
}

// decoys counts those in the maze.
func decoys(t *testing.T) int {
	t.Helper()
	n := 0
	require.NoError(t, filepath.WalkDir(mazeDir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := os.ReadFile(path)
		n += bytes.Count(body, []byte("/decoy/"))
		return err
	}))
	return n
}

// mazeRecords holds what records say of pages that say something of themselves.
func mazeRecords(t *testing.T, origin string, got []record.Record) {
	t.Helper()
	by := map[string]*record.Record{}
	for i := range got {
		by[strings.TrimPrefix(got[i].URL, origin)] = &got[i]
	}
	heads := by["/heads.html"]
	require.NotNil(t, heads)
	require.Equal(t, origin+"/found/link-canonical", heads.Meta.Canonical)
	require.Equal(t, origin+"/found/link-next", heads.Next)
	require.Equal(t, origin+"/found/link-prev", heads.Prev)
	require.Equal(t, "de", heads.Alternates[0].HrefLang)
	require.Equal(t, origin+"/found/link-hreflang", heads.Alternates[0].Href)
	require.Equal(t, []string{"noindex"}, by["/noindex.html"].Directives)
	require.Equal(t, []string{"noarchive", "nofollow"}, by["/tagged.html"].Directives)
	require.Empty(t, by["/others.html"].Directives)
	require.Equal(t, []string{origin + "/decoy/a-nofollow", origin + "/decoy/a-nofollow-of-two"}, by["/obeyed.html"].NofollowLinks)
}

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
		page := strings.NewReplacer("{}", "/found/"+name, "RUN", `["", "found", "`+name+`"].join("/")`, "RELATIVE", `"found/`+name+`"`, "ORIGIN", m.origin, "HOST", strings.TrimPrefix(m.origin, "http://"),
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

// The ways to hide a URL that security-crawl-maze has are found without a browser, but for those that scripts alone know
// and what a crawler should not ask for.
func TestSecurityCrawlMaze(t *testing.T) {
	cfg := unpaced()
	securityCrawlMaze(t, cfg, "security-crawl-maze", conformance.Result{}, func(name string) bool { return !strings.HasPrefix(name, "javascript/") })
}

// securityCrawlMaze crawls the pages of the maze that are wanted, and adds to a result which URLs were found.
func securityCrawlMaze(t *testing.T, cfg assembly.Config, suite string, result conformance.Result, wanted func(string) bool) {
	t.Helper()
	m := newCrawlMaze(t)
	m.names = slices.DeleteFunc(m.names, func(name string) bool { return !wanted(name) })
	cfg.Scope.Resources, cfg.Scope.Forms, cfg.Sitemaps.Enabled = true, true, true
	visit(t, cfg, m.origin+"/")
	result.Cases, result.Differs = result.Cases+len(m.names), map[string]int{}
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
		conformance.Report(t, suite, result)
	}
}
