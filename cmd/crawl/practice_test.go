package main

import (
	"fmt"
	"html"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// practiceRow is what there is to know of one thing on a site: a text, a float64 or a []string for each name.
type practiceRow map[string]any

// practiceSite is one of five small sites as people learn scraping on: quotes with pages, a bookshop with a catalogue
// and a page for each book, an area behind a login, quotes that come as one scrolls, and a table of teams. Each knows
// what is on it, so that a crawl can be compared with the truth. Their markup follows those of toscrape.com and
// scrapethissite.com; their words are made up.
type practiceSite struct {
	http.Handler
	Rows []practiceRow
}

var (
	practiceWords = strings.Fields("the a of light water nobody never time courage patience read walk is was will become what one another music; memory, “truth” l’été größer naïve 42 & less than <nothing> silence")
	firstNames    = strings.Fields("Ada Émile Jorge Mary Søren Toni Albert Zadie Haruki O’Neil")
	lastNames     = strings.Fields("Lovelace Zola Borges Shelley Kierkegaard Morrison Camus Smith-Jones Murakami Brontë")
	quoteTags     = strings.Fields("life love humor books truth be-yourself science")
	bookGenres    = []string{"Travel", "Mystery", "Historical Fiction", "Sequential Art"}
	bookRatings   = []string{"", "One", "Two", "Three", "Four", "Five"}
	teamCities    = strings.Fields("Boston Calgary Chicago Detroit Hartford Montréal Quebec Toronto Winnipeg")
	teamMascots   = strings.Fields("Bruins Flames Blackhawks Wings Whalers Canadiens Nordiques Leafs Jets")
	escapeHTML    = html.EscapeString
	practiceHead  = "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"UTF-8\"><title>%s</title><link rel=\"stylesheet\" href=\"/static/main.css\"></head><body><div class=\"container\">\n"
)

const practiceFoot = "</div><footer class=\"footer\"><p>Made for practice. <a href=\"/static/terms.html\">Terms</a></p></footer></body></html>"

func oneOf[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

func sentenceOf(r *rand.Rand, n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = oneOf(r, practiceWords)
	}
	start := []rune(strings.Join(all, " "))
	return strings.ToUpper(string(start[:1])) + string(start[1:]) + "."
}

func someOf(r *rand.Rand, from []string) []string {
	var all []string
	for _, s := range from {
		if r.IntN(3) == 0 {
			all = append(all, s)
		}
	}
	return all
}

func quotesOf(seed uint64, n int) []practiceRow {
	r := rand.New(rand.NewPCG(seed, 1))
	rows := make([]practiceRow, n)
	for i := range rows {
		rows[i] = practiceRow{"text": "“" + strconv.Itoa(i+1) + " " + sentenceOf(r, 4+r.IntN(20)) + "”", "author": oneOf(r, firstNames) + " " + oneOf(r, lastNames), "tags": someOf(r, quoteTags)}
	}
	return rows
}

func slugOf(s string) string { return url.PathEscape(strings.ReplaceAll(s, " ", "-")) }

func pageNumber(s string) int {
	if n, err := strconv.Atoi(s); err == nil && n > 0 {
		return n
	}
	return 1
}

func partOf(rows []practiceRow, n, per int) []practiceRow {
	from := min((n-1)*per, len(rows))
	return rows[from:min(from+per, len(rows))]
}

func writePage(w http.ResponseWriter, title, body string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = fmt.Fprintf(w, practiceHead+"%s"+practiceFoot, escapeHTML(title), body) // who does not read it is not told
}

// quoteHTML is the markup of one, as all three sites of quotes have it.
func quoteHTML(q practiceRow, member bool) string {
	var b strings.Builder
	author := q["author"].(string)
	fmt.Fprintf(&b, `<div class="quote" itemscope itemtype="http://schema.org/CreativeWork"><span class="text" itemprop="text">%s</span><span>by <small class="author" itemprop="author">%s</small> `, escapeHTML(q["text"].(string)), escapeHTML(author))
	fmt.Fprintf(&b, `<a href="/author/%s">(about)</a>`, slugOf(author))
	if member {
		fmt.Fprintf(&b, ` - <a href="http://goodreads.com/author/show/%s">(Goodreads page)</a>`, slugOf(author))
	}
	list := q["tags"].([]string)
	fmt.Fprintf(&b, `</span><div class="tags">Tags: <meta class="keywords" itemprop="keywords" content="%s" />`, escapeHTML(strings.Join(list, ",")))
	for _, tag := range list {
		fmt.Fprintf(&b, ` <a class="tag" href="/tag/%s/page/1/">%s</a>`, tag, tag)
	}
	b.WriteString("</div></div>\n")
	return b.String()
}

func pagerHTML(n, per, all int, path string) string {
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

const topTagsHTML = `<div class="col-md-4 tags-box"><h2>Top Ten tags</h2><span class="tag-item"><a class="tag" href="/tag/love/">love</a></span><span class="tag-item"><a class="tag" href="/tag/life/">life</a></span></div>`

// quotesSite is ten quotes to a page: /, /page/2/ and so on, with pages of authors and tags beside them.
func quotesSite(seed uint64, n int) *practiceSite {
	rows := quotesOf(seed, n)
	list := func(w http.ResponseWriter, r *http.Request) {
		at := pageNumber(r.PathValue("n"))
		var b strings.Builder
		b.WriteString(`<h1><a href="/">Quotes to Scrape</a></h1><p><a href="/login">Login</a></p><div class="row"><div class="col-md-8">`)
		for _, q := range partOf(rows, at, 10) {
			b.WriteString(quoteHTML(q, false))
		}
		writePage(w, "Quotes to Scrape", b.String()+pagerHTML(at, 10, len(rows), "/page/%d/")+"</div>"+topTagsHTML+"</div>")
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", list)
	mux.HandleFunc("GET /page/{n}/{$}", list)
	mux.HandleFunc("GET /author/{name}", func(w http.ResponseWriter, r *http.Request) {
		writePage(w, "Author", `<div class="author-details"><h3 class="author-title">`+escapeHTML(r.PathValue("name"))+`</h3></div>`)
	})
	mux.HandleFunc("GET /tag/{rest...}", func(w http.ResponseWriter, r *http.Request) { // which has some of the same quotes again
		tag, _, _ := strings.Cut(r.PathValue("rest"), "/")
		var b strings.Builder
		for _, q := range rows {
			if strings.Contains(strings.Join(q["tags"].([]string), " "), tag) {
				b.WriteString(quoteHTML(q, false))
			}
		}
		writePage(w, "Quotes by tag", b.String())
	})
	return &practiceSite{mux, rows}
}

// booksSite is a shop: twenty books to a page of the catalogue, and a page for each, which alone has all there is to know.
func booksSite(seed uint64, n int) *practiceSite {
	r := rand.New(rand.NewPCG(seed, 2))
	rows := make([]practiceRow, n)
	for i := range rows {
		title := strings.TrimSuffix(sentenceOf(r, 2+r.IntN(9)), ".")
		rows[i] = practiceRow{
			"title": title, "price": float64(1000+r.IntN(5000)) / 100, "rating": oneOf(r, bookRatings[1:]), "stock": float64(1 + r.IntN(22)), "category": oneOf(r, bookGenres),
			"upc": fmt.Sprintf("%016x", r.Uint64()), "reviews": float64(r.IntN(3)), "description": sentenceOf(r, 30) + " ...more",
			"path": fmt.Sprintf("/catalogue/book-%d_%d/index.html", i%7, 1000-i),
		}
	}
	pound := func(q practiceRow) string { return fmt.Sprintf("£%.2f", q["price"]) }
	list := func(w http.ResponseWriter, r *http.Request) {
		at := pageNumber(strings.TrimSuffix(strings.TrimPrefix(r.PathValue("page"), "page-"), ".html"))
		var b strings.Builder
		b.WriteString(`<ul class="breadcrumb"><li><a href="/index.html">Home</a></li></ul><section><ol class="row">`)
		for _, q := range partOf(rows, at, 20) {
			title, short := q["title"].(string), q["title"].(string)
			if runes := []rune(title); len(runes) > 20 {
				short = string(runes[:18]) + " ..."
			}
			href := strings.TrimPrefix(q["path"].(string), "/catalogue/")
			if r.PathValue("page") == "" {
				href = "catalogue/" + href
			}
			fmt.Fprintf(&b, `<li class="col-xs-6"><article class="product_pod"><div class="image_container"><a href="%s"><img src="/media/x.jpg" alt="%s" class="thumbnail"></a></div><p class="star-rating %s"><i class="icon-star"></i></p><h3><a href="%[1]s" title="%[2]s">%[4]s</a></h3><div class="product_price"><p class="price_color">%[5]s</p><p class="instock availability"><i class="icon-ok"></i> In stock</p></div></article></li>`,
				href, escapeHTML(title), q["rating"], escapeHTML(short), pound(q))
		}
		path := "page-%d.html"
		if r.PathValue("page") == "" {
			path = "catalogue/page-%d.html"
		}
		writePage(w, "All products", b.String()+"</ol>"+pagerHTML(at, 20, len(rows), path)+"</section>")
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", list)
	mux.HandleFunc("GET /index.html", list)
	mux.HandleFunc("GET /catalogue/{page}", list)
	for i, q := range rows {
		mux.HandleFunc("GET "+q["path"].(string), func(w http.ResponseWriter, _ *http.Request) {
			also := rows[(i+1)%len(rows)]
			writePage(w, q["title"].(string), fmt.Sprintf(`<ul class="breadcrumb"><li><a href="/index.html">Home</a></li><li><a href="/">Books</a></li><li><a href="/category/x.html">%s</a></li><li class="active">%s</li></ul>
<article class="product_page"><div class="row"><div class="col-sm-6 product_main"><h1>%[2]s</h1><p class="price_color">%[3]s</p><p class="instock availability"><i class="icon-ok"></i>

    In stock (%.0[4]f available)

</p><p class="star-rating %[5]s"><i class="icon-star"></i></p></div></div><div id="product_description" class="sub-header"><h2>Product Description</h2></div><p>%[6]s</p>
<table class="table table-striped"><tr><th>UPC</th><td>%[7]s</td></tr><tr><th>Product Type</th><td>Books</td></tr><tr><th>Price (excl. tax)</th><td>%[3]s</td></tr><tr><th>Availability</th><td>In stock (%.0[4]f available)</td></tr><tr><th>Number of reviews</th><td>%.0[8]f</td></tr></table></article>
<section><h2>Recently viewed</h2><article class="product_pod"><h3><a href="%[9]s">%[10]s</a></h3><p class="price_color">%[11]s</p></article></section>`,
				q["category"], escapeHTML(q["title"].(string)), pound(q), q["stock"], q["rating"], escapeHTML(q["description"].(string)), q["upc"], q["reviews"], also["path"], escapeHTML(also["title"].(string)), pound(also)))
		})
	}
	return &practiceSite{mux, rows}
}
