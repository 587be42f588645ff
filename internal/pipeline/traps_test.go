package pipeline

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/internal/web/scope"
)

func bound(n int, pattern string, perCrawl bool) scope.Budget {
	return scope.Budget{Match: regexp.MustCompile(pattern), MaxPages: n, PerCrawl: perCrawl}
}

func calendar(days, pages int) http.HandlerFunc {
	return noRobots(func(rw http.ResponseWriter, r *http.Request) {
		day := 0
		_, _ = fmt.Sscanf(r.URL.Path, "/cal/%d", &day)
		var b strings.Builder
		for i := range days {
			fmt.Fprintf(&b, "<a href=/cal/%d>x</a>", day+i+1)
		}
		html(rw, b.String()+links(pages))
	})
}

func (s *memorySink) of(prefix string) (n int) {
	for _, rec := range s.records {
		if strings.HasPrefix(rec.URL, prefix) {
			n++
		}
	}
	return n
}

// A calendar without an end costs so many pages, of each host or of the crawl, and the
// rest of the site is visited. It is said once what was dropped, and what to change.
func TestBudgetsOfACrawl(t *testing.T) {
	hosts := map[string]http.Handler{"a.test": calendar(5, 8), "b.test": calendar(1, 8), "c.test": http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { html(rw, links(6)) })}
	for _, tc := range []struct {
		name    string
		list    []scope.Budget
		a, b, c int // pages of the calendars, and all of c
	}{
		{"of each host", []scope.Budget{bound(12, `/cal/`, false)}, 12, 12, 7},
		{"of all", []scope.Budget{bound(11, `^http://a\.test/cal/`, true), bound(3, `/cal/`, true)}, 11, 3, 7},
		{"with seeds", []scope.Budget{bound(4, `/cal/`, false), bound(1, `c\.test`, false)}, 4, 4, 1},
	} {
		t.Run(tc.name, bubble(func(t *testing.T) {
			w, _ := served(t, hosts)
			w.Budgets = scope.NewBudgets(tc.list)
			var log bytes.Buffer
			w.Log = slog.New(slog.NewTextHandler(&log, nil))
			p := w.finish(t, EndDone, "http://a.test/", "http://b.test/", "http://c.test/")
			w.out.byURL(t)
			require.Equal(t, tc.a, w.out.of("http://a.test/cal/"))
			require.Equal(t, tc.b, w.out.of("http://b.test/cal/"))
			require.Equal(t, tc.a+9, w.out.of("http://a.test/"), "all else is there")
			require.Equal(t, tc.c, w.out.of("http://c.test/"))
			require.Positive(t, p.Snapshot().Dropped["budget"])
			require.Len(t, p.Snapshot().Dropped, 1)
			require.Equal(t, len(tc.list), strings.Count(log.String(), `msg="links are being dropped" reason=budget first=http`), log.String())
			for i := range tc.list {
				require.Equal(t, 1, strings.Count(log.String(), fmt.Sprintf(`fix="raise scope.budgets[%d]"`, i)), log.String())
			}
		}))
	}
}

// What is known is neither counted nor dropped: a site that is as large as its budget is visited without a word. Seeds
// are visited whatever is left, and leave less to links.
func TestBudgetsOfKnownURLsAndSeeds(t *testing.T) {
	for _, tc := range []struct {
		days, pages, budget int
		seeds               string
		visited             int
		dropped             map[string]int64
	}{
		{0, 30, 31, "http://a.test/", 31, map[string]int64{}},
		{2, 0, 2, "http://a.test/cal/10 http://a.test/cal/20 http://a.test/cal/30 http://a.test/cal/40", 4, map[string]int64{"budget": 8}},
	} {
		synctest.Test(t, func(t *testing.T) {
			w, _ := served(t, map[string]http.Handler{"a.test": calendar(tc.days, tc.pages)})
			w.Budgets = scope.NewBudgets([]scope.Budget{bound(tc.budget, `.`, false)})
			p := w.must(t, strings.Fields(tc.seeds)...)
			require.Len(t, w.out.byURL(t), tc.visited)
			require.Equal(t, tc.dropped, p.Snapshot().Dropped)
		})
	}
}

// A crawl that goes on has as much left as the runs before it have left.
func TestRecount(t *testing.T) {
	earlier := func(urls ...string) iter.Seq2[string, error] {
		return func(yield func(string, error) bool) {
			for _, u := range urls {
				if !yield(u, nil) {
					return
				}
			}
		}
	}
	synctest.Test(t, func(t *testing.T) {
		w, _ := served(t, map[string]http.Handler{"a.test": calendar(3, 0), "b.test": calendar(3, 0)})
		w.Budgets = scope.NewBudgets([]scope.Budget{bound(5, `/cal/`, false)})
		p := w.build(t)
		require.NoError(t, w.Budgets.Recount(earlier("http://a.test/", "http://a.test/cal/91", "http://a.test/cal/92", "http://c.test/cal/1")))
		require.NoError(t, w.run(t.Context(), t, p, "http://a.test/", "http://b.test/"))
		require.Equal(t, 3, w.out.of("http://a.test/cal/"))
		require.Equal(t, 5, w.out.of("http://b.test/cal/"))
	})
	b := func(list ...scope.Budget) *scope.Budgets { return scope.NewBudgets(list) }
	require.NoError(t, b().Recount(func(func(string, error) bool) { t.Error("nobody wants to know") }))
	damaged := errors.New("damaged")
	require.ErrorIs(t, b(bound(1, `.`, true)).Recount(func(yield func(string, error) bool) { yield("", damaged) }), damaged)
	require.ErrorContains(t, b(bound(1, `.`, true)).Recount(earlier("x")), "count for scope.budgets: ")
}

// A crawl that is stopped before it runs asks for nothing.
func TestStopBeforeRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := fetchtest.Serve(t, map[string]http.Handler{"a.test": http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request") })})
		for range 20 { // as select chooses at random
			w := newWorldOn(t, fetch.Config{DialContext: net.DialContext})
			p := w.build(t)
			p.Stop()
			require.NoError(t, w.run(t.Context(), t, p, "http://a.test/"))
			requireEnd(t, p, EndInterrupted)
			require.Zero(t, p.Snapshot().Frontier.Known)
		}
	})
}
