// Package practice has five small sites as people learn scraping on: quotes with pages, a bookshop with a catalogue
// and a page for each book, an area behind a login, quotes that come as one scrolls, and a table of teams. Each knows
// what is on it, as [Row]s, so that a crawl can be compared with the truth. Their markup follows those of
// toscrape.com and scrapethissite.com; their words are made up.
package practice

import (
	"fmt"
	"html"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// Row is what there is to know of one thing on a site: a text, a float64 or a []string for each name.
type Row map[string]any

// Site is a handler and the truth about what it serves.
type Site struct {
	http.Handler
	Rows []Row
}

var (
	words    = strings.Fields("the a of light water nobody never time courage patience read walk is was will become what one another music; memory, “truth” l’été größer naïve 42 & less than <nothing> silence")
	first    = strings.Fields("Ada Émile Jorge Mary Søren Toni Albert Zadie Haruki O’Neil")
	last     = strings.Fields("Lovelace Zola Borges Shelley Kierkegaard Morrison Camus Smith-Jones Murakami Brontë")
	tags     = strings.Fields("life love humor books truth be-yourself science")
	genres   = []string{"Travel", "Mystery", "Historical Fiction", "Sequential Art"}
	ratings  = []string{"", "One", "Two", "Three", "Four", "Five"}
	cities   = strings.Fields("Boston Calgary Chicago Detroit Hartford Montréal Quebec Toronto Winnipeg")
	mascots  = strings.Fields("Bruins Flames Blackhawks Wings Whalers Canadiens Nordiques Leafs Jets")
	esc      = html.EscapeString
	htmlHead = "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"UTF-8\"><title>%s</title><link rel=\"stylesheet\" href=\"/static/main.css\"></head><body><div class=\"container\">\n"
)

const htmlFoot = "</div><footer class=\"footer\"><p>Made for practice. <a href=\"/static/terms.html\">Terms</a></p></footer></body></html>"

func pick[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

func sentence(r *rand.Rand, n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = pick(r, words)
	}
	start := []rune(strings.Join(all, " "))
	return strings.ToUpper(string(start[:1])) + string(start[1:]) + "."
}

func some(r *rand.Rand, from []string) []string {
	var all []string
	for _, s := range from {
		if r.IntN(3) == 0 {
			all = append(all, s)
		}
	}
	return all
}

func quotesOf(seed uint64, n int) []Row {
	r := rand.New(rand.NewPCG(seed, 1))
	rows := make([]Row, n)
	for i := range rows {
		rows[i] = Row{"text": "“" + strconv.Itoa(i+1) + " " + sentence(r, 4+r.IntN(20)) + "”", "author": pick(r, first) + " " + pick(r, last), "tags": some(r, tags)}
	}
	return rows
}

func slug(s string) string { return url.PathEscape(strings.ReplaceAll(s, " ", "-")) }

func page(s string) int {
	if n, err := strconv.Atoi(s); err == nil && n > 0 {
		return n
	}
	return 1
}

func part(rows []Row, n, per int) []Row {
	from := min((n-1)*per, len(rows))
	return rows[from:min(from+per, len(rows))]
}

func write(w http.ResponseWriter, title, body string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = fmt.Fprintf(w, htmlHead+"%s"+htmlFoot, esc(title), body) // who does not read it is not told
}

// quote is the markup of one, as all three sites of quotes have it.
func quote(q Row, member bool) string {
	var b strings.Builder
	author := q["author"].(string)
	fmt.Fprintf(&b, `<div class="quote" itemscope itemtype="http://schema.org/CreativeWork"><span class="text" itemprop="text">%s</span><span>by <small class="author" itemprop="author">%s</small> `, esc(q["text"].(string)), esc(author))
	fmt.Fprintf(&b, `<a href="/author/%s">(about)</a>`, slug(author))
	if member {
		fmt.Fprintf(&b, ` - <a href="http://goodreads.com/author/show/%s">(Goodreads page)</a>`, slug(author))
	}
	list := q["tags"].([]string)
	fmt.Fprintf(&b, `</span><div class="tags">Tags: <meta class="keywords" itemprop="keywords" content="%s" />`, esc(strings.Join(list, ",")))
	for _, tag := range list {
		fmt.Fprintf(&b, ` <a class="tag" href="/tag/%s/page/1/">%s</a>`, tag, tag)
	}
	b.WriteString("</div></div>\n")
	return b.String()
}

func pager(n, per, all int, path string) string {
	var b strings.Builder
	b.WriteString(`<nav><ul class="pager">`)
	if n > 1 {
		fmt.Fprintf(&b, `<li class="previous"><a href="`+path+`"><span aria-hidden="true">&larr;</span> Previous</a></li>`, n-1)
	}
	if n*per < all {
		fmt.Fprintf(&b, `<li class="next"><a href="`+path+`">Next <span aria-hidden="true">&rarr;</span></a></li>`, n+1)
	}
	return b.String() + "</ul></nav>"
}

const topTags = `<div class="col-md-4 tags-box"><h2>Top Ten tags</h2><span class="tag-item"><a class="tag" href="/tag/love/">love</a></span><span class="tag-item"><a class="tag" href="/tag/life/">life</a></span></div>`

// Quotes is ten quotes to a page: /, /page/2/ and so on, with pages of authors and tags beside them.
func Quotes(seed uint64, n int) *Site {
	rows := quotesOf(seed, n)
	list := func(w http.ResponseWriter, r *http.Request) {
		at := page(r.PathValue("n"))
		var b strings.Builder
		b.WriteString(`<h1><a href="/">Quotes to Scrape</a></h1><p><a href="/login">Login</a></p><div class="row"><div class="col-md-8">`)
		for _, q := range part(rows, at, 10) {
			b.WriteString(quote(q, false))
		}
		write(w, "Quotes to Scrape", b.String()+pager(at, 10, len(rows), "/page/%d/")+"</div>"+topTags+"</div>")
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", list)
	mux.HandleFunc("GET /page/{n}/{$}", list)
	mux.HandleFunc("GET /author/{name}", func(w http.ResponseWriter, r *http.Request) {
		write(w, "Author", `<div class="author-details"><h3 class="author-title">`+esc(r.PathValue("name"))+`</h3></div>`)
	})
	mux.HandleFunc("GET /tag/{rest...}", func(w http.ResponseWriter, r *http.Request) { // which has some of the same quotes again
		tag, _, _ := strings.Cut(r.PathValue("rest"), "/")
		var b strings.Builder
		for _, q := range rows {
			if strings.Contains(strings.Join(q["tags"].([]string), " "), tag) {
				b.WriteString(quote(q, false))
			}
		}
		write(w, "Quotes by tag", b.String())
	})
	return &Site{mux, rows}
}

// Books is a shop: twenty books to a page of the catalogue, and a page for each, which alone has all there is to know.
func Books(seed uint64, n int) *Site {
	r := rand.New(rand.NewPCG(seed, 2))
	rows := make([]Row, n)
	for i := range rows {
		title := strings.TrimSuffix(sentence(r, 2+r.IntN(9)), ".")
		rows[i] = Row{
			"title": title, "price": float64(1000+r.IntN(5000)) / 100, "rating": pick(r, ratings[1:]), "stock": float64(1 + r.IntN(22)), "category": pick(r, genres),
			"upc": fmt.Sprintf("%016x", r.Uint64()), "reviews": float64(r.IntN(3)), "description": sentence(r, 30) + " ...more",
			"path": fmt.Sprintf("/catalogue/book-%d_%d/index.html", i%7, 1000-i),
		}
	}
	pound := func(q Row) string { return fmt.Sprintf("£%.2f", q["price"]) }
	list := func(w http.ResponseWriter, r *http.Request) {
		at := page(strings.TrimSuffix(strings.TrimPrefix(r.PathValue("page"), "page-"), ".html"))
		var b strings.Builder
		b.WriteString(`<ul class="breadcrumb"><li><a href="/index.html">Home</a></li></ul><section><ol class="row">`)
		for _, q := range part(rows, at, 20) {
			title, short := q["title"].(string), q["title"].(string)
			if runes := []rune(title); len(runes) > 20 {
				short = string(runes[:18]) + " ..."
			}
			href := strings.TrimPrefix(q["path"].(string), "/catalogue/")
			if r.PathValue("page") == "" {
				href = "catalogue/" + href
			}
			fmt.Fprintf(&b, `<li class="col-xs-6"><article class="product_pod"><div class="image_container"><a href="%s"><img src="/media/x.jpg" alt="%s" class="thumbnail"></a></div><p class="star-rating %s"><i class="icon-star"></i></p><h3><a href="%[1]s" title="%[2]s">%[4]s</a></h3><div class="product_price"><p class="price_color">%[5]s</p><p class="instock availability"><i class="icon-ok"></i> In stock</p></div></article></li>`,
				href, esc(title), q["rating"], esc(short), pound(q))
		}
		path := "page-%d.html"
		if r.PathValue("page") == "" {
			path = "catalogue/page-%d.html"
		}
		write(w, "All products", b.String()+"</ol>"+pager(at, 20, len(rows), path)+"</section>")
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", list)
	mux.HandleFunc("GET /index.html", list)
	mux.HandleFunc("GET /catalogue/{page}", list)
	for i, q := range rows {
		mux.HandleFunc("GET "+q["path"].(string), func(w http.ResponseWriter, _ *http.Request) {
			also := rows[(i+1)%len(rows)]
			write(w, q["title"].(string), fmt.Sprintf(`<ul class="breadcrumb"><li><a href="/index.html">Home</a></li><li><a href="/">Books</a></li><li><a href="/category/x.html">%s</a></li><li class="active">%s</li></ul>
<article class="product_page"><div class="row"><div class="col-sm-6 product_main"><h1>%[2]s</h1><p class="price_color">%[3]s</p><p class="instock availability"><i class="icon-ok"></i>

    In stock (%.0[4]f available)

</p><p class="star-rating %[5]s"><i class="icon-star"></i></p></div></div><div id="product_description" class="sub-header"><h2>Product Description</h2></div><p>%[6]s</p>
<table class="table table-striped"><tr><th>UPC</th><td>%[7]s</td></tr><tr><th>Product Type</th><td>Books</td></tr><tr><th>Price (excl. tax)</th><td>%[3]s</td></tr><tr><th>Availability</th><td>In stock (%.0[4]f available)</td></tr><tr><th>Number of reviews</th><td>%.0[8]f</td></tr></table></article>
<section><h2>Recently viewed</h2><article class="product_pod"><h3><a href="%[9]s">%[10]s</a></h3><p class="price_color">%[11]s</p></article></section>`,
				q["category"], esc(q["title"].(string)), pound(q), q["stock"], q["rating"], esc(q["description"].(string)), q["upc"], q["reviews"], also["path"], esc(also["title"].(string)), pound(also)))
		})
	}
	return &Site{mux, rows}
}
