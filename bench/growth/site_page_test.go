package growth_test

import (
	"math"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every page is found, and those that a page leads to first are found by it alone.
func TestSiteIsWhole(t *testing.T) {
	s := site{Pages: 1000, Links: 20, Fan: 4, Hosts: 1, Run: 1}
	parents := make([]int, s.Pages)
	for page := range s.Pages {
		n := 0
		s.links(page, func(to int64) {
			if n < s.Fan && to > page*int64(s.Fan) && to <= (page+1)*int64(s.Fan) {
				parents[to]++
			}
			require.Less(t, to, s.Pages)
			n++
		})
		require.Equal(t, s.Links, n, "links of page %d", page)
	}
	require.Zero(t, parents[0])
	for page, n := range parents[1:] {
		require.Equal(t, 1, n, "pages that lead to page %d first", page+1)
	}
}

// A page is asked for under the URL that links to it, wherever it is.
func TestSiteNumbers(t *testing.T) {
	s := wide(20_000)
	for _, page := range []int64{0, 1, 49, 50, 999_999, 123_456_789_012, s.Pages - 1} {
		r := httptest.NewRequest(http.MethodGet, string(s.url(nil, page, 80)), nil)
		n, ok := s.number(r.URL.Path)
		require.True(t, ok)
		require.Equal(t, page, n)
		require.Equal(t, s.host(page/s.Run%s.Hosts)+":80", r.Host)
	}
	for _, path := range []string{"/", "/robots.txt", "/page-x.html", "/page-1", "/page-4611686018427387904.html"} {
		_, ok := s.number(path)
		require.False(t, ok, path)
	}
}

// Links of pages as far out as numbers go are still pages.
func TestSiteEnds(t *testing.T) {
	s := wide(1)
	for _, page := range []int64{s.Pages / fan, s.Pages/fan + 1, s.Pages - 1} {
		s.links(page, func(to int64) {
			require.GreaterOrEqual(t, to, int64(0))
			require.Less(t, to, s.Pages)
		})
	}
	require.Less(t, s.Pages, int64(math.MaxInt64))
}

// Each host has an address of its own.
func TestSiteHosts(t *testing.T) {
	s := wide(200_000)
	seen := make(map[string]bool)
	for h := range s.Hosts {
		seen[s.host(h)] = true
	}
	require.Len(t, seen, int(s.Hosts))
}

// The server counts what is asked for, and tells pages that come again.
func TestServerCounts(t *testing.T) {
	v := newServer(site{Pages: 10, Links: 5, Fan: 4, Hosts: 1, Run: 1, Size: 2000, Delay: 7}, 80)
	get := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		v.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w
	}
	require.True(t, v.report().First.IsZero())
	page := get(string(v.url(nil, 3, 80)))
	require.Equal(t, http.StatusOK, page.Code)
	require.GreaterOrEqual(t, page.Body.Len(), 2000)
	get(string(v.url(nil, 4, 80)))
	get(string(v.url(nil, 3, 80)))
	require.Equal(t, "User-agent: *\nCrawl-delay: 7\n", get("/robots.txt").Body.String())
	require.Equal(t, http.StatusNotFound, get("/elsewhere").Code)
	r := v.report()
	require.False(t, r.First.IsZero())
	require.Equal(t, []int64{2, 1, 2}, []int64{r.Pages, r.Again, r.Other})
	require.True(t, v.report().First.IsZero(), "the first request since the last report")

	v.Sorry = 60
	sorry := get(string(v.url(nil, 5, 80)))
	require.Equal(t, http.StatusServiceUnavailable, sorry.Code)
	require.Equal(t, "60", sorry.Header().Get("Retry-After"))
}

func TestCell(t *testing.T) {
	for in, want := range map[any]string{"a": "a", 12: "12", int64(7): "7", 0.0: "0", 1.234: "1.23", 12.34: "12.3", 1234.5: "1234", -123.4: "-123"} {
		require.Equal(t, want, cell(in))
	}
}
