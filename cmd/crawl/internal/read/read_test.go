package read

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/crawltest"
	_ "github.com/treadlight/crawl/maintext"
	"github.com/treadlight/crawl/record"
)

// Of a response that breaks off the beginning is printed, and the exit code says that there is more.
func TestResponseBreaksOff(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Content-Length", "90000")
		_, _ = io.WriteString(w, "<title>T</title><h1>Head</h1>"+strings.Repeat("<p>Some words of a paragraph.</p>", 30))
	}))
	defer server.Close()
	var out, messages strings.Builder
	err := Run(t.Context(), Config{
		URLs: []string{server.URL + "/"}, Options: crawl.Options{}, Out: &out, Term: cli.NewTerminal(&messages, nil, "none"),
	})
	require.Equal(t, cli.CodeLimit, cli.CodeOf(err))
	require.ErrorContains(t, err, "was read in part")
	require.Contains(t, out.String(), "Some words of a paragraph.")
	require.Contains(t, messages.String(), "only the beginning is read: the response broke off")
}

// Several pages are one crawl: robots.txt is asked for once, and pages are printed in the order in which they were given,
// though the first response is the last to come, and one page twice if it was given twice.
func TestSeveralPages(t *testing.T) {
	var robots atomic.Int32
	others := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/robots.txt":
			robots.Add(1)
			http.NotFound(w, r)
			return
		case "/moved":
			http.Redirect(w, r, "/c", http.StatusFound)
			return
		case "/a":
			<-others // is closed once the last page was asked for
		case "/b":
			defer close(others)
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<h1>Page "+r.URL.Path+"</h1><p>Some words of a paragraph that is read.</p>")
	}))
	defer server.Close()
	var out, messages strings.Builder
	o := crawl.Options{}
	o.Politeness.Strategy = "off"
	err := Run(t.Context(), Config{
		URLs: []string{server.URL + "/a", server.URL + "/moved", server.URL + "/robots.txt", server.URL + "/a#twice", server.URL + "/b"}, Options: o,
		Out: &out, Term: cli.NewTerminal(&messages, nil, "none"),
	})
	require.ErrorContains(t, err, "/robots.txt was not read")
	require.Equal(t, []string{"/a", "/c", "/a", "/b"}, headings(out.String()))
	require.EqualValues(t, 2, robots.Load(), "one of the crawl, and the one that was given as a page")
}

// Archives answer in place of the site: with the last response, also if its body is in another record or in an earlier
// round, with redirects, and not with what they do not have.
func TestArchive(t *testing.T) {
	page := func(title string) crawltest.Page {
		return crawltest.Page{Body: "<h1>Page /" + title + "</h1><p>Some words of a paragraph that is read.</p>"}
	}
	site := crawltest.NewSite(map[string]crawltest.Page{
		"/a": page("a"), "/b": page("b"), "/same": page("b"), "/old": {Status: http.StatusFound, Header: http.Header{"Location": {"/b"}}},
	})
	dir := filepath.Join(t.TempDir(), "site.warc.gz") // a directory may be named as a file is
	round := func(paths ...string) {
		archive, err := crawl.OpenArchive(crawl.ArchiveConfig{Dir: dir, GoOn: true})
		require.NoError(t, err)
		o := crawl.Options{Fetcher: site, Archives: []record.Sink{archive}}
		o.Politeness.Strategy, o.Scope.IgnoreSitemaps = "off", true
		c, err := crawl.New(o)
		require.NoError(t, err)
		require.NoError(t, c.Run(t.Context(), paths...))
		require.NoError(t, archive.Close())
	}
	const at = "https://site.example"
	round(at+"/a", at+"/b", at+"/same", at+"/old")
	site.Set("/a", page("new"))
	round(at+"/a", at+"/b")
	archive, rest, err := OpenArchive([]string{dir, at + "/a"})
	require.NoError(t, err)
	require.Equal(t, []string{at + "/a"}, rest)
	var list strings.Builder
	require.NoError(t, archive.List(&list, false))
	require.Contains(t, list.String(), "\n302 text/plain       "+at+"/old\n")
	require.Contains(t, list.String(), "200 text/html        "+at+"/same\n")

	var out, messages strings.Builder
	o := crawl.Options{Fetcher: archive}
	o.Politeness.Strategy, o.Politeness.IgnoreRobots = "off", true
	seen := len(site.Requests())
	err = Run(t.Context(), Config{URLs: []string{at + "/old", at + "/none", at + "/same", at + "/a"}, Options: o, Out: &out, Term: cli.NewTerminal(&messages, nil, "none")})
	require.ErrorContains(t, err, "/none was not read")
	require.Contains(t, messages.String(), "the archive does not have it")
	require.Equal(t, []string{"/b", "/b", "/new"}, headings(out.String()))
	require.Len(t, site.Requests(), seen)

	none, rest, err := OpenArchive([]string{at + "/a"})
	require.NoError(t, err)
	require.Nil(t, none)
	require.Len(t, rest, 1)
}

// headings returns the paths in the headings of what was printed.
func headings(out string) (paths []string) {
	for line := range strings.Lines(out) {
		if path, ok := strings.CutPrefix(line, "# Page "); ok {
			paths = append(paths, strings.TrimSpace(path))
		}
	}
	return paths
}

// A file that is no page is told as what it is, and not as a page that is empty without its scripts.
func TestFilesAreNoPages(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/a.pdf":
			w.Header().Set("Content-Type", "application/pdf")
			_, _ = io.WriteString(w, "%PDF-1.4")
		case "/empty":
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<script src=a.js></script>")
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	var out, messages strings.Builder
	err := Run(t.Context(), Config{
		URLs: []string{server.URL + "/a.pdf", server.URL + "/empty"}, Options: crawl.Options{Politeness: crawl.PolitenessOptions{Strategy: "off"}},
		Out: &out, Term: cli.NewTerminal(&messages, nil, "none"),
	})
	require.Equal(t, cli.CodeNothing, cli.CodeOf(err))
	require.Contains(t, messages.String(), "/a.pdf: it is application/pdf, of which no text is read; 'crawl mirror --keep application/pdf -o DIR URL' downloads such files\n")
	require.Contains(t, messages.String(), "/empty: it has no text: it may be empty without its scripts (try --render auto), or no HTML\n")
}
