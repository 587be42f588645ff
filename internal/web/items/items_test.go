package items

import (
	"context"
	"encoding/json"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/dom"
	"github.com/treadlight/crawl/internal/web/effort"
	"github.com/treadlight/crawl/internal/web/fields"
)

func at(t testing.TB, url, body string) *Page {
	t.Helper()
	u, err := canonical.Parse(url)
	require.NoError(t, err)
	budget := effort.New(context.Background(), effort.Steps(len(body), 1<<40), nil, time.Time{})
	p := &Page{URL: u, Base: u, Budget: budget}
	if strings.HasPrefix(body, "{") {
		p.JSON, _ = fields.ReadJSON([]byte(body), budget)
	} else {
		p.Document = dom.ParseWithin([]byte(body), dom.MaxElements, budget)
	}
	return p
}

func rulesOf(t testing.TB, lines ...string) *Rules {
	t.Helper()
	r, err := Parse(lines)
	require.NoError(t, err)
	return r
}

const shop = `<div class=list><div class=product data-id=7><h3><a href=/p/1 title="Blue chair">Blue…</a></h3><p class=price>1.234,50 €</p></div>
<a class=product href=/p/2><h3>Stool</h3><p class=price>call us</p></a><div class=product></div></div>
<script type="application/ld+json">{"@type":"Product","name":"A","offers":{"price":3.5}}</script><a class=next href="?page=2">next</a>`

func TestItems(t *testing.T) {
	const page = `,"page":"https://a.test/list"}`
	for name, c := range map[string]struct {
		body  string
		lines []string
		want  []string
	}{
		"in order, typed":   {shop, []string{"item css:.product", "name=css:h3", "price:number=css:.price", "id=css:@data-id"}, []string{`{"name":"Blue…","price":1234.50,"id":"7"` + page, `{"name":"Stool"` + page}},
		"field before item": {shop, []string{"name=css:h3", "item css:.product"}, []string{`{"name":"Blue…"` + page, `{"name":"Stool"` + page}},
		"without fields":    {shop, []string{"item css:.product"}, []string{`{"text":"Blue… 1.234,50 €","url":"https://a.test/p/1"` + page, `{"text":"Stool call us","url":"https://a.test/p/2"` + page}},
		"scope":             {shop, []string{"item css:.product", "t=css::scope > h3"}, []string{`{"t":"Blue…"` + page, `{"t":"Stool"` + page}},
		"xpath":             {shop, []string{"item xpath://div[@class='product']", "p=xpath://p", "after=xpath:following-sibling::a/h3"}, []string{`{"p":"1.234,50 €","after":"Stool"` + page}},
		"schema, whole":     {shop, []string{"item schema:Product"}, []string{`{"@type":"Product","name":"A","offers":{"price":3.5}` + page}},
		"schema, fields":    {shop, []string{"item schema:Product", "price:number=json:offers.price", "all:all=json:offers"}, []string{`{"price":3.5,"all":["{\"price\":3.5}"]` + page}},
		"the page":          {shop, []string{"item page", "next=css:.next"}, []string{`{"next":"next"` + page}},
		"found, not said":   {`<link rel=canonical href=https://a.test/list>`, []string{"item page", "at=css:link@href"}, []string{`{"at":"https://a.test/list"` + page}},
		"where it is":       {shop, []string{"at=page", "item css:.product", "name=css:h3"}, []string{`{"name":"Blue…","at":"https://a.test/list"` + page, `{"name":"Stool","at":"https://a.test/list"` + page}},
		"kinds":             {shop, []string{"item a=css:h3", "item b=css:p", "item c=css:p url~nowhere"}, []string{`{"text":"Blue…","url":"https://a.test/p/1"` + `,"page":"https://a.test/list","item":"a"}`, `{"text":"Stool","page":"https://a.test/list","item":"a"}`, `{"text":"1.234,50 €","page":"https://a.test/list","item":"b"}`, `{"text":"call us","page":"https://a.test/list","item":"b"}`}},
		"json":              {`{"list":[{"n":1,"t":["a","b"]},{"n":2e3,"t":[]}]}`, []string{"item json:list", "n:number=json:n", "t:all=json:t"}, []string{`{"n":1,"t":["a","b"]` + page, `{"n":2000` + page}},
		"page of the user":  {shop, []string{"item css:h3", "page=css:a@title"}, []string{`{"page":"Blue chair"}`}},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := rulesOf(t, c.lines...).Extractor()
			require.NoError(t, err)
			var got []string
			r := e.Page(at(t, "https://a.test/list", c.body))
			require.NoError(t, r.Err)
			for _, item := range r.Items {
				text, err := item.MarshalJSON()
				require.NoError(t, err)
				require.True(t, json.Valid(text))
				got = append(got, string(text))
			}
			require.Equal(t, c.want, got)
			require.Len(t, e.Digest(r.Items), 16)
		})
	}
}

// A field may name and place the column of the page; the page is no second column then. Lists end at a page with the same
// items as the page before, whatever the URL.
func TestPageIsAField(t *testing.T) {
	r := rulesOf(t, "item css:.product", "url=page", "name=css:h3")
	columns, err := r.Columns(DefaultName)
	require.NoError(t, err)
	require.Equal(t, []string{"url", "name"}, columns)
	e, err := r.Extractor()
	require.NoError(t, err)
	one, two := e.Page(at(t, "https://a.test/list", shop)), e.Page(at(t, "https://a.test/list?page=2", shop))
	require.Len(t, one.Items, 2, "the third has no field of its own")
	require.Equal(t, e.Digest(one.Items), e.Digest(two.Items))
}

// A thing that many references lead to is written for each of them: its size is counted before that.
func TestReferencesAreCountedAsOftenAsTheyAreWritten(t *testing.T) {
	page := `<script type="application/ld+json">{"@graph":[{"@id":"s","name":"` + strings.Repeat("x", 100<<10) + `"},{"@type":"Product","p":[` +
		strings.TrimSuffix(strings.Repeat(`{"@id":"s"},`, 2000), ",") + `]}]}</script>`
	for _, lines := range [][]string{{"item schema:Product"}, {"item schema:Product", "all=json:$"}} {
		e, err := rulesOf(t, lines...).Extractor()
		require.NoError(t, err)
		var before, after runtime.MemStats
		p := at(t, "https://a.test/", page)
		runtime.ReadMemStats(&before)
		r := e.Page(p)
		runtime.ReadMemStats(&after)
		require.Empty(t, r.Items)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(50<<20), lines)
	}
}

func TestNext(t *testing.T) {
	for _, c := range []struct {
		rule, url, body string
		items           int
		want            []string
	}{
		{"css:.next", "https://a.test/list?x=1", shop, 0, []string{"https://a.test/list?page=2"}},
		{"css:.next url~/other", "https://a.test/list", shop, 0, nil},
		{"param:page", "https://a.test/list", shop, 1, []string{"https://a.test/list?page=2"}},
		{"param:page", "https://a.test/list?q=a%20b&page=9&s=1", shop, 1, []string{"https://a.test/list?q=a%20b&page=10&s=1"}},
		{"param:page", "https://a.test/list?page=9", shop, 0, nil},
		{"param:page", "https://a.test/list?page=last", shop, 1, nil},
		{"param:from+20", "https://a.test/list", shop, 1, []string{"https://a.test/list?from=20"}},
		{"param:from=1+20", "https://a.test/list", shop, 1, []string{"https://a.test/list?from=21"}},
		{"param:after=json:cursor", "https://a.test/list?after=a", `{"cursor":"b/c="}`, 0, []string{"https://a.test/list?after=b%2Fc%3D"}},
		{"param:after=json:cursor", "https://a.test/list?after=a", `{"cursor":null}`, 9, nil},
		{"json:links.next", "https://a.test/list", `{"links":{"next":"/list?p=2"}}`, 0, []string{"https://a.test/list?p=2"}},
	} {
		e, err := rulesOf(t, NextWord+c.rule).Extractor()
		require.NoError(t, err)
		require.Equal(t, c.want, e.Next(at(t, c.url, c.body), c.items), "%s at %s", c.rule, c.url)
	}
}

func TestRulesThatAreWrong(t *testing.T) {
	for line, want := range map[string]string{
		"item .product":      "is no rule for items; write css:SELECTOR",
		"item css:p[":        "is no CSS selector",
		"item css:a@href":    "leave out @href",
		"item schema:":       "names no type",
		"item page":          "has no fields; give some with --field",
		"item css:p url~(":   "is not a regular expression",
		"item json:$..a..b":  "could cost too much",
		"item json:a[?@.b]":  "could cost too much",
		"next a.next":        "is no rule for links",
		"next param:":        "is no rule for a parameter",
		"next param:page+0":  "has a step of zero",
		"next param:p=json:": "give one of css, xpath, json and re",
		"x=json:a b":         "is no JSONPath",
	} {
		_, err := Parse([]string{line})
		require.ErrorContains(t, err, want, line)
	}
}

// Of a rule that finds nothing it is told what still does, and what is spelled alike.
func TestMisses(t *testing.T) {
	for _, c := range []struct{ body, line, want string }{
		{shop, "item css:.products", "nothing matches .products; there is .product (3)"},
		{shop, "item css:.list .prodct", ".list matches 1, and .prodct nothing in them; there is .product (3)"},
		{shop, "item css:#list > div", "nothing matches #list; there is .list (1)"},
		{shop, "item xpath://div[@class='products']", "nothing matches div[@class='products']; there is .product (3)"},
		{shop, "item schema:Offer", "there is no Offer; there is Product"},
		{shop, "item json:a", "the page is no JSON"},
		{`{"data":{"rows":[1],"total":1}}`, "item json:data.items", "$.data has no items; it has rows, total"},
		{`{"data":[{"a":1}]}`, "item json:data.a", "$.data has no a; it has 1 values: [*] is all of them"},
	} {
		tried, err := rulesOf(t, c.line).Try(at(t, "https://a.test/list", c.body))
		require.NoError(t, err)
		require.True(t, tried.Missed())
		require.Equal(t, c.want, tried.Kinds[0].Miss, c.line)
	}
	tried, err := rulesOf(t, "item css:.product", "a=css:.pric", "b:number=css:h3", "c=css:p@href", "price:number=css:.price").Try(at(t, "https://a.test/list", shop))
	require.NoError(t, err)
	f := tried.Kinds[0].Fields
	require.Equal(t, []string{"nothing matches .pric; there is .price (1)", `it finds "Blue…", which is no number`, "p matches 1, without an attribute href"}, []string{f[0].Miss, f[1].Miss, f[2].Miss})
	require.Equal(t, []int{1, 3}, []int{f[3].Found, f[3].Of})
	tried, err = (&Rules{}).Try(at(t, "https://a.test/list", shop))
	require.NoError(t, err)
	require.Equal(t, []Offer{{"schema:Product", 1, []string{"name=json:name", "price:number=json:offers.price"}}, {"css:.product", 3, nil}}, tried.Offers)
}

// Rules that are taken can be run on any page, within its budget, and say the same twice.
func FuzzRules(f *testing.F) {
	f.Add("item css:.product", "name=css::scope > h3", "next param:page", shop)
	f.Add("item x=schema:Product url~a", "p:number:all=json:offers..price", "next css:a", shop)
	f.Add("item json:list[*]", "t=xpath:.//a[1]", "next json:$.next", `{"list":[{"t":[1,{}]}],"next":"/x"}`)
	f.Fuzz(func(t *testing.T, a, b, c, body string) {
		rules, err := Parse([]string{a, b, c})
		if err != nil {
			return
		}
		e, err := rules.Extractor()
		require.NoError(t, err)
		if e == nil {
			return
		}
		p := at(t, "https://a.test/list", body)
		r := e.Page(p)
		require.LessOrEqual(t, len(r.Items), MaxItems)
		for _, item := range r.Items {
			text, err := item.MarshalJSON()
			require.NoError(t, err)
			require.True(t, json.Valid(text), "%s", text)
		}
		e.Next(p, len(r.Items))
		require.Equal(t, e.Digest(r.Items) == "", len(r.Items) == 0)
		_, err = rules.Try(at(t, "https://a.test/list", body))
		require.NoError(t, err)
	})
}
