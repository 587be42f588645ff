package docs_test

import (
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/crawltest"
	"github.com/treadlight/crawl/internal/lab/docpage"
)

// peers are the pages for people who come from other crawlers. Their code is in files named as they are.
var peers = []string{"scrapy", "colly", "crawlee"}

func TestCodeOfPeersPagesCompiles(t *testing.T) {
	for _, name := range peers {
		code := readFile(t, "from_"+name+"_test.go")
		at := strings.Index(string(code), "// What follows")
		all := blocks(docpage.Read(t, "docs/how-to/coming-from-"+name+".md"), "go")
		require.NotEmpty(t, all)
		for _, block := range all {
			next := strings.Index(string(code[at:]), block)
			require.GreaterOrEqual(t, next, 0, "%s has other code, or in another order:\n%s", name, block)
			at += next + len(block)
		}
	}
}

// page is HTML.
func page(body string) crawltest.Page { return crawltest.Page{Body: "<html>" + body} }

func quote(text, author, tags, next string) string {
	q := `<div class="quote"><span class="text">` + text + `</span><small class="author">` + author + `</small> <a href="/author/` + author + `">(about)</a>`
	for tag := range strings.FieldsSeq(tags) {
		q += `<a class="tag" href="/tag/` + tag + `/">` + tag + `</a>`
	}
	if q += "</div>"; next != "" {
		q += `<ul class="pager"><li class="next"><a href="` + next + `">Next</a></li></ul>`
	}
	return q
}

// scraper is options for a site in memory, of which only what is followed is visited.
func scraper(site *crawltest.Site) crawl.Options {
	return crawl.Options{Fetcher: site, HandlersFollow: true, Scope: crawl.ScopeOptions{IgnoreSitemaps: true}}
}

func linesOf(t *testing.T, file string) []string {
	t.Helper()
	text := readFile(t, file)
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

func TestSpidersOfScrapysTutorial(t *testing.T) {
	dir := t.TempDir()
	crawltest.FakeClock(t, func(t *testing.T) {
		site := crawltest.NewSite(map[string]crawltest.Page{
			"/": page(quote("One", "Ann", "a b", "/page/2/")), "/page/1/": page(quote("One", "Ann", "a b", "/page/2/")), "/page/2/": page(quote("Two", "Bob", "", "")),
			"/tag/a/":     page(quote("One", "Ann", "a b", "")),
			"/author/Ann": {Location: "/author/Ann/"},
			"/author/Ann/": page(`<h3 class="author-title">Ann</h3><span class="author-born-date">1900</span>` +
				`<div class="author-description">wrote one</div>`),
			"/author/Bob": page(`<h3 class="author-title">Bob</h3>`),
		})
		require.NoError(t, savePages(t.Context(), scraper(site), dir))
		require.Contains(t, linesOf(t, filepath.Join(dir, "quotes-2.html"))[0], "Two")

		file := func(name string) string { return filepath.Join(dir, name+".jsonl") }
		require.NoError(t, quotes(t.Context(), scraper(site), file("quotes"), "https://quotes.toscrape.com/page/1/"))
		require.Equal(t, []string{`{"author":"Ann","tags":["a","b"],"text":"One"}`, `{"author":"Bob","tags":null,"text":"Two"}`}, linesOf(t, file("quotes")))
		require.NoError(t, authors(t.Context(), scraper(site), file("authors")))
		require.ElementsMatch(t, []string{`{"Name":"Ann","Born":"1900","Bio":"wrote one"}`, `{"Name":"Bob","Born":"","Bio":""}`}, linesOf(t, file("authors")))
		require.NoError(t, quotesOf(t.Context(), scraper(site), file("tag"), "a"))
		require.Len(t, linesOf(t, file("tag")), 1)
	})
}

func TestExamplesOfColly(t *testing.T) {
	crawltest.FakeClock(t, func(t *testing.T) {
		forms := 0
		pages := map[string]crawltest.Page{
			"/": page(`<a href="/a">a</a>`), "/a": page(`<a href="/b">b</a>`), "/b": page(""), "/ip": {Body: "192.0.2.1"},
			"/login": {Handler: func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				if r.Method == http.MethodPost && r.PostFormValue("username") == "admin" {
					http.SetCookie(w, &http.Cookie{Name: "session", Value: "1"})
					forms++
				}
			}},
		}
		for n := range 20 {
			pages["/delay/1?n="+strconv.Itoa(n)], pages["/delay/2?n="+strconv.Itoa(n)] = page(""), page("")
		}
		site := crawltest.NewSite(pages)
		o := crawl.Options{Fetcher: site, Scope: crawl.ScopeOptions{IgnoreSitemaps: true}}
		require.NoError(t, collyBasic(t.Context(), o))
		require.Equal(t, 1, site.Count("/b"))
		require.NoError(t, collyErrors(t.Context(), o))
		require.NoError(t, collyLogin(t.Context(), o))
		require.Equal(t, 1, forms)
		before := site.Count("/b")
		require.NoError(t, collyMaxDepth(t.Context(), o))
		require.Equal(t, before, site.Count("/b"), "it is two links away")
		require.NoError(t, collyMultipart(t.Context(), o, []byte("picture")))
		require.NoError(t, collyParallel(t.Context(), o))
		require.NoError(t, collyQueue(t.Context(), o))
		require.Equal(t, 1, site.Count("/delay/1?n=19"))
		require.NoError(t, collyDelay(t.Context(), o))
		require.NoError(t, collyRateLimit(t.Context(), o))
	})
	nowhere, err := url.Parse("socks5://127.0.0.1:1")
	require.NoError(t, err)
	require.ErrorIs(t, collyProxies(t.Context(), crawl.Options{Politeness: crawl.PolitenessOptions{IgnoreRobots: true, Retries: -1, InitialRPS: 100, MaxRPS: 100}}, nowhere), crawl.ErrUnreachable)
}

func TestCrawlersOfCrawleesIntroduction(t *testing.T) {
	dir := t.TempDir()
	crawltest.FakeClock(t, func(t *testing.T) {
		site := crawltest.NewSite(map[string]crawltest.Page{
			"/":                        {Body: `<title>Start</title><a href="/docs">docs</a>`},
			"/docs":                    {Body: `<title>Docs</title>`},
			"/collections":             page(`<a class="collection-block-item" href="/collections/mics">mics</a><a href="/other">other</a>`),
			"/collections/mics":        page(`<div class="product-item"><a href="/products/acme-one">one</a></div><a class="pagination__next" href="/collections/mics?page=2">next</a>`),
			"/collections/mics?page=2": page(`<div class="product-item"><a href="/products/acme-two">two</a></div>`),
			"/products/acme-one":       page(`<div class="product-meta"><h1>One</h1></div><span class="product-meta__sku-number">1</span><span class="price">Sale price$1,299.50</span><span class="product-form__inventory">In stock, 3 units</span>`),
			"/products/acme-two":       page(`<div class="product-meta"><h1>Two</h1></div><span class="price">$5</span>`),
		})
		o := crawl.Options{Fetcher: site, Scope: crawl.ScopeOptions{IgnoreSitemaps: true}}
		require.NoError(t, title(t.Context(), o))
		require.Zero(t, site.Count("/docs"))
		require.NoError(t, titles(t.Context(), o))
		require.Equal(t, 1, site.Count("/docs"))
		file := filepath.Join(dir, "products.jsonl")
		require.NoError(t, products(t.Context(), o, file))
		require.ElementsMatch(t, []string{
			`{"URL":"https://warehouse-theme-metal.myshopify.com/products/acme-one","Manufacturer":"acme","Title":"One","SKU":"1","Price":1299.5,"InStock":true}`,
			`{"URL":"https://warehouse-theme-metal.myshopify.com/products/acme-two","Manufacturer":"acme","Title":"Two","SKU":"","Price":5,"InStock":false}`,
		}, linesOf(t, file))
		require.Zero(t, site.Count("/other"))
	})
}
