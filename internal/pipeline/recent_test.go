package pipeline

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/lab/testsite"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/internal/records/sink"
)

func TestRecent(t *testing.T) {
	p := &Pipeline{}
	p.recent.note(&sink.Record{URL: "http://a.test/early", Status: 200})
	require.Empty(t, p.Recent().Pages, "nobody had asked")
	for i := range 100 {
		p.recent.note(&sink.Record{URL: fmt.Sprint("http://a.test/", i), Status: 200, Title: strings.Repeat("é", 1000)})
		p.recent.note(&sink.Record{URL: fmt.Sprint("http://a.test/missing", i), Status: 404})
	}
	p.recent.note(&sink.Record{URL: "http://a.test/x", Error: &sink.Error{Class: "network", Message: "reset\xff"}})
	p.recent.note(&sink.Record{URL: "http://a.test/y", Status: 200, Error: &sink.Error{Class: outcome.Filtered.String()}})
	r := p.Recent()
	require.Len(t, r.Pages, recentPages)
	require.Len(t, r.Errors, recentErrors)
	require.Equal(t, "http://a.test/99", r.Pages[0].URL)
	require.Equal(t, "http://a.test/80", r.Pages[recentPages-1].URL)
	require.Equal(t, strings.Repeat("é", seenText/2)+"…", r.Pages[0].Title)
	require.Equal(t, []string{"network", "status"}, []string{r.Errors[0].Class, r.Errors[1].Class})
	require.Equal(t, "Not Found", r.Errors[1].Error)
}

// TestEachHost walks past more hosts than Discovery describes in one go, of a crawl that is
// over and of one that has not begun.
func TestEachHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const hosts = walked + 30
		w := newWorld(t, testsite.Config{Hosts: []testsite.Host{{Name: "h", Count: hosts, Pages: 2}}})
		seeds := make([]string, hosts)
		for i := range seeds {
			seeds[i] = w.site.URL(i)
		}
		p := w.build(t)
		p.EachHost(func(frontier.HostState) bool { require.Fail(t, "it has not begun"); return false })
		require.NoError(t, w.run(t.Context(), t, p, seeds...))
		seen := make(map[string]bool)
		p.EachHost(func(h frontier.HostState) bool { seen[h.Host] = true; return true })
		require.Len(t, seen, hosts)
		n := 0
		p.EachHost(func(frontier.HostState) bool { n++; return n < 3 })
		require.Equal(t, 3, n)
	})
}
