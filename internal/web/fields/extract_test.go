package fields

import (
	"fmt"
	"iter"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/andybalholm/cascadia"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/dom"
	"github.com/treadlight/crawl/record"
)

const shop = `<!doctype html><html><head><title>A  lamp</title>
<meta name=author content="Ann Ot"><meta itemprop=price content="1234.50"></head><body>
<h1>A <em>lamp</em></h1><span class=price>1.234,50 €</span><span class=price>no number</span>
<ul class=tags><li><a href="/tag/a?x=1#y" rel=tag>light</a><li><a href="b" rel=tag>  home
 </a><li><a href="http://[" rel=tag></a></ul>
<img src=lamp.jpg alt=""><svg><a xlink:href="#z">z</a></svg>
<div id=text><p>One.</p><p>Two<br>three.</p><script>no()</script></div></body></html>`

func url(t testing.TB, s string) canonical.URL {
	t.Helper()
	u, err := canonical.Parse(s)
	require.NoError(t, err)
	return u
}

func extract(t testing.TB, page string, lines ...string) ([]record.Values, error) {
	t.Helper()
	rules := make([]Rule, len(lines))
	for i, line := range lines {
		var err error
		rules[i], err = Parse(line)
		require.NoError(t, err, line)
	}
	set, err := New(rules)
	require.NoError(t, err)
	here := url(t, "http://h.test/shop/")
	return set.Extractor().Page(here, here, dom.Parse([]byte(page)))
}

func TestPage(t *testing.T) {
	for line, want := range pairs(t, "page.txt") {
		got, err := extract(t, shop, line)
		require.NoError(t, err, line)
		var values []string
		for _, f := range got {
			require.Equal(t, "x", f.Name)
			require.Equal(t, strings.Contains(line, ":all"), f.List, line)
			require.Equal(t, strings.Contains(line, "x:number"), f.Number, line)
			values = f.Values
		}
		text := strings.Join(values, "|")
		require.Equal(t, want, "["+text+"]", line)
	}
}

// The first rule of a name that finds something gives the field, and fields are in the order of the rules.
func TestFallback(t *testing.T) {
	got, err := extract(t, shop, "b=css:.nothing", "a=css:h1", "b:number=css:.price", "b=css:h1", "a=css:title")
	require.NoError(t, err)
	require.Equal(t, []record.Values{{Name: "a", Values: []string{"A lamp"}}, {Name: "b", Values: []string{"1234.50"}, Number: true}}, got)
}

func TestBaseIsNotThePage(t *testing.T) {
	r, err := Parse("x:url=css:a@href")
	require.NoError(t, err)
	set, err := New([]Rule{r})
	require.NoError(t, err)
	got, err := set.Extractor().Page(url(t, "http://h.test/shop/"), url(t, "http://cdn.test/d/"), dom.Parse([]byte("<a href=e>")))
	require.NoError(t, err)
	require.Equal(t, []string{"http://cdn.test/d/e"}, got[0].Values)
}

func TestBounds(t *testing.T) {
	got, err := extract(t, strings.Repeat("<b>x</b>", MaxValues+1), "x:all=css:b")
	require.ErrorContains(t, err, "x: more than 1000 values")
	require.Len(t, got[0].Values, MaxValues)

	long := strings.Repeat("é", MaxValue)
	for _, line := range []string{"x=css:b", "x:html=css:b", "x=xpath://b", "x=xpath:string(//b)", "x=css:b@id"} {
		got, err = extract(t, `<b id="`+long+`">`+long+"</b>", line)
		require.ErrorContains(t, err, "longer than 65536 bytes", line)
		require.Len(t, got, 1, line)
		require.LessOrEqual(t, len(got[0].Values[0]), MaxValue, line)
		require.Greater(t, len(got[0].Values[0]), MaxValue-4, line)
	}

	got, err = extract(t, strings.Repeat("<b>"+strings.Repeat("x", MaxValue)+"</b>", 20), "x:all=css:b", "y=css:b")
	require.ErrorContains(t, err, "more than 1048576 bytes of values")
	require.Len(t, got, 1)
	require.Len(t, got[0].Values, MaxPage/MaxValue)

	_, err = extract(t, strings.Repeat("<br>", dom.MaxElements), "x=css:b")
	require.ErrorContains(t, err, "only a part of the page was looked at")

	got, err = extract(t, `<a href="/`+strings.Repeat("x", MaxValue)+`">`, "x:url=css:a")
	if len(got) > 0 {
		t.Errorf("half a URL: %.40q (%v)", got[0].Values, err)
	}
}

// A page nested beyond what the parser bears has its fields.
func TestDeepPages(t *testing.T) {
	got, err := extract(t, "<h1>T</h1>"+strings.Repeat("<div>", 2000)+"<p class=x>in", "t=css:h1", "x=xpath://p[@class='x']")
	require.NoError(t, err)
	require.Equal(t, "[{t [T] false false} {x [in] false false}]", fmt.Sprint(got))
}

func TestNothingToDo(t *testing.T) {
	var none *Set
	require.Nil(t, none.Extractor())
	require.False(t, none.Extractor().Wants("http://h.test/"))
	got, err := none.Extractor().Page(canonical.URL{}, canonical.URL{}, dom.Parse(nil))
	require.NoError(t, err)
	require.Empty(t, got)
	set, err := New([]Rule{{Name: "a", CSS: "p", Match: "/x/"}})
	require.NoError(t, err)
	require.True(t, set.Extractor().Wants("http://h.test/x/"))
	require.False(t, set.Extractor().Wants("http://h.test/"))
}

// Workers share a set; the race detector watches.
func TestWorkers(t *testing.T) {
	set, err := New([]Rule{{Name: "a", XPath: "//li[position()>1]", All: true}, {Name: "b", XPath: "count(//li)"}, {Name: "c", CSS: "li:nth-child(2)"}})
	require.NoError(t, err)
	here := url(t, "http://h.test/")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			e := set.Extractor()
			for n := range 50 {
				got, err := e.Page(here, here, dom.Parse([]byte("<ul>"+strings.Repeat("<li>x", n%7+2)+"</ul>")))
				if err != nil || len(got) != 3 || len(got[0].Values) != n%7+1 || got[1].Values[0] != fmt.Sprint(n%7+2) {
					t.Errorf("page %d: %v, %v", n, got, err)
				}
			}
		})
	}
	wg.Wait()
}

func TestNumber(t *testing.T) {
	for text, want := range map[string]string{
		"12": "12", " 12.50 ": "12.50", "EUR 1,234.50": "1234.50", "1.234,50 €": "1234.50", "1 234,50": "1234.50",
		"1 234 567": "1234567", "1'234.5": "1234.5", "1,234": "1234", "1.234": "1.234", "1,5": "1.5", "1,234,567": "1234567",
		"1.234.567": "1234567", "-3": "-3", "−3,5 °C": "-3.5", "A-4": "4", "2020-01-02": "2020", "2020 2021": "2020", "2020 202": "2020",
		".5": "0.5", "costs .50": "0.50", "007": "7", "0": "0", "0,0": "0.0", "none": "", "": "", "12.": "12", "3, 4": "3",
		strings.Repeat("9", 41): "", "10 % of 20": "10",
	} {
		require.Equal(t, want, number(text), text)
	}
}

func FuzzNumber(f *testing.F) {
	f.Add("1.234,50")
	f.Add("−1 234'567_890")
	f.Fuzz(func(t *testing.T, s string) {
		n := number(s)
		if n == "" {
			return
		}
		require.Regexp(t, `^-?(0|[1-9][0-9]*)(\.[0-9]+)?$`, n, s)
	})
}

// FuzzPage: no page makes rules panic or go beyond their bounds.
func FuzzPage(f *testing.F) {
	f.Add(shop)
	f.Add("<a href=x><b>" + strings.Repeat("<div>", 600))
	rules := []string{"a:all=css:* ~ b, a > *", "b:url:all=css:a", "c:html=css:p", "d:number:all=xpath://*[last()]", "e:all=xpath://@*", "f=xpath:string(//b/following::*)"}
	f.Fuzz(func(t *testing.T, page string) {
		got, _ := extract(t, page, rules...)
		for _, field := range got {
			require.NotEmpty(t, field.Values)
			for _, v := range field.Values {
				require.NotEmpty(t, v)
				require.LessOrEqual(t, len(v), MaxValue)
			}
		}
	})
}

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

// pairs are the lines of a file of cases: what is read, and what comes of it.
func pairs(t *testing.T, name string) iter.Seq2[string, string] {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	return func(yield func(string, string) bool) {
		for line := range strings.Lines(string(text)) {
			var in, out string
			_, err := fmt.Sscanf(line, "%q %q", &in, &out)
			require.NoError(t, err, line)
			if !yield(in, out) {
				return
			}
		}
	}
}
