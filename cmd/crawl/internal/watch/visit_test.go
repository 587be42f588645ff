package watch

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/internal/clock/clocktest"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/web/scope"
)

// Redirects are followed within the scope, and those of a seed to wherever it is now. Nothing else is requested of
// another host, and nothing is kept.
func TestRedirects(t *testing.T) {
	for _, tc := range []struct {
		name   string
		path   string // redirects to another host
		follow bool
	}{{"of a page", "/a", false}, {"of a seed", "/", true}, {"of a sitemap", "/sitemap.xml", false}} {
		t.Run(tc.name, func(t *testing.T) {
			other := newSite(t, map[string]answer{"/x": text("Elsewhere")})
			s := newSite(t, map[string]answer{"/": text("Home", "/a", "/in"), "/a": text("Text of a"), "/in": {status: 302, header: map[string]string{"Location": "/b"}}, "/b": text("Text of b")})
			s.set(tc.path, answer{status: 302, header: map[string]string{"Location": other.URL + "/x"}})
			clk, dir := clocktest.NewFake(begin), t.TempDir()
			w := watched(t, dir, clk, true, 0, s.URL)
			for range 2 {
				w.o.Settings.Fetch.AllowPrivate = true
				_, told := w.round(time.Hour)
				require.Empty(t, told)
				other.mu.Lock()
				asked := other.asked
				other.asked = nil
				other.mu.Unlock()
				require.Equal(t, tc.follow, len(asked) > 0, "%v", asked)
				require.Equal(t, tc.follow, w.hosts[strings.TrimPrefix(other.URL, "http://")] != nil)
				if !tc.follow {
					require.Subset(t, s.requests(), []string{"/ 200", "/b 200", "/in 302"})
				}
				w.end() // the next process must know the same
				w = watched(t, dir, clk, true, 0)
			}
			w.end()
		})
	}
}

// A private address to which a seed redirects is requested neither now nor in the next round.
func TestRedirectToPrivate(t *testing.T) {
	other := newSite(t, map[string]answer{"/x": text("Elsewhere")})
	s := newSite(t, map[string]answer{"/": {status: 302, header: map[string]string{"Location": other.URL + "/x"}}})
	w := watching(t, true, 0, s.URL)
	for range 3 {
		w.round(2 * time.Hour)
	}
	other.mu.Lock()
	defer other.mu.Unlock()
	require.Empty(t, other.asked)
}

// The target of a redirect of a seed allows no private address in a later run either, also if it was requested while that
// was allowed. What the user named stays named.
func TestOnlyNamedStaysNamed(t *testing.T) {
	other, second := newSite(t, map[string]answer{"/x": text("Elsewhere")}), newSite(t, map[string]answer{"/": text("Second")})
	s := newSite(t, map[string]answer{"/": {status: 302, header: map[string]string{"Location": other.URL + "/x"}}})
	clk, dir := clocktest.NewFake(begin), t.TempDir()
	w := watched(t, dir, clk, true, 0, s.URL, second.URL)
	w.o.Settings.Fetch.AllowPrivate = true
	w.round(0)
	require.Equal(t, []string{"/x 200"}, other.requests())
	for range 2 {
		w.end()
		w = watched(t, dir, clk, true, 0)
		s.requests()
		second.requests()
		w.round(2 * time.Hour)
		require.Empty(t, other.requests())
		require.Equal(t, []string{"/ 302"}, s.requests())
		require.Equal(t, []string{"/ 200"}, second.requests())
	}
	w.end()
}

// A page that was found allows no private address, although it is a seed of the crawl of a round.
func TestFoundPagesOpenNothing(t *testing.T) {
	other := newSite(t, map[string]answer{"/x": text("Elsewhere")})
	s := newSite(t, map[string]answer{"/": text("Home", other.URL+"/x")})
	w := watching(t, true, 0, s.URL)
	any := must(scope.New(scope.Config{Mode: scope.Any, MaxDepth: -1}))
	w.scope, w.o.Settings.Scope.Mode = any, "any"
	for range 3 {
		w.round(2 * time.Hour)
	}
	require.Contains(t, w.urls, other.URL+"/x")
	other.mu.Lock()
	defer other.mu.Unlock()
	require.Empty(t, other.asked)
}

// A seed that is gone is visited every day, and so is any page to which a redirect leads. Both are reported when they
// are back.
func TestBack(t *testing.T) {
	home := text("Home", "/a", "/d")
	s := newSite(t, map[string]answer{"/": home, "/a": text("Text of a"), "/d": text("Text of d")})
	w := watching(t, true, 0, s.URL)
	w.round(0)
	s.set("/", answer{status: 404})
	s.set("/d", answer{status: 410})
	_, told := w.round(time.Hour)
	require.Equal(t, []string{"gone /", "gone /d"}, told)
	s.requests()
	w.all = false
	_, told = w.round(time.Hour)
	require.Empty(t, told)
	asked := s.requests()
	require.NotContains(t, asked, "/ 404")
	require.NotContains(t, asked, "/d 410")
	_, told = w.round(24 * time.Hour)
	require.Empty(t, told, "it is told once")
	asked = s.requests()
	require.Contains(t, asked, "/ 404")
	require.NotContains(t, asked, "/d 410")
	s.set("/", home)
	s.set("/d", text("Text of d"))
	s.set("/a", answer{status: 302, header: map[string]string{"Location": "/d"}})
	_, told = w.round(25 * time.Hour)
	require.Len(t, told, 3)
	require.Equal(t, []string{"added /", "added /d"}, told[:2])
	require.Contains(t, told[2], "changed /a")
}

// A long sitemap on one line is compared as a whole.
func TestLongSource(t *testing.T) {
	list := func(last string) answer {
		entries := strings.Repeat("<url><loc>SITE/</loc></url>", maxText/10) + "<url><loc>SITE" + last + "</loc></url>"
		return answer{text: "<?xml version='1.0'?><urlset>" + entries + "</urlset>", header: map[string]string{"Content-Type": "application/xml"}}
	}
	s := newSite(t, map[string]answer{"/": text("Home"), "/sitemap.xml": list("/"), "/new": text("New")})
	w := watching(t, true, 0, s.URL)
	w.round(0)
	before := w.urls[s.URL+"/sitemap.xml"].digest
	w.round(time.Hour)
	require.Equal(t, before, w.urls[s.URL+"/sitemap.xml"].digest)
	s.set("/sitemap.xml", list("/new"))
	_, told := w.round(time.Hour)
	require.Equal(t, []string{"added /new"}, told)
	require.NotEqual(t, before, w.urls[s.URL+"/sitemap.xml"].digest)
}

// The next process knows how many requests were spent, also on failures.
func TestFailuresAreSpent(t *testing.T) {
	s := newSite(t, map[string]answer{"/": {status: 500}})
	clk, dir := clocktest.NewFake(begin), t.TempDir()
	w := watched(t, dir, clk, false, 0, s.URL)
	left := func() int { return w.hosts[strings.TrimPrefix(s.URL, "http://")].left(0, clk.Now()) }
	w.round(0)
	first := left()
	w.round(2 * time.Hour) // for the page alone
	second := left()
	require.Less(t, second, first)
	w.end()
	w = watched(t, dir, clk, false, 0)
	require.Equal(t, second, left())
	w.end()
}

// A watch that was killed right after the first round does not repeat it; one that was killed within it continues it.
func TestKilledBeforeItBegan(t *testing.T) {
	s := newSite(t, map[string]answer{"/": text("Home")})
	for sql, first := range map[string]bool{`DELETE FROM meta WHERE key = 'begun'`: false, `DELETE FROM meta WHERE key = 'begun'; UPDATE urls SET state = 3, visited = 0`: true} {
		clk, dir := clocktest.NewFake(begin), t.TempDir()
		w := watched(t, dir, clk, true, 0, s.URL)
		w.round(0)
		require.NoError(t, w.store.db.Exec(sql))
		w.end()
		w = watched(t, dir, clk, true, 0)
		require.Equal(t, first, w.first)
		w.end()
	}
}

// A watch that was killed before it stored anything begins with the settings of the crawl.
func TestSavedOfCrawl(t *testing.T) {
	s := newSite(t, map[string]answer{"/": text("Home")})
	dir := t.TempDir()
	loaded := must(config.Load(config.Sources{Flags: []config.FlagValue{{Name: "strategy", Value: "off"}, {Name: "contact", Value: "me@example.com"}}}))
	var o crawl.Options
	config.ToProgram(&loaded.Config, &o)
	o.StateDir = dir
	c, err := crawl.New(o)
	require.NoError(t, err)
	require.NoError(t, c.Run(t.Context(), s.URL))
	empty := must(openStore(filepath.Join(dir, databaseFile)))
	require.NoError(t, empty.db.Close())
	saved, _, err := Saved(dir)
	require.NoError(t, err)
	require.NotNil(t, saved)
	require.Equal(t, loaded.Config.Fetch.Contact, saved.Fetch.Contact)
}

// A sitemap that is read again leads to no page that is not due, and sitemaps that it lists wait until they are due.
func TestListedPagesAreNotDue(t *testing.T) {
	const fan = 6
	s := newSite(t, map[string]answer{
		"/":           text("Home"),
		"/robots.txt": {text: "Sitemap: /map-0.xml\nSitemap: /list.xml", header: map[string]string{"Content-Type": "text/plain"}},
	})
	list := func(whole, part, format string, from, n int) answer {
		text := "<" + whole + ">"
		for i := range n {
			text += fmt.Sprintf("<"+part+"><loc>SITE"+format+"</loc></"+part+">", from+i)
		}
		return answer{text: text + "</" + whole + ">", header: map[string]string{"Content-Type": "application/xml"}}
	}
	for i := range 20 {
		s.set(fmt.Sprintf("/map-%d.xml", i), list("sitemapindex", "sitemap", "/map-%d.xml", i*fan+1, fan))
	}
	s.set("/list.xml", list("urlset", "url", "/p%d", 0, 30))
	for i := range 30 {
		s.set(fmt.Sprintf("/p%d", i), answer{text: fmt.Sprintf("<main><p>Text of page %d</p></main>", i), header: map[string]string{"Cache-Control": "max-age=86400"}})
	}
	w := watching(t, false, 250, s.URL)
	counts, _ := w.round(0)
	require.Equal(t, 31, counts.Visits)
	s.requests()
	w.round(20 * time.Hour)
	asked := strings.Join(s.requests(), " ")
	require.Contains(t, asked, "/list.xml 200")
	require.NotContains(t, asked, "/p")
}

// Visits of known pages are spread over the day, also if the budget suffices for all pages at once.
func TestVisitsAreSpread(t *testing.T) {
	s := newSite(t, map[string]answer{})
	s.setAll(30, func(i int) answer { return text(fmt.Sprintf("Page %d", i)) })
	w := watching(t, false, 100, s.URL)
	w.round(0)
	s.requests()
	visits := 0
	for range 24 {
		w.round(time.Hour)
		n := len(s.requests())
		require.LessOrEqual(t, n, 5) // 100 / 24, and a part of one more
		visits += n
	}
	require.GreaterOrEqual(t, visits, 30)
	w.round(24 * time.Hour)
	require.Greater(t, len(s.requests()), 20, "what a day has brought is spent at once")
}
