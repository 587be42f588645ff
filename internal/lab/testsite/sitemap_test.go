package testsite

import (
	"bytes"
	"compress/gzip"
	"encoding/xml"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// bodyOf is the answer to a GET.
func bodyOf(t *testing.T, c *http.Client, url string) (status int, contentType string, body []byte) {
	t.Helper()
	resp, err := c.Get(url)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, resp.Header.Get("Content-Type"), body
}

// Pages that nothing links to are named by the sitemap that robots.txt names, and the report
// counts those that were found.
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
		var text bytes.Buffer
		require.NoError(t, report.WriteTable(&text))
		require.Contains(t, text.String(), "found by sitemap alone: 2 of 2501 pages\n")
	})
}
