package integration_test

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/internal/lab/testsite"
	"github.com/treadlight/crawl/internal/pipeline"
)

// Crawls share nothing: two at once over one site, with different settings, and twenty
// small ones, each see what they see alone.
func TestCrawlsDoNotDisturbEachOther(t *testing.T) {
	site := serveSite(t, testsite.Config{Base: "127.0.20.1", Seed: 3, Hosts: []testsite.Host{
		{Count: 2, Pages: 60, CrossLinks: 3, HostLinks: 1, Media: 4, Redirects: 4, Missing: 3},
	}})
	var kinds []assembly.Config
	for i := range 4 {
		cfg := unpaced()
		if cfg.Scope.Resources = i&2 != 0; i&1 != 0 {
			cfg.Output.Record = []string{"text"}
		}
		cfg.Concurrency, cfg.PerHostMax = 4+i, 2+i
		cfg.Fetch.UserAgent = fmt.Sprintf("kind %d", i)
		cfg.Robots.Enabled = i != 3
		kinds = append(kinds, cfg)
	}
	solo := make([]map[string]string, len(kinds))
	for i, cfg := range kinds {
		list, _ := visit(t, cfg, site.URLs()...)
		byURL(t, list)
		solo[i] = content(list)
	}
	require.NotEqual(t, solo[0], solo[1], "the settings make a difference")
	var all sync.WaitGroup
	for n := range 20 {
		all.Go(func() {
			list, snap := visit(t, kinds[n%len(kinds)], site.URLs()...)
			require.Equal(t, solo[n%len(kinds)], content(list), "crawl %d", n)
			require.Len(t, list, int(snap.Records))
		})
	}
	all.Wait()
}

func TestBadSeedsAreNamedTogether(t *testing.T) {
	c, err := assembly.New(assembly.DefaultConfig())
	require.NoError(t, err)
	bad := []string{"", "ftp://a.test/", "http://", "http://user:secret@a.test/", "http://a.test:99999/", "mailto:x@a.test", "http://[::1/", "http://a b.test/"}
	err = c.Run(t.Context(), append([]string{"http://fine.test/"}, bad...)...)
	require.ErrorIs(t, err, crawl.ErrSeed)
	require.Len(t, strings.Split(err.Error(), "\n"), len(bad), err)
	require.NotContains(t, err.Error(), "secret")
	require.NotContains(t, err.Error(), "fine.test")
	require.ErrorIs(t, assembly.Check(bad...), crawl.ErrSeed)
	require.NoError(t, assembly.Check("a.test", "http://a.test", " https://a.test/x "))
	for page, err := range c.Pages(t.Context(), "ftp://a.test/") {
		require.Nil(t, page)
		require.ErrorIs(t, err, crawl.ErrSeed)
	}
}

// Whoever leaves the loop ends the crawl, by a panic too: no request is begun after that, and nothing is left running
// (the bubble would not end).
func TestLeavingPagesEndsTheCrawl(t *testing.T) {
	for _, panics := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			net := fetchtest.Serve(t, map[string]http.Handler{"a.test": star(500)})
			c := newOver(t, assembly.DefaultConfig(), net.DialContext)
			loop := func() {
				n := 0
				for _, err := range c.Pages(t.Context(), "http://a.test/") {
					require.NoError(t, err)
					if n++; n == 10 && panics {
						panic("mine")
					} else if n == 10 {
						break
					}
				}
			}
			if panics {
				require.PanicsWithValue(t, "mine", loop)
			} else {
				loop()
			}
			made := len(net.Requests())
			time.Sleep(time.Minute)
			require.Len(t, net.Requests(), made, "requests after the loop was left")
			require.LessOrEqual(t, made, 12, "robots.txt, ten pages, and one that was on its way")
			require.Equal(t, map[bool]string{true: "failed", false: "interrupted"}[panics], c.Snapshot().State.String())
		})
	}
}

// A consumer that takes a page a minute holds the crawl back: what has been fetched and
// not yet taken never exceeds the workers and the buffers between the stages.
func TestSlowConsumerHoldsTheCrawlBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := fetchtest.Serve(t, map[string]http.Handler{"a.test": star(200)})
		cfg := assembly.DefaultConfig()
		cfg.Concurrency, cfg.PerHostMax = 4, 4
		cfg.RateLimit.Strategy = "off"
		c := newOver(t, cfg, net.DialContext)
		taken, most := 0, 0
		bodies := make(map[string]*pipeline.Page)
		for page, err := range c.Pages(t.Context(), "http://a.test/") {
			require.NoError(t, err)
			taken++
			time.Sleep(time.Minute)
			most = max(most, len(net.Requests())-1-taken)
			bodies[page.URL] = page.Clone()
		}
		require.Equal(t, 201, taken)
		t.Logf("at most %d pages fetched and not taken", most)
		// A page per worker, per parser and per place between them; parsers are one per CPU.
		require.Less(t, most, 200)
		for url, page := range bodies {
			if name := strings.TrimPrefix(url, "http://a.test/"); name != "" {
				require.Equal(t, strings.Repeat("page "+name+"\n", 100), string(page.Body), "the clone is the caller's")
			}
		}
	})
}

func TestPagesEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := fetchtest.Serve(t, map[string]http.Handler{"a.test": star(500)})
		c := newOver(t, assembly.DefaultConfig(), net.DialContext)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		n := 0
		var ends []error
		for page, err := range c.Pages(ctx, "http://a.test/") {
			if err != nil {
				require.Nil(t, page)
				ends = append(ends, err)
				continue
			}
			require.Empty(t, ends, "the error comes last")
			if n++; n == 10 {
				cancel()
			}
		}
		require.Len(t, ends, 1)
		require.ErrorIs(t, ends[0], context.Canceled)
		require.Less(t, n, 15)
	})
}

// The page is the caller's: he may change it while sinks write the record.
func TestPagesMayBeChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := fetchtest.Serve(t, map[string]http.Handler{"a.test": star(50)})
		c, out := recorded(t, unpaced(), net.DialContext)
		for page, err := range c.Pages(t.Context(), "http://a.test/") {
			require.NoError(t, err)
			clear(page.Body)
			page.Header.Set("X-Mine", "yes")
		}
		require.Equal(t, "http://a.test/1", byURL(t, out.list)["http://a.test/"].Links[0])
	})
}

// A handler that ends its goroutine, as t.FailNow does, ends the crawl and does not
// leave it waiting for a page that never comes back.
func TestHandlerThatExits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := fetchtest.Serve(t, map[string]http.Handler{"a.test": star(50)})
		cfg := assembly.DefaultConfig()
		var calls atomic.Int64
		cfg.Handle = func(context.Context, *pipeline.Page) error {
			if calls.Add(1) == 5 {
				runtime.Goexit()
			}
			return nil
		}
		c := newOver(t, cfg, net.DialContext)
		require.ErrorContains(t, c.Run(t.Context(), "http://a.test/"), "handler")
		require.LessOrEqual(t, len(net.Requests()), 8)
	})
}
