package fields

import (
	"fmt"
	"strings"
	"testing"

	"github.com/andybalholm/cascadia"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"github.com/treadlight/crawl/internal/web/dom"
)

// elements are what the library finds for a selector, and what we find.
func elements(t *testing.T, root *html.Node, css string) (theirs, ours []*html.Node) {
	t.Helper()
	group, err := cascadia.ParseGroupWithPseudoElements(css)
	require.NoError(t, err, css)
	for _, n := range cascadia.QueryAll(root, group) {
		if n.Type == html.ElementNode { // the library's :contains takes texts for elements too
			theirs = append(theirs, n)
		}
	}
	sel, err := compileCSS(css)
	require.NoError(t, err, css)
	m := &matcher{root: root, sets: map[*selector]map[*html.Node]bool{}}
	m.each(sel, func(n *html.Node) bool {
		ours = append(ours, n)
		return true
	})
	return theirs, ours
}

const zoo = `<!doctype html><html lang=en-GB><head><title>T</title></head><body><!-- c -->
<div id=a class="x y"><p>one</p>text<p class=x>two <b>three</b></p><!-- c --><p lang=de>four<i>five</i></p></div>
<ul><li>1<li class=on>2<li>3<ul><li>4<li class="on x">5</ul><li>6</ul><div></div><div> </div><div><!-- c --></div>
<form><fieldset disabled><legend><input name=q></legend><legend><input></legend><input type=checkbox checked><select><option selected>o<option></select></fieldset>
<button>b</button></form><a href=/u>l</a><a>m</a><p class=X data-n="a]b">last</p><svg><g><path d="M1"/></g></svg></body></html>`

var selectors = []string{
	"*", "p", "P", "p.x", ".x", "#a", "#a p", "#a > p", "div > b", "p + p", "p ~ p", "p+p~p", "li ~ li", "ul li li", "ul > li > ul > li", "body *",
	"a[href]", "a:not([href])", "p:not(.x)", "p:not(.x, .X)", "p:not(div p)", ":not(p)", "*:not(:not(p))",
	":has(b)", "p:has(b)", "div:has(p b)", "ul:has(ul)", "li:has(li.on)", ":haschild(b)", "div:haschild(p)", "body:has(div:has(p:has(b))) li",
	"li:nth-child(2)", "li:nth-child(odd)", "li:nth-child(even)", "li:nth-child(2n+1)", "li:nth-child(-n+2)", "li:nth-child(n)", "li:nth-child(3n - 1)", "li:nth-child(0n+2)",
	"li:nth-last-child(1)", "li:nth-last-child(odd)", "p:nth-of-type(2)", "p:nth-of-type(odd)", "p:nth-last-of-type(2)", "p:nth-last-of-type(2n)", "p:first-child", "p:last-child", "div:first-of-type", "div:last-of-type",
	"b:only-child", "p:only-of-type", "i:only-of-type", ":root", ":root > body", ":empty", "div:empty", ":link", ":input", ":checked", ":enabled", ":disabled", "legend :enabled",
	":lang(en)", "p:lang(de)", ":lang(de) i", "p:contains(two)", "p:contains('THREE')", "p:containsOwn(three)", "p:matches(^one$)", "p:matchesOwn(t[w]o)", "div:matches((on)e)", "body :contains(five)",
	"[data-n='a]b']", "[class~=x]", "[class^=x]", "[class$=y]", "[class*=' ']", "[lang|=en]", "[class=X i]", "[class!=x]", "[name#=(q)]", "[name #= ^[q]$ ]",
	"p, b", "p,b , li.on", "p /* c */ b", "p/**/ > b", "\\70", "\\70 .x", "#\\61", ":hover", "p:hover", "svg path", "g > *", "li.on:not(:has(x)):nth-child(2)", "div p:not(:first-child) b, ul li:last-child",
}

// The library is the oracle: a selector finds what it finds, in one walk.
func TestSelectorsFindWhatTheLibraryFinds(t *testing.T) {
	root := dom.Parse([]byte(zoo)).Root
	found := 0
	for _, css := range selectors {
		theirs, ours := elements(t, root, css)
		require.Equal(t, names(theirs), names(ours), css)
		found += len(ours)
	}
	require.Greater(t, found, 300)
}

func names(nodes []*html.Node) (all []string) {
	for _, n := range nodes {
		all = append(all, fmt.Sprintf("%p %s", n, n.Data))
	}
	return all
}

func TestSelectorsOfTooManyParts(t *testing.T) {
	_, err := compileCSS(strings.Repeat("a ", maxParts))
	require.NoError(t, err)
	_, err = compileCSS(strings.Repeat("a ", maxParts+1))
	require.ErrorContains(t, err, "more than 64 parts")
	require.ErrorContains(t, err, "make several rules of it")
}

// FuzzSelector: any selector that the library takes finds what the library finds.
func FuzzSelector(f *testing.F) {
	for _, css := range selectors {
		f.Add(css, zoo)
	}
	f.Fuzz(func(t *testing.T, css, page string) {
		if len(css) > 60 || len(page) > 2000 { // the library's cost is a power of both
			return
		}
		if _, err := compileCSS(css); err != nil {
			return
		}
		theirs, ours := elements(t, dom.Parse([]byte(page)).Root, css)
		require.Equal(t, names(theirs), names(ours), css)
	})
}
