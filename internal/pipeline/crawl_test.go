package pipeline

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/testsite"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/request"
	"github.com/treadlight/crawl/internal/web/scope"
	"github.com/treadlight/crawl/record"
)

func TestWholeSite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, testsite.Config{Seed: 7, Hosts: []testsite.Host{{
			Count: 3, Pages: 40, CrossLinks: 5, HostLinks: 2, Media: 3, Redirects: 4, Missing: 3,
			Latency: testsite.Latency{Typical: 20 * time.Millisecond},
		}}})
		p := w.finish(t, EndDone)
		r := w.requireWhole(t)
		require.Equal(t, int64(3), r.Total.Robots, "robots.txt is asked for once per host")
		s := p.Snapshot()
		require.Zero(t, s.Frontier.Queued+s.Frontier.Leased)
		require.Equal(t, int64(len(w.out.records)), s.Records)
		require.Equal(t, s.Frontier.Known, s.Records, "one record per URL that entered the frontier")
		require.Equal(t, r.Total.Requests, s.Requests)
	})
}

// The workers are paced by the limiter: with a rate that cannot rise, so many pages
// take so long, and no two requests are closer than the interval.
func TestPacedByLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, testsite.Uniform(2, 10, 30*time.Millisecond))
		w.limits.InitialRPS, w.limits.MaxRPS = 2, 2
		p := w.must(t)
		r := w.requireWhole(t)
		for _, h := range r.Hosts {
			// robots.txt and ten pages are eleven requests: ten intervals of half a second.
			require.GreaterOrEqual(t, h.MinGap, 499*time.Millisecond, h.Name)
		}
		require.InDelta(t, 5.03, p.Snapshot().ElapsedSeconds, 0.2)
		requireQuietWorkers(t, p)
	})
}

func requireQuietWorkers(t *testing.T, p *Pipeline) {
	t.Helper()
	s := p.Snapshot()
	require.LessOrEqual(t, s.Workers.WaitSeconds, 0.01*s.Workers.BusySeconds, "worker wait")
}

func TestRobotsStatuses(t *testing.T) {
	for _, tc := range []struct {
		name   string
		robots testsite.Robots
		pages  int  // served in the end
		denied bool // every URL ends as refused
	}{
		{"missing", testsite.Robots{}, 5, false},
		{"forbidden", testsite.Robots{Status: 403}, 5, false},
		{"unavailable for a while", testsite.Robots{Allow: true, Status: 503, Times: 2}, 5, false},
		{"throttled for a while", testsite.Robots{Allow: true, Status: 429, Times: 2}, 5, false},
		{"broken for good", testsite.Robots{Status: 500}, 0, true},
	} {
		t.Run(tc.name, bubble(func(t *testing.T) {
			w := newWorld(t, testsite.Config{Hosts: []testsite.Host{{Pages: 5, Robots: tc.robots}}})
			w.must(t)
			r := w.site.Report()
			require.EqualValues(t, tc.pages, r.Total.Distinct)
			require.Zero(t, r.Total.BeforeRobots)
			require.Zero(t, r.Total.RobotsViolations)
			if tc.denied {
				require.Len(t, w.out.records, 1)
				require.Equal(t, "server_error", w.out.records[0].Error.Class)
				require.Contains(t, w.out.records[0].Error.Message, "500")
			}
		}))
	}
}

// robots.txt may be a redirect, even to another host; the rules hold for the origin that was asked.
func TestRobotsRedirect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, net := served(t, map[string]http.Handler{
			"a.test": files{"/robots.txt": "-> http://b.test/rules", "/": `<a href="/no">no</a><a href="/yes">yes</a>`},
			"b.test": files{"/rules": "User-agent: *\nDisallow: /no\n"},
		})
		w.must(t, "http://a.test/")
		require.Equal(t, 1, net.Count("b.test", "/rules"))
		require.Zero(t, net.Count("a.test", "/no"))
		require.Equal(t, 1, net.Count("a.test", "/yes"))
	})
}

func TestFailuresEndTheCrawl(t *testing.T) {
	for what, failing := range map[string]func(*world){
		"write output":  func(w *world) { w.out.fail = errFull },
		"write archive": func(w *world) { w.Archives = []record.Sink{&memorySink{fail: errFull}} },
		"keep the state of the crawl": func(w *world) {
			state := newJournal(1)
			w.State = state.state()
			time.AfterFunc(3*time.Second, func() { state.fail(errFull) })
		},
	} {
		t.Run(what, bubble(func(t *testing.T) {
			w := newWorld(t, testsite.Uniform(2, 50, 0))
			failing(w)
			p, err := w.crawl(t)
			require.ErrorIs(t, err, errFull)
			require.ErrorContains(t, err, what)
			requireEnd(t, p, EndFailed)
		}))
	}
}

// What a handler makes of a page is the page's: its error, and the links that it follows if it does not fail.
// It ends the crawl with ErrStop only.
func TestHandlers(t *testing.T) {
	for _, tc := range []struct {
		name    string
		handle  func(*Page) error
		end     End
		records int
		class   string
		left    string // a URL that is not visited
	}{
		{"an error", func(p *Page) error { follow(p, "/extra"); return errFull }, EndDone, 21, "handler: no space left on device", "/extra"},
		{"the end", func(*Page) error { return fmt.Errorf("enough: %w", ErrStop) }, EndInterrupted, 1, "", ""},
		{"a link", func(p *Page) error { follow(p, "/extra"); return nil }, EndDone, 22, "", ""},
	} {
		t.Run(tc.name, bubble(func(t *testing.T) {
			w, _ := served(t, map[string]http.Handler{"a.test": noRobots(func(rw http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/" {
					html(rw, links(20))
				}
			})})
			w.Concurrency = 1
			w.Handle = func(_ context.Context, p *Page) error {
				if p.URL == "http://a.test/" {
					return tc.handle(p)
				}
				return nil
			}
			p := w.build(t)
			require.NoError(t, w.run(t.Context(), t, p, "http://a.test/"))
			requireEnd(t, p, tc.end)
			require.Len(t, w.out.records, tc.records)
			got := ""
			for _, r := range w.out.records {
				if r.Error != nil {
					got += r.Error.Class + ": " + r.Error.Message
				}
				require.NotEqual(t, "http://a.test"+tc.left, r.URL)
			}
			require.Equal(t, tc.class, got)
		}))
	}
}

func follow(p *Page, ref string) {
	if _, d, err := p.Follow(ref, request.Request{}); err != nil || !d.In {
		panic(fmt.Sprint(d, err))
	}
}

func TestLimits(t *testing.T) {
	t.Run("pages", bubble(func(t *testing.T) {
		w := newWorld(t, testsite.Uniform(2, 50, 0))
		w.MaxPages = 7
		w.finish(t, EndLimit)
		require.Len(t, w.out.records, 7)
	}))
	t.Run("time", bubble(func(t *testing.T) {
		w := newWorld(t, testsite.Uniform(2, 500, 50*time.Millisecond))
		w.MaxTime = 10 * time.Second
		w.finish(t, EndLimit)
		require.InDelta(t, 10, time.Since(w.began).Seconds(), 0.2)
	}))
	t.Run("pages of a host", bubble(func(t *testing.T) {
		w := newWorld(t, testsite.Uniform(2, 50, 0))
		w.MaxPagesPerHost = 5
		p := w.finish(t, EndDone)
		require.Len(t, w.out.records, 10)
		require.NotZero(t, p.Snapshot().Dropped["host_pages"])
	}))
	t.Run("blocked", bubble(func(t *testing.T) {
		w := newWorld(t, testsite.Config{Hosts: []testsite.Host{
			{Name: "shut", Pages: 5, Limit: testsite.Limit{Requests: 2, Window: 24 * time.Hour}, Refusal: testsite.Refusal{RetryAfter: "seconds"}},
			{Name: "open", Pages: 20},
		}})
		w.finish(t, EndBlocked)
		require.Less(t, time.Since(w.began), time.Minute, "an hour's Retry-After is not waited for")
		require.Zero(t, w.site.Report().Total.InsideRetryAfter)
	}))
	t.Run("refused for ever", bubble(func(t *testing.T) {
		w := newWorld(t, testsite.Config{Hosts: []testsite.Host{
			{Pages: 5, Outages: []testsite.Outage{{After: time.Second, For: 100 * time.Hour, Mode: "status", Status: 429}}},
		}})
		w.finish(t, EndBlocked)
		require.InDelta(t, 5*60, time.Since(w.began).Seconds(), 60)
	}))
}

func TestRedirects(t *testing.T) {
	page := func(body string) http.HandlerFunc {
		return func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", "text/html")
			_, _ = rw.Write([]byte(body))
		}
	}
	to := func(url string) http.HandlerFunc {
		return func(rw http.ResponseWriter, r *http.Request) { http.Redirect(rw, r, url, http.StatusMovedPermanently) }
	}
	mux := http.NewServeMux()
	mux.Handle("/", to("http://www.a.test/"))
	www := http.NewServeMux()
	www.Handle("/robots.txt", http.NotFoundHandler())
	www.Handle("/{$}", page(`<title> Home </title><a href="/loop">l</a><a href="/away">a</a><a href="/1">1</a><a href=/nowhere>n</a>`))
	www.Handle("/loop", to("/loop2"))
	www.Handle("/loop2", to("/loop"))
	www.Handle("/away", to("http://b.test/"))
	www.HandleFunc("/nowhere", func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusFound) })
	www.HandleFunc("/{n}", func(rw http.ResponseWriter, r *http.Request) { // /1 → /11 → /111 …
		http.Redirect(rw, r, r.URL.Path+"1", http.StatusFound)
	})
	synctest.Test(t, func(t *testing.T) {
		w, net := served(t, map[string]http.Handler{"a.test": mux, "www.a.test": www, "b.test": page("out of scope")})
		w.must(t, "http://a.test/")
		got := w.out.byURL(t)
		require.Equal(t, "http://www.a.test/", got["http://a.test/"].RedirectTo)
		require.Equal(t, "Home", got["http://www.a.test/"].Title, "where a seed redirects to is in scope")
		require.Equal(t, 1, net.Count("www.a.test", "/loop"))
		require.Equal(t, 1, net.Count("www.a.test", "/loop2"))
		require.Zero(t, net.Count("b.test", "/"))
		require.Equal(t, classBadLocation, got["http://www.a.test/nowhere"].Error.Class)
		last := got["http://www.a.test/"+strings.Repeat("1", 11)]
		require.Equal(t, classRedirect, last.Error.Class, "the eleventh redirect in a row")
		require.NotContains(t, got, "http://www.a.test/"+strings.Repeat("1", 12))
	})
}

// A seed whose host has no address ends in a record that says so, soon.
func TestSeedWithoutAnAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := served(t, nil)
		p := w.finish(t, EndDone, "http://nowhere.test/")
		require.Zero(t, p.Snapshot().Answered)
		require.Len(t, w.out.records, 1)
		require.Equal(t, "no_host", w.out.records[0].Error.Class)
		require.Contains(t, w.out.records[0].Error.Message, "no such host")
		require.Less(t, time.Since(w.began), time.Second)
	})
}

// Seeds may come from somebody who types: a crawl that has reached its limit does not wait for the next one.
func TestLimitEndsTheWaitForSeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, testsite.Uniform(1, 50, 0))
		w.MaxPages = 3
		p := w.build(t)
		first, err := canonical.Parse(w.site.URL(0))
		require.NoError(t, err)
		require.NoError(t, p.Run(t.Context(), func(yield func(request.Seed) bool) {
			if yield(request.Seed{URL: first}) {
				<-p.Halted()
			}
		}))
		requireEnd(t, p, EndLimit)
	})
}

func TestRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, testsite.Uniform(1, 1, 0))
		p := w.must(t)
		require.ErrorContains(t, w.run(t.Context(), t, p), "Run was called before")
	})
}

// The pages of a host are asked for in the order that was chosen.
func TestOrderOfAHost(t *testing.T) {
	// A tree: the page /a links to /aa and /ab, and so on to a depth of four.
	tree := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p := r.URL.Path; len(p) < 4 {
			html(w, fmt.Sprintf("<a href=%sa></a><a href=%sb></a>", p, p))
			return
		}
		html(w, "leaf")
	})
	for name, tt := range map[string]struct {
		order  string
		scores []scope.Score
		want   []string
	}{
		"found":   {"found", nil, []string{"/", "/a", "/b", "/aa", "/ab", "/ba", "/bb", "/aaa"}},
		"breadth": {"breadth", nil, []string{"/", "/a", "/b", "/aa", "/ab", "/ba", "/bb", "/aaa"}},
		"depth":   {"depth", nil, []string{"/", "/a", "/aa", "/aaa", "/aab", "/ab", "/aba", "/abb"}},
		"scores":  {"breadth", []scope.Score{{Match: regexp.MustCompile(`/b`), Points: 5}, {Match: regexp.MustCompile(`b$`), Points: -5}}, []string{"/", "/b", "/ba", "/bb", "/baa", "/bab", "/bba", "/bbb"}},
		// Points decide before depth, and of equals the one found first goes, whatever it was found on.
		"depth and scores": {"depth", []scope.Score{{Match: regexp.MustCompile(`b$`), Points: 1}}, []string{"/", "/b", "/bb", "/bbb", "/bba", "/ba", "/bab", "/baa"}},
	} {
		t.Run(name, bubble(func(t *testing.T) {
			w, _ := served(t, map[string]http.Handler{"h.test": tree})
			w.Robots, w.PerHost, w.Concurrency, w.Processors = nil, 1, 1, 1
			w.limits.InitialRPS = 1 // so that links are known before the next page is due
			w.Rank = scope.NewRank(tt.order, tt.scores)
			w.finish(t, EndDone, "http://h.test/")
			var got []string
			for _, rec := range w.out.records {
				got = append(got, rec.URL[len("http://h.test"):])
			}
			require.Len(t, got, 15)
			require.Equal(t, tt.want, slices.Clip(got[:8]))
		}))
	}
}
