package dom

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

func find(root *html.Node, name string) *html.Node {
	for n := range root.Descendants() {
		if n.Type == html.ElementNode && n.Data == name {
			return n
		}
	}
	return nil
}

func count(root *html.Node, is func(*html.Node) bool) (total int) {
	for n := range root.Descendants() {
		if is(n) {
			total++
		}
	}
	return total
}

func isElement(n *html.Node) bool { return n.Type == html.ElementNode }

func depth(n *html.Node) (d int) {
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		d = max(d, 1+depth(c))
	}
	return d
}

func shape(page string, root *html.Node) string {
	var b strings.Builder
	dump(&b, root, 0)
	return page + "\n" + b.String()
}

func TestNoscriptIsPartOfThePage(t *testing.T) {
	d := Parse([]byte(`<p>a<noscript><b>shown</b></noscript>`))
	require.NotNil(t, find(d.Root, "b"))
	require.Equal(t, "a shown", TextWithin(d.Root, 100, nil))
}

// A page that the standard's parser refuses keeps its parts.
func TestDeepPagesAreNotLost(t *testing.T) {
	deep := func(tag string, n int) string {
		return `<title>deep</title><meta name=a content=b>` + strings.Repeat("<"+tag+">", n) + `<p id=inner>inner` +
			strings.Repeat("</"+tag+">", n) + `<p class=after>after<script>no text</script>`
	}
	for _, tag := range []string{"div", "font", "table", "b", "section", "x-y", "span"} {
		for _, n := range []int{10, 500, 513, 20_000} {
			d := Parse([]byte(deep(tag, n)))
			require.LessOrEqual(t, depth(d.Root), 600)
			text := TextWithin(d.Root, 1<<20, nil)
			if n == 20_000 && !d.Cut {
				require.Contains(t, text, "inner", tag)
			}
			if n < 1000 {
				require.Contains(t, text, "inner", "%d of %s", n, tag)
				require.Contains(t, text, "after", "%d of %s", n, tag)
				require.NotContains(t, text, "no text", "%d of %s", n, tag)
				require.Equal(t, "deep", TextWithin(find(d.Root, "title"), 100, nil))
				require.Equal(t, atom.Head, find(d.Root, "meta").Parent.DataAtom)
			}
		}
	}
}

func TestPagesAreCut(t *testing.T) {
	d := Parse([]byte(strings.Repeat("<br>x", MaxElements)))
	require.True(t, d.Cut)
	require.Equal(t, MaxElements, count(d.Root, isElement))
	require.NotNil(t, find(d.Root, "body"))

	d = Parse([]byte(strings.Repeat("<link>", MaxElements)))
	require.True(t, d.Cut)
	require.Nil(t, find(d.Root, "body"), "the head took all there may be")

	d = Parse([]byte("<p>" + strings.Repeat("é", MaxBytes)))
	require.True(t, d.Cut)
	text := TextWithin(d.Root, MaxBytes, nil)
	require.True(t, utf8.ValidString(text))
	require.GreaterOrEqual(t, len(text), MaxBytes-4)

	d = Parse([]byte("<p>whole"))
	require.False(t, d.Cut)
}

func TestText(t *testing.T) {
	for page, want := range map[string]string{
		"<p>a\n  b</p><p>c":                                     "a b c",
		"<p>a<b>b</b><i> c </i>d":                               "ab c d",
		"x<!-- no --><script>no</script><style>no</style>y":     "xy",
		"a<br>b<hr>c&nbsp;d":                                    "a b c d",
		"<ul><li>1<li>2</ul>":                                   "1 2",
		"<select><option>no</select><template>no</template>yes": "yes",
		"": "",
	} {
		require.Equal(t, want, TextWithin(Parse([]byte(page)).Root, 100, nil), page)
	}
	require.Equal(t, "abc", TextWithin(Parse([]byte("abcdef")).Root, 3, nil))
	require.Equal(t, "é", TextWithin(Parse([]byte("éé")).Root, 3, nil), "cut between characters")
	require.Equal(t, "var x", TextWithin(find(Parse([]byte("<script>var  x</script>")).Root, "script"), 100, nil), "asked for by itself")
}

func TestAttr(t *testing.T) {
	n := find(Parse([]byte(`<svg><a xlink:href=x HREF=y empty>`)).Root, "a")
	v, ok := Attr(n, "href")
	require.Equal(t, "y true", fmt.Sprintf("%s %t", v, ok), "not that of another namespace")
	v, ok = Attr(n, "empty")
	require.Equal(t, " true", fmt.Sprintf("%s %t", v, ok))
	_, ok = Attr(n, "class")
	require.False(t, ok)
}

// FuzzParse: every input has a tree within its bounds.
func FuzzParse(f *testing.F) {
	f.Add([]byte("<p>a<table><div><td>b</table><b><p></b>"))
	f.Add([]byte(strings.Repeat("<a><b>", 300) + "x"))
	f.Add([]byte("<title><script><textarea></x></title>\x00\xff<svg><![CDATA[x]]>"))
	for _, page := range hostile {
		f.Add([]byte(page(400)))
	}
	f.Fuzz(func(t *testing.T, page []byte) {
		checkFeed(t, page)
		root := Parse(page).Root
		require.LessOrEqual(t, count(root, isElement), minNodes+len(page)+overshoot)
		require.LessOrEqual(t, depth(root), 600)
		require.LessOrEqual(t, len(TextWithin(root, 50, nil)), 50)
	})
}

func TestWords(t *testing.T) {
	for s, want := range map[string]int{
		"": 0, "one": 1, "one two": 2, "it's": 1, "a-b": 2, "x1 22": 2, "…": 0, "去年の春": 2, "ไทย": 2, "ລາວ": 2, "हिन्दी भाषा": 2, "cafe\u0301 noir": 2, "co\u00adop": 1, "مُحَمَّد": 1, "'tis": 1, "한국어 문장": 2, "naïve Straße": 2,
	} {
		require.Equal(t, want, Words(s), s)
	}
}
