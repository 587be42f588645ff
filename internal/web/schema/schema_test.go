package schema

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/dom"
	"github.com/treadlight/crawl/internal/web/effort"
)

func read(t testing.TB, page, kind string) string {
	t.Helper()
	base, err := canonical.Parse("https://shop.test/a/")
	require.NoError(t, err)
	text, err := json.Marshal(Read(dom.Parse([]byte(page)), base, kind))
	require.NoError(t, err)
	return string(text)
}

func budget(bytes int) *effort.Budget {
	return effort.New(context.Background(), effort.Steps(bytes, 1<<40), nil, time.Time{})
}

func ld(s string) string { return `<script type="application/ld+json">` + s + `</script>` }

func TestRead(t *testing.T) {
	const book = `{"@type":"Product","name":"a"}`
	for name, c := range map[string]struct{ page, kind, want string }{
		"plain":             {ld(book), "Product", `[` + book + `]`},
		"context, http":     {ld(`{"@context":"http://schema.org","@type":"http://schema.org/Product","name":"a"}`), "https://schema.org/product", `[` + book + `]`},
		"several types":     {ld(`{"@type":["Thing","Product"],"name":"a"}`), "Product", `[{"@type":["Thing","Product"],"name":"a"}]`},
		"graph":             {ld(`{"@graph":[{"@type":"WebPage"},` + book + `]}`), "Product", `[` + book + `]`},
		"array on top":      {ld(`[` + book + `,` + book + `]`), "Product", `[` + book + `,` + book + `]`},
		"list of products":  {ld(`{"@type":"ItemList","itemListElement":[{"@type":"ListItem","item":` + book + `}]}`), "Product", `[` + book + `]`},
		"parts are parts":   {ld(`{"@type":"Product","name":"a","isSimilarTo":` + book + `}`), "Product", `[{"@type":"Product","isSimilarTo":` + book + `,"name":"a"}]`},
		"references":        {ld(`{"@graph":[{"@type":"Product","offers":{"@id":"#o"}},{"@id":"#o","@type":"Offer","price":1.50}]}`), "Product", `[{"@type":"Product","offers":{"@id":"#o","@type":"Offer","price":1.50}}]`},
		"within itself":     {ld(`{"@id":"#a","@type":"Product","about":{"@id":"#b"}}`) + ld(`{"@id":"#b","@type":"X","of":{"@id":"#a"}}`), "Product", `[{"@id":"#a","@type":"Product","about":{"@id":"#b","@type":"X","of":{"@id":"#a"}}}]`},
		"values, wrapped":   {ld(`{"@type":"Product","name":{"@value":"a","@language":"en"},"x":{"@list":[1,2]}}`), "Product", `[{"@type":"Product","name":"a","x":[1,2]}]`},
		"mistakes":          {ld("\n<!-- {\"@type\":\"Product\",\"name\":\"a\nb\",} -->"), "Product", `[{"@type":"Product","name":"a\nb"}]`},
		"no JSON":           {ld(`{"@type":`), "Product", `null`},
		"another type":      {ld(book), "Offer", `null`},
		"microdata":         {`<div itemscope itemtype="http://schema.org/Product"><b itemprop=name> a  b</b><a itemprop=url href=../x>y</a><meta itemprop=sku content=7><time itemprop=date datetime=2026-01-02>today</time><img itemprop=image src=i.png><img itemprop=image src=j.png></div>`, "Product", `[{"@type":"Product","date":"2026-01-02","image":["https://shop.test/a/i.png","https://shop.test/a/j.png"],"name":"a b","sku":"7","url":"https://shop.test/x"}]`},
		"nested":            {`<div itemscope itemtype="https://schema.org/Product"><div itemprop=offers itemscope itemtype="https://schema.org/Offer"><span itemprop=price content="12.50">12,50 €</span></div></div>`, "Product", `[{"@type":"Product","offers":{"@type":"Offer","price":"12.50"}}]`},
		"itemref":           {`<p id=x itemprop=name>a</p><div itemscope itemtype=Product itemref="x none x"></div>`, "Product", `[{"@type":"Product","name":"a"}]`},
		"itemref in itself": {`<div itemscope itemtype=Product id=a itemref=a><b itemprop=name>a</b></div>`, "Product", `[` + book + `]`},
		"itemref in rings":  {`<div itemscope itemtype=Product itemref=b></div><div id=b itemprop=x itemscope itemtype=Y itemref=c></div><div id=c itemprop=y itemscope itemtype=Z itemref=b></div>`, "Product", `[{"@type":"Product","x":{"@type":"Y","y":{"@type":"Z","x":{"@type":"Y"}}}}]`},
		"both say the same": {ld(book) + `<div itemscope itemtype=Product><b itemprop=name>b</b></div>`, "Product", `[` + book + `]`},
		"several names":     {`<div itemscope itemtype="Product Thing"><b itemprop="name alternateName">a</b></div>`, "Product", `[{"@type":["Product","Thing"],"alternateName":"a","name":"a"}]`},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, read(t, c.page, c.kind)) })
	}
}

// References that refer to more and more of each other cost no more than a page may.
func TestReferencesCostNoMoreThanAPage(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"@graph":[`)
	for i := range 24 {
		id, next := string(rune('a'+i)), string(rune('b'+i))
		b.WriteString(`{"@id":"` + id + `","@type":"Product","p":[{"@id":"` + next + `"},{"@id":"` + next + `"}]},`)
	}
	b.WriteString(`{"@id":"z","@type":"X"}]}`)
	page := dom.ParseWithin([]byte(ld(b.String())), dom.MaxElements, budget(len(b.String())))
	base, err := canonical.Parse("https://shop.test/")
	require.NoError(t, err)
	Read(page, base, "Product")
	require.True(t, page.Budget.Spent())
}

func FuzzRead(f *testing.F) {
	f.Add(ld(`{"@graph":[{"@type":"Product","offers":{"@id":"#o"}},{"@id":"#o"}]}`))
	f.Add(`<div itemscope itemtype=Product itemref=b><b id=b itemprop=x itemscope itemref=b>`)
	f.Fuzz(func(t *testing.T, page string) {
		d := dom.ParseWithin([]byte(page), dom.MaxElements, budget(len(page)))
		base, err := canonical.Parse("https://shop.test/")
		require.NoError(t, err)
		for _, thing := range Read(d, base, "") {
			require.NotEmpty(t, texts(thing["@type"]))
		}
	})
}
