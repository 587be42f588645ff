package main

import (
	"encoding/json"
	"fmt"
	"html"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// practiceRow is what there is to know of one thing on a site: a text, a float64 or a []string for each name.
type practiceRow map[string]any

// practiceSite is one of three small sites as people learn scraping on: quotes with pages, which also come as one scrolls,
// a bookshop with a catalogue and a page for each book, and an area behind a login. Each knows what is on it, so that a
// crawl can be compared with the truth. Their markup follows that of toscrape.com; their words are made up.
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

// quoteHTML is the markup of one, as both sites of quotes have it.
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

// quotesSite is ten quotes to a page: /, /page/2/ and so on, with links to authors and tags, which nobody is to follow. A
// script asks for them as one scrolls: /api/quotes?page=N has ten as JSON.
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
	mux.HandleFunc("GET /api/quotes", func(w http.ResponseWriter, r *http.Request) {
		at := pageNumber(r.URL.Query().Get("page"))
		all := []map[string]any{}
		for _, q := range partOf(rows, at, 10) {
			all = append(all, map[string]any{"text": q["text"], "author": map[string]any{"name": q["author"]}, "tags": append([]string{}, q["tags"].([]string)...)})
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"has_next": at*10 < len(rows), "page": at, "quotes": all, "tag": nil})
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

// practiceMembers is quotes behind a login, with a form whose hidden token counts once, sessions that end, and a way out on
// each page.
type practiceMembers struct {
	practiceSite
	User, Password string
	// Lasts is how many pages a session is good for. Zero: any number.
	Lasts int

	mu       sync.Mutex
	tokens   map[string]bool // of forms that were shown
	sessions map[string]int  // the pages that they had
	given    []string        // of these, all there ever were
	logins   int
	left     int
}

// newMembers makes one; who knows user and password sees /members/1 and so on.
func newMembers(seed uint64, n int, user, password string) *practiceMembers {
	rows := quotesOf(seed, n)
	m := &practiceMembers{User: user, Password: password, tokens: map[string]bool{}, sessions: map[string]int{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /login", m.form)
	mux.HandleFunc("POST /login", m.enter)
	mux.HandleFunc("GET /logout", func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		defer m.mu.Unlock()
		if c, err := r.Cookie("session"); err == nil {
			delete(m.sessions, c.Value)
		}
		m.left++
		http.Redirect(w, r, "/login", http.StatusFound)
	})
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		body := `<p><a href="/login">Login</a></p><a href="/members/1">Members</a>`
		if m.inside(r) {
			body = `<p><a href="/logout">Logout</a></p><a href="/members/1">Members</a>`
		}
		writePage(w, "Quotes to Scrape", body)
	})
	mux.HandleFunc("GET /members/{n}", func(w http.ResponseWriter, r *http.Request) {
		if !m.inside(r) {
			http.Redirect(w, r, "/login?next="+r.URL.Path, http.StatusFound)
			return
		}
		if c, err := r.Cookie("session"); err == nil { // it lives on from page to page
			http.SetCookie(w, &http.Cookie{Name: "session", Value: c.Value, Path: "/", HttpOnly: true, MaxAge: 3600})
		}
		at := pageNumber(r.PathValue("n"))
		var b strings.Builder
		b.WriteString(`<p><a href="/logout">Logout</a></p>`)
		for _, q := range partOf(rows, at, 5) {
			b.WriteString(quoteHTML(q, true))
		}
		writePage(w, "Members", b.String()+pagerHTML(at, 5, len(rows), "/members/%d"))
	})
	m.practiceSite = practiceSite{mux, rows}
	return m
}

// Counts is how often somebody logged in, and left by the link.
func (m *practiceMembers) Counts() (logins, left int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.logins, m.left
}

// Sessions are the secrets of all sessions and forms there were.
func (m *practiceMembers) Sessions() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.given)
}

func (m *practiceMembers) form(w http.ResponseWriter, _ *http.Request) {
	m.mu.Lock()
	token := fmt.Sprintf("%x", rand.Uint64())
	m.tokens[token] = true
	m.given = append(m.given, token)
	m.mu.Unlock()
	http.SetCookie(w, &http.Cookie{Name: "csrf", Value: token, Path: "/", HttpOnly: true})
	writePage(w, "Login", `<form action="/search" id="search"><input name="q"><input type="submit" name="go" value="Search"></form>
<form action="/login" method="post" accept-charset="utf-8"><input type="hidden" name="csrf_token" value="`+token+`"/><label>Username</label><input type="text" class="form-control" id="username" name="username"/><label>Password</label><input type="password" id="password" name="password"/><input type="checkbox" name="remember" value="1" checked><input type="submit" name="login" value="Login"/><button type="submit" name="forgot" value="1" formaction="/forgot">Forgot</button></form>`)
}

func (m *practiceMembers) enter(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	token := r.PostFormValue("csrf_token")
	c, err := r.Cookie("csrf")
	known := m.tokens[token]
	delete(m.tokens, token)
	if !known || err != nil || c.Value != token || r.PostFormValue("username") != m.User || r.PostFormValue("password") != m.Password || r.PostFormValue("login") != "Login" || r.PostForm.Has("forgot") {
		http.Redirect(w, r, "/login?failed=1", http.StatusFound)
		return
	}
	m.logins++
	session := fmt.Sprintf("%x%x", rand.Uint64(), rand.Uint64())
	m.sessions[session] = 0
	m.given = append(m.given, session)
	http.SetCookie(w, &http.Cookie{Name: "session", Value: session, Path: "/", HttpOnly: true})
	http.Redirect(w, r, "/", http.StatusFound)
}

func (m *practiceMembers) inside(r *http.Request) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	c, err := r.Cookie("session")
	if err != nil {
		return false
	}
	had, known := m.sessions[c.Value]
	if !known || m.Lasts > 0 && had >= m.Lasts {
		delete(m.sessions, c.Value)
		return false
	}
	m.sessions[c.Value]++
	return true
}
