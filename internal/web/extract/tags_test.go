package extract

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	nethtml "golang.org/x/net/html"
)

// scanned returns the tags of a page in a short form: the name, a "/" if the tag closes itself, "~" within svg or math,
// and the attributes as they stand in the page. It checks the bounds.
func scanned(t *testing.T, page string, xml bool) string {
	var all []string
	tags := Tags{Elements: NewNames("a", "img", "svg", "p", "?xml-stylesheet"), Attrs: NewNames("href", "src", "rel", "href"), XML: xml}
	tags.Declaration = func(from, end int) { all = append(all, page[from:end]) }
	tags.Scan([]byte(page), func(tag *Tag) int {
		text := tag.Name
		if tag.SelfClosing() {
			text += "/"
		}
		if tag.Foreign {
			text += "~"
		}
		for _, a := range tag.Attrs {
			text += " " + page[a.From:a.To]
			value := page[a.Value[0]:a.Value[1]]
			assert.Equal(t, strings.TrimSpace(strings.ToLower(nethtml.UnescapeString(value))), tag.Word(a.Name))
			assert.Equal(t, a.Quoted, a.To > a.Value[1] && a.Value[1] > 0, page)
			assert.Less(t, a.To, tag.End)
		}
		all = append(all, text)
		return tag.End
	})
	return strings.Join(all, "|")
}

func TestTags(t *testing.T) {
	for _, c := range []struct {
		page, want string
		xml        bool
	}{
		{page: `<a href=x>y</a><IMG SRC='i' alt=z rel src=j><b href="q">`, want: `a href=x|img SRC='i' rel| href="q"`},
		{page: `<a href = "x" / rel="No&#70;ollow up"><p/>`, want: `a href = "x" rel="No&#70;ollow up"|p/`},
		{page: `<img src="/i"/><img src=/i/><img src=''>`, want: `img/ src="/i"|img/ src=/i/|img src=''`},
		{page: `<!DOCTYPE html><!-- <a> --><!-->a--><?php <a?><a>`, want: `<!DOCTYPE html>|a`},
		{page: `<svg><a/><![CDATA[<a>]]></svg><![CDATA[<a>]]><p>`, want: `svg~|a/~|<![CDATA[<a>|p`},
		{page: `<svg/><p></p href="<a>"></<a></svg/></><1><`, want: `svg/|p`},
		{page: `<p><a href="x`, want: `p`},
		{page: `<?xml version="1.0"?><?xml-stylesheet href="s.css"?><!DOCTYPE a [<!ENTITY b "<p>">]><a/>`, want: `?xml-stylesheet href="s.css"|a/`, xml: true},
		{page: `<?xml-stylesheet href="s.css"?><!DOCTYPE a><a>`, want: `<!DOCTYPE a>|a`},
	} {
		assert.Equal(t, c.want, scanned(t, c.page, c.xml), c.page)
	}
}

// FuzzTags: the tags and their attributes are those that the tokenizer of x/net/html finds, except in raw text.
func FuzzTags(f *testing.F) {
	f.Add(`<a href="x" rel=y><p src>`)
	f.Add(`<a/href='x'/><img src=/>`)
	f.Fuzz(func(t *testing.T, page string) {
		var got, want []string
		names := NewNames("href", "src", "rel")
		tags := Tags{Elements: names, Attrs: names}
		tags.Scan([]byte(page), func(tag *Tag) int {
			for _, a := range tag.Attrs {
				got = append(got, fmt.Sprint(tag.End, a.Name, Unescape(page[a.Value[0]:a.Value[1]])))
			}
			return tag.End
		})
		if strings.ContainsAny(page, "!?\x00\r") || strings.Contains(strings.ToLower(page), "<s") || strings.Contains(strings.ToLower(page), "<m") { // other rules hold for these
			return
		}
		z, at := nethtml.NewTokenizer(strings.NewReader(page)), 0
		for z.Next() != nethtml.ErrorToken {
			at += len(z.Raw())
			token := z.Token()
			z.NextIsNotRawText()
			first := make(map[string]bool)
			for _, a := range token.Attr {
				if !first[a.Key] && token.Type != nethtml.EndTagToken && names.Index([]byte(a.Key)) >= 0 {
					first[a.Key] = true
					want = append(want, fmt.Sprint(at, a.Key, a.Val))
				}
			}
		}
		assert.Equal(t, want, got)
	})
}

// What is edited as text is restored in the encoding of the body, or stays as it was.
func TestEditable(t *testing.T) {
	for _, c := range []struct{ body, declared, text, added string }{
		{"<a>é", "utf-8", "<a>é", "<a>é!"},
		{"<a>\xe9", "iso-8859-1", "<a>\xe9", "<a>\xe9!"},
		{"\xff\xfe<\x00\xe9\x00", "", "\ufeff<é", "\xff\xfe<\x00\xe9\x00!\x00"},
		{"\xfe\xff\x00<", "", "\ufeff<", "\xfe\xff\x00<\x00!"},
		{"\x1b$B$\"\x1b(B<", "iso-2022-jp", "あ<", "\x1b$B$\"\x1b(B<!"},
		{"\xff\xfe<\x00\xd8", "", "", "\xff\xfe<\x00\xd8"},
	} {
		text, _, back := Editable([]byte(c.body), c.declared)
		assert.Equal(t, c.text, string(text))
		if text = append(slices.Clip(text), '!'); back != nil {
			text = back(text)
		}
		assert.Equal(t, c.added, string(text), "%q", c.body)
	}
}
