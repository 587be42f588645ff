package pipeline

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock/clocktest"
	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/internal/records/sink"
	"github.com/treadlight/crawl/internal/web/dom"
	"github.com/treadlight/crawl/internal/web/effort"
	"github.com/treadlight/crawl/internal/web/fields"
	"github.com/treadlight/crawl/internal/web/neardup"
)

const shopPage = `<title>Lamp</title><base href="/shop/"><meta property="og:type" content="product"><meta property="og:image" content=a><meta property="og:image" content=b>
<script type="application/ld+json">{"@type": "Product"}</script><script type="application/ld+json">{broken</script>
<nav><a href="/">Home</a></nav><main><h1>A lamp</h1><p class=price>12,50 €</p><a class=more href=other>More</a></main>`

// crawlTrees crawls one page of each kind with what cfg asks for.
func crawlTrees(t *testing.T, tree Tree) map[string]*sink.Record {
	t.Helper()
	return crawlPages(t, map[string]string{
		"/item": shopPage, "/deep": "<h1>Deep</h1>" + strings.Repeat("<div>", 3000) + "<p class=price>3",
		"/large": "<h1>Large</h1>" + strings.Repeat("<br>", 100_000), "/plain": "<h1>no markup</h1>",
		"/legacy": "<meta charset=windows-1251><h1>\xcb\xe0\xec\xef\xe0</h1>",
	}, tree)
}

// crawlPages crawls pages of one host by their paths.
func crawlPages(t *testing.T, pages map[string]string, tree Tree) map[string]*sink.Record {
	t.Helper()
	var records map[string]*sink.Record
	synctest.Test(t, func(t *testing.T) {
		net := fetchtest.Serve(t, map[string]http.Handler{"h.test": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			if r.URL.Path == "/plain" {
				w.Header().Set("Content-Type", "text/plain")
			}
			fmt.Fprint(w, pages[r.URL.Path])
		})})
		w := newWorldOn(t, fetch.Config{DialContext: net.DialContext})
		w.Tree = tree
		var seeds []string
		for path := range pages {
			seeds = append(seeds, "http://h.test"+path)
		}
		w.MaxPages = len(seeds)
		_, err := w.crawl(t, seeds...)
		require.NoError(t, err)
		records = w.out.byURL(t)
	})
	return records
}

func TestTrees(t *testing.T) {
	var rules []fields.Rule
	for _, line := range []string{"title=css:h1", "price:number=css:.price", "more:url:all=xpath://a[@class='more']/@href", "no=css:.no", "item=css:title url~/item$"} {
		r, err := fields.Parse(line)
		require.NoError(t, err)
		rules = append(rules, r)
	}
	set, err := fields.New(rules)
	require.NoError(t, err)
	all := crawlTrees(t, Tree{Fields: set, Metadata: true, MainText: true})

	item := all["http://h.test/item"]
	require.Equal(t, sink.Named{
		{Name: "title", Values: []string{"A lamp"}},
		{Name: "price", Values: []string{"12.50"}, Number: true},
		{Name: "more", Values: []string{"http://h.test/shop/other"}, List: true},
		{Name: "item", Values: []string{"Lamp"}},
	}, item.Fields)
	require.Empty(t, item.FieldsError)
	require.Equal(t, sink.Named{{Name: "og:type", Values: []string{"product"}}, {Name: "og:image", Values: []string{"a", "b"}, List: true}}, item.Properties)
	require.Len(t, item.JSONLD, 1)
	require.JSONEq(t, `{"@type":"Product"}`, string(item.JSONLD[0]))
	require.Equal(t, 1, item.InvalidJSONLD)
	require.Equal(t, "A lamp\n12,50 €", item.MainText)

	require.Equal(t, "Лампа", all["http://h.test/legacy"].Fields[0].Values[0])
	require.Equal(t, "[{title [Deep] false false} {price [3] false true}]", fmt.Sprint(all["http://h.test/deep"].Fields))
	require.Nil(t, all["http://h.test/plain"].Fields)
	require.Contains(t, all["http://h.test/large"].FieldsError, "only a part of the page was looked at")
	require.Equal(t, "Large", all["http://h.test/large"].Fields[0].Values[0])
}

// Without being asked nothing is read, and records have nothing of it.
func TestNoTrees(t *testing.T) {
	for u, rec := range crawlTrees(t, Tree{}) {
		require.Nil(t, rec.Fields, u)
		require.Nil(t, rec.Properties, u)
		require.Nil(t, rec.JSONLD, u)
		require.Empty(t, rec.MainText, u)
	}
}

// A page that is made to cost more than others is read as far as it may cost, and its record
// says so.
func TestPagesThatCostTooMuch(t *testing.T) {
	var roots strings.Builder
	for i := range 9000 {
		fmt.Fprintf(&roots, "<html a%d=x><body b%d=x>", i, i)
	}
	pages := map[string]string{
		"/roots":      "<title>Roots</title>" + roots.String() + "<h1>last</h1>",
		"/formatting": "<title>Formatting</title><h1>first</h1><p>" + strings.Repeat("<b><i class=a>", 200) + strings.Repeat("<p>x", 50_000),
		"/nested":     "<title>Nested</title><h1>first</h1>" + strings.Repeat("<div>x", 20_000),
		"/usual":      "<title>Usual</title><h1>first</h1><p>x",
	}
	rule, err := fields.Parse("n=xpath:count(//*//*//*//*)")
	require.NoError(t, err)
	title, err := fields.Parse("t=css:title")
	require.NoError(t, err)
	set, err := fields.New([]fields.Rule{title, rule})
	require.NoError(t, err)
	for u, rec := range crawlPages(t, pages, Tree{Fields: set, Metadata: true, MainText: true}) {
		require.Equal(t, 200, rec.Status, u)
		require.Equal(t, u != "http://h.test/usual", rec.Truncated, u)
		require.NotEmpty(t, rec.Fields, u)
		require.Equal(t, rec.Title, rec.Fields[0].Values[0], u)
	}
}

// Of a page that was not read to its end no fingerprint is made, as others that begin alike would
// be near it, and its record says that it was cut short.
func TestFingerprintsOfPagesThatCostTooMuch(t *testing.T) {
	page := []byte("<title>x</title>" + strings.Repeat("<p>some words of a page ", 200))
	f := func() *fetched {
		return &fetched{lease: &frontier.Lease{Item: frontier.Item{URL: parse(t, "http://h.test/")}}, resp: &fetch.Response{Status: 200, ContentType: "text/html", Body: page}}
	}
	index := neardup.NewIndex(3)
	w := newWorldOn(t, fetch.Config{})
	w.Duplicates = index
	reader := &processor{p: w.build(t)}
	whole := int64(0)
	for _, steps := range []int64{math.MaxInt64, 0, 0} {
		r := &result{rec: &sink.Record{}}
		if steps == 0 {
			steps = whole - 500 // enough for the links, and not for the words
		}
		reader.budget = effort.New(t.Context(), steps, nil, time.Time{})
		reader.content(r, f())
		if whole == 0 {
			whole = reader.budget.Used()
			require.NotEmpty(t, r.rec.SimHash)
			continue
		}
		require.True(t, reader.budget.Spent())
		require.Empty(t, r.rec.SimHash)
		require.NotEmpty(t, r.rec.Title)
	}
}

// What a page may cost is set: its elements, its steps with them, and its time.
func TestCostOfAPageIsSet(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, tc := range []struct {
		elements int
		time     time.Duration
		steps    int64
		until    time.Duration
	}{
		{0, 0, stepsPerElement * dom.MaxElements, 2 * time.Second},
		{1000, 0, stepsPerElement * 1000, 2 * time.Second},
		{0, 7 * time.Second, stepsPerElement * dom.MaxElements, 7 * time.Second},
	} {
		clk := clocktest.NewFake(now)
		p := &Pipeline{cfg: Config{Tree: Tree{MaxElements: tc.elements}, PageTime: tc.time, Clock: clk}}
		b := p.effort(t.Context(), 1<<30)
		require.True(t, b.Spend(int(tc.steps)-1))
		require.False(t, b.Spend(2))
		b = p.effort(t.Context(), 1<<30)
		clk.Advance(tc.until - 1)
		require.True(t, b.Spend(int(tc.steps/2)))
		clk.Advance(1)
		require.False(t, b.Spend(int(tc.steps/4)))
	}
}
