package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve is a site of three pages, one dead link, one link out, and a file that is no page.
func serve(t *testing.T) string {
	t.Helper()
	pages := map[string]string{
		"/":       `<html><a href="/a.html">a</a> <a href="a.html#part">again</a> <a href="/gone.html">x</a> <a name="none">`,
		"/a.html": `<html><area href="b.html"><a href="#top">top</a><a href="notes.txt">t</a>`,
		"/b.html": `<html><iframe src="/"></iframe><a href="http://elsewhere.invalid/">out</a>`,
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page, found := pages[r.URL.Path]
		switch {
		case found:
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte(page))
		case r.URL.Path == "/notes.txt":
			w.Header().Set("Content-Type", "text/plain")
			_, _ = w.Write([]byte(`<a href="/never">`))
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

func TestContenders(t *testing.T) {
	origin := serve(t)
	list := filepath.Join(t.TempDir(), "list")
	require.NoError(t, os.WriteFile(list, []byte("/\n/a.html\n/b.html\n/notes.txt\n/gone.html\n/50%.html\n"), 0o600))
	profiles := t.TempDir()
	cpu, allocs := filepath.Join(profiles, "cpu"), filepath.Join(profiles, "allocs")
	for _, tc := range []struct{ args, want string }{
		{"fetch -list " + list + " -origin " + origin, "pages=3 links=0\n"},
		{"tokens -list " + list + " -origin " + origin, "pages=3 links=8\n"},
		{"colly -in-flight 2 " + origin + "/", "pages=3 links=7\n"},
		{"crawl -runs 2 -cpu " + cpu + " -allocs " + allocs + " " + origin + "/", "pages=8 links=0\n"},
	} {
		t.Run(tc.args[:5], func(t *testing.T) {
			var out bytes.Buffer
			require.NoError(t, run(strings.Fields(tc.args), &out))
			require.Equal(t, tc.want, out.String())
		})
	}
	for _, path := range []string{cpu, allocs} {
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.NotZero(t, info.Size(), path)
	}
}

func TestRefusals(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none")
	for _, args := range []string{"", "nothing", "colly", "crawl", "fetch -nonsense"} {
		require.ErrorIs(t, run(strings.Fields(args), nil), errUsage, args)
	}
	require.ErrorIs(t, run([]string{"fetch", "-list", missing, "-origin", "http://127.0.0.1"}, nil), os.ErrNotExist)
	require.Error(t, run([]string{"crawl", "-cpu", missing + "/cpu", "http://127.0.0.1:1/"}, nil))
}

func TestLinks(t *testing.T) {
	for page, want := range map[string]int64{
		"":                                   0,
		`<a href=x><a href="">`:              1,
		`<A HREF='x' href=y>`:                1, // the first of a name counts
		`<img src=x><script src=y></script>`: 0,
		`<frame src=x/><link href=y>`:        2,
		`<!-- <a href=x> --><a href=y`:       0,
	} {
		require.Equal(t, want, links([]byte(page)), page)
	}
}
