package pipeline

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/fetch/fetchtest"
	"github.com/treadlight/crawl/internal/pipeline/fields"
	"github.com/treadlight/crawl/internal/pipeline/sink"
)

const shopPage = `<title>Lamp</title><base href="/shop/"><meta property="og:type" content="product"><meta property="og:image" content=a><meta property="og:image" content=b>
<script type="application/ld+json">{"@type": "Product"}</script><script type="application/ld+json">{broken</script>
<nav><a href="/">Home</a></nav><main><h1>A lamp</h1><p class=price>12,50 €</p><a class=more href=other>More</a></main>`

// crawlTrees crawls one page of each kind with what cfg asks for.
func crawlTrees(t *testing.T, tree Tree) map[string]*sink.Record {
	t.Helper()
	var records map[string]*sink.Record
	synctest.Test(t, func(t *testing.T) {
		net := fetchtest.Serve(t, map[string]http.Handler{"h.test": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/legacy":
				w.Header().Set("Content-Type", "text/html")
				fmt.Fprint(w, "<meta charset=windows-1251><h1>\xcb\xe0\xec\xef\xe0</h1>")
			case "/deep":
				html(w, "<h1>Deep</h1>"+strings.Repeat("<div>", 3000)+"<p class=price>3")
			case "/plain":
				w.Header().Set("Content-Type", "text/plain")
				fmt.Fprint(w, "<h1>no markup</h1>")
			case "/large":
				html(w, "<h1>Large</h1>"+strings.Repeat("<br>", 100_000))
			default:
				html(w, shopPage)
			}
		})})
		w := newWorldOn(t, fetch.Config{DialContext: net.DialContext})
		w.Tree = tree
		var seeds []string
		for _, path := range []string{"/item", "/legacy", "/deep", "/plain", "/large"} {
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
	require.Contains(t, all["http://h.test/large"].FieldsError, "only those were looked at")
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
