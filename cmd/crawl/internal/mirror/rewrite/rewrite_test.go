package rewrite

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/text/encoding/unicode"

	"github.com/treadlight/crawl/internal/web/canonical"
)

// have is a copy of everything below http://h/a/ that is not called gone; its files have the names of their paths.
func have(url string) (ref, fragment string, ok bool) {
	path, ok := strings.CutPrefix(url, "http://h/")
	if !ok || strings.Contains(path, "gone") {
		return "", "", false
	}
	return "L/" + strings.NewReplacer("?", "@", "&", "%26", ",", "%2C").Replace(path), "", true
}

// common is what all documents of these tests may share, since they are in one directory.
var (
	common Writer
	places Places
)

func rewritten(t *testing.T, kind Kind, charset, body string) string {
	t.Helper()
	u, err := canonical.Parse("http://h/a/p.html")
	require.NoError(t, err)
	d := &Document{URL: u, Kind: kind, Charset: charset, Body: []byte(body)}
	places.Read(d)
	out := string(new(Writer).Write(u, &places, have))
	assert.Equal(t, out, string(common.Write(u, &places, have)), "what is remembered is what would be found")
	var loaded Places
	if kept := places.Append(nil); loaded.Load(d.Body, kept) {
		assert.Equal(t, out, string(common.Write(u, &loaded, have)), "and so is what is kept")
	} else {
		assert.Empty(t, kept)
		assert.Contains(t, body, "\x00", "only what is converted has to be read again")
	}
	return out
}

func TestHTML(t *testing.T) {
	for _, c := range []struct{ name, in, out string }{
		{"base in a page in an attribute", `<iframe srcdoc="<base href=/x/><img src=i>"></iframe>`, `<iframe srcdoc="<base ><img src=L/x/i>"></iframe>`},
		{"link", `<a href="x?a=1&amp;b=2#f">é</a>`, `<a href="L/a/x@a=1%26b=2#f">é</a>`},
		{"no quotes", `<A HREF=x>`, `<A HREF=L/a/x>`},
		{"no quotes, slash", `<img src=/i.png/>`, `<img src=L/i.png/>`},
		{"single quotes", `<img src='/i.png'>`, `<img src='L/i.png'>`},
		{"not had", `<a href="../gone?q=1&amp;r=2#f">`, `<a href="http://h/gone?q=1&amp;r=2#f">`},
		{"not had, no scheme", `<a href="//other/x">`, `<a href="http://other/x">`},
		{"not had, absolute", `<a href="http://other/x?a&b#c d">`, `<a href="http://other/x?a&b#c d">`},
		{"fragment of the page", `<a href="#x"><a href=""><a href>`, `<a href="#x"><a href=""><a href>`},
		{"fragments", `<a href="x#:~:text=a%20b&amp;c"><a href="x#é">`, `<a href="L/a/x#:~:text=a%20b&amp;c"><a href="L/a/x#%C3%A9">`},
		{"elsewhere", `<a href="javascript:x()"><a href="mailto:a@b"><img src="data:image/png;base64,AA=="><a href="blob:x">`, `<a href="javascript:x()"><a href="mailto:a@b"><img src="data:image/png;base64,AA=="><a href="blob:x">`},
		{"parameter that looks like a reference", `<a href="x?a=1&copy=2&amp=3&lt;">`, `<a href="L/a/x@a=1%26copy=2%26amp=3%3C">`},
		{"comment and script", `<!-- <a href="x"> --><script>var a = '<a href="x">';</script><a href=x>`, `<!-- <a href="x"> --><script>var a = '<a href="x">';</script><a href=L/a/x>`},
		{
			"scripts of every kind", `<script><!--<script>"</script> <a href='x'>--></script><script type=text/template><a href="x"></script><script type=application/json>{"url":"/x"}</script><!--[if IE]><img src=x><![endif]--><noscript><!-- <a href=x> --></noscript>`,
			`<script><!--<script>"</script> <a href='x'>--></script><script type=text/template><a href="x"></script><script type=application/json>{"url":"/x"}</script><!--[if IE]><img src=x><![endif]--><noscript><!-- <a href=x> --></noscript>`,
		},
		{"noscript and template", `<noscript><img src="i"></noscript><template><img src="i"></template>`, `<noscript><img src="L/a/i"></noscript><template><img src="L/a/i"></template>`},
		{"title and textarea", `<title><a href="x"></title><textarea><a href="x"></textarea>`, `<title><a href="x"></title><textarea><a href="x"></textarea>`},
		{"base", `<a href="x"><base href="/b/" target=_top><a href="x"><a href="#f"><img src="">`, `<a href="L/b/x"><base href="" target=_top><a href="L/b/x"><a href="L/b/#f"><img src="">`},
		{"base without href", `<base target="_blank"><a href="x">`, `<base target="_blank"><a href="L/a/x">`},
		{"two bases", `<base href="/b/"><base href="/c/"><a href="x">`, `<base href=""><base href=""><a href="L/b/x">`},
		{"srcset", `<img srcset="a,b.png 1x, data:image/png;base64,AA 2x,, /c.png 480w">`, `<img srcset="L/a/a%2Cb.png 1x, data:image/png;base64,AA 2x,, L/c.png 480w">`},
		{"srcset not had", `<img srcset="gone.png, b.png 2x">`, `<img srcset="http://h/a/gone.png, L/a/b.png 2x">`},
		{"srcset not had, absolute", `<img srcset="http://x/a,b.png?c&amp;d 1x, http://x 2x, //x/e,f 3x, http://h/a/i 4x">`, `<img srcset="http://x/a,b.png?c&amp;d 1x, http://x 2x, http://x/e,f 3x, L/a/i 4x">`},
		{"imagesrcset", `<link rel=preload as=image imagesrcset="a 1x">`, `<link rel=preload as=image imagesrcset="L/a/a 1x">`},
		{"media", `<video poster=p><source src=v><track src=t></video><audio src=s>`, `<video poster=L/a/p><source src=L/a/v><track src=L/a/t></video><audio src=L/a/s>`},
		{"frames", `<iframe src=f srcdoc="<img src=&quot;i&quot;>"></iframe><object data=o></object><embed src=e><frame src=g>`, `<iframe src=L/a/f srcdoc="<img src=&quot;L/a/i&quot;>"></iframe><object data=L/a/o></object><embed src=L/a/e><frame src=L/a/g>`},
		{"style", `<p style="background:url(i.png)"><style>@import "x.css"; a{b:url('y')}</style>`, `<p style="background:url(L/a/i.png)"><style>@import "L/a/x.css"; a{b:url('L/a/y')}</style>`},
		{"style with references", `<p style="background:url(&quot;i&quot;)">`, `<p style="background:url(&quot;L/a/i&quot;)">`},
		{"svg", `<svg><use xlink:href="s.svg#i"/><use href="#i"/><image href="i"/><a href="x"/><path fill="url(#g)"/><style>a{b:url(i)}</style></svg>`, `<svg><use xlink:href="L/a/s.svg#i"/><use href="#i"/><image href="L/a/i"/><a href="L/a/x"/><path fill="url(#g)"/><style>a{b:url(L/a/i)}</style></svg>`},
		{"integrity", `<script src=x integrity="sha256-x" crossorigin></script><script src="//cdn/x" integrity="y" crossorigin></script>`, `<script src=L/a/x  ></script><script src="http://cdn/x" integrity="y" crossorigin></script>`},
		{"refresh", `<meta http-equiv=refresh content="0; URL='x?a&amp;b'"><meta http-equiv=refresh content="5;x">`, `<meta http-equiv=refresh content="0; URL='L/a/x@a%26b'"><meta http-equiv=refresh content="5;L/a/x">`},
		{"policy", `<meta http-equiv="Content-Security-Policy" content="upgrade-insecure-requests">`, `<meta http-equiv="x-disabled-content-security-policy" content="upgrade-insecure-requests">`},
		{
			"policies", `<META HTTP-EQUIV=' content-security-policy ' CONTENT="default-src https:"><iframe srcdoc='<meta http-equiv="Content-Security-Policy" content="script-src x">'></iframe><meta http-equiv=x-ua-compatible content=y>`,
			`<META HTTP-EQUIV='x-disabled-content-security-policy' CONTENT="default-src https:"><iframe srcdoc='<meta http-equiv="x-disabled-content-security-policy" content="script-src x">'></iframe><meta http-equiv=x-ua-compatible content=y>`,
		},
		{"icons", `<link rel=mask-icon href=m.svg color=red><link rel="shortcut icon" href=f.ico><link rel=apple-touch-icon-precomposed href=a.png>`, `<link rel=mask-icon href=L/a/m.svg color=red><link rel="shortcut icon" href=L/a/f.ico><link rel=apple-touch-icon-precomposed href=L/a/a.png>`},
		{"rel", `<link rel=canonical href="x"><link rel="next" href="x"><link rel="icon" href="i"><link rel="dns-prefetch" href="//d">`, `<link rel=canonical href="http://h/a/x"><link rel="next" href="L/a/x"><link rel="icon" href="L/a/i"><link rel="dns-prefetch" href="http://d/">`},
		{"form", `<form action="search"><button formaction="/x">`, `<form action="http://h/a/search"><button formaction="http://h/x">`},
		{"guess", `<img data-src="i"><img data-src="gone">`, `<img data-src="L/a/i"><img data-src="gone">`},
		{"module", `<script type=module>import a from './b.js'; import "lodash"; const c = await import("/d.js")</script>`, `<script type=module>import a from './L/a/b.js'; import "lodash"; const c = await import("./L/d.js")</script>`},
		{
			"workers", `<script type=module>new Worker("w.js", {type: "module"}); new Worker(new URL('./v.js', import.meta.url)); fetch("x.json")</script><script>new Worker("no.js")</script>`,
			`<script type=module>new Worker("L/a/w.js", {type: "module"}); new Worker(new URL('L/a/v.js', import.meta.url)); fetch("x.json")</script><script>new Worker("no.js")</script>`,
		},
		{"import map", `<script type=importmap>{"imports":{"a":"./a.js","b/":"/b/"},"scopes":{"/x/":{"c":"/c.js"}}}</script>`, `<script type=importmap>{"imports":{"a":"./L/a/a.js","b/":"/b/"},"scopes":{"/x/":{"c":"./L/c.js"}}}</script>`},
		{"tile", `<meta name="msapplication-TileImage" content="t.png"><meta property="og:image" content="/o.png">`, `<meta name="msapplication-TileImage" content="L/a/t.png"><meta property="og:image" content="http://h/o.png">`},
		{"two of one name", `<a href=x href=y>`, `<a href=L/a/x href=y>`},
		{"cut off", `<a href="x"><a href="y`, `<a href="L/a/x"><a href="y`},
		{"namespaces", `<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">`, `<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">`},
		{"blank in a reference", "<a href=' x y\n'>", `<a href='L/a/x%20y'>`},
		{"dots", `<a href="/../../x">`, `<a href="L/x">`},
		{"quote in a fragment", `<a href="x#a'b&quot;c">`, `<a href="L/a/x#a%27b%22c">`},
	} {
		t.Run(c.name, func(t *testing.T) { assert.Equal(t, c.out, rewritten(t, HTML, "", c.in)) })
	}
}

func TestOtherKinds(t *testing.T) {
	for _, c := range []struct {
		name    string
		kind    Kind
		in, out string
	}{
		{
			"css", CSS, `@charset "utf-8"; /* url(x) */ @import "a" layer(b) supports(c: d); @import url("e"); a { b: url( f ), url('g h'), image-set("i" 1x, url(j) 2x); k: url(l\28 m.png); n: url(#o); p: url(data:x) }`,
			`@charset "utf-8"; /* url(x) */ @import "L/a/a" layer(b) supports(c: d); @import url("L/a/e"); a { b: url( L/a/f ), url('L/a/g%20h'), image-set("L/a/i" 1x, url(L/a/j) 2x); k: url(L/a/l%28m.png); n: url(#o); p: url(data:x) }`,
		},
		{"css not had", CSS, `a{b:url(/gone.png);c:url(//x/y)}`, `a{b:url(http://h/gone.png);c:url(http://x/y)}`},
		{
			"svg", XML, `<?xml version="1.0"?><?xml-stylesheet href="x.css" type="text/css"?><!DOCTYPE svg [<!ENTITY a "<b>">]><svg xmlns:x="http://www.w3.org/1999/xlink"><style><![CDATA[a{b:url(i)}]]></style><image xlink:href="i.png"/></svg>`,
			`<?xml version="1.0"?><?xml-stylesheet href="L/a/x.css" type="text/css"?><!DOCTYPE svg [<!ENTITY a "<b>">]><svg xmlns:x="http://www.w3.org/1999/xlink"><style><![CDATA[a{b:url(L/a/i)}]]></style><image xlink:href="L/a/i.png"/></svg>`,
		},
		{"browserconfig", XML, `<browserconfig><tile><square150x150logo src="/t.png"/></tile></browserconfig>`, `<browserconfig><tile><square150x150logo src="L/t.png"/></tile></browserconfig>`},
		{
			"manifest", Manifest, `{"name":"x","start_url":"/","screenshots":[{"src":"/s.png"}],"icons":[{"src":"i.png","sizes":"1x1"},{"src":"gone"}],"shortcuts":[{"url":"/s","icons":[{"src":"j"}]}], "scope":"/"}`,
			`{"name":"x","start_url":"L/","screenshots":[{"src":"L/s.png"}],"icons":[{"src":"L/a/i.png","sizes":"1x1"},{"src":"http://h/a/gone"}],"shortcuts":[{"url":"L/s","icons":[{"src":"L/a/j"}]}], "scope":"/"}`,
		},
		{"module", Module, "import {a,\n b} from \"./x.js\"\nexport * from '../y.js'; import('./z.js')\n// import 'no'", "import {a,\n b} from \"./L/a/x.js\"\nexport * from './L/y.js'; import('./L/a/z.js')\n// import 'no'"},
		{
			"worker", Module, "importScripts('dep.js?1'); const u = new URL(\"m.wasm\", import.meta.url)\n//# sourceMappingURL=w.js.map",
			"importScripts('L/a/dep.js@1'); const u = new URL(\"L/a/m.wasm\", import.meta.url)\n//# sourceMappingURL=w.js.map",
		},
		{"script", Script, "import './x.js'; new Worker('w.js'); i.src = `${root}i.svg`", "import './x.js'; new Worker('w.js'); i.src = `${root}i.svg`"},
		{"opaque", Opaque, `<a href="x">`, `<a href="x">`},
	} {
		t.Run(c.name, func(t *testing.T) { assert.Equal(t, c.out, rewritten(t, c.kind, "", c.in)) })
	}
}

func TestCharset(t *testing.T) {
	const meta = `<meta charset="utf-8">`
	assert.Equal(t, "<!DOCTYPE html><html><head>"+meta+"<title>é</title>", rewritten(t, HTML, "UTF-8", "<!DOCTYPE html><html><head><title>é</title>"), "declared by the header alone")
	assert.Equal(t, "<!DOCTYPE html>"+meta+"<p>é", rewritten(t, HTML, "utf-8", "<!DOCTYPE html><p>é"))
	assert.Equal(t, meta+"é", rewritten(t, HTML, "utf-8", "é"))
	assert.Equal(t, "\ufeffé", rewritten(t, HTML, "utf-8", "\ufeffé"), "a byte order mark says it")
	assert.Equal(t, `<meta charset='utf-8'>é`, rewritten(t, HTML, "utf-8", `<meta charset='latin1'>é`), "the header was stronger")
	assert.Equal(t, `<meta http-equiv=content-type content="text/html; charset=windows-1251">`, rewritten(t, HTML, "cp1251", `<meta http-equiv=content-type content="text/html; charset=latin1">`))
	assert.Equal(t, "<meta charset=iso-8859-1><a href=\"L/a/%C3%A9@%E9\">\xe9</a>", rewritten(t, HTML, "", "<meta charset=iso-8859-1><a href=\"\xe9?\xe9\">\xe9</a>"))
	assert.Equal(t, "<meta charset=shift_jis><a href=\"L/a/%E8%A1%A8\">\x95\x5c</a>", rewritten(t, HTML, "", "<meta charset=shift_jis><a href=\"\x95\x5c\">\x95\x5c</a>"), "a second byte is a backslash")
	assert.Equal(t, "<meta charset=gb18030><img alt=\"\x81\x30\x81\x30\" src=\"L/a/i\">", rewritten(t, HTML, "", "<meta charset=gb18030><img alt=\"\x81\x30\x81\x30\" src=\"i\">"))
	assert.Equal(t, "@charset \"iso-8859-2\";a:after{content:'\xe9'}", rewritten(t, CSS, "iso-8859-2", "a:after{content:'\xe9'}"))

	for _, e := range []unicode.Endianness{unicode.BigEndian, unicode.LittleEndian} {
		enc := unicode.UTF16(e, unicode.UseBOM)
		in, err := enc.NewEncoder().String(`<a href="é#f">é</a>`)
		require.NoError(t, err)
		want, err := enc.NewEncoder().String(`<a href="L/a/%C3%A9#f">é</a>`)
		require.NoError(t, err)
		assert.Equal(t, want, rewritten(t, HTML, "", in))
		assert.Equal(t, in+"\xd8", rewritten(t, HTML, "", in+"\xd8"), "what is no UTF-16 is not touched")
		assert.Equal(t, "<a href=L/a/x>", rewritten(t, HTML, "", "<a href=x>"), "and what comes next is kept again")
	}
}

// FuzzRewrite: only links that were found are rewritten; a document without links does not change; and the bytes
// outside of the edits stay, in their order.
func FuzzRewrite(f *testing.F) {
	for _, s := range []string{`<a href="x">`, `<img srcset="a 1x, b">`, `<style>a{b:url(x)}</style>`, `<base href=/x><svg><use href=y>`, `{"icons":[{"src":"x"}]}`, "import './x'"} {
		for kind := range Script + 1 {
			f.Add(uint8(kind), s)
		}
	}
	u, err := canonical.Parse("http://h/a/p.html")
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, kind uint8, s string) {
		d := &Document{URL: u, Kind: Kind(kind % uint8(Script+1)), Body: []byte(s)}
		var p Places
		p.Read(d)
		found := 0
		for range p.Links {
			found++
		}
		var w Writer
		out := string(w.Write(u, &p, func(string) (string, string, bool) { return "L", "", true }))
		if found == 0 && d.Kind != HTML && d.Kind != XML {
			assert.Equal(t, s, out)
		}
		var again Places
		if kept := p.Append(nil); again.Load(d.Body, kept) {
			assert.Equal(t, out, string(w.Write(u, &again, func(string) (string, string, bool) { return "L", "", true })))
		}
		again.Load(d.Body, append([]byte{1}, s...)) // with any bytes
	})
}

// Neither the depth of a document nor the names of its members make its strings expensive.
func TestManifestIsRead(t *testing.T) {
	deep := strings.Repeat("[", 4000) + strings.Repeat(`"a",`, 200_000) + `"a"` + strings.Repeat("]", 4000)
	long := `{"` + strings.Repeat("n", 1<<20) + `":[` + strings.Repeat(`"a",`, 10_000) + `"a"]}`
	out := rewritten(t, Manifest, "", `{"x":`+deep+`,"y":`+long+`,"icons":[{"src":"/i.png","sizes":"any"}],"start_url":"/s"}`)
	require.Contains(t, out, `"icons":[{"src":"L/i.png","sizes":"any"}],"start_url":"L/s"}`)
}
