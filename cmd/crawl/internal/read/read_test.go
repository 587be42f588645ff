package read

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	_ "github.com/treadlight/crawl/maintext"
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

// headings returns the paths in the headings of what was printed.
func headings(out string) (paths []string) {
	for line := range strings.Lines(out) {
		if path, ok := strings.CutPrefix(line, "# Page "); ok {
			paths = append(paths, strings.TrimSpace(path))
		}
	}
	return paths
}
