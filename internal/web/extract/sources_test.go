package extract

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/record"
)

var all = Options{Resources: true}

// TestLinks has its cases in testdata/links.txt: "# NAME: OPTIONS", the lines of the page behind "< ", and its links
// as listing has them.
func TestLinks(t *testing.T) {
	text, err := os.ReadFile("testdata/links.txt")
	require.NoError(t, err)
	for one := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		head, rest, _ := strings.Cut(one, "\n")
		name, options, ok := strings.Cut(strings.TrimPrefix(head, "# "), ":")
		require.True(t, ok, head)
		t.Run(name, func(t *testing.T) {
			opts := Options{Resources: strings.Contains(options, "resources"), Feeds: strings.Contains(options, "feeds"), Forms: strings.Contains(options, "forms"), Named: strings.Contains(options, "named")}
			var page []string
			want := ""
			for line := range strings.SplitSeq(rest, "\n") {
				if markup, ok := strings.CutPrefix(line, "< "); ok {
					page = append(page, strings.NewReplacer(`\x00`, "\x00", `\r`, "\r").Replace(markup))
				} else {
					want += "\n" + line
				}
			}
			r := read(t, strings.Join(page, "\n"), opts)
			require.Equal(t, want, listing(r))
			if opts.Forms {
				require.Empty(t, r.Text)
				require.Empty(t, read(t, strings.Join(page, "\n"), Options{}).Links)
			}
		})
	}
}

// What a page says of others that it belongs with, wherever it says so.
func TestRelations(t *testing.T) {
	r := readDocument(t, &Document{
		URL: mustParse(t, docURL), MediaType: "text/html",
		Header: http.Header{"Link": {`<h>; rel=alternate; hreflang=fr, <other>; rel=next; anchor="/elsewhere"`}},
		Body: []byte(`<base href=/b/><link rel=next href="n#x"><link rel=next href=second><link rel="previous" href=p><link rel=canonical href=c>
			<link rel=alternate hreflang=de href="de?ü"><link rel=alternate type="Application/RSS+XML" href=feed><link rel="alternate stylesheet" href=no.css>
			<link rel=alternate href="mailto:no"><link rel=alternate hreflang=x-default href="">`),
	}, Options{})
	require.Equal(t, "https://example.com/b/n", r.Next)
	require.Equal(t, "https://example.com/b/p", r.Prev)
	require.Equal(t, "https://example.com/b/c", r.Meta.Canonical)
	require.Equal(t, []record.Alternate{
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
		r := readAs(t, tt.mediaType, "", tt.body, Options{Resources: true})
		require.Equal(t, strings.ReplaceAll(tt.want, "\t", ""), listing(r), name)
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
		r := readAs(t, "application/manifest+json", "", body, tt.opts)
		require.Equal(t, strings.ReplaceAll(tt.want, "\t", ""), listing(r))
	}
	require.Empty(t, readAs(t, "application/manifest+json", "", `{"start_url":`, Options{}).Links)
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
		d := &Document{URL: mustParse(t, docURL), MediaType: "text/html", Header: http.Header{"Content-Language": {tt.header}}, Body: []byte(tt.page)}
		require.Equal(t, want, readDocument(t, d, Options{}).Lang)
	}
}
