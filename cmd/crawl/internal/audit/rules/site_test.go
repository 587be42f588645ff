package rules

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/cmd/crawl/internal/audit/facts"
)

// A page of a large site costs a few kilobytes with its links, whatever its body has.
func TestLargeSite(t *testing.T) {
	const pages, links = 500, 50
	path := filepath.Join(t.TempDir(), "facts.jsonl")
	func() {
		w, err := os.Create(path)
		require.NoError(t, err)
		enc := json.NewEncoder(w)
		for i := range pages {
			url := fmt.Sprintf("https://example.com/articles/%d/what-it-is-about.html", i)
			f := facts.Page{URL: url, Status: 200, Type: "text/html", Size: 30_000, Millis: 40, Digest: fmt.Sprintf("%016x", i), HTML: &facts.HTML{
				Titles: []string{fmt.Sprintf("Article %d and what it is about", i)}, Descriptions: []string{fmt.Sprintf("A description of article %d, as long as they are.", i)},
				Headings: []string{fmt.Sprintf("Article %d", i)}, Lang: "en", Canonicals: []facts.Ref{{Raw: url, URL: url, By: "head"}},
				IDs: []uint32{1, 2, 3, 4, 5, 6, 7, 8}, Words: 300, Sim: uint64(i) * 0x9E3779B97F4A7C15,
			}}
			for j := range links {
				f.Links = append(f.Links, facts.Link(facts.Anchor, fmt.Sprintf("https://example.com/articles/%d/what-it-is-about.html", (i*7+j*j*13+1)%(pages+pages/100)), ""))
			}
			require.NoError(t, enc.Encode(&f))
		}
		require.NoError(t, w.Close())
	}()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	s := &Site{Seeds: []string{"https://example.com/articles/0/what-it-is-about.html"}}
	require.NoError(t, Read(path, s))
	found := s.Check(func(*Finding) bool { return false })
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := int(after.HeapAlloc-before.HeapAlloc) / pages
	t.Logf("%d pages, %d links: %d bytes each, %d findings", s.Totals.Pages, s.Totals.Links, each, len(found))
	require.Equal(t, pages, s.Totals.Pages)
	require.Less(t, each, 4000)
	runtime.KeepAlive(s)
}

// siteOf reads facts as a crawl writes them.
func siteOf(t testing.TB, pages ...facts.Page) *Site {
	t.Helper()
	var data bytes.Buffer
	enc := json.NewEncoder(&data)
	for i := range pages {
		require.NoError(t, enc.Encode(&pages[i]))
	}
	path := filepath.Join(t.TempDir(), "facts.jsonl")
	require.NoError(t, os.WriteFile(path, data.Bytes(), 0o600))
	s := &Site{Seeds: []string{"http://a.test/"}}
	require.NoError(t, Read(path, s))
	return s
}

func ids(found []Finding) (list []string) {
	for _, f := range found {
		list = append(list, f.Rule+" "+f.URL)
	}
	return list
}

// A page is slow compared with others, a site by the median of its pages.
func TestSlow(t *testing.T) {
	page := func(i int, ms int64) facts.Page {
		url := fmt.Sprintf("http://a.test/%d", i)
		return facts.Page{URL: url, Status: 200, Type: "text/html", Millis: ms, HTML: &facts.HTML{Titles: []string{url}}}
	}
	for _, tc := range []struct {
		times []int64
		want  []string
	}{
		{[]int64{10, 20, 900}, nil},
		{[]int64{10, 20, 1100}, []string{"slow-page http://a.test/2"}},
		{[]int64{500, 600, 1100}, nil},
		{[]int64{1500, 1600, 1700}, []string{"slow-site http://a.test/"}},
	} {
		var pages []facts.Page
		for i, ms := range tc.times {
			pages = append(pages, page(i, ms))
		}
		found := siteOf(t, pages...).Check(func(f *Finding) bool { return f.Rule != "slow-page" && f.Rule != "slow-site" })
		require.Equal(t, tc.want, ids(found), "%v", tc.times)
	}
}

// A robots.txt that pages link to is also a page, in either order of the facts.
func TestRobotsThatIsAPage(t *testing.T) {
	robots := facts.Page{Kind: facts.Robots, URL: "http://a.test/robots.txt", Status: 200, Problems: []string{"line 1: no"}}
	as := facts.Page{URL: robots.URL, Status: 200, Type: "text/html", HTML: &facts.HTML{}}
	for _, pages := range [][]facts.Page{{robots, as}, {as, robots}} {
		require.Contains(t, ids(siteOf(t, pages...).Check(func(*Finding) bool { return false })), "robots-invalid "+robots.URL)
	}
}

// Verdicts are what a reader would say; only what certainly does not exist is broken.
func TestVerdicts(t *testing.T) {
	for _, tc := range []struct {
		want  verdict
		pages []facts.Page
	}{
		{fine, []facts.Page{{Status: 200}, {Status: 206}, {Status: 304}, {Status: 200, Class: "truncated"}, {Class: "filtered"}, {Class: "too_large"}}},
		{moved, []facts.Page{{Status: 301, To: "http://a.test/"}}},
		{broken, []facts.Page{{Status: 404}, {Status: 410}, {Status: 400}, {Status: 404, Wall: true}, {Class: "no_host"}, {Class: "network", Message: "dial: connection refused"}, {Class: "tls", Message: "x509: certificate is valid for a, not b"}, {Status: 302}}},
		{failing, []facts.Page{{Status: 500}, {Status: 502}, {Status: 503}, {Status: 504}}},
		{unclear, []facts.Page{
			{Status: 401},
			{Status: 200, Class: "decode"},
			{Status: 200, Class: "network"},
			{Status: 403},
			{Status: 405},
			{Status: 406},
			{Status: 429},
			{Status: 451},
			{Status: 503, Wall: true},
			{Status: 999},
			{Class: "timeout"},
			{Class: "network", Message: "connection reset"},
			{Class: "dns"},
			{Class: "tls", Message: "x509: certificate signed by unknown authority"},
			{Status: 400, Wall: true},
		}},
		{forbidden, []facts.Page{{Class: "robots"}}},
	} {
		for _, page := range tc.pages {
			got, _ := judge(&page)
			require.Equal(t, tc.want, got, "%+v", page)
		}
	}
}

// Codes of languages are those of ISO, as search engines read them.
func TestLanguageCodes(t *testing.T) {
	for _, code := range []string{"en", "de-CH", "zh-Hant", "zh-Hant-TW", "x-default", "X-Default", "be", "uk", "pt-br", "es-419", "fil", "sr-Latn-RS", "EN-gb"} {
		require.Empty(t, codeFault(code), code)
	}
	for _, code := range []string{"", "en-UK", "en-EU", "es-UN", "en_US", "jp", "cz", "eng", "deu-DE", "en-GB-US", "en-Xxxx", "-", "en-", "gb-", "english", "de-de-de", "ü", "en-12"} {
		require.NotEmpty(t, codeFault(code), code)
	}
}

// Any file of facts gives a site or an error.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"url":"http://a.test/","status":200,"html":{"Titles":["x"],"Canonicals":[{"Raw":"/b","URL":"http://a.test/b","Where":"head"}]},"links":["a/b#c","r/i.png","A://x"]}` + "\n" +
		`{"url":"http://a.test/b","status":301,"to":"http://a.test/b"}` + "\n"))
	f.Add([]byte(`{"url":"http://a.test/m","kind":"sitemap","links":["a/b"],"problems":["x"]}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "facts.jsonl")
		require.NoError(t, os.WriteFile(path, data, 0o600))
		s := &Site{Seeds: []string{"http://a.test/"}}
		err := Read(path, s)
		if err != nil {
			return
		}
		for _, finding := range s.Check(func(*Finding) bool { return false }) {
			if !slices.ContainsFunc(Table, func(r Rule) bool { return r.ID == finding.Rule }) || !slices.Contains(Severities, finding.Severity) || finding.Pages < len(finding.Where) {
				t.Errorf("%+v", finding)
			}
		}
	})
}
