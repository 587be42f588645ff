package crawl_test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
)

// A seed is asked for by more than its URL, and an interrupted crawl that had not taken it in yet still does so.
func TestSeedsAreRequests(t *testing.T) {
	var echo echo
	o, url := fast(&echo, t)
	o.HandlersFollow, o.StateDir = true, filepath.Join(t.TempDir(), "state")
	metas := make(chan string, 10)
	o.OnPage = func(_ context.Context, p *crawl.Page) error {
		metas <- p.URL.Path + " " + p.Label() + " " + p.Meta("k")
		return nil
	}
	c := must(crawl.New(o))
	form := crawl.WithBody("text/plain", []byte("two lines\nof it"))
	require.NoError(t, c.AddSeed(url+"/form", form, crawl.WithMeta("k", "v"), crawl.WithLabel("l"), crawl.WithPriority(-5)))
	require.ErrorIs(t, c.AddSeed("mailto:a"), crawl.ErrSeed)
	require.ErrorIs(t, c.AddSeed(url, crawl.WithMethod("CONNECT")), crawl.ErrSeed)
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // the run ends before anything is asked for
	require.ErrorIs(t, c.Run(ctx, url), context.Canceled)
	require.Empty(t, echo.all())

	state := must(crawl.OpenState(crawl.StateConfig{Dir: o.StateDir}))
	again := state.Options()
	again.OnPage, again.HandlersFollow = o.OnPage, true
	c = must(crawl.New(again))
	require.NoError(t, c.AddSeed(url+"/head", crawl.WithMethod("HEAD")))
	require.NoError(t, c.Run(t.Context()))
	require.ElementsMatch(t, []string{"GET /", "POST /form  text/plain two lines\nof it", "HEAD /head"}, echo.all())
	require.ErrorIs(t, c.AddSeed(url), crawl.ErrNotRunning)
	close(metas)
	var got []string
	for m := range metas {
		got = append(got, m)
	}
	require.ElementsMatch(t, []string{"/  ", "/form l v", "/head  "}, got)
}

// A crawl whose only seeds were added is one that has seeds.
func TestAddedSeedsAreSeeds(t *testing.T) {
	o, url := fast(site{"/": "x"}, t)
	c := must(crawl.New(o))
	require.NoError(t, c.AddSeed(url))
	require.NoError(t, c.Run(t.Context()))
	require.EqualValues(t, 1, c.Snapshot().Pages)
	c = must(crawl.New(o))
	require.ErrorIs(t, c.Run(t.Context()), crawl.ErrSeed)
}

// A seed that is added without the scope is visited and does not extend it, also not by its redirect or in a later run.
func TestSeedOutsideOfScope(t *testing.T) {
	var asked []string // one at a time
	o, url := fast(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/robots.txt" {
			asked = append(asked, r.URL.Path)
		}
		if r.URL.Path == "/aside" {
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		}
	}), t)
	o.Scope.Mode, o.Concurrency, o.PerHostMax, o.HandlersFollow, o.StateDir = "prefix", 1, 1, true, filepath.Join(t.TempDir(), "state")
	o.OnPage = func(_ context.Context, p *crawl.Page) error {
		if p.URL.Path == "/docs/" || p.URL.Path == "/aside" {
			require.Equal(t, "other_prefix", p.Follow("/aside/x").Reason)
			require.Equal(t, "other_prefix", p.Follow("/elsewhere").Reason)
		}
		return nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // the first run only stores the seeds
	c := must(crawl.New(o))
	require.NoError(t, c.AddSeed(url+"/aside", crawl.WithoutScope()))
	require.ErrorIs(t, c.Run(ctx, url+"/docs/"), context.Canceled)
	state := must(crawl.OpenState(crawl.StateConfig{Dir: o.StateDir}))
	again := state.Options()
	again.OnPage, again.HandlersFollow = o.OnPage, true
	c = must(crawl.New(again))
	require.NoError(t, c.Run(t.Context()))
	require.ElementsMatch(t, []string{"/aside", "/docs/"}, asked)
}

// A loop may add a seed while it holds the last page; the crawl then ends by itself.
func TestSeedsOfALoop(t *testing.T) {
	o, url := fast(site{"/": "x", "/more": "y"}, t)
	c := must(crawl.New(o))
	var paths []string
	for page, err := range c.Crawl(t.Context(), url) {
		require.NoError(t, err)
		if paths = append(paths, page.URL.Path); len(paths) == 1 {
			require.NoError(t, c.AddSeed(url+"/more"))
		}
	}
	require.Equal(t, []string{"/", "/more"}, paths)
	require.Equal(t, "done", c.Snapshot().State)
}

// With HandlersFollow and IgnoreSitemaps, nothing follows the URLs of a seed that is a sitemap.
func TestSitemapAsSeed(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	o, url := fast(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.URL.Path != "/robots.txt" {
			asked = append(asked, r.URL.Path)
		}
		w.Header().Set("Content-Type", "application/xml")
		if r.URL.Path == "/index" {
			fmt.Fprintf(w, "<sitemapindex><sitemap><loc>http://%s/list</loc></sitemap></sitemapindex>", r.Host)
		} else {
			fmt.Fprintf(w, "<urlset><url><loc>http://%s/page</loc></url></urlset>", r.Host)
		}
	}), t)
	o.HandlersFollow, o.Scope.IgnoreSitemaps = true, true
	o.OnPage = func(context.Context, *crawl.Page) error { return nil }
	require.NoError(t, must(crawl.New(o)).Run(t.Context(), url+"/index", url+"/map"))
	require.ElementsMatch(t, []string{"/index", "/map"}, asked)
}
