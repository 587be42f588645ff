package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
)

const (
	killSitemaps = 8  // of a site, and an index that names them
	killListed   = 25 // pages of each, which nothing else leads to
)

// serveListedSite is a killSite whose pages are known from its sitemaps alone.
func serveListedSite(t *testing.T) *killSite {
	t.Helper()
	site := &killSite{want: make(map[string]bool)}
	var base string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		site.note("http://" + r.Host + r.URL.Path)
		time.Sleep(3 * time.Millisecond)
		var n int
		if r.URL.Path == "/robots.txt" {
			fmt.Fprintf(w, "Sitemap: %s/index.xml\n", base)
		} else if r.URL.Path == "/index.xml" {
			listOf(w, "sitemap", base+"/s%d.xml", 0, killSitemaps)
		} else if _, err := fmt.Sscanf(r.URL.Path, "/s%d.xml", &n); err == nil {
			listOf(w, "url", base+"/p%d", n*killListed, killListed)
		} else {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<title>A page</title>")
		}
	}))
	t.Cleanup(s.Close)
	base = s.URL
	site.seeds = []string{base + "/"}
	site.want[base+"/"], site.want[base+"/index.xml"] = true, true
	for i := range killSitemaps {
		site.want[fmt.Sprintf("%s/s%d.xml", base, i)] = true
	}
	for i := range killSitemaps * killListed {
		site.want[fmt.Sprintf("%s/p%d", base, i)] = true
	}
	return site
}

// listOf writes a sitemap of n URLs from the first, or an index.
func listOf(w http.ResponseWriter, element, format string, first, n int) {
	root := map[string]string{"sitemap": "sitemapindex", "url": "urlset"}[element]
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "<%s><loc>"+format+"</loc></%s>\n", element, first+i, element)
	}
	w.Header().Set("Content-Type", "application/xml")
	fmt.Fprintf(w, "<?xml version=\"1.0\"?><%s>%s</%s>", root, b.String(), root)
}

// TestKillSitemaps is TestKill while sitemaps are read: what an index names, and what those
// name, is found however often the crawl is ended in the middle, and each is asked for once.
func TestKillSitemaps(t *testing.T) {
	for trial := range *kills {
		t.Run(fmt.Sprint(trial), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(uint64(trial), 7))
			dir := filepath.Join(t.TempDir(), "site")
			site, k := serveListedSite(t), kept{dir: dir, records: filepath.Join(dir, "records.csv"), format: "csv", listed: true, program: shipped(t, trial)}
			for range 1 + rnd.IntN(4) {
				code, out := site.goOn(t, k, func(args []string) (int, string) {
					// The first requests are for the sitemaps.
					return killed(t, syscall.SIGKILL, site.after(1+rnd.IntN(2*killSitemaps)), deadline, args)
				})
				require.Contains(t, []int{cli.CodeDone, -1}, code, "%s", out)
			}
			site.finish(t, k)
		})
	}
}
