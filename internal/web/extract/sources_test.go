package extract

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSources has the ways in which a page can name a URL that are not TestLinks's.
func TestSources(t *testing.T) {
	all := Options{Resources: true}
	tests := []struct {
		name, page string
		opts       Options
		want       string // as in TestLinks
	}{
		{"citations", `<blockquote cite=a><q cite=b>x</q></blockquote><ins cite=c></ins><del cite=d cite=e></del><q cite><p cite=no>`, Options{}, `
			blockquote.cite https://example.com/dir/a
			q.cite https://example.com/dir/b
			ins.cite https://example.com/dir/c
			del.cite https://example.com/dir/d`},
		{"frames of all kinds", `<iframe src="" data-src="a.html" longdesc=b></iframe><portal src=c></portal><fencedframe src=d></fencedframe>
			<amp-iframe src=e></amp-iframe><img longdesc=f><iframe data-src="{{x}}"></iframe><object type="text/html" data=g></object><object data=no></object>`, Options{}, `
			iframe.data-src https://example.com/dir/a.html
			iframe.longdesc https://example.com/dir/b
			portal.src https://example.com/dir/c
			fencedframe.src https://example.com/dir/d
			amp-iframe.src https://example.com/dir/e
			img.longdesc https://example.com/dir/f
			object.data https://example.com/dir/g`},
		{"srcdoc", `<base href="/b/"><iframe src=x srcdoc="&lt;base href=/no/&gt;&lt;title&gt;no&lt;/title&gt;&lt;a href='y'&gt;&lt;img src=i&gt;
			&lt;iframe srcdoc='&amp;lt;a href=no&amp;gt;'&gt;&lt;/iframe&gt;"></iframe><a href=z>`, all, `
			iframe.src https://example.com/b/x
			a.href https://example.com/b/z
			a.href https://example.com/b/y
			R img.src https://example.com/b/i`},
		{"data attributes that lead to pages", `<tr data-href="a.html"><div class=x data-url="/b"><li data-link="https://h.example/c"><span data-url="../d">
			<a href=e data-href="?f=1"></a><div data-url="km/h" data-href="none"><div data-link=x.html><p data-href="{{u}}/x">`, Options{}, `
			tr.data-href https://example.com/dir/a.html
			div.data-url https://example.com/b
			li.data-link https://h.example/c
			span.data-url https://example.com/d
			a.data-href https://example.com/dir/page.html?f=1
			a.href https://example.com/dir/e`},
		{"images that come late", `<img src="data:," data-src="a.png" data-srcset="b.png 1x, c.png 2x"><img data-original=d.jpg data-lazy="e.jpg" data-lazy-src=f.jpg data-lazyload=g.jpg>
			<div data-bg="h.jpg"></div><div data-bg="url('i.jpg')"></div><section data-background=dark data-background-image="j.jpg"></section><video data-poster=k.jpg></video>
			<div data-bg="#fff" data-image="12.5" data-original="An old title." data-lazy=true></div><img data-lazy-srcset="l.jpg, m.jpg 2x"><script data-src="n.js"></script>`, all, `
			R img.data-src https://example.com/dir/a.png
			R img.data-srcset https://example.com/dir/b.png
			R img.data-srcset https://example.com/dir/c.png
			R img.data-original https://example.com/dir/d.jpg
			R img.data-lazy https://example.com/dir/e.jpg
			R img.data-lazy-src https://example.com/dir/f.jpg
			R img.data-lazyload https://example.com/dir/g.jpg
			R div.data-bg https://example.com/dir/h.jpg
			R div.data-bg https://example.com/dir/i.jpg
			R section.data-background-image https://example.com/dir/j.jpg
			R video.data-poster https://example.com/dir/k.jpg
			R img.data-lazy-srcset https://example.com/dir/l.jpg
			R img.data-lazy-srcset https://example.com/dir/m.jpg
			R script.data-src https://example.com/dir/n.js`},
		{"styles", `<style>@import "a.css"; b{background:url(b.png)} c{background:url(#c)}</style><p style="background: url(&quot;c.png&quot;)">
			<svg><style>d{fill:url(d.svg#x)}</style></svg><template><style>@import "no"</style><p style="a:url(no)"></template><style></style>`, all, `
			R style.css https://example.com/dir/a.css
			R style.css https://example.com/dir/b.png
			R p.style https://example.com/dir/c.png
			R style.css https://example.com/dir/d.svg`},
		{"old pages", `<body background=a.gif><table background=b.gif><tr background=c.gif><td background=d.gif><th background=e.gif></table><bgsound src=f.mid>
			<img src=g.gif lowsrc=h.gif dynsrc=i.avi><image src=j.gif><div background=no.gif><applet code=K.class codebase=k archive="l.jar, m.jar"></applet>
			<object data=n.swf><param name=movie value=o.swf><param name=quality value=high><param name=x valuetype=ref value=p></object><html manifest=q.appcache>`, all, `
			R body.background https://example.com/dir/a.gif
			R table.background https://example.com/dir/b.gif
			R tr.background https://example.com/dir/c.gif
			R td.background https://example.com/dir/d.gif
			R th.background https://example.com/dir/e.gif
			R bgsound.src https://example.com/dir/f.mid
			R img.src https://example.com/dir/g.gif
			R img.lowsrc https://example.com/dir/h.gif
			R img.dynsrc https://example.com/dir/i.avi
			R image.src https://example.com/dir/j.gif
			R applet.code https://example.com/dir/k/K.class
			R applet.archive https://example.com/dir/k/l.jar
			R applet.archive https://example.com/dir/k/m.jar
			R object.data https://example.com/dir/n.swf
			R param.value https://example.com/dir/o.swf
			R param.value https://example.com/dir/p
			R html.manifest https://example.com/dir/q.appcache`},
		{"svg", `<svg><use href="a.svg#x"/><use xlink:href="b.svg#y"/><use href="#z"/><feImage href=c.png /><image xlink:href=d.png /><script xlink:href=e.js></script>
			<pattern xlink:href="f.svg#p"/></svg><use href=no><p xlink:href=no>`, all, `
			R use.href https://example.com/dir/a.svg
			R use.xlink:href https://example.com/dir/b.svg
			R feimage.href https://example.com/dir/c.png
			R image.xlink:href https://example.com/dir/d.png
			R script.xlink:href https://example.com/dir/e.js
			R pattern.xlink:href https://example.com/dir/f.svg`},
		{"inputs", `<input type=IMAGE src=a><input src=no><input type=text src=no>`, all, `
			R input.src https://example.com/dir/a`},
		{"amp", `<amp-img src=a srcset="b 2x"></amp-img><amp-video src=c></amp-video><amp-audio src=d></amp-audio><amp-anim src=e></amp-anim>`, all, `
			R amp-img.src https://example.com/dir/a
			R amp-img.srcset https://example.com/dir/b
			R amp-video.src https://example.com/dir/c
			R amp-audio.src https://example.com/dir/d
			R amp-anim.src https://example.com/dir/e`},
		{"meta", `<meta property=og:image content=a.png><meta name=twitter:image content=b.png><meta property=og:url content="c"><meta property=og:title content=no>
			<meta name=msapplication-TileImage content=d.png>`, all, `
			R meta.content https://example.com/dir/a.png
			R meta.content https://example.com/dir/b.png
			meta.content https://example.com/dir/c
			R meta.content https://example.com/dir/d.png`},
		{"relations", `<link rel=prerender href=a><link rel=prefetch as=document href=b><link rel=prefetch href=c><link rel="up home" href=d><link rel=me href=e>
			<link rel=alternate type=application/pdf href=f.pdf><link rel=alternate type=application/json+oembed href=no><link rel=dns-prefetch href=//no.example>
			<link rel="alternate stylesheet" href=g.css><link rel=describedby href=h>`, all, `
			link.href/prerender https://example.com/dir/a
			link.href/prefetch https://example.com/dir/b
			R link.href/prefetch https://example.com/dir/c
			link.href/up home https://example.com/dir/d
			link.href/me https://example.com/dir/e
			link.href/alternate https://example.com/dir/f.pdf
			R link.href/alternate stylesheet https://example.com/dir/g.css
			link.href/describedby https://example.com/dir/h`},
		{"feeds", `<link rel=alternate type="application/rss+xml" href=a.rss><link rel=alternate type=application/atom+xml;charset=utf-8 href=b.atom>
			<link rel=sitemap type=application/xml href=c.xml><link rel=search type=application/opensearchdescription+xml href=no>`, Options{Feeds: true}, `
			link.href/alternate https://example.com/dir/a.rss
			link.href/alternate https://example.com/dir/b.atom
			link.href/sitemap https://example.com/dir/c.xml`},
		{"a picture behind a link that is not to be followed", `<a rel=nofollow href=a.png><img src=a.png></a><a rel=nofollow href=b.png>`, all, `
			R img.src https://example.com/dir/a.png
			a.href/nofollow https://example.com/dir/b.png`},
		{"no links", `<a ping=/no href=a></a><script>location="/no"</script><a onclick="location='/no'"></a><div itemid=/no></div><meta name=description content=/no.html>
			<p title="/no.html" data-x="/no.html" alt=/no.png><!-- <img src=no> --><textarea><img src=no></textarea><option value=/no.html>`, all, `
			a.href https://example.com/dir/a`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := read(t, tt.page, tt.opts)
			require.Equal(t, strings.ReplaceAll(tt.want, "\t", ""), listing(r))
		})
	}
}

func TestFeedsKeepTheirType(t *testing.T) {
	r := read(t, `<link rel=alternate type="Application/RSS+XML" title=x href=f>`, Options{Feeds: true})
	require.Len(t, r.Links, 1)
	require.Equal(t, "application/rss+xml", r.Links[0].Type)
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
	require.Equal(t, 1, r.SkippedSchemes, "it is counted once")

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
	require.Equal(t, "\na.href https://example.com/dir/x0", listing(&r))
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
			R xml-stylesheet.href https://example.com/dir/s.css?a=1&b=2
			R style.css https://example.com/dir/p.svg
			a.xlink:href https://example.com/dir/a
			R image.xlink:href https://example.com/dir/i.png`},
		"html under another name": {"application/xml", `<!DOCTYPE html><html><body><a href="a"/><script/><a href="b"/></body></html>`, `
			a.href https://example.com/dir/a
			a.href https://example.com/dir/b`},
		"any": {"text/xml", `<?xml-stylesheet href='s.xsl'?><book` + xlink + `><chapter xlink:href="a"/><very-long-name-of-an-element xlink:href="b"/><link>no</link></book>`, `
			R xml-stylesheet.href https://example.com/dir/s.xsl
			chapter.xlink:href https://example.com/dir/a
			other.xlink:href https://example.com/dir/b`},
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
			manifest.start_url https://example.com/start
			manifest.shortcuts https://example.com/short`},
		{Options{Resources: true}, `
			manifest.start_url https://example.com/start
			R manifest.icons https://example.com/dir/i.png
			R manifest.screenshots https://example.com/dir/s.png
			manifest.shortcuts https://example.com/short
			R manifest.icons https://example.com/dir/j.png`},
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
