package sitemap_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/unicode"

	"github.com/treadlight/crawl/internal/lab/racetest"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/sitemap"
)

func zipped(t testing.TB, body []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(body)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.Bytes()
}

var relNames = []string{"page", "sitemap", "alternate", "resource"}

func list(t testing.TB, doc sitemap.Document) ([]string, sitemap.Summary) {
	t.Helper()
	if doc.Base.IsZero() {
		doc.Base = parseURL(t, "http://a.test/dir/doc")
	}
	var all []string
	sum := sitemap.Read(doc, func(e sitemap.Entry) bool {
		all = append(all, relNames[e.Rel]+" "+e.URL.String())
		return true
	})
	return all, sum
}

func urlset(n int) []byte {
	var b bytes.Buffer
	b.WriteString(`<?xml version="1.0" encoding="UTF-8"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">` + "\n")
	for i := range n {
		fmt.Fprintf(&b, "<url><loc>http://a.test/products/%d?ref=a&amp;b=c</loc><lastmod>2024-03-%02d</lastmod>"+
			"<changefreq>weekly</changefreq><priority>0.%d</priority></url>\n", i, i%28+1, i%10)
	}
	b.WriteString("</urlset>\n")
	return b.Bytes()
}

// Whatever a document is wrapped in, it has the same entries.
func TestWrappings(t *testing.T) {
	plain := []byte(`<?xml version="1.0"?><urlset><url><loc>http://a.test/ä?ö</loc></url><url><loc>http://a.test/日本</loc></url></urlset>`)
	want := []string{"page http://a.test/%C3%A4?%C3%B6", "page http://a.test/%E6%97%A5%E6%9C%AC"}
	encoded := func(e encoding.Encoding, s string) []byte {
		b, err := e.NewEncoder().Bytes([]byte(s))
		require.NoError(t, err)
		return b
	}
	utf16 := func(order unicode.Endianness, mark unicode.BOMPolicy) []byte {
		return encoded(unicode.UTF16(order, mark), strings.Replace(string(plain), `"1.0"`, `"1.0" encoding="UTF-16"`, 1))
	}
	german := []byte(`<?xml version="1.0" encoding="ISO-8859-1"?><urlset><url><loc>http://a.test/ä?ö</loc></url></urlset>`)
	for name, tc := range map[string]struct {
		body    []byte
		charset string
		want    []string
	}{
		"plain":                      {plain, "", want},
		"byte order mark":            {append([]byte("\xef\xbb\xbf"), plain...), "", want},
		"byte order mark wins":       {append([]byte("\xef\xbb\xbf"), plain...), "iso-8859-1", want},
		"space in front":             {append([]byte("\n\n  "), plain...), "", want},
		"gzip":                       {zipped(t, plain), "", want},
		"gzip of one with a mark":    {zipped(t, append([]byte("\xef\xbb\xbf"), plain...)), "", want},
		"two members of gzip":        {append(zipped(t, plain[:50]), zipped(t, plain[50:])...), "", want},
		"UTF-16, little, marked":     {utf16(unicode.LittleEndian, unicode.UseBOM), "", want},
		"UTF-16, big, marked":        {utf16(unicode.BigEndian, unicode.UseBOM), "", want},
		"UTF-16, little, no mark":    {utf16(unicode.LittleEndian, unicode.IgnoreBOM), "", want},
		"UTF-16, big, no mark":       {utf16(unicode.BigEndian, unicode.IgnoreBOM), "", want},
		"UTF-16, zipped":             {zipped(t, utf16(unicode.BigEndian, unicode.UseBOM)), "", want},
		"UTF-16 by mistake":          {plain, "utf-16", want},
		"Latin 1 by declaration":     {encoded(charmap.ISO8859_1, string(german)), "", want[:1]},
		"Latin 1 by the server":      {encoded(charmap.ISO8859_1, string(german[:14])+string(german[35:])), "iso-8859-1", want[:1]},
		"Latin 1, zipped":            {zipped(t, encoded(charmap.ISO8859_1, string(german))), "", want[:1]},
		"the server before the file": {plain[:bytes.Index(plain, []byte("<url><loc>http://a.test/日"))], "windows-1252", []string{"page http://a.test/%C3%83%C2%A4?%C3%83%C2%B6"}},
		"Shift_JIS":                  {encoded(japanese.ShiftJIS, `<?xml version='1.0' encoding='Shift_JIS'?><urlset><url><loc>http://a.test/日本</loc></url></urlset>`), "", want[1:]},
		"unknown encoding":           {bytes.Replace(plain, []byte(`"1.0"`), []byte(`"1.0" encoding="x-none"`), 1), "x-nothing", want},
	} {
		t.Run(name, func(t *testing.T) {
			got, sum := list(t, sitemap.Document{Body: tc.body, Charset: tc.charset})
			require.Equal(t, tc.want, got)
			require.Equal(t, sitemap.URLSet, sum.Format)
			require.Equal(t, sitemap.URLSet, sitemap.Detect("application/xml", tc.body))
			require.Empty(t, sum.Problem)
			require.True(t, sitemap.Possible(tc.body))
		})
	}
}

// A document that comes in windows has the entries of one that is at hand as a whole.
func TestLargeIsLikeSmall(t *testing.T) {
	body := urlset(5000)
	want, whole := list(t, sitemap.Document{Body: body})
	require.Len(t, want, 5000)
	got, sum := list(t, sitemap.Document{Body: zipped(t, body)})
	require.Equal(t, want, got)
	require.Equal(t, whole, sum)
	require.Equal(t, time.Date(2024, 3, 28, 0, 0, 0, 0, time.UTC), sum.LastMod)
	require.Equal(t, 5000, sum.URLs)
}

func TestBounds(t *testing.T) {
	entry := "<url><loc>http://a.test/1</loc></url>"
	long := strings.Repeat("x", 1<<20)
	few := racetest.Sample(t)
	for name, tc := range map[string]struct {
		body           func() []byte
		urls, extras   int
		dropped        bool
		bound, problem string
	}{
		"URLs":              {body: func() []byte { return urlset(sitemap.MaxURLs + 10) }, urls: sitemap.MaxURLs, dropped: true, bound: "50000 URLs"},
		"as many as may be": {body: func() []byte { return urlset(sitemap.MaxURLs) }, urls: sitemap.MaxURLs},
		"a bomb": {body: func() []byte {
			return zipped(t, append([]byte("<urlset>"+entry), bytes.Repeat([]byte("<!--"+long[:1000]+"-->"), 80<<10)...))
		}, urls: 1, bound: "52428800 bytes"},
		"a bomb of a text": {body: func() []byte {
			return zipped(t, append([]byte("<urlset>"+entry), bytes.Repeat([]byte(" "), 80<<20)...))
		}, urls: 1, bound: "4194304 bytes of a tag or text"},
		"a bomb of a tag": {body: func() []byte {
			return zipped(t, append([]byte("<urlset>"+entry+"<a "), bytes.Repeat([]byte("a"), 80<<20)...))
		}, urls: 1, bound: "4194304 bytes of a tag or text"},
		"a bomb of a comment": {body: func() []byte {
			return zipped(t, append([]byte("<urlset>"+entry+"<!--"), bytes.Repeat([]byte("a"), 80<<20)...))
		}, urls: 1, bound: "4194304 bytes of a tag or text"},
		"a bomb without text": {body: func() []byte {
			return zipped(t, append([]byte(`<?xml version="1.0" encoding="iso-2022-jp"?><urlset>`+entry), bytes.Repeat([]byte("\x1b(B"), 30<<20)...))
		}, urls: 1, bound: "52428800 bytes"},
		"extras of one URL": {body: func() []byte {
			return []byte("<urlset><url><loc>http://a.test/1</loc>" + strings.Repeat("<image><loc>http://a.test/i</loc></image>", 1500) + "</url></urlset>")
		}, urls: 1, extras: 1000, dropped: true},
		"extras of all": {body: func() []byte {
			return []byte("<urlset>" + strings.Repeat("<url><loc>http://a.test/1</loc>"+strings.Repeat("<image><loc>http://a.test/i</loc></image>", 900)+"</url>", 250) + "</urlset>")
		}, urls: 250, extras: sitemap.MaxExtras, dropped: true},
		"a long text": {body: func() []byte {
			return []byte("<urlset><url><loc>http://a.test/" + long + "</loc></url>" + entry + "</urlset>")
		}, urls: 1, problem: "a text beyond"},
		"a long text in parts": {body: func() []byte {
			return []byte("<urlset><url><loc>http://a.test/" + strings.Repeat(long[:1<<15]+"<!---->", 9) + "</loc></url>" + entry + "</urlset>")
		}, urls: 1, problem: "a text beyond"},
		"a long tag":  {body: func() []byte { return []byte("<urlset><url a='" + long + "'>" + entry + "</urlset>") }, urls: 1},
		"a long name": {body: func() []byte { return []byte("<urlset><" + long + "/>" + entry + "</urlset>") }, urls: 1},
		"a long entity": {body: func() []byte {
			return []byte("<urlset><url><loc>http://a.test/&" + long[:1000] + ";</loc></url></urlset>")
		}, urls: 1},
		"nested for ever": {body: func() []byte { return []byte("<urlset>" + strings.Repeat("<a>", 1<<20) + entry) }, urls: 1},
		"broken gzip":     {body: func() []byte { return zipped(t, urlset(1000))[:3000] }, urls: -1, problem: "it breaks off"},
		"not gzip":        {body: func() []byte { return []byte("\x1f\x8bnothing") }, problem: "gzip"},
	} {
		if few && strings.HasPrefix(name, "a bomb ") {
			continue // fifty megabytes each, byte by byte; the plain one is enough
		}
		t.Run(name, func(t *testing.T) {
			_, sum := list(t, sitemap.Document{Body: tc.body(), List: true})
			if tc.urls >= 0 {
				require.Equal(t, tc.urls, sum.URLs)
			} else {
				require.NotZero(t, sum.URLs)
			}
			require.Equal(t, tc.extras, sum.Resources+sum.Alternates)
			require.Equal(t, tc.dropped, sum.Dropped > 0)
			require.Equal(t, tc.bound, sum.Bound)
			require.Contains(t, sum.Problem, tc.problem)
		})
	}
}

// Memory does not grow with the document.
func TestMemory(t *testing.T) {
	body := zipped(t, urlset(40_000)) // some 5 MB
	var before, after runtime.MemStats
	base := parseURL(t, "http://a.test/")
	runtime.GC()
	runtime.ReadMemStats(&before)
	var most uint64
	n := 0
	sitemap.Read(sitemap.Document{Body: body, Base: base}, func(sitemap.Entry) bool {
		if n++; n%10_000 == 0 {
			runtime.GC()
			runtime.ReadMemStats(&after)
			most = max(most, after.HeapAlloc)
		}
		return true
	})
	require.Less(t, int64(most)-int64(before.HeapAlloc), int64(1<<20))
}

func TestStops(t *testing.T) {
	n := 0
	sum := sitemap.Read(sitemap.Document{Body: urlset(100), Base: parseURL(t, "http://a.test/")}, func(sitemap.Entry) bool {
		n++
		return n < 7
	})
	require.Equal(t, 7, n)
	require.Equal(t, 7, sum.URLs)
}

func TestTruncatedList(t *testing.T) {
	body := []byte("http://a.test/1\nhttp://a.test/2")
	whole, _ := list(t, sitemap.Document{Body: body, List: true})
	require.Equal(t, []string{"page http://a.test/1", "page http://a.test/2"}, whole)
	cut, _ := list(t, sitemap.Document{Body: body, List: true, Truncated: true})
	require.Equal(t, whole[:1], cut)
	none, sum := list(t, sitemap.Document{Body: body})
	require.Empty(t, none, "what is no markup is a list only if asked")
	require.Equal(t, sitemap.None, sum.Format)
	mac, _ := list(t, sitemap.Document{Body: []byte("http://a.test/1\rhttp://a.test/2\r"), List: true})
	require.Equal(t, whole, mac)
}

func TestRules(t *testing.T) {
	rules, err := canonical.NewRules([]string{"drop:sid"})
	require.NoError(t, err)
	got, _ := list(t, sitemap.Document{Body: []byte("<urlset><url><loc>http://a.test/?sid=1&amp;b=2</loc></url></urlset>"), Rules: rules})
	require.Equal(t, []string{"page http://a.test/?b=2"}, got)
}

// The beginning of what is no sitemap is told from one that may be.
func TestPossible(t *testing.T) {
	long := strings.Repeat("no address in this line\n", 1000)
	for head, want := range map[string]bool{
		"":    true,
		"   ": true,
		"<?xml version='1.0'?><!-- x --><urlset>": true,
		"<!-- " + long:                                        true,
		"<strange><url>":                                      true,
		"<rss version='2.0'>":                                 true,
		"http://a.test/\n":                                    true,
		"\xef\xbb\xbfhttps://a.test/\n":                       true,
		"Warning: x\nhttp://a.test/\n":                        true,
		"Warning: x\n<?xml version='1.0'?><urlset>":           true,
		string(zipped(t, urlset(500))[:2000]):                 true,
		string(zipped(t, urlset(1))[:15]):                     true,
		string(zipped(t, bytes.Repeat([]byte{7, 65}, 1<<16))): false,
		"\x1f\x8bxxxxxxxxxxxxxxxx":                            false,
		long:                                                  false,
		"<!DOCTYPE html><urlset>":                             false,
		"\n<!-- x --><html lang=en>":                          false,
		"%PDF-1.7\n<</Type /Catalog>>":                        false,
		"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR<http://a.test/>": false,
		"PK\x03\x04\x14\x00\x00\x00<urlset>":                  false,
		"{\"a\": 1}":                                          false,
	} {
		require.Equal(t, want, sitemap.Possible([]byte(head)), "%.60q", head)
	}
}

func TestDetect(t *testing.T) {
	for name, tc := range map[string]struct {
		mediaType, body string
		want            sitemap.Format
	}{
		"urlset":           {"text/xml", "<?xml version='1.0'?>\n<!-- x --><urlset>", sitemap.URLSet},
		"index":            {"", "<sitemapindex>", sitemap.Index},
		"RSS":              {"application/rss+xml", "<rss version='2.0'>", sitemap.RSS},
		"RSS as text":      {"text/plain", "<rss version='2.0'>", sitemap.RSS},
		"RDF":              {"application/xml", "<rdf:RDF xmlns='x'>", sitemap.RSS},
		"Atom":             {"application/atom+xml", "<feed>", sitemap.Atom},
		"zipped":           {"application/gzip", string(zipped(t, []byte("<urlset>"))), sitemap.URLSet},
		"late":             {"text/xml", "<?xml?>" + strings.Repeat(" ", 7000) + "<urlset>", sitemap.URLSet},
		"too late":         {"text/xml", "<?xml?>" + strings.Repeat(" ", 9000) + "<urlset>", sitemap.None},
		"HTML says HTML":   {"text/html", "<urlset>", sitemap.None},
		"XHTML":            {"application/xhtml+xml", "<urlset>", sitemap.None},
		"HTML":             {"", "<!doctype html><urlset>", sitemap.None},
		"SVG":              {"image/svg+xml", "<svg><urlset>", sitemap.None},
		"root of an entry": {"text/xml", "<entry><link href='x'/></entry>", sitemap.None},
		"JSON":             {"application/json", "{}", sitemap.None},
		"list":             {"text/plain", "http://a.test/", sitemap.None},
		"empty":            {"text/xml", "", sitemap.None},
		"other gzip":       {"application/gzip", string(zipped(t, bytes.Repeat([]byte{7}, 1<<16))), sitemap.None},
		"end tag":          {"text/xml", "</urlset>", sitemap.None},
		"in a comment":     {"text/xml", "<!-- <urlset> --><x>", sitemap.None},
		"cut in the root":  {"text/xml", "<urlset", sitemap.None},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, sitemap.Detect(tc.mediaType, []byte(tc.body)))
		})
	}
}

func TestParseTime(t *testing.T) {
	for s, want := range map[string]string{
		"1997":                          "1997-01-01T00:00:00Z",
		"1997-07":                       "1997-07-01T00:00:00Z",
		"1997-07-16":                    "1997-07-16T00:00:00Z",
		"1997-07-16T19:20+01:00":        "1997-07-16T18:20:00Z",
		"1997-07-16T19:20:30+01:00":     "1997-07-16T18:20:30Z",
		"1997-07-16T19:20:30.45+01:00":  "1997-07-16T18:20:30.45Z",
		"1997-07-16T19:20:30.45-05:30":  "1997-07-17T00:50:30.45Z",
		"1997-07-16T19:20:30Z":          "1997-07-16T19:20:30Z",
		"1997-07-16t19:20:30z":          "1997-07-16T19:20:30Z",
		"1997-07-16 19:20:30":           "1997-07-16T19:20:30Z",
		"1997-07-16 19:20:30 +0200":     "1997-07-16T17:20:30Z",
		"1997-07-16T19:20:30+02":        "1997-07-16T17:20:30Z",
		"2024-02-29":                    "2024-02-29T00:00:00Z",
		"Tue, 03 Jun 2003 09:39:21 GMT": "2003-06-03T09:39:21Z",
		"3 Jun 2003 09:39 +0200":        "2003-06-03T07:39:00Z",
	} {
		got, ok := sitemap.ParseTime([]byte(s))
		require.True(t, ok, s)
		require.Equal(t, want, got.UTC().Format(time.RFC3339Nano), s)
	}
	for _, s := range []string{
		"", "x", "97", "1997-", "1997-13", "1997-00", "1997-7", "1997-02-29", "2023-02-29", "1997-06-31", "1997-07-16T", "1997-07-16T19",
		"1997-07-16T19:20:", "1997-07-16T19:60", "1997-07-16T25:00", "1997-07-16T19:20:30.", "1997-07-16T19:20+1", "1997-07-16x", "1997-07-16T19:20Zx",
		"16.07.1997", "07/16/1997", "yesterday", strings.Repeat("1", 1000), "-997-07-16", "+997-07-16", "1997-0７-16",
	} {
		_, ok := sitemap.ParseTime([]byte(s))
		require.False(t, ok, s)
	}
}
