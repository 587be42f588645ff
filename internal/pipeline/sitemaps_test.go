package pipeline

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/frontier/gate"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/scope"
	"github.com/treadlight/crawl/internal/web/sitemap"
	"github.com/treadlight/crawl/record"
)

func mapped(t *testing.T, hosts map[string]files) (*world, *fetchtest.Net) {
	t.Helper()
	handlers := make(map[string]http.Handler)
	for name, h := range hosts {
		handlers[name] = h
	}
	w, net := served(t, handlers)
	w.Sitemaps = Sitemaps{Enabled: true, Feeds: true}
	w.limits.InitialRPS, w.limits.MaxRPS = 10, 10
	return w, net
}

func (s *memorySink) kinds() []string {
	var all []string
	for _, rec := range s.records {
		text := fmt.Sprintf("%s %d %s", rec.Kind, rec.Status, strings.TrimPrefix(rec.URL, "http://a.test"))
		if rec.Error != nil {
			text += " " + rec.Error.Class
		}
		all = append(all, text)
	}
	return all
}

// A site whose pages nothing links to is crawled whole, whatever names its sitemap.
func TestOnlyInTheSitemap(t *testing.T) {
	pages := files{"/": "home", "/1": "x", "/2": "x", "/3": "x", "/4": "x"}
	all := []string{"http://a.test/1", "http://a.test/2", "http://a.test/3", "http://a.test/4"}
	for name, more := range map[string]files{
		"named by robots.txt":         {"/robots.txt": "Sitemap: http://a.test/maps/all.xml", "/maps/all.xml": sitemapOf(all...)},
		"named as a path":             {"/robots.txt": "User-agent: *\nDisallow: /no\nsitemap: /all.xml", "/all.xml": sitemapOf(all...)},
		"at the usual place":          {"/sitemap.xml": sitemapOf(all...)},
		"not named":                   {"/robots.txt": "User-agent: *\nDisallow:", "/sitemap.xml": sitemapOf(all...)},
		"moved":                       {"/sitemap.xml": "-> /index", "/index": "-> /s.xml", "/s.xml": sitemapOf(all...)},
		"an XML file as HTML":         {"/robots.txt": "Sitemap: /s.xml", "/s.xml": strings.TrimPrefix(sitemapOf(all...), `<?xml version="1.0"?>`)},
		"a list":                      {"/robots.txt": "Sitemap: /urls.txt", "/urls.txt": strings.Join(all, "\n")},
		"an index":                    {"/sitemap.xml": indexOf("http://a.test/s1.xml", "/s2.xml"), "/s1.xml": sitemapOf(all[:2]...), "/s2.xml": sitemapOf(all[2:]...)},
		"a zipped index":              {"/sitemap.xml": gzipped(indexOf("/s1.gz", "/s2.gz")), "/s1.gz": gzipped(sitemapOf(all[:2]...)), "/s2.gz": gzipped(sitemapOf(all[2:]...))},
		"an index of indexes":         {"/sitemap.xml": indexOf("/s1.xml"), "/s1.xml": indexOf("/s2.xml"), "/s2.xml": sitemapOf(all...)},
		"several":                     {"/robots.txt": "Sitemap: /s1.xml\nSitemap: /s2.xml\nSitemap: /s1.xml", "/s1.xml": sitemapOf(all[:3]...), "/s2.xml": sitemapOf(all[1:]...)},
		"a feed":                      {"/robots.txt": "Sitemap: /rss", "/rss": `<?xml version="1.0"?><rss><channel><item><link>` + strings.Join(all, "</link></item><item><link>") + "</link></item></channel></rss>"},
		"a page":                      {"/robots.txt": "Sitemap: /map.html", "/map.html": "<a href=/1>1</a><a href=/2>2</a><a href=/3>3</a><a href=/4>4</a>"},
		"a feed that a page names":    {"/": "<link rel=alternate type=application/rss+xml href=/rss>", "/rss": `<?xml version="1.0"?><rss><channel><item><link>` + strings.Join(all, "</link></item><item><link>") + "</link></item></channel></rss>"},
		"a sitemap linked as a page":  {"/": "<a href=/map>1</a>", "/map": sitemapOf(all...)},
		"an index linked as a page":   {"/": "<a href=/map>1</a>", "/map": indexOf("/s1.xml"), "/s1.xml": sitemapOf(all...)},
		"broken":                      {"/sitemap.xml": strings.ReplaceAll(sitemapOf(all...), "</url>", "")},
		"alternates":                  {"/sitemap.xml": `<?xml version="1.0"?><urlset><url><loc>http://a.test/1</loc><x:link rel="alternate" href="http://a.test/2"/><x:link rel="alternate" href="http://a.test/3"/></url><url><loc>http://a.test/4</loc></url></urlset>`},
		"without robots.txt":          {"/sitemap.xml": sitemapOf(all...)},
		"without an end, and cut off": {"/sitemap.xml": strings.TrimSuffix(sitemapOf(append(slices.Clone(all), "http://a.test/5")...), "test/5</loc></url></urlset>")},
	} {
		t.Run(name, bubble(func(t *testing.T) {
			site := maps.Clone(pages)
			maps.Copy(site, more)
			w, net := mapped(t, map[string]files{"a.test": site})
			if w.Extract.Feeds = true; name == "without robots.txt" {
				w.Robots = nil
			}
			w.finish(t, EndDone, "http://a.test/")
			require.Equal(t, w.Robots == nil, net.Count("a.test", "/robots.txt") == 0)
			got := w.out.byURL(t)
			for _, u := range all {
				require.Contains(t, got, u)
				require.LessOrEqual(t, got[u].Depth, 2)
			}
			for path := range site {
				require.LessOrEqual(t, net.Count("a.test", path), 1, path)
			}
			require.GreaterOrEqual(t, net.MinGap("a.test"), 99*time.Millisecond, "every request is paced")
		}))
	}
}

// What a sitemap was is in its record; that there is none at the usual place is in no record.
func TestSitemapRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := mapped(t, map[string]files{"a.test": {
			"/robots.txt": "User-agent: *\nDisallow: /secret\nSitemap: /s.xml\nSitemap: /none.xml\nSitemap: /bad.xml\nSitemap: /secret.xml\nSitemap: ftp://a.test/x",
			"/s.xml": `<?xml version="1.0"?><urlset><url><loc>http://a.test/1</loc><lastmod>2024-05-06</lastmod><i:image><i:loc>/i.png</i:loc></i:image></url>` +
				`<url><loc>http://b.test/</loc></url><url><loc>mailto:x</loc></url></urlset>`,
			"/bad.xml": `<?xml version="1.0"?><svg/>`, "/": "home", "/1": "x", "/i.png": "no",
		}})
		p := w.must(t, "http://a.test/")
		got := w.out.byURL(t)
		require.Len(t, got, 6)
		rec := got["http://a.test/s.xml"]
		require.Equal(t, &record.Sitemap{
			Format: "urlset", URLs: 2, Extras: 1, Problems: 1, Problem: `line 1: "mailto:x": scheme is not http or https`, LastModified: time.Date(2024, 5, 6, 0, 0, 0, 0, time.UTC),
		}, rec.Sitemap)
		require.Equal(t, "sitemap", rec.Kind)
		require.Equal(t, "http://a.test/robots.txt", rec.Referrer)
		require.Empty(t, rec.Links)
		require.Equal(t, 404, got["http://a.test/none.xml"].Status)
		require.Equal(t, &record.Error{Class: classSitemap, Message: `line 1: the root element is "svg"`}, got["http://a.test/bad.xml"].Error)
		require.Equal(t, gate.ClassRobots, got["http://a.test/secret.xml"].Error.Class)
		require.Equal(t, "http://a.test/s.xml", got["http://a.test/1"].Referrer)
		require.Equal(t, 1, got["http://a.test/1"].Depth)
		s := p.Snapshot()
		require.EqualValues(t, 2, s.Pages, "sitemaps are no pages")
		require.EqualValues(t, 1, s.OutOfScope["other_host"], "b.test: %v", s.OutOfScope)
	})
}

// Nothing is asked for that was not wanted, and nothing at the usual place is no news.
func TestNoSitemaps(t *testing.T) {
	for name, tc := range map[string]struct {
		site  files
		scope scope.Config
		set   Sitemaps
		want  []string // requests besides those of robots.txt
		n     int      // records
	}{
		"none there":        {files{"/": "x"}, scope.Config{MaxDepth: 9}, Sitemaps{Enabled: true}, []string{"/", "/sitemap.xml"}, 1},
		"a page instead":    {files{"/": "x", "/sitemap.xml": "<a href=/no>oops</a>"}, scope.Config{MaxDepth: 9}, Sitemaps{Enabled: true}, []string{"/", "/sitemap.xml"}, 1},
		"a film instead":    {files{"/": "x", "/sitemap.xml": "\x00\x00\x00\x20ftypisom" + strings.Repeat("<\x00film", 1<<20)}, scope.Config{MaxDepth: 9}, Sitemaps{Enabled: true}, []string{"/", "/sitemap.xml"}, 1},
		"a long page":       {files{"/": "x", "/sitemap.xml": "<!doctype html>" + strings.Repeat("<a href=/no>no</a>", 1<<18)}, scope.Config{MaxDepth: 9}, Sitemaps{Enabled: true}, []string{"/", "/sitemap.xml"}, 1},
		"switched off":      {files{"/": "x", "/robots.txt": "Sitemap: /s.xml"}, scope.Config{MaxDepth: 9}, Sitemaps{Feeds: true}, []string{"/"}, 1},
		"seeds only":        {files{"/": "x", "/robots.txt": "Sitemap: /s.xml"}, scope.Config{}, Sitemaps{Enabled: true}, []string{"/"}, 1},
		"disallowed":        {files{"/": "x", "/robots.txt": "User-agent: *\nDisallow: /sitemap"}, scope.Config{MaxDepth: 9}, Sitemaps{Enabled: true}, []string{"/"}, 1},
		"excluded":          {files{"/": "x", "/robots.txt": "Sitemap: /s.xml"}, scope.Config{MaxDepth: 9, Exclude: []string{`\.xml$`}}, Sitemaps{Enabled: true}, []string{"/"}, 1},
		"feeds off":         {files{"/": "<a href=/rss>f</a>", "/rss": `<?xml version="1.0"?><rss><channel><link>/no</link></channel></rss>`}, scope.Config{MaxDepth: 9}, Sitemaps{}, []string{"/", "/rss"}, 2},
		"a directory":       {files{"/docs/": "x", "/docs/1": "x", "/sitemap.xml": sitemapOf("http://a.test/docs/1", "http://a.test/no")}, scope.Config{MaxDepth: 9, Mode: scope.Prefix}, Sitemaps{Enabled: true}, []string{"/docs/", "/docs/1", "/sitemap.xml"}, 3},
		"moved to the home": {files{"/docs/": "x", "/sitemap.xml": "-> /docs/home", "/docs/home": "<a href=/docs/2>2</a>", "/docs/2": "x"}, scope.Config{MaxDepth: 9, MaxRedirects: 5}, Sitemaps{Enabled: true}, []string{"/docs/", "/docs/2", "/docs/home", "/sitemap.xml"}, 3},
	} {
		t.Run(name, bubble(func(t *testing.T) {
			w, net := mapped(t, map[string]files{"a.test": tc.site})
			var err error
			w.Scope, err = scope.New(tc.scope)
			require.NoError(t, err)
			w.Sitemaps = tc.set
			seed := "http://a.test/"
			if _, ok := tc.site["/docs/"]; ok {
				seed += "docs/"
			}
			require.Less(t, w.finish(t, EndDone, seed).Snapshot().Bytes, int64(1<<20))
			var got []string
			for _, r := range net.Requests() {
				if r.Path != "/robots.txt" {
					got = append(got, r.Path)
				}
			}
			slices.Sort(got)
			require.Equal(t, tc.want, got)
			require.Len(t, w.out.records, tc.n, "%v", w.out.kinds())
		}))
	}
}

// Without robots.txt there is nobody to name a sitemap, and it is looked for all the same. What a site has not it
// often sends to its home page, or to that of another host: that is a page like any other, and there is no sitemap.
func TestSitemapMovedToAPage(t *testing.T) {
	for name, tc := range map[string]struct {
		site files
		want []string
	}{
		"the home page": {
			files{"/start": "<a href=/>home</a>", "/sitemap.xml": "-> /", "/": "<a href=/2>2</a>", "/2": "x"},
			[]string{"page 200 /", "page 200 /2", "page 200 /start"},
		},
		"one that nothing leads to": {
			files{"/start": "x", "/sitemap.xml": "-> /lost.html", "/lost.html": "<a href=/2>2</a>", "/2": "x"},
			[]string{"page 200 /2", "page 200 /lost.html", "page 200 /start"},
		},
		"a page that is a sitemap": {
			files{"/start": "x", "/sitemap.xml": "-> /list?type=xml", "/list?type=xml": sitemapOf("http://a.test/2"), "/2": "x"},
			[]string{"page 200 /2", "page 200 /list?type=xml", "page 200 /start"},
		},
		"another sitemap": {
			files{"/start": "x", "/sitemap.xml": "-> /map.xml", "/map.xml": sitemapOf("http://a.test/2"), "/2": "x"},
			[]string{"page 200 /2", "page 200 /start", "sitemap 200 /map.xml", "sitemap 302 /sitemap.xml"},
		},
		"one that robots.txt names": {
			files{"/robots.txt": "Sitemap: /s", "/start": "x", "/s": "-> /", "/": "<a href=/2>2</a>", "/2": "x"},
			[]string{"page 200 /", "page 200 /2", "page 200 /start", "sitemap 302 /s"},
		},
		"a host out of scope": {
			files{"/start": "x", "/sitemap.xml": "-> http://b.test/"},
			[]string{"page 200 /start"},
		},
	} {
		t.Run(name, bubble(func(t *testing.T) {
			w, _ := mapped(t, map[string]files{"a.test": tc.site, "b.test": {"/": "x"}})
			w.must(t, "http://a.test/start")
			got := w.out.kinds()
			slices.Sort(got)
			require.Equal(t, tc.want, got)
		}))
	}
}

// A sitemap may lie on a host that is not in scope, and then nothing else of that host is asked for but its robots.txt.
func TestSitemapOnAnotherHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, net := mapped(t, map[string]files{
			"a.test":   {"/": "x", "/1": "x", "/robots.txt": "Sitemap: http://cdn.test/a.xml\nSitemap: http://no.test/a.xml"},
			"cdn.test": {"/a.xml": indexOf("http://cdn.test/b.xml", "http://elsewhere.test/c.xml"), "/b.xml": sitemapOf("http://a.test/1", "http://cdn.test/2"), "/sitemap.xml": sitemapOf("http://a.test/3")},
			"no.test":  {"/robots.txt": "User-agent: *\nDisallow: /", "/a.xml": sitemapOf("http://a.test/4")},
		})
		w.must(t, "http://a.test/")
		require.Equal(t, 1, net.Count("a.test", "/1"))
		var cdn []string
		for _, r := range net.Requests("cdn.test", "no.test") {
			cdn = append(cdn, r.Host+r.Path)
		}
		slices.Sort(cdn)
		require.Equal(t, []string{"cdn.test/a.xml", "cdn.test/b.xml", "cdn.test/robots.txt", "no.test/robots.txt"}, cdn)
	})
}

// Depth is counted from the page for which robots.txt was asked, whichever host it is on.
func TestDepthOfSitemaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, net := mapped(t, map[string]files{
			"a.test": {"/": "<a href=http://b.test/>b</a>", "/1": "<a href=/2>x</a>", "/sitemap.xml": sitemapOf("http://a.test/1")},
			"b.test": {"/": "x", "/sitemap.xml": sitemapOf("http://b.test/1"), "/1": "<a href=/2>too deep</a>"},
		})
		var err error
		w.Scope, err = scope.New(scope.Config{Mode: scope.Any, MaxDepth: 2})
		require.NoError(t, err)
		w.must(t, "http://a.test/")
		got := w.out.byURL(t)
		require.Equal(t, 1, got["http://a.test/1"].Depth)
		require.Equal(t, 2, got["http://b.test/1"].Depth)
		require.Equal(t, 1, net.Count("a.test", "/2"))
		require.Zero(t, net.Count("b.test", "/2"))
	})
}

// The first sitemaps go before pages, pages by their priority, and the many sitemaps of a large site behind them.
func TestOrderOfSitemaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		site := files{"/": "<a href=/linked>x</a>", "/linked": "x", "/high": "x", "/low": "x", "/usual": "x"}
		var names []string
		for i := range 20 {
			name := fmt.Sprintf("/s%d.xml", i)
			names = append(names, name)
			site[name] = sitemapOf("http://a.test/usual")
		}
		site["/sitemap.xml"] = indexOf(names...)
		site["/s3.xml"] = `<?xml version="1.0"?><urlset><url><loc>/low</loc><priority>0.1</priority></url><url><loc>/high</loc><priority>0.9</priority></url></urlset>`
		w, net := mapped(t, map[string]files{"a.test": site})
		w.PerHost, w.limits.InitialRPS, w.limits.MaxRPS = 1, 1, 1
		w.must(t, "http://a.test/")
		var got []string
		for _, r := range net.Requests() {
			got = append(got, r.Path)
		}
		want := append([]string{"/robots.txt", "/sitemap.xml"}, names[:15]...)
		want = append(want, "/high", "/", "/usual", "/linked", "/low")
		require.Equal(t, append(want, names[15:]...), got)
	})
}

// Sitemaps are no pages to the bounds on pages.
func TestSitemapsAreNoPages(t *testing.T) {
	for name, bound := range map[string]func(*world){
		"of the crawl": func(w *world) { w.MaxPages = 2 },
		"of a host":    func(w *world) { w.MaxPagesPerHost = 2 },
	} {
		t.Run(name, bubble(func(t *testing.T) {
			w, _ := mapped(t, map[string]files{"a.test": {"/": "x", "/1": "x", "/2": "x", "/sitemap.xml": indexOf("/s.xml"), "/s.xml": sitemapOf("http://a.test/1", "http://a.test/2")}})
			bound(w)
			p := w.must(t, "http://a.test/")
			require.EqualValues(t, 2, p.Snapshot().Pages)
			require.Len(t, w.out.records, 4, "%v", w.out.kinds())
		}))
	}
}

// A sitemap that fails for a while is asked for again, as a page is.
func TestSitemapIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		site := files{"/": "x", "/1": "x"}
		n := 0
		w, net := served(t, map[string]http.Handler{"a.test": http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/sitemap.xml" {
				site.ServeHTTP(rw, r)
				return
			}
			switch n++; n {
			case 1:
				rw.Header().Set("Retry-After", "20")
				rw.WriteHeader(http.StatusServiceUnavailable)
			case 2:
				rw.WriteHeader(http.StatusBadGateway)
			default:
				_, _ = rw.Write([]byte(sitemapOf("http://a.test/1")))
			}
		})})
		w.Sitemaps.Enabled = true
		w.must(t, "http://a.test/")
		require.Equal(t, 3, n)
		require.Equal(t, 1, net.Count("a.test", "/1"))
		require.Equal(t, 2, w.out.byURL(t)["http://a.test/sitemap.xml"].Attempt, "the host's wish to wait is no try")
	})
}

// Whatever robots.txt and sitemaps say, the requests are bounded and the pages are visited.
func TestHostileSitemaps(t *testing.T) {
	many := func(n int, name string) []string {
		list := make([]string, n)
		for i := range list {
			list[i] = fmt.Sprintf(name, i)
		}
		return list
	}
	for name, tc := range map[string]struct {
		site     files
		max      int
		requests int   // at most
		dropped  int64 // sitemaps
	}{
		"robots.txt with 10,000 of them": {files{"/robots.txt": "Sitemap: " + strings.Join(many(10_000, "/s%d.xml"), "\nSitemap: ")}, 50, 53, 9950},
		"10,000 on as many hosts":        {files{"/robots.txt": "Sitemap: " + strings.Join(many(10_000, "http://h%d.test/s.xml"), "\nSitemap: ")}, 50, 3, 9950},
		"an index of 10,000":             {files{"/sitemap.xml": indexOf(many(10_000, "/s%d.xml")...)}, 50, 53, 9951},
		"an index of itself":             {files{"/sitemap.xml": indexOf("/sitemap.xml", "/sitemap.xml")}, 50, 4, 0},
		"a loop of indexes":              {files{"/sitemap.xml": indexOf("/a.xml"), "/a.xml": indexOf("/b.xml"), "/b.xml": indexOf("/c.xml", "/sitemap.xml"), "/c.xml": sitemapOf("http://a.test/no")}, 50, 6, 2},
		"a loop of redirects":            {files{"/sitemap.xml": "-> /a.xml", "/a.xml": "-> /sitemap.xml"}, 50, 5, 0},
		"100,000 URLs of other hosts":    {files{"/sitemap.xml": sitemapOf(many(100_000, "http://h%d.test/")...)}, 50, 4, 0},
		"a bomb":                         {files{"/sitemap.xml": gzipped(`<?xml version="1.0"?><urlset>` + strings.Repeat(" ", 70<<20))}, 50, 4, 0},
		"a billion laughs":               {files{"/sitemap.xml": `<?xml version="1.0"?><!DOCTYPE u [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]><urlset><url><loc>http://a.test/1?&b;&b;</loc></url></urlset>`}, 50, 5, 0},
	} {
		t.Run(name, bubble(func(t *testing.T) {
			maps.Copy(tc.site, files{"/": "<a href=/1>x</a>", "/1": "x"})
			w, net := mapped(t, map[string]files{"a.test": tc.site})
			w.Sitemaps.Max, w.Retries = tc.max, 0
			p := w.finish(t, EndDone, "http://a.test/")
			require.LessOrEqual(t, len(net.Requests()), tc.requests)
			require.Equal(t, 1, net.Count("a.test", "/1"))
			require.Equal(t, tc.dropped, p.Snapshot().Dropped[reasonSitemaps])
			require.Zero(t, net.Count("a.test", "/no"))
		}))
	}
}

// A sitemap with too many URLs is cut off where the protocol does, and the rest of it are all in the frontier.
func TestLargeSitemap(t *testing.T) {
	var b strings.Builder
	b.WriteString(`<?xml version="1.0"?><urlset>`)
	for i := range sitemap.MaxURLs + 1000 {
		fmt.Fprintf(&b, "<url><loc>http://big.test/%d</loc></url>", i)
	}
	synctest.Test(t, func(t *testing.T) {
		w, _ := mapped(t, map[string]files{"big.test": {"/": "x", "/sitemap.xml": b.String()}, "a.test": {"/": links(40)}})
		w.MaxURLs = 1_000_000
		w.MaxPages = 60
		p := w.finish(t, EndLimit, "http://big.test/", "http://a.test/")
		rec := w.out.byURL(t)["http://big.test/sitemap.xml"]
		require.Equal(t, sitemap.MaxURLs, rec.Sitemap.URLs)
		require.True(t, rec.Truncated)
		require.Greater(t, p.Snapshot().Frontier.Known, int64(sitemap.MaxURLs))
	})
}

// The links of a part are in the frontier before the sitemap they stand in is done.
func TestPartsOfASitemap(t *testing.T) {
	cfg := newWorldOn(t, fetch.Config{})
	cfg.Sitemaps.Enabled = true
	p := cfg.build(t)
	seed, err := canonical.Parse("http://a.test/sitemap.xml")
	require.NoError(t, err)
	p.cfg.Scope.AddSeed(seed)
	var parts []int
	w := &processor{p: p, send: func(r *result) error {
		require.Nil(t, r.lease)
		require.Nil(t, r.rec)
		parts = append(parts, len(r.links))
		return nil
	}}
	var urls []string
	for i := range 2500 {
		urls = append(urls, fmt.Sprintf("http://a.test/%d", i))
	}
	l := &frontier.Lease{Item: frontier.Item{URL: seed, Kind: frontier.Sitemap, Rank: sitemap.Rank(0, 0)}}
	f := &fetched{lease: l, resp: &fetch.Response{Status: 200, ContentType: "text/xml", Body: []byte(sitemapOf(urls...))}}
	r := &result{lease: l, rec: newRecord(l, time.Time{})}
	require.True(t, w.listing(r, f))
	require.Equal(t, []int{1000, 1000}, parts)
	require.Len(t, r.links, 500)

	w = &processor{p: p, send: func(*result) error { return context.Canceled }}
	r = &result{lease: l, rec: newRecord(l, time.Time{})}
	require.True(t, w.listing(r, f))
	require.Equal(t, 1000, r.rec.Sitemap.URLs, "a crawl that is given up reads no further")
}

// A warning says what is left out and what to do about it, once.
func TestSitemapsBeyondMaxAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := mapped(t, map[string]files{"a.test": {"/": "x", "/robots.txt": "Sitemap: /1.xml\nSitemap: /2.xml\nSitemap: /3.xml"}})
		var log bytes.Buffer
		w.Log = slog.New(slog.NewTextHandler(&log, nil))
		w.Sitemaps.Max = 1
		w.must(t, "http://a.test/")
		require.Equal(t, 1, strings.Count(log.String(), "links are being dropped"))
		require.Contains(t, log.String(), "none: of a host 1 sitemaps are read")
		require.Contains(t, log.String(), "first=/2.xml")
	})
}

// What is at the usual place of a sitemap, and is linked to, is a page, wherever the link is found and whenever. That
// there is no sitemap is no news.
func TestLinkToTheUsualPlace(t *testing.T) {
	const there = "http://a.test/sitemap.xml"
	page := "<title>Site map</title><a href=/from>x</a>"
	for name, tc := range map[string]struct {
		site     files
		seeds    []string
		records  []string
		requests int
	}{
		"a page that is linked":       {files{"/": "<a href=/sitemap.xml>map</a><a href=/b>b</a>", "/b": "<a href=/sitemap.xml>map</a>", "/sitemap.xml": page, "/from": "x"}, nil, []string{"page 200"}, 2},
		"a page that is not":          {files{"/": "x", "/sitemap.xml": page}, nil, nil, 1},
		"nothing that is linked":      {files{"/": "<a href=/sitemap.xml>map</a>"}, nil, []string{"page 404"}, 2},
		"a sitemap that is linked":    {files{"/": "<a href=/sitemap.xml>map</a>", "/sitemap.xml": sitemapOf("http://a.test/from"), "/from": "x"}, nil, []string{"page 200", "sitemap 200"}, 2},
		"a way home that is linked":   {files{"/": "<a href=/sitemap.xml>map</a>", "/sitemap.xml": "-> /"}, nil, []string{"page 302"}, 2},
		"a page that is a seed":       {files{"/": "<a href=/sitemap.xml>map</a>", "/sitemap.xml": page, "/from": "x"}, []string{there}, []string{"page 200"}, 1},
		"a page that links to it":     {files{"/": "x", "/sitemap.xml": `<a href=/sitemap.xml>me</a>`}, nil, nil, 1},
		"found by another site":       {files{"/": "x", "/sitemap.xml": page, "/from": "x"}, []string{"http://b.test/"}, []string{"page 200"}, 2},
		"a sitemap that is no page's": {files{"/robots.txt": "Sitemap: /other.xml", "/": "<a href=/sitemap.xml>map</a>", "/other.xml": sitemapOf("http://a.test/from"), "/sitemap.xml": page, "/from": "x"}, nil, []string{"page 200"}, 1},
	} {
		t.Run(name, bubble(func(t *testing.T) {
			w, net := mapped(t, map[string]files{"a.test": tc.site, "b.test": {"/": "<a href=http://a.test/sitemap.xml>map</a>"}})
			w.must(t, append(tc.seeds, "http://a.test/")...)
			var records []string
			for _, rec := range w.out.records {
				if rec.URL == there {
					records = append(records, fmt.Sprintf("%s %d", rec.Kind, rec.Status))
				}
			}
			slices.Sort(records)
			require.Equal(t, tc.records, records)
			require.Equal(t, tc.requests, net.Count("a.test", "/sitemap.xml"))
			_, more := tc.site["/from"]
			require.Equal(t, more, net.Count("a.test", "/from") == 1, "its links are followed")
		}))
	}
}
