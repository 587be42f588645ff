package testsite

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"
	"pgregory.net/rapid"
)

// varied returns a site with some of everything.
func varied(seed uint64) Config {
	return Config{Seed: seed, Port: 8080, Hosts: []Host{
		{Name: "a", Pages: 40, Fanout: 3, CrossLinks: 4, HostLinks: 2, Media: 9, Redirects: 7, Missing: 5, Private: 3},
		{Name: "b", Count: 2, Pages: 6, Fanout: 2, HostLinks: 1, Size: Size{Min: 10, Max: 500}},
	}}
}

// digest returns the hash of everything a host has, each response with its path.
func digest(r *rig, host int) string {
	sum := sha256.New()
	h := r.site.hosts[host]
	for n := range h.cfg.Pages {
		fmt.Fprintf(sum, "%s\n%s", pagePath(n), r.do("GET", pagePath(n), host).Body)
	}
	for n := range h.cfg.Media {
		fmt.Fprintf(sum, "%s\n%s", mediaPath(n), r.do("GET", mediaPath(n), host).Body)
	}
	for n := range h.cfg.Private {
		fmt.Fprintf(sum, "%s\n%s", privatePath(n), r.do("GET", privatePath(n), host).Body)
	}
	for n := range h.cfg.Redirects {
		rec := r.do("GET", fmt.Sprintf("/r/%d", n), host)
		fmt.Fprintf(sum, "%d %s\n", rec.Code, rec.Header().Get("Location"))
	}
	return hex.EncodeToString(sum.Sum(nil))[:16]
}

// TestGolden pins the site of a seed. A change here changes every site whose seed someone has written down, so it must
// be intended.
func TestGolden(t *testing.T) {
	r := newRig(t, varied(42))
	require.Equal(t, "a0e5950ee0563cdd", digest(r, 0))
	require.Equal(t, "acb90a1c7960339a", digest(r, 1))
	require.Equal(t, "816cb2a0977fb94d", digest(r, 2))
	require.NotEqual(t, digest(r, 0), digest(newRig(t, varied(43)), 0))
}

// TestPagesDoNotDependOnOrder serves pages backwards, and twice.
func TestPagesDoNotDependOnOrder(t *testing.T) {
	forward, backward := newRig(t, varied(1)), newRig(t, varied(1))
	want := make([]string, 40)
	for n := range want {
		want[n] = forward.get(pagePath(n)).Body.String()
	}
	for n, body := range slices.Backward(want) {
		require.Equal(t, body, backward.get(pagePath(n)).Body.String())
		require.Equal(t, body, backward.get(pagePath(n)).Body.String())
	}
}

// crawl follows every link and redirect from "/" of host 0 and returns the status of
// every URL found, in its canonical spelling.
func crawl(r *rig) map[string]int {
	found := map[string]int{"/": 0}
	for queue := []string{"/"}; len(queue) > 0; queue = queue[1:] {
		rec := r.get(queue[0])
		found[queue[0]] = rec.Code
		links := hrefs(r.t, rec.Body.Bytes())
		if loc := rec.Header().Get("Location"); loc != "" {
			links = append(links, loc)
		}
		for _, l := range links {
			if _, seen := found[l]; !seen && strings.HasPrefix(l, "/") {
				found[l] = 0
				queue = append(queue, l)
			}
		}
	}
	return found
}

func hrefs(t testing.TB, body []byte) []string {
	var links []string
	doc, err := html.Parse(bytes.NewReader(body))
	require.NoError(t, err)
	for n := range doc.Descendants() {
		for _, a := range n.Attr {
			if a.Key == "href" {
				links = append(links, a.Val)
			}
		}
	}
	return links
}

// TestEverythingIsReachable holds for any shape of site: from "/" a crawler finds each page, document, redirect and
// dead link, and nothing else.
func TestEverythingIsReachable(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := Host{
			Pages:      rapid.IntRange(1, 60).Draw(rt, "pages"),
			Fanout:     rapid.IntRange(1, 9).Draw(rt, "fanout"),
			CrossLinks: rapid.IntRange(0, 3).Draw(rt, "cross"),
			Media:      rapid.IntRange(0, 70).Draw(rt, "media"),
			Redirects:  rapid.IntRange(0, 70).Draw(rt, "redirects"),
			Missing:    rapid.IntRange(0, 70).Draw(rt, "missing"),
			Private:    rapid.IntRange(0, 70).Draw(rt, "private"),
			Size:       Size{Max: 20},
		}
		r := newRig(t, one(h))
		count := map[int]int{}
		for _, status := range crawl(r) {
			count[status/100]++
		}
		want := map[int]int{2: h.Pages + h.Media + h.Private}
		if h.Redirects > 0 {
			want[3] = h.Redirects
		}
		if h.Missing > 0 {
			want[4] = h.Missing
		}
		require.Equal(rt, want, count)
		got := r.report()
		require.Equal(rt, int64(got.URLs), got.Distinct)
		require.Zero(rt, got.Duplicates)
	})
}

func TestHostLinks(t *testing.T) {
	r := newRig(t, varied(3))
	hosts := map[string]int{}
	for n := range 40 {
		outward := 0
		for _, l := range hrefs(t, r.get(pagePath(n)).Body.Bytes()) {
			u, err := url.Parse(l)
			require.NoError(t, err)
			if u.Host == "" {
				continue
			}
			outward++
			hosts[u.Host]++
			target := map[string]int{"127.0.1.2:8080": 1, "127.0.1.3:8080": 2}[u.Host]
			require.NotZero(t, target, "%s is no other host of this site", l)
			require.Equal(t, 200, r.do("GET", u.Path, target).Code, l)
		}
		require.Equal(t, 2, outward)
	}
	require.Len(t, hosts, 2)

	alone := newRig(t, one(Host{Pages: 1, HostLinks: 3}))
	require.Empty(t, hrefs(t, alone.get("/").Body.Bytes()), "there is no other host to link to")
}

func TestSpellings(t *testing.T) {
	r := newRig(t, varied(1))
	for path, want := range map[string]string{
		"/p/1": "200", "/p/39": "200", "/m/0.txt": "200", "/m/1.json": "200", "/private/0": "200", "/r/0": "301", "/r/1": "302",
		"/p/40": "404", "/p/0": "404", "/p/01": "404", "/p/+1": "404", "/p/-0": "404", "/p/-1": "404", "/p/": "404", "/p": "404",
		"/p/1/": "404", "/%70/1": "404", "/p/1?": "200", "/p/1?a": "404", "//p/1": "404", "/m/0": "404", "/m/0.json": "404",
		"/m/00.txt": "404", "/private/3": "404", "/r/7": "404", "/x/0": "404", "/p/99999999999999999999": "404", "/robots.txt?": "404",
	} {
		require.Equal(t, want, r.status(path), path)
	}
	require.Equal(t, int64(1), r.report().Duplicates, "/p/1? is /p/1")
}

func TestRedirectChainsEnd(t *testing.T) {
	r := newRig(t, one(Host{Pages: 5, Redirects: 40}))
	longest := 0
	for n := range 40 {
		path, hops := fmt.Sprintf("/r/%d", n), 0
		for strings.HasPrefix(path, "/r/") {
			path = r.get(path).Header().Get("Location")
			hops++
		}
		require.Equal(t, "200", r.status(path))
		longest = max(longest, hops)
	}
	require.Equal(t, 2, longest)
}

func TestSizes(t *testing.T) {
	r := newRig(t, one(Host{Pages: 200, Size: Size{Min: 1000, Max: 3000}, Media: 8}))
	sum := 0
	for n := range 200 {
		body := r.get(pagePath(n)).Body
		require.Equal(t, fmt.Sprint(body.Len()), r.get(pagePath(n)).Header().Get("Content-Length"))
		// A sentence is at most 90 bytes, head and tags some 300, ten links some 400.
		require.Greater(t, body.Len(), 1000)
		require.Less(t, body.Len(), 3000+800)
		sum += body.Len()
	}
	require.InDelta(t, 2000+300, sum/200, 300)

	empty := newRig(t, one(Host{Pages: 1, Size: Size{Min: 0, Max: 1}}))
	require.Less(t, empty.get("/").Body.Len(), 500)
}

func TestMediaIsWhatItSays(t *testing.T) {
	r := newRig(t, one(Host{Media: 8}))
	for n := range 8 {
		rec := r.get(mediaPath(n))
		require.Equal(t, mediaKinds[n%4].contentType, rec.Header().Get("Content-Type"))
		switch body := rec.Body.Bytes(); n % 4 {
		case 1:
			require.True(t, json.Valid(body))
		case 2:
			require.NoError(t, xml.Unmarshal(body, new(struct{ Title string })))
		case 3:
			require.Contains(t, string(body), "\x00")
		}
	}
}

func bodyOf(t *testing.T, c *http.Client, url string) (status int, contentType string, body []byte) {
	t.Helper()
	resp, err := c.Get(url)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, resp.Header.Get("Content-Type"), body
}

// The sitemap in robots.txt names the pages that nothing links to, and the report counts those that were found.
func TestListedPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		site, c := inMemory(t, Config{Hosts: []Host{
			{Pages: 5, Listed: 2500, Size: Size{Min: 1, Max: 2}, Robots: Robots{Disallow: []string{"/s/7"}}},
			{Pages: 5, Listed: 1},
			{Pages: 5},
		}})
		origin := site.URL(0)
		_, _, robots := bodyOf(t, c, origin+"/robots.txt")
		require.True(t, strings.HasSuffix(string(robots), "Disallow: /s/7\nSitemap: "+origin+"/sitemap.xml\n"), "%s", robots)
		_, _, robots = bodyOf(t, c, site.URL(1)+"/robots.txt")
		require.Equal(t, "User-agent: *\nAllow: /\nSitemap: "+site.URL(1)+"/sitemap.xml\n", string(robots))

		locs := func(url string, packed bool) (all []string) {
			status, contentType, body := bodyOf(t, c, url)
			require.Equal(t, http.StatusOK, status, url)
			require.Equal(t, map[bool]string{false: "application/xml", true: "application/gzip"}[packed], contentType)
			if packed {
				z, err := gzip.NewReader(bytes.NewReader(body))
				require.NoError(t, err)
				body, err = io.ReadAll(z)
				require.NoError(t, err)
			}
			var list struct {
				Sitemaps []string `xml:"sitemap>loc"`
				URLs     []string `xml:"url>loc"`
			}
			require.NoError(t, xml.Unmarshal(body, &list))
			return append(list.Sitemaps, list.URLs...)
		}
		parts := locs(origin+"/sitemap.xml", false)
		require.Equal(t, []string{origin + "/sitemaps/0.xml", origin + "/sitemaps/1.xml.gz", origin + "/sitemaps/2.xml"}, parts)
		var pages []string
		for i, part := range parts {
			pages = append(pages, locs(part, i == 1)...)
		}
		require.Len(t, pages, 2500)
		require.Equal(t, origin+"/s/0", pages[0])
		require.Equal(t, origin+"/s/2499", pages[2499])

		for _, url := range []string{pages[1], pages[1], pages[2], origin + "/"} {
			status, contentType, body := bodyOf(t, c, url)
			require.Equal(t, http.StatusOK, status)
			require.Equal(t, "text/html; charset=utf-8", contentType)
			require.NotContains(t, string(body), `href="/s/`, "nothing links to them")
		}
		for _, path := range []string{"/s/2500", "/s/01", "/sitemaps/3.xml", "/sitemaps/1.xml", "/sitemaps/0.xml.gz", "/sitemaps/", "/sitemap.xml?x"} {
			status, _, _ := bodyOf(t, c, origin+path)
			require.Equal(t, http.StatusNotFound, status, path)
		}
		status, _, _ := bodyOf(t, c, site.URL(2)+"/sitemap.xml")
		require.Equal(t, http.StatusNotFound, status, "it has nothing to list")

		report := site.Report()
		h := report.Hosts[0]
		require.Equal(t, 2500, h.Listed)
		require.EqualValues(t, 2, h.ListedServed)
		require.EqualValues(t, 3, h.Distinct)
		require.EqualValues(t, 1, h.Duplicates)
		require.Equal(t, 5+2500-111, h.URLs, "/s/7 is a prefix of 111 paths")
		require.Equal(t, 2501, report.Total.Listed)
		require.EqualValues(t, 2, report.Total.ListedServed)
	})
}

func TestPresets(t *testing.T) {
	for name, tc := range map[string]struct {
		cfg   Config
		hosts int
		urls  int // with content, of all hosts together
	}{
		"mixed":           {Mixed(), 8, 60 + 12 + 50 + 50 + 40 + 40 + 14 + 30 + 4},
		"uniform":         {Uniform(5, 30, 20*ms), 5, 150},
		"uniform, zero":   {Uniform(1, 0, 0), 1, 100},
		"uniform, large":  {Uniform(2, 20_000, 0), 2, 40_000},
		"uniform, single": {Uniform(2, 1, 0), 2, 2},
		"head of line":    {HeadOfLine(3), 23, 23 * 51},
		"only healthy":    {HeadOfLine(0), 20, 20 * 51},
	} {
		r := newRig(t, tc.cfg)
		require.Equal(t, tc.hosts, r.site.Hosts(), name)
		require.Equal(t, tc.urls, r.site.Report().Total.URLs, name)
	}
}

func TestHeadOfLineShape(t *testing.T) {
	r := newRig(t, HeadOfLine(2))
	require.Equal(t, "healthy-20", r.site.Report().Hosts[19].Name)
	require.Equal(t, "slow-2", r.site.Report().Hosts[21].Name)
	require.Len(t, hrefs(t, r.do("GET", "/", 21).Body.Bytes()), 50, "the first page makes the whole queue")
	slow := r.site.hosts[21]
	require.Zero(t, slow.latency(target{kind: kindPage}, 0))
	require.Equal(t, 5*time.Second, slow.latency(target{kind: kindPage, n: 1}, 1))
}
