package extract

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/unicode"

	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/record"
)

const docURL = "https://example.com/dir/page.html"

// What is no URL of the web is no link.
func TestNoLinks(t *testing.T) {
	require.Empty(t, read(t, `<a href="http://u:p@h/">3</a><a href="http://[/">4</a><img src="data:image/png;base64,`+strings.Repeat("A", 9000)+`">`, all).Links)
}

// What is longer than any URL is counted as that, whether it is written so or becomes so; a page's relations are no
// second links.
func TestLongLinks(t *testing.T) {
	long, fits := strings.Repeat("a", canonical.MaxLength+1), strings.Repeat("a", canonical.MaxLength-len("https://example.com/"))
	r := read(t, `<link rel=next href="`+long+`"><link rel=next href="/`+fits+`b">
		<a href="/`+long+`">1</a><a href="/`+fits+`b">2</a><a href="?`+strings.Repeat("ü", 2000)+`">3</a>
		<a href="/b/..`+strings.Repeat("/b/..", 2000)+`">4</a><a href="/`+strings.Repeat("c\n", 5000)+`">5</a>
		<a href="/`+fits+`">6</a>`, Options{})
	require.Len(t, r.Links, 1, "the last")
	require.Equal(t, 6, r.LongLinks)
	require.Zero(t, r.DroppedLinks)
}

func TestMaxLinks(t *testing.T) {
	var page strings.Builder
	for i := range defaultMaxLinks + 5 {
		fmt.Fprintf(&page, "<a href=%d>x</a>", i)
	}
	r := read(t, page.String(), Options{})
	require.Len(t, r.Links, defaultMaxLinks)
	require.Equal(t, fmt.Sprintf("https://example.com/dir/%d", defaultMaxLinks-1), r.Links[defaultMaxLinks-1].URL.String())
	require.Equal(t, 5, r.DroppedLinks)
}

func TestMetadata(t *testing.T) {
	r := read(t, `<!DOCTYPE html><html lang=" de "><head><title>
		 Tee &amp;  Kaffee <b>x</b></title><title>second</title>
		<meta name=Description content="a &quot;b&quot;"><meta name=description content=second>
		<meta name=robots content=noindex><meta name=ROBOTS content="nofollow">
		<meta name=generator content=Pen><meta property="og:title" content=T><meta property=og:type content=article>
		<meta property=og:image content=i.png><meta name=viewport content=x>
		<link rel=canonical href="/c#x"></head>`, Options{})
	require.True(t, r.HTML)
	require.Equal(t, "Tee & Kaffee <b>x</b>", r.Title)
	require.Equal(t, "de", r.Lang)
	require.Equal(t, docURL, r.Base)
	require.Equal(t, record.Meta{
		Description: `a "b"`, Robots: "noindex, nofollow", Generator: "Pen", Canonical: "https://example.com/c",
		OGTitle: "T", OGType: "article", OGImage: "i.png",
	}, r.Meta)
}

func TestFieldsAreBounded(t *testing.T) {
	r := read(t, "<title>"+strings.Repeat("ü", 1<<20)+"</title><meta name=description content='"+strings.Repeat("x ", 1<<18)+"'>", Options{})
	require.Len(t, r.Title, maxField)
	require.True(t, utf8.ValidString(r.Title))
	require.Equal(t, strings.Repeat("x ", maxField/2), r.Meta.Description)
}

func TestText(t *testing.T) {
	r := read(t, `<html><head><title>T</title><style>s</style></head><body>
		<h1>Head <em>li</em>ne</h1><p>One
		two<br>three</p><script>no</script><ul><li>a<li>b</ul>
		<table><tr><td>1<td>2<tr><td>3</table><template>no</template><textarea>no</textarea>&lt;x&gt;
		<a href=x>  a <b>link</b> </a><a href=y><img></a><a href=y>later</a><a href=z>z<a href=w>w</a></body>`, Options{Text: true})
	require.Equal(t, "Head line\nOne two\nthree\na\nb\n1 2\n3\n<x> a link laterzw", r.Text)

	r = read(t, "<p>x</p>", Options{})
	require.Empty(t, r.Text)
}

func TestMediaTypes(t *testing.T) {
	const page = "<p>hello <a href=x>y</a>"
	tests := []struct {
		mediaType, body string
		html            bool
		text            string
	}{
		{"text/html", page, true, "hello y"},
		{"Text/HTML; charset=utf-8", page, true, "hello y"},
		{"application/xhtml+xml", page, true, "hello y"},
		{"", page, true, "hello y"},
		{"", "just text <a href=x>", false, "just text <a href=x>"},
		{"", "%PDF-1.7", false, ""},
		{"text/plain", page, false, page},
		{"text/plain", " \n a  b\n", false, "a  b"},
		{"application/pdf", page, false, ""},
		{"image/svg+xml", page, true, "hello y"},
		{"application/rss+xml", "<rss>" + page, false, ""},
		{"text/xml", "<?xml version='1.0'?><!-- c --><!DOCTYPE x><h:html>" + page, true, "hello y"},
		{"text/css", "a{b:url(x)}", false, ""},
		{"text/html", "", true, ""},
		{"", "", false, ""},
	}
	for _, tt := range tests {
		r := readAs(t, tt.mediaType, "", tt.body, Options{Text: true})
		require.Equal(t, tt.html, r.HTML, "%q %q", tt.mediaType, tt.body)
		require.Equal(t, tt.text, r.Text, "%q %q", tt.mediaType, tt.body)
		require.Equal(t, strings.Contains(tt.body, "href") && tt.html, len(r.Links) > 0)
	}
}

func TestXHTML(t *testing.T) {
	const page = `<html xmlns="http://www.w3.org/1999/xhtml"><head><title/><script src="s.js"/></head><body><template/><a href="x"/><![CDATA[<a href="y">]]><iframe src="z"/><a href="w"/></body></html>`
	r := readAs(t, "application/xhtml+xml", "", page, Options{})
	require.Equal(t, "\nhttps://example.com/dir/x\nhttps://example.com/dir/z\nhttps://example.com/dir/w", listing(r))
}

func TestCharsets(t *testing.T) {
	latin, err := charmap.ISO8859_1.NewEncoder().String("<title>Grün</title><a href='/ü?q=ü&x=%'>x</a>")
	require.NoError(t, err)
	sjis, err := japanese.ShiftJIS.NewEncoder().String("<meta charset=shift_jis><title>日本</title><a href='?q=日本'>x</a>")
	require.NoError(t, err)
	utf16, err := unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewEncoder().String("<title>Grün</title><a href='?ü'>")
	require.NoError(t, err)
	tests := []struct{ name, declared, body, charset, title, path string }{
		{"header", "ISO-8859-1", latin, "windows-1252", "Grün", "/%C3%BC?q=%FC&x=%"},
		{"no word at all", "", latin, "windows-1252", "Grün", "/%C3%BC?q=%FC&x=%"},
		{"unknown word", "klingon", latin, "windows-1252", "Grün", "/%C3%BC?q=%FC&x=%"},
		{"meta", "", sjis, "shift_jis", "日本", "/dir/page.html?q=%93%FA%96{"},
		{"header beats meta", "utf-8", "<meta charset=latin1><title>Grün</title><a href='?ü'>", "utf-8", "Grün", "/dir/page.html?%C3%BC"},
		{"mark beats header", "latin1", "\ufeff<title>Grün</title><a href='?ü'>", "utf-8", "Grün", "/dir/page.html?%C3%BC"},
		{"UTF-16", "", utf16, "utf-16le", "Grün", "/dir/page.html?%C3%BC"},
		{"valid UTF-8 far down", "", strings.Repeat(" ", 2000) + "<title>Grün</title><a href='?ü'>", "utf-8", "Grün", "/dir/page.html?%C3%BC"},
		{"wrong claim", "", "<meta charset=latin1><title>Grün</title><a href='?ü'>", "utf-8", "Grün", "/dir/page.html?%C3%BC"},
		{"not in the charset", "latin1", "<title>x</title><a href='?&#1234;'>", "windows-1252", "x", "/dir/page.html?%26%231234%3B"},
		{"invalid UTF-8", "utf-8", "<title>a\xffb</title><a href='\xff'>", "utf-8", "a\ufffdb", "/dir/%EF%BF%BD"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := readAs(t, "text/html", tt.declared, tt.body, Options{})
			require.Equal(t, tt.charset, r.Charset)
			require.Equal(t, tt.title, r.Title)
			require.Len(t, r.Links, 1)
			require.Equal(t, tt.path, r.Links[0].URL.Path())
		})
	}
}

// TestOversizedTokens has what is longer than anyone writes, in every place where it can be, between two links that
// must both be found.
func TestOversizedTokens(t *testing.T) {
	huge := strings.Repeat("x ", 1<<20)
	const decoy = "</div><a href=decoy>"
	for name, middle := range map[string]string{
		"text":         huge,
		"attribute":    `<img src="data:` + huge + `">`,
		"comment":      "<!-- " + huge + decoy + huge + " -->",
		"declaration":  "<!x " + huge + ">",
		"script":       "<script>" + huge + decoy + "</SCRIPT>",
		"self-closing": "<script />" + huge + decoy + "</script>",
		"style":        "<style>" + huge + decoy + "</style>",
		"textarea":     "<textarea>" + huge + decoy + "</textarea>",
		"title":        "<title>" + huge + decoy + "</title>",
		"iframe":       "<iframe>" + huge + decoy + "</iframe>",
		"end tag":      "</x " + huge + ">",
	} {
		r := read(t, "<a href=before></a>"+middle+"<a href=after></a>", Options{Text: true})
		require.Equal(t, "\nhttps://example.com/dir/before\nhttps://example.com/dir/after", listing(r), name)
		require.LessOrEqual(t, len(r.Text), len(huge), name)
	}
	for _, tail := range []string{"<script>" + huge, "<!--" + huge, "<a href='" + huge, "</x" + huge, "<!x" + huge} {
		r := read(t, "<a href=before></a>"+tail, Options{})
		require.Len(t, r.Links, 1)
	}
}

func TestReuse(t *testing.T) {
	var e Extractor
	var r Result
	base := mustParse(t, docURL)
	big := "<a href=a>"
	for i := range 3000 {
		big += fmt.Sprintf("<a href=%d rel=r%d>", i, i)
	}
	require.NoError(t, e.Page(base, "text/html", "", []byte("<template><svg><title>"+big), Options{Text: true}, &r))
	require.NoError(t, e.Page(base, "text/html", "", []byte(big), Options{Text: true}, &r))
	require.Len(t, r.Links, 3001)

	require.NoError(t, e.Page(base, "text/html", "", []byte("<title>t</title><a href=1>x"), Options{}, &r))
	require.Equal(t, "t", r.Title)
	require.Len(t, r.Links, 1)
	require.False(t, r.Links[0].NoFollow)
	require.LessOrEqual(t, len(e.links.byRef), maxIndex)
	require.Nil(t, e.scanner.body, "the page belongs to the caller")

	huge := strings.Repeat("ü ", maxKept)
	require.NoError(t, e.Page(base, "text/plain", "latin1", []byte(huge), Options{Text: true}, &r))
	require.Greater(t, len(r.Text), len(huge))
	for _, buf := range [][]byte{e.decoded, e.text.buf, e.links.refs} {
		require.LessOrEqual(t, cap(buf), maxKept)
	}

	require.ErrorContains(t, e.Page(canonical.URL{}, "text/html", "", nil, Options{}, &r), "no base")
}

func TestNoFollow(t *testing.T) {
	for rel, want := range map[string]bool{"": false, "nofollow": true, "me  nofollow ": true, "nofollows": false, "xnofollow": false} {
		require.Equal(t, want, worthOf([]byte(rel)) == unfollowed, rel)
	}
}

func read(tb testing.TB, page string, opts Options) *Result {
	tb.Helper()
	return readAs(tb, "text/html", "", page, opts)
}

// readAs reads a page of which the header says so much.
func readAs(tb testing.TB, mediaType, charset, page string, opts Options) *Result {
	tb.Helper()
	return readDocument(tb, &Document{URL: mustParse(tb, docURL), MediaType: mediaType, Charset: charset, Body: []byte(page)}, opts)
}

func readDocument(tb testing.TB, d *Document, opts Options) *Result {
	tb.Helper()
	var e Extractor
	var r Result
	require.NoError(tb, e.Document(d, opts, &r))
	return &r
}

// listing is the URLs of links, one per line, with R for resources and N for what is not to be followed.
func listing(r *Result) string {
	var b strings.Builder
	for _, l := range r.Links {
		b.WriteByte('\n')
		if l.Kind == Resource {
			b.WriteString("R ")
		}
		if l.NoFollow {
			b.WriteString("N ")
		}
		b.WriteString(l.URL.String())
	}
	return b.String()
}

func mustParse(tb testing.TB, s string) canonical.URL {
	tb.Helper()
	u, err := canonical.Parse(s)
	if err != nil {
		tb.Fatal(err)
	}
	return u
}

// A small page cannot make many megabytes of links by way of a long base.
func TestLinkBytesAreBounded(t *testing.T) {
	var page strings.Builder
	page.WriteString(`<base href="http://a.test/` + strings.Repeat("b", 8000) + `/">`)
	for i := range 9000 {
		fmt.Fprintf(&page, `<a href="%d">`, i)
	}
	base, err := canonical.Parse("http://a.test/")
	require.NoError(t, err)
	var e Extractor
	var r Result
	for range 2 { // the bound is per page
		r.Reset()
		require.NoError(t, e.Page(base, "text/html", "", []byte(page.String()), Options{}, &r))
		bytes := 0
		for _, l := range r.Links {
			bytes += len(l.URL.String())
		}
		require.LessOrEqual(t, bytes, 2<<20)
		require.Greater(t, bytes, 2<<20-9000)
		require.Equal(t, 9000, len(r.Links)+r.DroppedLinks)
	}
}

// Page reads body, the document at base, without a header.
func (e *Extractor) Page(base canonical.URL, mediaType, charset string, body []byte, opts Options, dst *Result) error {
	return e.Document(&Document{URL: base, MediaType: mediaType, Charset: charset, Body: body}, opts, dst)
}

// What a page names beside its links is bounded by itself: ordinary links and words that are no URL do not count.
func TestNamedBesideLinks(t *testing.T) {
	var body strings.Builder
	body.WriteString(`<meta http-equiv=Content-Security-Policy content="report-uri . ? :">`)
	for i := range 3 * maxNamed {
		fmt.Fprintf(&body, `<a href="/page/%d">p</a>`, i)
	}
	for i := range 2 * maxNamed {
		fmt.Fprintf(&body, `<script>fetch("/api/%d")</script>`, i)
	}
	d := &Document{URL: mustParse(t, docURL), MediaType: "text/html", Body: []byte(body.String()), Header: http.Header{"Content-Security-Policy": {"report-uri . /csp"}}}
	r := readDocument(t, d, Options{Resources: true, Forms: true, Named: true})
	named := 0
	for _, l := range r.Links {
		if strings.HasPrefix(l.URL.Path(), "/api/") {
			named++
		}
	}
	require.Equal(t, []int{4 * maxNamed, maxNamed}, []int{len(r.Links), named})
}
