package extract

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	nethtml "golang.org/x/net/html"

	"github.com/treadlight/crawl/internal/lab/conformance"
	"github.com/treadlight/crawl/internal/web/canonical"
)

// oracle is a source by the tokenizer of x/net/html, in the plainest way: every token, every attribute, every text.
type oracle struct {
	z     *nethtml.Tokenizer
	kind  nethtml.TokenType
	name  []byte
	vals  map[string][]byte
	words []byte
}

func (o *oracle) reset(body []byte, xhtml, _ bool) {
	*o = oracle{z: nethtml.NewTokenizer(bytes.NewReader(body))}
	o.z.AllowCDATA(xhtml)
}

func (o *oracle) next() token {
	for {
		o.kind = o.z.Next()
		switch o.kind {
		case nethtml.ErrorToken:
			return endOfPage
		case nethtml.StartTagToken, nethtml.SelfClosingTagToken:
			o.readTag()
			return startTag
		case nethtml.EndTagToken:
			o.readTag()
			return endTag
		case nethtml.TextToken:
			o.words = o.z.Text()
			return chars
		}
	}
}

func (o *oracle) readTag() {
	name, more := o.z.TagName()
	o.name = slices.Clone(name)
	if len(name) > maxName {
		o.name = nil
	}
	o.vals = make(map[string][]byte)
	for more {
		var key, val []byte
		key, val, more = o.z.TagAttr()
		if _, ok := o.vals[string(key)]; !ok {
			o.vals[string(key)] = append([]byte{}, val...)
		}
	}
}

func (o *oracle) tag() []byte { return o.name }

func (o *oracle) attr(a attr) (val []byte, has bool) {
	val, has = o.vals[attrNames[a]]
	return val, has
}

func (o *oracle) has() (bits uint64) {
	for a, name := range attrNames {
		if _, ok := o.vals[name]; ok {
			bits |= 1 << a
		}
	}
	return bits
}

func (o *oracle) selfClosing() bool { return o.kind == nethtml.SelfClosingTagToken }

func (o *oracle) text() []byte { return o.words }

func (o *oracle) markup() { o.z.NextIsNotRawText() }

// story tells all that a source says of a page. The raw text of the n-th element that has some is read as markup if
// that bit of markup is set.
func story(s source, body []byte, xhtml bool, markup uint64) string {
	var b strings.Builder
	s.reset(body, xhtml, true)
	for tags := 0; ; {
		switch s.next() {
		case endOfPage:
			return b.String()
		case endTag:
			fmt.Fprintf(&b, "</%s>\n", spelled(s.tag()))
		case chars:
			fmt.Fprintf(&b, "%q\n", s.text())
		case startTag:
			fmt.Fprintf(&b, "<%s %v %x", spelled(s.tag()), s.selfClosing(), s.has())
			for a := range numAttrs {
				if val, has := s.attr(a); has {
					fmt.Fprintf(&b, " %s=%q", attrNames[a], val)
				}
			}
			b.WriteString(">\n")
			if markup>>(tags%64)&1 != 0 {
				s.markup()
			}
			tags++
		}
	}
}

// spelled is a name that elements can have; the others, in which the tokenizer replaces NUL, are all alike to us.
func spelled(name []byte) []byte {
	for _, c := range name {
		if c == 0 || c >= utf8.RuneSelf {
			return nil
		}
	}
	return name
}

// requireSame holds the scanner to the oracle: the same tokens, and the same page with each of the options.
func requireSame(tb testing.TB, base canonical.URL, body []byte, markup uint64) {
	tb.Helper()
	for _, xhtml := range []bool{false, true} {
		got, want := story(&scanner{}, body, xhtml, markup), story(&oracle{}, body, xhtml, markup)
		if got != want {
			tb.Fatalf("%q (XHTML %v):\ngot:\n%swant:\n%s", body, xhtml, got, want)
		}
	}
	ours, theirs := Extractor{}, Extractor{source: &oracle{}}
	for i, opts := range []Options{
		{},
		{Text: true, Agent: "treadlight"},
		{Resources: true, Feeds: true},
		{Text: true, Resources: true},
		{Forms: true, Feeds: true},
		{Forms: true, Resources: true},
	} {
		mediaType := []string{"text/html", "application/xhtml+xml"}[i%2]
		for range 2 { // the second time references are known
			var got, want Result
			require.NoError(tb, ours.Page(base, mediaType, "", body, opts, &got))
			require.NoError(tb, theirs.Page(base, mediaType, "", body, opts, &want))
			if !reflect.DeepEqual(got, want) {
				tb.Fatalf("%q as %s with %+v:\ngot:\n%+v\nwant:\n%+v", body, mediaType, opts, got, want)
			}
		}
	}
}

// crumbs are what pages that are hard to read are made of.
var crumbs = []string{
	"<", ">", "/", "=", "\"", "'", " ", "\n", "\t", "\f", "\r", "\r\n", "\x00", "!", "-", "--", "?", "]", "[", "&", ";", "#", "é", "\xff", "x", "a",
	"<a", "<A ", "</a>", "</a", "</", "</>", "</ ", "<!", "<!-", "<!--", "-->", "--!>", "<!-->", "<!--->", "--!-", "<!DOCTYPE html>", "<!doctype", "<![CDATA[", "]]>", "<?xml", "?>",
	" href", " HREF", "=x", "='y z'", "=\"q?a=1&amp;b=2\"", " href=", " href = ", " rel=nofollow", " rel=\"NoFollow UGC\"", " =href=z", " / href=w", " href=v/", "/>", " />",
	" src=s", " srcset='a 1x, b 2x'", " imagesrcset=c", " data=d", " poster=p", " xlink:href=l", " type=text/html", " name=robots", " content='noindex'", " content='0;url=r'",
	" http-equiv=refresh", " property='og:title'", " lang=de", " shadowrootmode=open", " a-name-that-is-longer-than-any",
	"<title>", "</title>", "</TITLE ", "</titles>", "<title/>", "<script>", "</script>", "</SCRIPT\t", "<script", "</script", "<script/>", "<style>", "</style>", "<textarea>", "</textarea>",
	"<noscript>", "</noscript>", "<noframes>", "</noframes>", "<iframe", "<iframe>", "</iframe>", "<xmp>", "</xmp>", "<noembed>", "</noembed>", "<plaintext>",
	"<svg>", "</svg>", "<svg/>", "<template>", "</template>", "<template", "<base href='/b/'>", "<base", "<meta", "<link rel=canonical href=c>", "<link", "<img", "<image", "<html lang=en>", "<html",
	"<area", "<frame", "<object", "<video", "<input", "<source", "<embed", "<track", "<audio", "<p>", "<td>", "<custom-element-of-some-length>",
	"&amp;", "&lt", "&copy", "&copy=", "&copyx", "&notin;", "&notit;", "&not", "&semi;", "&semi", "&NotEqualTilde;", "&#65;", "&#x41", "&#0;", "&#x80;", "&#xD800;", "&#1114112;", "&#;", "&#x;", "&;", "&bogus;",
	" style='x:url(s)'", " style=\"a:url('t')\"", " srcdoc='<a href=i><style>@import \"k\"</style>'", " data-href=d/x", " data-url=/u", " data-src=e.png", " data-bg='url(g)'",
	" data-srcset='a.png 1x, b.png 2x'", " DATA-lazy-src=l.png", " background=bg", " cite=q", " longdesc=n", " valuetype=ref", " value='v w'", " checked", " selected", " disabled", " name=n",
	" type=password", " type=checkbox", " type=submit", " method=post", " action='f?x=1'", " hreflang=de", " rel=alternate", " type=application/rss+xml", " as=document", " codebase=cb", " code=K.class",
	"<form", "<form>", "</form>", "<input", "<select name=s>", "</select>", "<option>", "<option", "</option>", "<button", "<textarea name=t>", "<q", "<ins", "<del", "<blockquote", "<use", "<param", "<applet", "<portal", "<amp-img", "<feImage",
	"<style>a{b:url(x)}", "@import 'y';", "url(", "image-set(", ")", "\\", "{", "}",
	"<meta name=treadlight content=nofollow>", "<meta http-equiv=content-language content=fr>",
	"mailto:x", "javascript:", "http://h.example/", "//h", "../", "?", "#f", "https:?d", "https:y", "ht\ntps:z", "text",
}

// TestScannerIsTheTokenizer holds the scanner to the oracle on pages made of crumbs, from a seed that is written down
// so that a failure comes again.
func TestScannerIsTheTokenizer(t *testing.T) {
	base := mustParse(t, docURL)
	for seed := range uint64(6_000) {
		r := rand.New(rand.NewPCG(seed, 6))
		var page []byte
		for range 1 + r.IntN(14) {
			page = append(page, crumbs[r.IntN(len(crumbs))]...)
		}
		requireSame(t, base, page, r.Uint64()&r.Uint64()&r.Uint64())
	}
}

// FuzzScanner holds the scanner to the oracle on every input.
func FuzzScanner(f *testing.F) {
	for _, page := range []string{
		`<html lang=de><title>T &amp; U</title><base href="/b/"><a href=x rel=nofollow>t</a><img srcset="a 1x,b"><link rel=canonical href=c>`,
		`<svg><title/><script/><a xlink:href=x></svg><template><a href=y></template><noscript><a href=z></noscript>`,
		"<script><!--<script></script>--></script><a href=y><script><!--x<-></script>", `<a b=1 b=/><svg a=1 a=/><template b=/>`,
		`<a / = =x href = "a" / b=><a href=a/ href=b/><A HREF HREF=2><a =href=x ==href=y><a href=a"b'c=d>`, "<a href='&copy=1&copy;&amp&#x41;\r\n\x00'>",
		`<title>a</titles></title x="</title>"><textarea>&lt;</textarea><xmp>&lt;</xmp><plaintext></plaintext><a href=x>`,
	} {
		f.Add([]byte(page), uint64(0))
		f.Add([]byte(page), ^uint64(0))
	}
	for i := range 40 {
		f.Add([]byte(strings.Join(crumbs[3*i:3*i+9], "")), uint64(i))
	}
	base := mustParse(f, docURL)
	f.Fuzz(func(t *testing.T, body []byte, markup uint64) { requireSame(t, base, body, markup) })
}

// TestHTML5LibTokenizer holds the scanner to the oracle on the inputs of html5lib's tests of tokenizers, which x/net
// carries. Whether the oracle is right about them is for x/net's own tests: what matters here is that we stray from
// it nowhere.
func TestHTML5LibTokenizer(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "golang.org/x/net").Output()
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "html/testdata/html5lib-tests/tokenizer/*.test"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	base := mustParse(t, docURL)
	inputs := 0
	for _, f := range files {
		content, err := os.ReadFile(f)
		require.NoError(t, err)
		var suite struct {
			Tests []struct{ Input string }
		}
		require.NoError(t, json.Unmarshal(content, &suite), f)
		for _, c := range suite.Tests {
			// Some are meant for a state within an element, where no page begins. They are scanned all the same.
			page := []byte(c.Input + `<a href=after>y</a>`)
			require.Equal(t, story(&oracle{}, page, false, 0), story(&scanner{}, page, false, 0), "%q", c.Input)
			if inputs%10 == 0 { // a page with all there is to it costs ten times as much
				requireSame(t, base, page, 0)
			}
			inputs++
		}
	}
	require.Greater(t, inputs, 1000)
	conformance.Report(t, "html5lib-tokens", conformance.Result{Cases: inputs, Passed: inputs})
}
