package extract

import (
	"fmt"
	stdhtml "html"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestForms(t *testing.T) {
	for name, tt := range map[string]struct{ page, want string }{
		"search":        {`<form action=/s><input name=q><input type=submit name=go value="Find it"></form>`, "/s?q=&go=Find+it"},
		"document":      {`<base href=/b/><form><input name=q value=x></form>`, "/dir/page.html?q=x"},
		"action's base": {`<base href=/b/><form action="f?old=1#x"><input name=q value=x></form>`, "/b/f?q=x"},
		"types": {`<form action=/s METHOD=Get><input type=hidden name=h value="a&amp;b=c"><input type=checkbox name=c checked><input type=checkbox name=no value=1>
			<input type=radio name=r value=1><input type=radio name=r value=2 checked><input type=image name=no src=x><input type=reset name=no value=1>
			<input value=no><input name=no value=1 disabled><input type=strange name=s value="é /*-._~"></form>`, "/s?h=a%26b%3Dc&c=on&r=2&s=%C3%A9+%2F*-._~"},
		"select": {`<form action=/s><select name=a><option value=1>one<option>  two  words <option value=3></select><select name=b><option value=1><option value=2 selected><option value=3 selected></select>
			<select name=c multiple><option value=1><option selected>two</option><option value=3 selected></select><select name=d><option disabled value=no><option>first</select><select name=e></select></form>`, "/s?a=1&b=2&c=two&c=3&d=first"},
		"textarea":      {"<form action=/s><textarea name=t>\na &amp; b\n</textarea></form>", "/s?t=a+%26+b%0A"},
		"buttons":       {`<form action=/s><button type=button name=no value=1></button><button name=a value=1></button><button name=no value=2></button></form>`, "/s?a=1"},
		"nested":        {`<form action=/s><form action=/no><input name=a></form><input name=no>`, "/s?a="},
		"open":          {`<form action=/s><input name=a value=1><p>`, "/s?a=1"},
		"nothing":       {`<form action=/s></form>`, "/s"},
		"formaction":    {`<form action=/no><input name=a><button formaction=/s name=b value=1></button><input name=c></form>`, "/s?a=&b=1&c="},
		"by an input":   {`<form action=/no><input name=a><input type=submit formaction=" /s#x "></form>`, "/s?a="},
		"two actions":   {`<form action=/r><input name=a><button name=b>1</button><input type=image src=x formaction="/s?old=1"><input name=c></form>`, "/r?a=&b=&c=\nhttps://example.com/s?a=&c="},
		"button posts":  {`<form action=/no><input name=a><button formmethod=post></button><button formaction=/s formmethod=GET></button><button formaction=/no formmethod=post></button></form>`, "/s?a="},
		"button gets":   {`<form action=/s method=post><input name=a><button formmethod=get name=b value=1></button></form>`, "/s?a=&b=1"},
		"no submission": {`<form action=/s><button type=button formaction=/no></button><button type=reset formaction=/no></button><button disabled formaction=/no></button></form><button formaction=/no></button>`, "/s"},
		"to itself":     {`<form action=/s><button formaction=""></button></form>`, "/dir/page.html"},
		"post":          {`<form action=/no method=post><input name=a></form><form action=/no method=dialog></form>`, ""},
		"password":      {`<form action=/no><input name=u><input type=PassWord name=p></form>`, ""},
		"file":          {`<form action=/no><input type=file name=f></form>`, ""},
		"template":      {`<template><form action=/no></form></template>`, ""},
		"outside":       {`<input name=a><select name=b><option></select><textarea name=c></textarea>`, ""},
		"mail":          {`<form action="mailto:x"><input name=a></form>`, ""},
		"javascript":    {`<form action="javascript:x()"><input name=a></form>`, ""},
		"empty options": {`<form action=/s><select name=a><option><option>x</select><input name=b></form>`, "/s?a=&b="},
	} {
		r := read(t, tt.page, Options{Forms: true})
		want := tt.want
		if want != "" {
			want = "\nhttps://example.com" + want
		}
		require.Equal(t, want, listing(r), name)
		require.Empty(t, read(t, tt.page, Options{}).Links, name)
		require.Empty(t, r.Text, name)
	}
}

// Forms are sent in the encoding of their page.
func TestFormCharset(t *testing.T) {
	var e Extractor
	var r Result
	const page = "<form action='/s'><input name=q value='\xfc&#1234;'></form>"
	require.NoError(t, e.Page(mustParse(t, docURL), "text/html", "latin1", []byte(page), Options{Forms: true}, &r))
	require.Equal(t, "\nhttps://example.com/s?q=%FC%26%231234%3B", listing(&r))
}

// The query of a link is in the encoding of its page, also where the page is in ASCII and only a character reference
// is not: URL standard, "percent-encode after encoding".
func TestQueryCharset(t *testing.T) {
	for page, want := range map[string]string{
		"<meta charset=iso-8859-1><a href='/&uuml;?q=&uuml;&amp;w=&#x20ac;&#1234;'>x</a>":               "/%C3%BC?q=%FC&w=%80%26%231234%3B",
		"<meta charset=iso-8859-1><a href='/?q=\xfc'>x</a>":                                             "/?q=%FC",
		"<meta charset=iso-8859-1><form action=/s><input name=q value='&uuml;'></form>":                 "/s?q=%FC",
		"<meta charset=iso-8859-1><a href='/?q=\u00fc'>x</a>":                                           "/?q=%C3%BC", // it is UTF-8
		"<meta charset=utf-8><a href='/?q=&uuml;'>x</a>":                                                "/?q=%C3%BC",
		"<a href='/?q=&uuml;'>x</a>":                                                                    "/?q=%C3%BC",
		"<style>" + strings.Repeat("x", 2000) + "</style><meta charset=koi8-r><a href='/?q=\xcf'>x</a>": "/?q=%CF",
	} {
		var e Extractor
		var r Result
		require.NoError(t, e.Page(mustParse(t, docURL), "text/html", "", []byte(page), Options{Forms: true}, &r))
		require.Len(t, r.Links, 1)
		require.Equal(t, "https://example.com"+want, r.Links[0].URL.String(), page)
	}
}

func TestFormsAreBounded(t *testing.T) {
	form := func(fields, size int) string {
		var b strings.Builder
		b.WriteString("<form action=/s>")
		for i := range fields {
			fmt.Fprintf(&b, "<input name=f%d value=%s>", i, strings.Repeat("x", size))
		}
		b.WriteString("</form>")
		return b.String()
	}
	opts := Options{Forms: true}
	require.Len(t, read(t, form(maxFields, 1), opts).Links, 1)
	require.Empty(t, read(t, form(maxFields+1, 1), opts).Links)
	require.Empty(t, read(t, form(1, maxQuery), opts).Links)
	require.Len(t, read(t, form(1, maxQuery)+form(1, 1), opts).Links, 1, "the next one is another form")
	require.Len(t, read(t, "<form action=/s><textarea name=t>"+strings.Repeat("x", maxQuery+1)+"</textarea></form>", opts).Links, 1)
}

// What a form would send is what a server reads.
func TestFormsReadBack(t *testing.T) {
	pieces := []string{"a", "b c", "&", "=", "+", "%", "é", "<", "\"", "'", "#", "?", "/", ";", "\n", "~", "*", "日本"}
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 8))
		text := func() (s string) {
			for range 1 + r.IntN(4) {
				s += pieces[r.IntN(len(pieces))]
			}
			return s
		}
		want, page := url.Values{}, "<form action=/s>"
		for range 1 + r.IntN(5) {
			name, value := text(), text()
			want.Add(name, value)
			page += fmt.Sprintf(`<input name="%s" value="%s">`, stdhtml.EscapeString(name), stdhtml.EscapeString(value))
		}
		links := read(t, page, Options{Forms: true}).Links
		require.Len(t, links, 1, page)
		u, err := url.Parse(links[0].URL.String())
		require.NoError(t, err)
		require.Equal(t, want, u.Query(), page)
	}
}
