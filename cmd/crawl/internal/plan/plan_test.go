//go:build unix

package plan_test

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/cmd/crawl/internal/plan"
	"github.com/treadlight/crawl/cmd/crawl/internal/plan/estimate"
	"github.com/treadlight/crawl/crawltest"
	"github.com/treadlight/crawl/internal/config"
)

// page returns a page with these links, long enough not to be taken for an empty one.
func page(head string, links ...string) string {
	return "<title>t</title>" + head + "<p>" + strings.Repeat("word ", 200) + `<a href="` + strings.Join(links, `">l</a><a href="`) + `">l</a>`
}

func urls(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "<url><loc>"+format+"</loc></url>", i)
	}
	return "<urlset>" + b.String() + "</urlset>"
}

func zipped(s string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, s)
	_ = w.Close()
	return b.String()
}

// fetcher answers like a server, in memory.
type fetcher struct {
	http.Handler
	asked []time.Time // when requests came; under mu
	mu    sync.Mutex
}

func (f *fetcher) Fetch(ctx context.Context, r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	f.asked = append(f.asked, time.Now())
	f.mu.Unlock()
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "text/html")
	f.ServeHTTP(w, r.WithContext(ctx))
	return w.Result(), ctx.Err()
}

// made plans a site with a clock that stands still between events. It returns the report and when requests came.
func made(t *testing.T, site http.HandlerFunc, change func(*plan.Config)) (r *estimate.Report, asked []time.Time, err error) {
	t.Helper()
	signal.Notify(make(chan os.Signal, 1), syscall.SIGWINCH) // starts the goroutine of package signal outside of the bubble
	crawltest.FakeClock(t, func(t *testing.T) {
		f := &fetcher{Handler: site}
		cfg := plan.Config{
			Seeds: []string{"http://a.test/"}, Args: []string{"http://a.test/"}, Within: time.Minute,
			Term: cli.NewTerminal(io.Discard, nil, "plain"), Options: crawl.Options{Fetcher: f},
		}
		if change != nil {
			change(&cfg)
		}
		r, err = plan.Run(t.Context(), cfg)
		asked = f.asked
	})
	return r, asked, err
}

// handbook is a site with everything that a plan reports.
func handbook(w http.ResponseWriter, r *http.Request) {
	host := "http://" + cmp.Or(r.Host, r.URL.Host)
	switch path := r.URL.Path; {
	case path == "/robots.txt":
		fmt.Fprintf(w, "User-agent: *\nDisallow: /private\nCrawl-delay: 2\nContent-Signal: ai-train=no\nUser-agent: other\nDisallow: /\nSitemap: %s/index.xml\n", host)
	case path == "/index.xml":
		fmt.Fprint(w, "<sitemapindex>")
		for i := range 40 {
			fmt.Fprintf(w, "<sitemap><loc>/map-%d.xml.gz</loc></sitemap>", i)
		}
		fmt.Fprint(w, "<sitemap><loc>https://elsewhere.example/map.xml</loc></sitemap></sitemapindex>")
	case strings.HasPrefix(path, "/map-"):
		fmt.Fprint(w, zipped(strings.Replace(urls(1000, host+"/"+path[5:]+"/%d"), "<urlset>", "<urlset><url><loc>https://elsewhere.example/</loc></url>", 1)))
	case path == "/login":
		fmt.Fprint(w, page(`<input type="password">`))
	case path == "/app":
		fmt.Fprint(w, `<div id="root"></div><script></script><script></script>`)
	case path == "/quiet":
		fmt.Fprint(w, page(`<meta name="Robots" content="noindex, noai">`))
	default:
		fmt.Fprint(w, page("", "/login", "/app", "/quiet", "/private/x", "https://elsewhere.example/a", "https://elsewhere.example/b", "/file.pdf", fmt.Sprintf("/more%d/", len(r.URL.Path)), "/all/"+strings.ReplaceAll(r.URL.Path, "/", "-")))
	}
}

func TestPlan(t *testing.T) {
	r, asked, err := made(t, handbook, func(cfg *plan.Config) {
		cfg.Options.Scope.Exclude = []string{`\.pdf$`}
		cfg.Given = []config.FlagValue{{Name: "exclude", Value: `\.pdf$`}, {Name: "header", Value: "Authorization: hush"}}
		cfg.Seeds = append(cfg.Seeds, "http://a.test/private/")
	})
	require.NoError(t, err)
	require.Len(t, asked, plan.MostRequests)
	require.Equal(t, plan.MostRequests, r.Requests)
	for i := 2; i < len(asked); i++ { // the first request is for the robots.txt that says so
		require.GreaterOrEqual(t, asked[i].Sub(asked[i-1]), 2*time.Second)
	}
	require.Equal(t, "requests", r.Ended)
	require.Len(t, r.Hosts, 1)
	h := r.Hosts[0]
	require.Equal(t, "found", h.Robots.State)
	require.Equal(t, "*", h.Robots.Group)
	require.Equal(t, 1, h.Robots.Rules)
	require.InDelta(t, 2, h.Robots.CrawlDelaySeconds, 0)
	require.Equal(t, []string{"Content-Signal: ai-train=no"}, h.Robots.Signals)
	require.Len(t, h.Robots.ForbiddenSeeds, 1)
	require.Equal(t, "robots.txt line 2: Disallow: /private", h.Robots.ForbiddenSeeds[0].Reason)

	require.Len(t, h.Sitemaps, 4)
	require.Equal(t, 40, h.Sitemaps[0].Children, "that on another host is left out")
	require.Equal(t, 3, h.Sitemaps[0].ChildrenRead)
	require.Equal(t, 1001, h.Sitemaps[1].URLs)
	require.InDelta(t, 1000, h.Sitemaps[1].InScope, 5)
	require.True(t, strings.HasSuffix(h.Sitemaps[3].URL, "/map-39.xml.gz"), "those that are read are spread over the index")
	require.True(t, h.Size.Estimated)
	require.InDelta(t, 40_000, h.Size.URLs, 100)

	out := map[string]int{}
	for _, o := range r.Scope.Out {
		out[o.Reason] = o.Links
	}
	require.Equal(t, map[string]int{"other_host": 2, "robots": 1, "excluded": 1}, out)
	notes := map[string]bool{}
	for _, p := range r.Pages {
		for _, note := range p.Notes {
			notes[note] = true
		}
	}
	require.Equal(t, map[string]bool{"login": true, "scripts": true, "noindex": true, "noai": true}, notes)
	require.Equal(t, `crawl --exclude '\.pdf$' --output a.test/ http://a.test/`, r.Command)

	var b bytes.Buffer
	require.NoError(t, r.Write(&b, 80))
	require.NotContains(t, b.String(), "hush")
	for _, part := range []string{"Crawl-delay 2s", "index of 40 sitemaps, 3 read", "an estimate by what", "--header", "noindex"} {
		require.Contains(t, b.String(), part)
	}
}

// However many of the sitemaps in robots.txt are indexes, a plan requests at most five sitemaps, some of them lists.
func TestSeveralSitemaps(t *testing.T) {
	for _, tc := range []struct {
		kinds string // of the sitemaps in robots.txt: index of ten lists, list, or none
		want  int64
		exact bool
	}{
		{"iiiii", 5000, false},
		{"iiiiiiiiii", 10_000, false},
		{"il", 1100, false},
		{"lllll", 500, true},
		{"llllllllll", 1000, false},
		{"nnnll", 250 * 2, false},
	} {
		r, _, err := made(t, func(w http.ResponseWriter, r *http.Request) {
			kind := byte('l')
			var n int
			if _, err := fmt.Sscanf(r.URL.Path, "/root%d.xml", &n); err == nil {
				kind = tc.kinds[n]
			}
			switch path := r.URL.Path; {
			case path == "/robots.txt":
				for i := range tc.kinds {
					fmt.Fprintf(w, "Sitemap: /root%d.xml\n", i)
				}
			case !strings.HasSuffix(path, ".xml"):
				fmt.Fprint(w, page(""))
			case kind == 'i':
				fmt.Fprint(w, "<sitemapindex>")
				for i := range 10 {
					fmt.Fprintf(w, "<sitemap><loc>/of%d-%d.xml</loc></sitemap>", n, i)
				}
				fmt.Fprint(w, "</sitemapindex>")
			case kind == 'l':
				fmt.Fprint(w, urls(100, "http://a.test/p"+path+"/%d"))
			default:
				http.NotFound(w, r)
			}
		}, nil)
		require.NoError(t, err, tc.kinds)
		h := r.Hosts[0]
		require.LessOrEqual(t, len(h.Sitemaps), 5, tc.kinds)
		require.Equal(t, tc.want, h.Size.URLs, tc.kinds)
		require.Equal(t, tc.exact, !h.Size.Estimated, tc.kinds)
	}
}

// hostile returns servers with the exit code of their plan, and what the plan says.
func hostile() []hostileServer {
	hang := func(r *http.Request) { <-r.Context().Done() }
	var n atomic.Int64
	onAndOn := func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, fmt.Sprintf("/on/%d", n.Add(1)), http.StatusFound)
	}
	bomb := zipped(urls(60_000, "/a/%d"))
	return []hostileServer{
		{"a robots.txt of 10 MB", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/robots.txt" {
				_, _ = io.WriteString(w, "User-agent: *\n"+strings.Repeat("Disallow: /secret/\nSitemap: /s\n", 330_000))
				return
			}
			fmt.Fprint(w, page("", "/a", "/b"))
		}, 0, "found, "},
		{"a sitemap that grows", func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/robots.txt":
				http.NotFound(w, r)
			case "/sitemap.xml":
				_, _ = io.WriteString(w, bomb)
			default:
				fmt.Fprint(w, page("", "/a"))
			}
		}, 0, "at least 50,000 URLs"},
		{"an index of itself", func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, ".xml") {
				fmt.Fprintf(w, "<sitemapindex><sitemap><loc>/x%d.xml</loc></sitemap></sitemapindex>", n.Add(1))
				return
			}
			fmt.Fprint(w, page("", "/a"))
		}, 0, "index of 1 sitemap"},
		{"redirects without end", onAndOn, cli.CodeNothing, " leads to "},
		{"pages that redirect without end", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/robots.txt" {
				http.NotFound(w, r)
				return
			}
			onAndOn(w, r)
		}, cli.CodeNothing, "none was obtained: redirect 11 > 10"},
		{"a server that hangs", func(_ http.ResponseWriter, r *http.Request) { hang(r) }, cli.CodeNothing, "robots.txt  not read"},
		{"pages that hang", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/robots.txt" && r.URL.Path != "/" {
				hang(r)
			}
			fmt.Fprint(w, page("", "/a", "/b"))
		}, 0, "distinct URLs"},
		{"refusals", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusServiceUnavailable)
		}, cli.CodeNothing, "status 503"},
		{"a robots.txt that forbids all", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "User-agent: treadlight\nDisallow: /\n")
		}, cli.CodeNothing, "is forbidden: robots.txt line 2:"},
		{"links without end", func(w http.ResponseWriter, r *http.Request) {
			var links []string
			for range 1 + 12_000/len(r.URL.Path) {
				links = append(links, fmt.Sprintf("/%d", n.Add(1)))
			}
			fmt.Fprint(w, page("", links...))
		}, 0, "distinct URLs"},
		{"escape sequences", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "User-agent: *\nDisallow: /\x1b[31m\nContent-Signal: \x1b[2J\nSitemap: /\x1b]0;x\x07\n"+page("", "/\x1b[31m"))
		}, 0, "Content-Signal"},
	}
}

type hostileServer struct {
	name string
	site http.HandlerFunc
	code int
	says string
}

// Whatever a server does, a plan sends no more than its requests, and ends.
func TestHostileServers(t *testing.T) {
	for _, tc := range hostile() {
		t.Run(tc.name, func(t *testing.T) {
			r, asked, err := made(t, tc.site, func(cfg *plan.Config) {
				cfg.Options.Fetch.Timeout = 10 * time.Second
			})
			require.LessOrEqual(t, len(asked), plan.MostRequests)
			require.NotNil(t, r, "%v", err)
			require.LessOrEqual(t, r.Requests, plan.MostRequests)
			require.Contains(t, []int{tc.code, cli.CodeBlocked}, cli.CodeOf(err), "%v", err)
			var b bytes.Buffer
			require.NoError(t, r.Write(&b, 80))
			require.Contains(t, b.String(), tc.says)
			require.NotContains(t, b.String(), "\x1b")
			require.Less(t, b.Len(), 8<<10)
		})
	}
}

// refusing refuses connections.
type refusing struct{}

func (refusing) Fetch(context.Context, *http.Request) (*http.Response, error) {
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
}

// The report says why a host was not reached.
func TestUnreachable(t *testing.T) {
	r, _, err := made(t, nil, func(cfg *plan.Config) { cfg.Options.Fetcher = refusing{} })
	require.Equal(t, cli.CodeNothing, cli.CodeOf(err), "%v", err)
	require.Contains(t, r.Hosts[0].Trouble, "connection refused")
}

// If a seed redirects to another host, that host is planned. Of many hosts the plan looks at some.
func TestHosts(t *testing.T) {
	r, asked, err := made(t, func(w http.ResponseWriter, r *http.Request) {
		switch old := r.URL.Host == "a.test"; {
		case old && r.URL.Path == "/robots.txt":
			http.NotFound(w, r)
		case old:
			http.Redirect(w, r, "http://www.a.test"+r.URL.Path, http.StatusMovedPermanently)
		case r.URL.Path == "/robots.txt":
			fmt.Fprint(w, "User-agent: *\nCrawl-delay: 5\n")
		case r.URL.Path == "/sitemap.xml":
			fmt.Fprint(w, urls(30, "/p/%d"))
		default:
			fmt.Fprint(w, page("", "/p/1", "/p/2"))
		}
	}, nil)
	require.NoError(t, err)
	require.LessOrEqual(t, len(asked), plan.MostRequests)
	h := r.Hosts[0]
	require.Equal(t, "www.a.test", h.Host)
	require.Equal(t, "a.test", h.From)
	require.InDelta(t, 5, h.Robots.CrawlDelaySeconds, 0)
	require.EqualValues(t, 30, h.Size.URLs)
	require.False(t, h.Size.Estimated)

	r, asked, err = made(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, page("", "/a", "/b", "/c")) }, func(cfg *plan.Config) {
		for i := range 6 {
			cfg.Seeds = append(cfg.Seeds, fmt.Sprintf("http://%d.test/", i))
		}
	})
	require.NoError(t, err)
	require.LessOrEqual(t, len(asked), plan.MostRequests)
	require.Len(t, r.Hosts, 4)
	require.Equal(t, 3, r.SeedsLeft)
	for _, h := range r.Hosts {
		require.True(t, h.Obtained, h.Host)
		require.Equal(t, 3, h.Size.Links, "those of the host alone")
	}
}

// The plan has the scope of the crawl: robots.txt and sitemaps are read outside of it, also by redirects, and do not
// extend it.
func TestScopeIsThatOfTheSeeds(t *testing.T) {
	for _, ignored := range []bool{false, true} {
		var asked []string
		r, _, err := made(t, func(w http.ResponseWriter, r *http.Request) {
			asked = append(asked, r.URL.Path)
			switch r.URL.Path {
			case "/robots.txt":
				http.Redirect(w, r, "/rules.txt", http.StatusMovedPermanently)
			case "/rules.txt":
				fmt.Fprint(w, "User-agent: *\nDisallow: /docs/private\n")
			case "/sitemap.xml":
				http.Redirect(w, r, "/map.xml", http.StatusMovedPermanently)
			case "/map.xml":
				fmt.Fprint(w, strings.Replace(urls(4, "/docs/%d"), "<urlset>", "<urlset><url><loc>/shop/1</loc></url>", 1))
			default:
				fmt.Fprint(w, page("", "/", "/shop", "/docs/a"))
			}
		}, func(cfg *plan.Config) {
			cfg.Seeds, cfg.Options.Scope.Mode, cfg.Options.Politeness.IgnoreRobots = []string{"http://a.test/docs/"}, "prefix", ignored
		})
		require.NoError(t, err)
		require.Equal(t, 4, r.Hosts[0].Sitemaps[0].InScope)
		require.Equal(t, 5, r.Hosts[0].Sitemaps[0].URLs)
		require.Len(t, r.Scope.Out, 1)
		require.Equal(t, "other_prefix", r.Scope.Out[0].Reason)
		require.Equal(t, 2, r.Scope.Out[0].Links)
		if !ignored {
			require.Equal(t, 1, r.Hosts[0].Robots.Rules)
		}
		require.Contains(t, asked, "/docs/a")
		require.NotContains(t, asked, "/")
		require.NotContains(t, asked, "/shop")
		require.NotContains(t, asked, "/shop/1")
	}
}

// The seeds, and where they redirect, are requested before what sitemaps list and pages link to.
func TestSeedsComeFirst(t *testing.T) {
	r, _, err := made(t, func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.Path; path {
		case "/robots.txt":
			http.NotFound(w, r)
		case "/sitemap.xml":
			fmt.Fprint(w, urls(100, "/%d/x"))
		case "/area":
			http.Redirect(w, r, "/login", http.StatusFound)
		case "/login", "/app":
			handbook(w, r)
		default:
			fmt.Fprint(w, page("", path+"/1/y", path+"/2/y", path+"/3/y"))
		}
	}, func(cfg *plan.Config) {
		cfg.Seeds = []string{"http://a.test/", "http://a.test/more", "http://a.test/app", "http://a.test/area"}
	})
	require.NoError(t, err)
	notes := map[string][]string{}
	for _, p := range r.Pages {
		notes[strings.TrimPrefix(p.URL, "http://a.test")] = p.Notes
	}
	require.Contains(t, notes, "/more")
	require.Equal(t, []string{plan.NoteScripts}, notes["/app"])
	require.Equal(t, []string{plan.NoteLogin}, notes["/login"])
	require.EqualValues(t, 100, r.Hosts[0].Size.URLs)
}

// A server sees no more requests than the plan says, also over connections.
func TestServerCounts(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		w.Header().Set("Content-Type", "text/html")
		handbook(w, r)
	}))
	defer server.Close()
	cfg := plan.Config{Seeds: []string{server.URL}, Within: time.Minute, Term: cli.NewTerminal(io.Discard, nil, "plain")}
	cfg.Options.Politeness = crawl.PolitenessOptions{Strategy: "off", MaxCrawlDelay: -1}
	r, err := plan.Run(t.Context(), cfg)
	require.NoError(t, err)
	require.EqualValues(t, plan.MostRequests, asked.Load())
	require.Equal(t, plan.MostRequests, r.Requests)
}

// After an interrupt the plan reports what it has seen.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/robots.txt" {
			cancel()
			<-r.Context().Done()
		}
	}))
	defer server.Close()
	r, err := plan.Run(ctx, plan.Config{Seeds: []string{server.URL}, Within: time.Minute, Term: cli.NewTerminal(io.Discard, nil, "plain")})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, "found", r.Hosts[0].Robots.State)
}
