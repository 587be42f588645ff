package extract

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/unicode"

	"github.com/treadlight/crawl/internal/web/canonical"
)

const docURL = "https://example.com/dir/page.html"

func TestLinks(t *testing.T) {
	all := Options{Resources: true}
	tests := []struct {
		name, page string
		opts       Options
		want       string // "tag.attr[/rel] URL", one per line, with R for resources
	}{
		{"a", `<a href="x.html">x</a><A HREF='/y'>y</A><a href=z>z</a>`, Options{}, `
			a.href https://example.com/dir/x.html
			a.href https://example.com/y
			a.href https://example.com/dir/z`},
		{"area and frames", `<map><area href=a></map><iframe src=b></iframe><frameset><frame src=c><noframes><a href=d></noframes></frameset>`, Options{}, `
			area.href https://example.com/dir/a
			iframe.src https://example.com/dir/b
			frame.src https://example.com/dir/c
			a.href https://example.com/dir/d`},
		{"noscript", `<noscript><a href=a></a><img src=b></noscript><a href=c>`, all, `
			a.href https://example.com/dir/a
			R img.src https://example.com/dir/b
			a.href https://example.com/dir/c`},
		{"entities", `<a href="?a=1&amp;b=2">1</a><a href="?a=1&copy=2">2</a><a href="&#x2f;c&sol;d">3</a>`, Options{}, `
			a.href https://example.com/dir/page.html?a=1&b=2
			a.href https://example.com/dir/page.html?a=1&copy=2
			a.href https://example.com/c/d`},
		{"white space in references", "<a href=' \n x y\t'>1</a><a href='a\n  b'>2</a><a href=\"ht\ntp://h.example/\r\n\">3</a>", Options{}, `
			a.href https://example.com/dir/x%20y
			a.href https://example.com/dir/a%20%20b
			a.href http://h.example/`},
		{"unique by URL", `<a href=x>1</a><a href=x#f>2</a><a href="./x">3</a><a href="/dir/x">4</a><a href="x?">5</a>`, Options{}, `
			a.href https://example.com/dir/x
			a.href https://example.com/dir/x?`},
		{"fragments and nothing", `<a href="#a">1</a><a href="">2</a><a href>3</a><a name=x>4</a><img src=""><a href="page.html">self</a>`, all, `
			a.href https://example.com/dir/page.html`},
		{"rel", `<a rel="nofollow UGC" href=a>1</a><a rel=noopener href=b>2</a>`, Options{}, `
			a.href/nofollow ugc https://example.com/dir/a
			a.href/noopener https://example.com/dir/b`},
		{"followable wins", `<a rel=nofollow href=a>1</a><a href=a>2</a><a href=b>3</a><a rel=nofollow href=b>4</a><a rel=nofollow href=c><a href=./c>`, Options{}, `
			a.href https://example.com/dir/a
			a.href https://example.com/dir/b
			a.href https://example.com/dir/c`},
		{"navigation wins", `<img src=a.png><a href=a.png>x</a><a href=b.png><img src=b.png></a><img src=./c><a href=c>`, all, `
			a.href https://example.com/dir/a.png
			a.href https://example.com/dir/b.png
			a.href https://example.com/dir/c`},
		{"base", `<a href=early>0</a><base href="/other/"><base href="/third/"><a href=x>1</a><a href="#f">2</a>`, Options{}, `
			a.href https://example.com/other/early
			a.href https://example.com/other/x
			a.href https://example.com/other/`},
		{"base elsewhere", `<base target=_top><base href="http://cdn.example/a/b"><a href=x>1</a>`, Options{}, `
			a.href http://cdn.example/a/x`},
		{"base of no use", `<base href="mailto:x"><base href="/b/"><a href=x>1</a>`, Options{}, `
			a.href https://example.com/dir/x`},
		{"refresh", `<meta http-equiv=Refresh content="0; URL='next.html'"><meta http-equiv=refresh content=5>`, Options{}, `
			meta.content https://example.com/dir/next.html`},
		{"not shown", `<!-- <a href=a> --><script>document.write('<a href="b">')</script><style><a href=c></style>
			<textarea><a href=d></textarea><title><a href=e></title><template><a href=f><template></template><img src=g></template>
			<xmp><a href=h></xmp><a href=z>`, all, `
			a.href https://example.com/dir/z`},
		{"shadow root", `<template shadowrootmode=open><a href=a></a></template><template><template shadowrootmode=open><a href=b></template></template>`, Options{}, `
			a.href https://example.com/dir/a`},
		{"base and meta in a template", `<template><base href=/x/><meta http-equiv=refresh content="0;url=y"></template><a href=a>`, Options{}, `
			a.href https://example.com/dir/a`},
		{"svg", `<svg><title>no</title><a xlink:href="a"><image href="i.png"/></a><a href=b xlink:href=c /><script/><a href=d></svg><a href=e>`, all, `
			a.xlink:href https://example.com/dir/a
			R image.href https://example.com/dir/i.png
			a.href https://example.com/dir/b
			a.href https://example.com/dir/d
			a.href https://example.com/dir/e`},
		{"link elements", `<link rel=next href=n><link rel="Alternate" type="text/html" href=de><link rel=alternate type=application/rss+xml href=feed>
			<link rel=preconnect href=//cdn.example><link rel=stylesheet href=s.css><link rel="shortcut icon" href=i.ico>
			<link href=norel><link rel=unknown href=u><link rel=canonical href=c>`, all, `
			link.href/next https://example.com/dir/n
			link.href/alternate https://example.com/dir/de
			R link.href/stylesheet https://example.com/dir/s.css
			R link.href/shortcut icon https://example.com/dir/i.ico
			link.href/canonical https://example.com/dir/c`},
		{"no resources unless asked", `<link rel=stylesheet href=s.css><img src=a srcset="b 2x"><script src=c></script><video src=d poster=e></video><a href=z>`, Options{}, `
			a.href https://example.com/dir/z`},
		{"resources", `<img src=a srcset="b 2x, c,d 640w"><picture><source srcset="e(1,2) 1x,f"></picture><script src=g></script><video src=h poster=i><source src=j><track src=k></video>
			<audio src=l></audio><embed src=m><object data=n></object><input type=image src=o><link rel=preload imagesrcset="p 1x, q 2x" href=r>`, all, `
			R img.src https://example.com/dir/a
			R img.srcset https://example.com/dir/b
			R img.srcset https://example.com/dir/c,d
			R source.srcset https://example.com/dir/e(1,2)
			R source.srcset https://example.com/dir/f
			R script.src https://example.com/dir/g
			R video.src https://example.com/dir/h
			R video.poster https://example.com/dir/i
			R source.src https://example.com/dir/j
			R track.src https://example.com/dir/k
			R audio.src https://example.com/dir/l
			R embed.src https://example.com/dir/m
			R object.data https://example.com/dir/n
			R input.src https://example.com/dir/o
			R link.href/preload https://example.com/dir/r
			R link.imagesrcset/preload https://example.com/dir/p
			R link.imagesrcset/preload https://example.com/dir/q`},
		{"duplicate attributes", `<a href=a href=b HREF=c>x</a>`, Options{}, `
			a.href https://example.com/dir/a`},
		{"absurd attributes", `<a / = =x href = "a" / b=><a	href='b'c=d><a href=c/><a x="'" href="d>e">`, Options{}, `
			a.href https://example.com/dir/a
			a.href https://example.com/dir/b
			a.href https://example.com/dir/c/
			a.href https://example.com/dir/d%3Ee`},
		{"cut off", `<a href=a>x</a><a href="b`, Options{}, `
			a.href https://example.com/dir/a`},
		{"other schemes", `<a href="mailto:x">1</a><a href="javascript:y">2</a><a href="https://u:p@h/">3</a><a href=ok>4</a>`, Options{}, `
			a.href https://example.com/dir/ok`},
		{"null bytes", "<a hr\x00ef=a href=b\x00>1</a>", Options{}, `
			a.href https://example.com/dir/b%EF%BF%BD`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := read(t, tt.page, tt.opts)
			require.Equal(t, strings.ReplaceAll(tt.want, "\t", ""), listing(r))
		})
	}
}

func TestCounts(t *testing.T) {
	r := read(t, `<a href="mailto:x">1</a><a href="mailto:x">again</a><a href="javascript:y">2</a>
		<a href="http://u:p@h/">3</a><a href="http://[/">4</a><img src="data:image/png;base64,`+strings.Repeat("A", 9000)+`">`, Options{Resources: true})
	require.Empty(t, r.Links)
	require.Equal(t, 3, r.SkippedSchemes)
	require.Equal(t, 2, r.BadLinks)
	require.Zero(t, r.DroppedLinks+r.LongLinks)
}

// What is longer than any URL is counted as that, whether it is written so or becomes so; a page's
// relations are no second links.
func TestLongLinks(t *testing.T) {
	long, fits := strings.Repeat("a", canonical.MaxLength+1), strings.Repeat("a", canonical.MaxLength-len("https://example.com/"))
	r := read(t, `<link rel=next href="`+long+`"><link rel=next href="/`+fits+`b">
		<a href="/`+long+`">1</a><a href="/`+fits+`b">2</a><a href="?`+strings.Repeat("ü", 2000)+`">3</a>
		<a href="/b/..`+strings.Repeat("/b/..", 2000)+`">4</a><a href="/`+strings.Repeat("c\n", 5000)+`">5</a>
		<a href="/`+fits+`">6</a>`, Options{})
	require.Len(t, r.Links, 1, "the last")
	require.Equal(t, 6, r.LongLinks)
	require.Zero(t, r.BadLinks+r.SkippedSchemes+r.DroppedLinks)
}

func TestMaxLinks(t *testing.T) {
	var page strings.Builder
	for i := range defaultMaxLinks + 5 {
		fmt.Fprintf(&page, "<a href=%d>x</a>", i)
	}
	r := read(t, page.String(), Options{})
	require.Len(t, r.Links, defaultMaxLinks)
	require.Equal(t, 5, r.DroppedLinks)

	r = read(t, page.String(), Options{MaxLinks: 3})
	require.Len(t, r.Links, 3)
	require.Equal(t, "https://example.com/dir/2", r.Links[2].URL.String())
	require.Equal(t, defaultMaxLinks+2, r.DroppedLinks)
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
	require.Equal(t, Meta{
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
	texts := map[string]string{}
	for _, l := range r.Links {
		texts[l.URL.Path()] = l.Text
	}
	require.Equal(t, map[string]string{"/dir/x": "a link", "/dir/y": "later", "/dir/z": "z", "/dir/w": "w"}, texts)

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
		var e Extractor
		var r Result
		require.NoError(t, e.Page(mustParse(t, docURL), tt.mediaType, "", []byte(tt.body), Options{Text: true}, &r))
		require.Equal(t, tt.html, r.HTML, "%q %q", tt.mediaType, tt.body)
		require.Equal(t, tt.text, r.Text, "%q %q", tt.mediaType, tt.body)
		require.Equal(t, strings.Contains(tt.body, "href") && tt.html, len(r.Links) > 0)
	}
}

func TestXHTML(t *testing.T) {
	const page = `<html xmlns="http://www.w3.org/1999/xhtml"><head><title/><script src="s.js"/></head><body><template/><a href="x"/><![CDATA[<a href="y">]]><iframe src="z"/><a href="w"/></body></html>`
	var e Extractor
	var r Result
	require.NoError(t, e.Page(mustParse(t, docURL), "application/xhtml+xml", "", []byte(page), Options{}, &r))
	require.Equal(t, "\na.href https://example.com/dir/x\niframe.src https://example.com/dir/z\na.href https://example.com/dir/w", listing(&r))
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
			var e Extractor
			var r Result
			require.NoError(t, e.Page(mustParse(t, docURL), "text/html", tt.declared, []byte(tt.body), Options{}, &r))
			require.Equal(t, tt.charset, r.Charset)
			require.Equal(t, tt.title, r.Title)
			require.Len(t, r.Links, 1)
			require.Equal(t, tt.path, r.Links[0].URL.Path())
		})
	}
}

// TestOversizedTokens has what is longer than anyone writes, in every place where it can
// be, between two links that must both be found.
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
		require.Equal(t, "\na.href https://example.com/dir/before\na.href https://example.com/dir/after", listing(r), name)
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
	require.LessOrEqual(t, len(e.rels), maxRels)

	require.NoError(t, e.Page(base, "text/html", "", []byte("<title>t</title><a href=1>x"), Options{}, &r))
	require.Equal(t, "t", r.Title)
	require.Len(t, r.Links, 1)
	require.Empty(t, r.Links[0].Rel)
	require.LessOrEqual(t, len(e.byRef), maxIndex)
	require.Nil(t, e.scanner.body, "the page belongs to the caller")

	huge := strings.Repeat("ü ", maxKept)
	require.NoError(t, e.Page(base, "text/plain", "latin1", []byte(huge), Options{Text: true}, &r))
	require.Greater(t, len(r.Text), len(huge))
	for _, buf := range [][]byte{e.decoded, e.text.buf, e.refs} {
		require.LessOrEqual(t, cap(buf), maxKept)
	}

	require.ErrorContains(t, e.Page(canonical.URL{}, "text/html", "", nil, Options{}, &r), "no base")
}

func TestNoFollow(t *testing.T) {
	for rel, want := range map[string]bool{"": false, "nofollow": true, "me  nofollow ": true, "nofollows": false, "xnofollow": false} {
		l := Link{Rel: rel}
		require.Equal(t, want, l.NoFollow(), rel)
	}
}

func read(tb testing.TB, page string, opts Options) *Result {
	tb.Helper()
	var e Extractor
	var r Result
	require.NoError(tb, e.Page(mustParse(tb, docURL), "text/html", "", []byte(page), opts, &r))
	return &r
}

func listing(r *Result) string {
	var b strings.Builder
	for _, l := range r.Links {
		b.WriteByte('\n')
		if l.Kind == Resource {
			b.WriteString("R ")
		}
		b.WriteString(l.Tag + "." + l.Attr)
		if l.Rel != "" {
			b.WriteString("/" + l.Rel)
		}
		b.WriteString(" " + l.URL.String())
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
