package extract

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var all = Options{Resources: true}

// linkCases are pages and their links as listing has them.
var linkCases = []struct {
	name, page string
	opts       Options
	want       string
}{
	{"a", `<a href="x.html">x</a><A HREF='/y'>y</A><a href=z>z</a>`, Options{}, `
		https://example.com/dir/x.html
		https://example.com/y
		https://example.com/dir/z`},
	{"area and frames", `<map><area href=a></map><iframe src=b></iframe><frameset><frame src=c><noframes><a href=d></noframes></frameset>`, Options{}, `
		https://example.com/dir/a
		https://example.com/dir/b
		https://example.com/dir/c
		https://example.com/dir/d`},
	{"noscript", `<noscript><a href=a></a><img src=b></noscript><a href=c>`, all, `
		https://example.com/dir/a
		R https://example.com/dir/b
		https://example.com/dir/c`},
	{"entities", `<a href="?a=1&amp;b=2">1</a><a href="?a=1&copy=2">2</a><a href="&#x2f;c&sol;d">3</a>`, Options{}, `
		https://example.com/dir/page.html?a=1&b=2
		https://example.com/dir/page.html?a=1&copy=2
		https://example.com/c/d`},
	{"white space in references", "<a href=' \n x y\t'>1</a><a href='a\n  b'>2</a><a href=\"ht\ntp://h.example/\r\n\">3</a>", Options{}, `
		https://example.com/dir/x%20y
		https://example.com/dir/a%20%20b
		http://h.example/`},
	{"unique by URL", `<a href=x>1</a><a href=x#f>2</a><a href="./x">3</a><a href="/dir/x">4</a><a href="x?">5</a>`, Options{}, `
		https://example.com/dir/x
		https://example.com/dir/x?`},
	{"fragments and nothing", `<a href="#a">1</a><a href="">2</a><a href>3</a><a name=x>4</a><img src=""><a href="page.html">self</a>`, all, `
		https://example.com/dir/page.html`},
	{"rel", `<a rel="nofollow UGC" href=a>1</a><a rel=noopener href=b>2</a>`, Options{}, `
		N https://example.com/dir/a
		https://example.com/dir/b`},
	{"followable wins", `<a rel=nofollow href=a>1</a><a href=a>2</a><a href=b>3</a><a rel=nofollow href=b>4</a><a rel=nofollow href=c><a href=./c>`, Options{}, `
		https://example.com/dir/a
		https://example.com/dir/b
		https://example.com/dir/c`},
	{"navigation wins", `<img src=a.png><a href=a.png>x</a><a href=b.png><img src=b.png></a><img src=./c><a href=c>`, all, `
		https://example.com/dir/a.png
		https://example.com/dir/b.png
		https://example.com/dir/c`},
	{"base", `<a href=early>0</a><base href="/other/"><base href="/third/"><a href=x>1</a><a href="#f">2</a>`, Options{}, `
		https://example.com/other/early
		https://example.com/other/x
		https://example.com/other/`},
	{"base elsewhere", `<base target=_top><base href="http://cdn.example/a/b"><a href=x>1</a>`, Options{}, `
		http://cdn.example/a/x`},
	{"base of no use", `<base href="mailto:x"><base href="/b/"><a href=x>1</a>`, Options{}, `
		https://example.com/dir/x`},
	{"refresh", `<meta http-equiv=Refresh content="0; URL='next.html'"><meta http-equiv=refresh content=5>`, Options{}, `
		https://example.com/dir/next.html`},
	{"not shown", `<!-- <a href=a> --><script>document.write('<a href="b">')</script><style><a href=c></style>
		<textarea><a href=d></textarea><title><a href=e></title><template><a href=f><template></template><img src=g></template>
		<xmp><a href=h></xmp><a href=z>`, all, `
		https://example.com/dir/z`},
	{"shadow root", `<template shadowrootmode=open><a href=a></a></template><template><template shadowrootmode=open><a href=b></template></template>`, Options{}, `
		https://example.com/dir/a`},
	{"base and meta in a template", `<template><base href=/x/><meta http-equiv=refresh content="0;url=y"></template><a href=a>`, Options{}, `
		https://example.com/dir/a`},
	{"svg", `<svg><title>no</title><a xlink:href="a"><image href="i.png"/></a><a href=b xlink:href=c /><script/><a href=d></svg><a href=e>`, all, `
		https://example.com/dir/a
		R https://example.com/dir/i.png
		https://example.com/dir/b
		https://example.com/dir/d
		https://example.com/dir/e`},
	{"link elements", `<link rel=next href=n><link rel="Alternate" type="text/html" href=de><link rel=alternate type=application/rss+xml href=feed>
		<link rel=preconnect href=//cdn.example><link rel=stylesheet href=s.css><link rel="shortcut icon" href=i.ico>
		<link href=norel><link rel=unknown href=u><link rel=canonical href=c>`, all, `
		https://example.com/dir/n
		https://example.com/dir/de
		R https://example.com/dir/s.css
		R https://example.com/dir/i.ico
		https://example.com/dir/c`},
	{"no resources unless asked", `<link rel=stylesheet href=s.css><img src=a srcset="b 2x"><script src=c></script><video src=d poster=e></video><a href=z>`, Options{}, `
		https://example.com/dir/z`},
	{"resources", `<img src=a srcset="b 2x, c,d 640w"><picture><source srcset="e(1,2) 1x,f"></picture><script src=g></script><video src=h poster=i><source src=j><track src=k></video>
		<audio src=l></audio><embed src=m><object data=n></object><input type=image src=o><link rel=preload imagesrcset="p 1x, q 2x" href=r>`, all, `
		R https://example.com/dir/a
		R https://example.com/dir/b
		R https://example.com/dir/c,d
		R https://example.com/dir/e(1,2)
		R https://example.com/dir/f
		R https://example.com/dir/g
		R https://example.com/dir/h
		R https://example.com/dir/i
		R https://example.com/dir/j
		R https://example.com/dir/k
		R https://example.com/dir/l
		R https://example.com/dir/m
		R https://example.com/dir/n
		R https://example.com/dir/o
		R https://example.com/dir/r
		R https://example.com/dir/p
		R https://example.com/dir/q`},
	{"duplicate attributes", `<a href=a href=b HREF=c>x</a>`, Options{}, `
		https://example.com/dir/a`},
	{"absurd attributes", `<a / = =x href = "a" / b=><a	href='b'c=d><a href=c/><a x="'" href="d>e">`, Options{}, `
		https://example.com/dir/a
		https://example.com/dir/b
		https://example.com/dir/c/
		https://example.com/dir/d%3Ee`},
	{"cut off", `<a href=a>x</a><a href="b`, Options{}, `
		https://example.com/dir/a`},
	{"other schemes", `<a href="mailto:x">1</a><a href="javascript:y">2</a><a href="https://u:p@h/">3</a><a href=ok>4</a>`, Options{}, `
		https://example.com/dir/ok`},
	{"null bytes", "<a hr\x00ef=a href=b\x00>1</a>", Options{}, `
		https://example.com/dir/b%EF%BF%BD`},
	{"citations", `<blockquote cite=a><q cite=b>x</q></blockquote><ins cite=c></ins><del cite=d cite=e></del><q cite><p cite=no>`, Options{}, `
		https://example.com/dir/a
		https://example.com/dir/b
		https://example.com/dir/c
		https://example.com/dir/d`},
	{"frames of all kinds", `<iframe src="" data-src="a.html" longdesc=b></iframe><portal src=c></portal><fencedframe src=d></fencedframe>
		<amp-iframe src=e></amp-iframe><img longdesc=f><iframe data-src="{{x}}"></iframe><object type="text/html" data=g></object><object data=no></object>`, Options{}, `
		https://example.com/dir/a.html
		https://example.com/dir/b
		https://example.com/dir/c
		https://example.com/dir/d
		https://example.com/dir/e
		https://example.com/dir/f
		https://example.com/dir/g`},
	{"srcdoc", `<base href="/b/"><iframe src=x srcdoc="&lt;base href=/no/&gt;&lt;title&gt;no&lt;/title&gt;&lt;a href='y'&gt;&lt;img src=i&gt;
		&lt;iframe srcdoc='&amp;lt;a href=no&amp;gt;'&gt;&lt;/iframe&gt;"></iframe><a href=z>`, all, `
		https://example.com/b/x
		https://example.com/b/z
		https://example.com/b/y
		R https://example.com/b/i`},
	{"data attributes that lead to pages", `<tr data-href="a.html"><div class=x data-url="/b"><li data-link="https://h.example/c"><span data-url="../d">
		<a href=e data-href="?f=1"></a><div data-url="km/h" data-href="none"><div data-link=x.html><p data-href="{{u}}/x">`, Options{}, `
		https://example.com/dir/a.html
		https://example.com/b
		https://h.example/c
		https://example.com/d
		https://example.com/dir/page.html?f=1
		https://example.com/dir/e`},
	{"images that come late", `<img src="data:," data-src="a.png" data-srcset="b.png 1x, c.png 2x"><img data-original=d.jpg data-lazy="e.jpg" data-lazy-src=f.jpg data-lazyload=g.jpg>
		<div data-bg="h.jpg"></div><div data-bg="url('i.jpg')"></div><section data-background=dark data-background-image="j.jpg"></section><video data-poster=k.jpg></video>
		<div data-bg="#fff" data-image="12.5" data-original="An old title." data-lazy=true></div><img data-lazy-srcset="l.jpg, m.jpg 2x"><script data-src="n.js"></script>`, all, `
		R https://example.com/dir/a.png
		R https://example.com/dir/b.png
		R https://example.com/dir/c.png
		R https://example.com/dir/d.jpg
		R https://example.com/dir/e.jpg
		R https://example.com/dir/f.jpg
		R https://example.com/dir/g.jpg
		R https://example.com/dir/h.jpg
		R https://example.com/dir/i.jpg
		R https://example.com/dir/j.jpg
		R https://example.com/dir/k.jpg
		R https://example.com/dir/l.jpg
		R https://example.com/dir/m.jpg
		R https://example.com/dir/n.js`},
	{"styles", `<style>@import "a.css"; b{background:url(b.png)} c{background:url(#c)}</style><p style="background: url(&quot;c.png&quot;)">
		<svg><style>d{fill:url(d.svg#x)}</style></svg><template><style>@import "no"</style><p style="a:url(no)"></template><style></style>`, all, `
		R https://example.com/dir/a.css
		R https://example.com/dir/b.png
		R https://example.com/dir/c.png
		R https://example.com/dir/d.svg`},
	{"old pages", `<body background=a.gif><table background=b.gif><tr background=c.gif><td background=d.gif><th background=e.gif></table><bgsound src=f.mid>
		<img src=g.gif lowsrc=h.gif dynsrc=i.avi><image src=j.gif><div background=no.gif><applet code=K.class codebase=k archive="l.jar, m.jar"></applet>
		<object data=n.swf><param name=movie value=o.swf><param name=quality value=high><param name=x valuetype=ref value=p></object><html manifest=q.appcache>`, all, `
		R https://example.com/dir/a.gif
		R https://example.com/dir/b.gif
		R https://example.com/dir/c.gif
		R https://example.com/dir/d.gif
		R https://example.com/dir/e.gif
		R https://example.com/dir/f.mid
		R https://example.com/dir/g.gif
		R https://example.com/dir/h.gif
		R https://example.com/dir/i.avi
		R https://example.com/dir/j.gif
		R https://example.com/dir/k/K.class
		R https://example.com/dir/k/l.jar
		R https://example.com/dir/k/m.jar
		R https://example.com/dir/n.swf
		R https://example.com/dir/o.swf
		R https://example.com/dir/p
		R https://example.com/dir/q.appcache`},
	{"svg", `<svg><use href="a.svg#x"/><use xlink:href="b.svg#y"/><use href="#z"/><feImage href=c.png /><image xlink:href=d.png /><script xlink:href=e.js></script>
		<pattern xlink:href="f.svg#p"/></svg><use href=no><p xlink:href=no>`, all, `
		R https://example.com/dir/a.svg
		R https://example.com/dir/b.svg
		R https://example.com/dir/c.png
		R https://example.com/dir/d.png
		R https://example.com/dir/e.js
		R https://example.com/dir/f.svg`},
	{"inputs", `<input type=IMAGE src=a><input src=no><input type=text src=no>`, all, `
		R https://example.com/dir/a`},
	{"amp", `<amp-img src=a srcset="b 2x"></amp-img><amp-video src=c></amp-video><amp-audio src=d></amp-audio><amp-anim src=e></amp-anim>`, all, `
		R https://example.com/dir/a
		R https://example.com/dir/b
		R https://example.com/dir/c
		R https://example.com/dir/d
		R https://example.com/dir/e`},
	{"meta", `<meta property=og:image content=a.png><meta name=twitter:image content=b.png><meta property=og:url content="c"><meta property=og:title content=no>
		<meta name=msapplication-TileImage content=d.png>`, all, `
		R https://example.com/dir/a.png
		R https://example.com/dir/b.png
		https://example.com/dir/c
		R https://example.com/dir/d.png`},
	{"relations", `<link rel=prerender href=a><link rel=prefetch as=document href=b><link rel=prefetch href=c><link rel="up home" href=d><link rel=me href=e>
		<link rel=alternate type=application/pdf href=f.pdf><link rel=alternate type=application/json+oembed href=no><link rel=dns-prefetch href=//no.example>
		<link rel="alternate stylesheet" href=g.css><link rel=describedby href=h>`, all, `
		https://example.com/dir/a
		https://example.com/dir/b
		R https://example.com/dir/c
		https://example.com/dir/d
		https://example.com/dir/e
		https://example.com/dir/f.pdf
		R https://example.com/dir/g.css
		https://example.com/dir/h`},
	{"feeds", `<link rel=alternate type="application/rss+xml" href=a.rss><link rel=alternate type=application/atom+xml;charset=utf-8 href=b.atom>
		<link rel=sitemap type=application/xml href=c.xml><link rel=search type=application/opensearchdescription+xml href=no>`, Options{Feeds: true}, `
		https://example.com/dir/a.rss
		https://example.com/dir/b.atom
		https://example.com/dir/c.xml`},
	{"a picture behind a link that is not to be followed", `<a rel=nofollow href=a.png><img src=a.png></a><a rel=nofollow href=b.png>`, all, `
		R https://example.com/dir/a.png
		N https://example.com/dir/b.png`},
	{"no links", `<a ping=/no href=a></a><script>location="/no"</script><a onclick="location='/no'"></a><div itemid=/no></div><meta name=description content=/no.html>
		<p title="/no.html" data-x="/no.html" alt=/no.png><!-- <img src=no> --><textarea><img src=no></textarea><option value=/no.html>`, all, `
		https://example.com/dir/a`},
}

func TestLinks(t *testing.T) {
	for _, tt := range linkCases {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, strings.ReplaceAll(tt.want, "\t", ""), listing(read(t, tt.page, tt.opts)))
		})
	}
}

// What a page says of others that it belongs with, wherever it says so.
func TestRelations(t *testing.T) {
	var e Extractor
	var r Result
	d := &Document{
		URL: mustParse(t, docURL), MediaType: "text/html",
		Header: http.Header{"Link": {`<h>; rel=alternate; hreflang=fr, <other>; rel=next; anchor="/elsewhere"`}},
		Body: []byte(`<base href=/b/><link rel=next href="n#x"><link rel=next href=second><link rel="previous" href=p><link rel=canonical href=c>
			<link rel=alternate hreflang=de href="de?ü"><link rel=alternate type="Application/RSS+XML" href=feed><link rel="alternate stylesheet" href=no.css>
			<link rel=alternate href="mailto:no"><link rel=alternate hreflang=x-default href="">`),
	}
	require.NoError(t, e.Document(d, Options{}, &r))
	require.Equal(t, "https://example.com/b/n", r.Next)
	require.Equal(t, "https://example.com/b/p", r.Prev)
	require.Equal(t, "https://example.com/b/c", r.Meta.Canonical)
	require.Equal(t, []Alternate{
		{Href: "https://example.com/dir/h", HrefLang: "fr"},
		{Href: "https://example.com/b/de?%C3%BC", HrefLang: "de"},
		{Href: "https://example.com/b/feed", Type: "application/rss+xml"},
	}, r.Alternates)

	many := ""
	for i := range maxAlternates + 20 {
		many += fmt.Sprintf("<link rel=alternate hreflang=l%d href=%d>", i, i)
	}
	require.Len(t, read(t, many, Options{}).Alternates, maxAlternates)
}

// The documents within a page are bounded, and what they are cut to is read.
func TestSrcdocsAreBounded(t *testing.T) {
	doc := strings.Repeat(" ", maxSrcdoc/2) + "<a href=x%d>"
	page := ""
	for i := range 4 {
		page += "<iframe srcdoc='" + fmt.Sprintf(doc, i) + "'></iframe>"
	}
	var e Extractor
	var r Result
	require.NoError(t, e.Page(mustParse(t, docURL), "text/html", "", []byte(page), Options{}, &r))
	require.Equal(t, "\nhttps://example.com/dir/x0", listing(&r))
	require.Nil(t, e.srcdocs, "nothing is kept")
}

func TestAppletsAreBounded(t *testing.T) {
	page := "<applet codebase=b archive='" + strings.Repeat("a.jar,", 3)
	for i := range 2 * maxArchives {
		page += fmt.Sprintf("%d.jar,", i)
	}
	require.Len(t, read(t, page+"'></applet><img src=x>", Options{Resources: true}).Links, maxArchives-2+1)
}

func TestXML(t *testing.T) {
	const xlink = ` xmlns:xlink="http://www.w3.org/1999/xlink"`
	for name, tt := range map[string]struct{ mediaType, body, want string }{
		"svg": {"image/svg+xml", `<?xml version="1.0"?><?xml-stylesheet type="text/css" href="s.css?a=1&amp;b=2"?><!-- <?xml-stylesheet href="no"?> -->
			<svg` + xlink + `><title>t</title><style><![CDATA[ a { fill: url("p.svg#x") } ]]></style><a xlink:href="a"/><image xlink:href="i.png"/><use href="#u"/></svg>`, `
			R https://example.com/dir/s.css?a=1&b=2
			R https://example.com/dir/p.svg
			https://example.com/dir/a
			R https://example.com/dir/i.png`},
		"html under another name": {"application/xml", `<!DOCTYPE html><html><body><a href="a"/><script/><a href="b"/></body></html>`, `
			https://example.com/dir/a
			https://example.com/dir/b`},
		"any": {"text/xml", `<?xml-stylesheet href='s.xsl'?><book` + xlink + `><chapter xlink:href="a"/><very-long-name-of-an-element xlink:href="b"/><link>no</link></book>`, `
			R https://example.com/dir/s.xsl
			https://example.com/dir/a
			https://example.com/dir/b`},
		"a feed":  {"application/atom+xml", `<feed><link rel="alternate" href="no"/></feed>`, ""},
		"nothing": {"text/xml", `<!-- <a href="no"/> --> text`, ""},
	} {
		var e Extractor
		var r Result
		require.NoError(t, e.Page(mustParse(t, docURL), tt.mediaType, "", []byte(tt.body), Options{Resources: true}, &r), name)
		require.Equal(t, strings.ReplaceAll(tt.want, "\t", ""), listing(&r), name)
		require.Equal(t, tt.want != "", r.HTML, name)
	}
}

func TestWebManifest(t *testing.T) {
	const body = `{"name":"n","start_url":"/start","icons":[{"src":"i.png"},{"src":7}],"screenshots":[{"src":"s.png"}],
		"shortcuts":[{"url":"/short","icons":[{"src":"j.png"}]}],"scope":"/no"}`
	for _, tt := range []struct {
		opts Options
		want string
	}{
		{Options{}, `
			https://example.com/start
			https://example.com/short`},
		{Options{Resources: true}, `
			https://example.com/start
			R https://example.com/dir/i.png
			R https://example.com/dir/s.png
			https://example.com/short
			R https://example.com/dir/j.png`},
	} {
		var e Extractor
		var r Result
		require.NoError(t, e.Page(mustParse(t, docURL), "application/manifest+json", "", []byte(body), tt.opts, &r))
		require.Equal(t, strings.ReplaceAll(tt.want, "\t", ""), listing(&r))
	}
	var e Extractor
	var r Result
	require.NoError(t, e.Page(mustParse(t, docURL), "application/manifest+json", "", []byte(`{"start_url":`), Options{}, &r))
	require.Empty(t, r.Links)
}

// The language is that of the nearest who says it.
func TestLang(t *testing.T) {
	for want, tt := range map[string]struct{ header, page string }{
		"de": {"en", `<meta http-equiv=content-language content=fr><html lang=de xml:lang=no>`},
		"nl": {"en", `<html xml:lang=nl>`},
		"fr": {"en", `<meta http-equiv=Content-Language content=fr><html>`},
		"en": {"en", `<meta http-equiv=content-language content="fr, de"><html>`},
		"":   {"en, de", `<html>`},
	} {
		var e Extractor
		var r Result
		d := &Document{URL: mustParse(t, docURL), MediaType: "text/html", Header: http.Header{"Content-Language": {tt.header}}, Body: []byte(tt.page)}
		require.NoError(t, e.Document(d, Options{}, &r))
		require.Equal(t, want, r.Lang)
	}
}
