package docs

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"github.com/treadlight/crawl/internal/lab/docpage"
	"github.com/treadlight/crawl/internal/web/dom"
)

func newSite(t *testing.T) Site {
	t.Helper()
	site, err := New("1.2.3")
	require.NoError(t, err)
	return site
}

// parse calls each for every element of a page.
func parse(t *testing.T, content []byte, each func(*html.Node)) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(string(content)))
	require.NoError(t, err)
	for n := range root.Descendants() {
		if n.Type == html.ElementNode {
			each(n)
		}
	}
}

// Every page of the repository is a page of the site, with one title, its text, and a place in the navigation.
func TestEveryPageIsRendered(t *testing.T) {
	site := newSite(t)
	for _, file := range docpage.Pages(t) {
		source, below := strings.CutPrefix(file, "docs/")
		if !below {
			continue
		}
		name := pathOf(source)
		content, ok := site[name]
		require.True(t, ok, "%s is not in the site", source)
		titles, current := 0, 0
		parse(t, content, func(n *html.Node) {
			if n.Data == "h1" {
				titles++
			}
			if attribute(n, "aria-current") == "page" {
				current++
			}
		})
		require.Equal(t, 1, titles, name)
		if source != front {
			require.Equal(t, 1, current, "%s in the navigation", name)
		}
		require.NotContains(t, string(content), "\n|", "%s: a table that is none", name)
	}
}

// Every link within the site leads to a file of it, and every anchor to an element.
func TestLinksOfTheSite(t *testing.T) {
	site, anchors := newSite(t), map[string]map[string]bool{}
	for name, content := range site {
		anchors[name] = map[string]bool{}
		if path.Ext(name) == ".html" {
			parse(t, content, func(n *html.Node) { anchors[name][attribute(n, "id")] = true })
		}
	}
	checked := 0
	for name, content := range site {
		if path.Ext(name) != ".html" {
			continue
		}
		parse(t, content, func(n *html.Node) {
			link := attribute(n, "href") + attribute(n, "src")
			u, err := url.Parse(link)
			require.NoError(t, err)
			if link == "" || u.Scheme != "" {
				return
			}
			checked++
			require.NotContains(t, link, "?")
			target := name
			if u.Path != "" {
				target = path.Join(path.Dir(name), u.Path)
			}
			require.Contains(t, site, target, "%s: %s", name, link)
			if u.Fragment != "" {
				require.True(t, anchors[target][u.Fragment], "%s: %s leads to no element", name, link)
			}
		})
	}
	require.Greater(t, checked, 2000)
}

// The pages that people begin with come first in each section.
func TestNavigation(t *testing.T) {
	var pages []*page
	for _, source := range []string{front, "tutorial/a.md", "how-to/b.md", "tutorial/c.md"} {
		pages = append(pages, &page{Path: pathOf(source)})
	}
	var got []string
	for _, s := range sectionsOf(pages[1:]) {
		for _, p := range s.Pages {
			got = append(got, s.Title+": "+p.Path)
		}
	}
	require.Equal(t, []string{"Tutorial: tutorial/a.html", "Tutorial: tutorial/c.html", "How-to: how-to/b.html"}, got)
}

func TestRender(t *testing.T) {
	sources := map[string][]byte{
		front: nil, "how-to/b.md": nil, "images/p.svg": nil,
		"how-to/a.md": []byte("# A `b`\n\nFirst [one](b.md#x), [two](../README.md), [code](../../limit), [out](https://example.com/), [here](#same).\n\n" +
			"## Same\n\n![p](../images/p.svg)\n\n## Same\n\n| | n |\n|---|---:|\n| a \\| b | 1 |\n\n<script>alert(1)</script>\n"),
	}
	p, err := render("how-to/a.md", sources, "v1.2.3")
	require.NoError(t, err)
	body := string(p.Body)
	for _, part := range []string{
		`href="../how-to/b.html#x"`, `href="../index.html"`, `href="` + repository + `v1.2.3/limit"`, `href="https://example.com/"`, `href="#same"`,
		`src="../images/p.svg"`, `<h2 id="same">`, `<h2 id="same-1">`, `<div class="scroll"><table>`, `<td align="right">1</td>`, `<td>a | b</td>`,
	} {
		require.Contains(t, body, part)
	}
	require.NotContains(t, body, "<script")
	require.NotContains(t, body, "<th></th>")
	require.Equal(t, "A b", p.Title)
	require.Equal(t, []heading{{"same", "Same"}, {"same-1", "Same"}}, p.Headings)
	require.Equal(t, []string{"how-to/b.md", front}, p.links)
	require.Equal(t, []entry{
		{URL: "how-to/a.html", Title: "A b", Text: "First one, two, code, out, here. "},
		{URL: "how-to/a.html#same", Title: "A b", Heading: "Same"},
		{URL: "how-to/a.html#same-1", Title: "A b", Heading: "Same", Text: "n a | b 1 "},
	}, p.entries)
}

// Files that the site does not have are those of the release, if the program is one.
func TestRefOf(t *testing.T) {
	for version, want := range map[string]string{
		"v1.2.3": "v1.2.3", "v1.2.3-rc.1": "v1.2.3-rc.1", "devel": "main", "devel-0123456789ab": "main", "": "main",
		"v1.2.4-0.20261127015007-60251ef0abcd": "main", "v1.2.3+dirty": "main",
	} {
		require.Equal(t, want, refOf(version), version)
	}
}

func TestServeHTTP(t *testing.T) {
	site := newSite(t)
	get := func(method, target string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		site.ServeHTTP(w, httptest.NewRequest(method, target, http.NoBody))
		return w
	}
	for target, media := range map[string]string{
		"/": "text/html", "/how-to/": "text/html", "/tutorial/": "text/html", "/reference/": "text/html", "/explanation/": "text/html", "/how-to/install.html": "text/html", "/search.js": "text/javascript", "/docs.css": "text/css",
		"/images/dashboard.png": "image/png", "/icon.svg": "image/svg+xml", "/reference/api.txt": "text/plain",
	} {
		w := get(http.MethodGet, target)
		require.Equal(t, http.StatusOK, w.Code, target)
		require.Equal(t, media+"; charset=utf-8", w.Header().Get("Content-Type"), target)
		require.Contains(t, w.Header().Get("Content-Security-Policy"), "default-src 'none'")
	}
	for _, target := range []string{"/none.html", "/how", "/../go.mod", "/assets/page.html", "/how-to/install.md"} {
		w := get(http.MethodGet, target)
		require.Equal(t, http.StatusNotFound, w.Code, target)
		require.Contains(t, w.Body.String(), `<a href="/tutorial/first-crawl.html">`, "%s: the navigation", target)
		require.Contains(t, w.Body.String(), `href="/docs.css"`)
		require.Contains(t, w.Body.String(), `data-root="/"`)
		require.Contains(t, w.Body.String(), `href="#main"`)
	}
	require.Contains(t, get(http.MethodGet, "/tutorial/").Body.String(), `<li><a href="../tutorial/first-crawl.html">`)
	require.Equal(t, "/how-to/", get(http.MethodGet, "/how-to").Header().Get("Location"))
	require.Equal(t, http.StatusNotFound, get(http.MethodPost, "/").Code)
}

// A directory with other files is left as it is; one that was written before, wholly or not, is written anew.
func TestWrite(t *testing.T) {
	site := Site{"index.html": []byte("1"), "how-to/a.html": []byte("a"), "z.css": []byte("z"), indexFile: []byte(indexFirst + "[];\n")}
	dir := filepath.Join(t.TempDir(), "new")
	require.NoError(t, site.Write(dir))
	require.FileExists(t, filepath.Join(dir, "how-to", "a.html"))
	require.NoError(t, site.Write(dir))
	require.ErrorContains(t, site.Write(filepath.Join(dir, "how-to")), "has other files")
	require.NoError(t, site.Write(t.TempDir()), "it is empty")

	broken := maps.Clone(site)
	broken["b"], broken["b/c"] = nil, nil // one is in the way of the other
	for range 20 {
		half := t.TempDir()
		require.Error(t, broken.Write(half))
		require.NoError(t, site.Write(half), "another run completes it")
	}
	begun := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(begun, indexFile), nil, 0o600))
	require.NoError(t, site.Write(begun), "it has only the begin of an index")

	rustdoc := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(rustdoc, indexFile), []byte("var searchIndex = new Map();"), 0o600))
	require.ErrorContains(t, site.Write(rustdoc), "has other files")
}

func attribute(n *html.Node, key string) string {
	value, _ := dom.Attr(n, key)
	return value
}
