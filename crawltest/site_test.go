package crawltest_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/crawltest"
	_ "github.com/treadlight/crawl/sqlite"
)

func TestFakeClock(t *testing.T) {
	begin := time.Now()
	crawltest.FakeClock(t, func(t *testing.T) {
		site := crawltest.Numbered(50)
		c := must(crawl.New(crawl.Options{Fetcher: site, Politeness: crawl.PolitenessOptions{Strategy: "fixed", InitialRPS: 1, MaxRPS: 1}}))
		begin := time.Now()
		titles := map[string]bool{}
		for page, err := range c.Crawl(t.Context(), "http://shop.example/") {
			require.NoError(t, err)
			titles[page.Title()] = true
		}
		require.Len(t, titles, 50)
		require.InDelta(t, 50, time.Since(begin).Seconds(), 3, "robots.txt and fifty pages")
		last := time.Time{}
		for _, r := range site.Requests() {
			require.GreaterOrEqual(t, r.Time.Sub(last), 900*time.Millisecond, r.URL)
			last = r.Time
		}
		require.Equal(t, []int{1, 1, 0}, []int{site.Count("/robots.txt"), site.Count("http://shop.example/7"), site.Count("/51")})
	})
	t.Logf("took %v", time.Since(begin))
}

// A crawl with a state on disk follows the clock too, over runs.
func TestFakeClockWithState(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	site := crawltest.Numbered(30)
	site.Set("/3", crawltest.Page{Handler: func(w http.ResponseWriter, _ *http.Request) {
		if site.Count("/3") == 1 {
			w.Header().Set("Retry-After", "200")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<a href=/4>next</a>")
	}})
	crawltest.FakeClock(t, func(t *testing.T) {
		begin := time.Now()
		c := must(crawl.New(crawl.Options{Fetcher: site, StateDir: dir, MaxPages: 10}))
		require.NoError(t, c.Run(t.Context(), "http://shop.example/"))
		require.Greater(t, time.Since(begin), 200*time.Second, "of the Retry-After")
	})
	crawltest.FakeClock(t, func(t *testing.T) {
		state := must(crawl.OpenState(crawl.StateConfig{Dir: dir}))
		o := state.Options()
		o.Fetcher, o.MaxPages = site, 0
		c := must(crawl.New(o))
		require.NoError(t, c.Run(t.Context()))
	})
	for i := 1; i <= 30; i++ {
		path := "/" + strconv.Itoa(i)
		if i == 1 {
			path = "/"
		}
		want := 1
		if i == 3 {
			want = 2
		}
		require.Equal(t, want, site.Count(path), path)
	}
}

// A site answers the same over a network, whatever is asked of it.
func TestSite(t *testing.T) {
	site := crawltest.NewSite(map[string]crawltest.Page{
		"/": {Body: "<p>any"}, "http://one.example/": {Body: "<p>one"}, "/dead": {Err: io.ErrUnexpectedEOF}, "/slow": {Latency: time.Hour},
		"/post": {Handler: func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }},
		"/half": {Header: http.Header{"Content-Length": {"8"}}, Body: "half"},
	})
	site.Set("/new", crawltest.Page{Status: http.StatusTeapot})
	site.Remove("/gone")
	server := httptest.NewServer(site)
	defer server.Close()
	ask := func(method, url, body string) string {
		req := must(http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body)))
		do := func() (*http.Response, error) { return site.Fetch(t.Context(), req) }
		if strings.HasPrefix(url, server.URL) {
			do = func() (*http.Response, error) { return http.DefaultClient.Do(req) }
		}
		resp, err := do()
		if err != nil {
			return "error"
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			return err.Error()
		}
		return fmt.Sprint(resp.StatusCode, " ", string(text))
	}
	defer http.DefaultClient.CloseIdleConnections()
	for _, base := range []string{"http://two.example", server.URL} {
		require.Equal(t, []string{"200 <p>any", "error", "418 ", "404 not found", "200 words", "200 ", "unexpected EOF"}, []string{
			ask("GET", base+"/", ""), ask("GET", base+"/dead", ""), ask("GET", base+"/new", ""), ask("GET", base+"/gone", ""),
			ask("POST", base+"/post", "words"), ask("HEAD", base+"/", ""), ask("GET", base+"/half", ""),
		}, base)
	}
	require.Equal(t, "200 <p>one", ask("GET", "http://one.example/", ""))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	req := must(http.NewRequestWithContext(ctx, http.MethodGet, "http://two.example/slow", nil))
	_, err := site.Fetch(ctx, req)
	require.ErrorIs(t, err, context.Canceled)
	all := site.Requests()
	require.Equal(t, []string{"POST", "http://two.example/post", "words"}, []string{all[4].Method, all[4].URL, all[4].Body})
	require.Equal(t, []int{1, 2}, []int{site.Count(server.URL + "/new"), site.Count("/new")})
}

// Crawls and a client that share a politeness ask a host in turns, and the clock holds for all of them.
func TestFakeClockWithPoliteness(t *testing.T) {
	crawltest.FakeClock(t, func(t *testing.T) {
		site := crawltest.Numbered(10)
		polite := must(crawl.NewPoliteness(crawl.PolitenessOptions{Strategy: "fixed", InitialRPS: 1, MaxRPS: 1}))
		defer polite.Close()
		client := &http.Client{Transport: polite.Transport(roundTrip(site.Fetch))}
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				c := must(crawl.New(crawl.Options{Fetcher: site, Shared: polite}))
				require.NoError(t, c.Run(t.Context(), "http://shop.example/"))
			})
		}
		all.Go(func() {
			for range 5 {
				resp, err := client.Get("http://shop.example/7")
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
			}
		})
		all.Wait()
		var last time.Time
		for _, r := range site.Requests() {
			require.GreaterOrEqual(t, r.Time.Sub(last), 900*time.Millisecond, r.URL)
			last = r.Time
		}
		require.Equal(t, []int{2, 7}, []int{site.Count("/3"), site.Count("/7")})
	})
}

// roundTrip is a transport of one function.
type roundTrip func(context.Context, *http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r.Context(), r) }

// A site answers as a proxy, too, and knows sitemaps.
func TestSiteAsProxy(t *testing.T) {
	s := crawltest.NewSite(map[string]crawltest.Page{"http://one.example/sitemap.xml": {Body: "<urlset/>"}})
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://one.example/sitemap.xml", nil))
	require.Equal(t, []any{http.StatusOK, "application/xml"}, []any{w.Code, w.Header().Get("Content-Type")})
}
