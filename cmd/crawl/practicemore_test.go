package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
)

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

// scrollSite is quotes that a script asks for as one scrolls: /scroll has none, and /api/quotes?page=N ten of them as JSON.
func scrollSite(seed uint64, n int) *practiceSite {
	rows := quotesOf(seed, n)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /scroll", func(w http.ResponseWriter, _ *http.Request) {
		writePage(w, "Quotes to Scrape", `<div class="quotes"></div><script src="/static/jquery.js"></script><script>var page = 1; function load() { $.get("/api/quotes?page=" + page, function(r) { if (r.has_next) page++; }); }</script>`)
	})
	mux.HandleFunc("GET /api/quotes", func(w http.ResponseWriter, r *http.Request) {
		at := pageNumber(r.URL.Query().Get("page"))
		type author struct {
			Link string `json:"goodreads_link"`
			Name string `json:"name"`
			Slug string `json:"slug"`
		}
		type one struct {
			Author author   `json:"author"`
			Tags   []string `json:"tags"`
			Text   string   `json:"text"`
		}
		all := []one{}
		for _, q := range partOf(rows, at, 10) {
			name := q["author"].(string)
			all = append(all, one{author{"/author/show/" + slugOf(name), name, slugOf(name)}, append([]string{}, q["tags"].([]string)...), q["text"].(string)})
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"has_next": at*10 < len(rows), "page": at, "quotes": all, "tag": nil, "top_ten_tags": []any{[]any{"love", 14}}})
	})
	return &practiceSite{mux, rows}
}

// teamsSite is a table of hockey teams, twenty-five to a page: /pages/forms/?page_num=N.
func teamsSite(seed uint64, n int) *practiceSite {
	r := rand.New(rand.NewPCG(seed, 3))
	rows := make([]practiceRow, n)
	for i := range rows {
		wins, losses, gf, ga := r.IntN(60), r.IntN(60), 150+r.IntN(200), 150+r.IntN(200)
		rows[i] = practiceRow{
			"name": oneOf(r, teamCities) + " " + oneOf(r, teamMascots), "year": float64(1990 + i/21), "wins": float64(wins), "losses": float64(losses),
			"pct": float64(1000*wins/max(wins+losses, 1)) / 1000, "gf": float64(gf), "ga": float64(ga), "diff": float64(gf - ga),
		}
		if i > n/2 { // before that nobody counted them
			rows[i]["ot"] = float64(r.IntN(12))
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /pages/forms/{$}", func(w http.ResponseWriter, r *http.Request) {
		at := pageNumber(r.URL.Query().Get("page_num"))
		var b strings.Builder
		b.WriteString(`<h1>Hockey Teams: Forms, Searching and Pagination</h1><form action="/pages/forms/" method="GET" class="form-inline"><input type="text" id="q" name="q" placeholder="Search for Teams"><input type="submit" class="btn" value="Search"></form>
<table class="table"><tr><th> Team Name </th><th> Year </th><th> Wins </th><th> Losses </th><th> OT Losses </th><th> Win % </th><th> Goals For (GF) </th><th> Goals Against (GA) </th><th> + / - </th></tr>`)
		for _, q := range partOf(rows, at, 25) {
			sign, ot := "text-success", ""
			if q["diff"].(float64) < 0 {
				sign = "text-danger"
			}
			if v, ok := q["ot"]; ok {
				ot = fmt.Sprint(v)
			}
			fmt.Fprintf(&b, "<tr class=\"team\">\n<td class=\"name\">\n    %s\n</td>\n<td class=\"year\">\n    %.0f\n</td>\n<td class=\"wins\">\n    %.0f\n</td>\n<td class=\"losses\">\n    %.0f\n</td>\n<td class=\"ot-losses\">\n    %s\n</td>\n<td class=\"pct %s\">\n    %s\n</td>\n<td class=\"gf\">\n    %.0f\n</td>\n<td class=\"ga\">\n    %.0f\n</td>\n<td class=\"diff %[6]s\">\n    %.0[10]f\n</td>\n</tr>\n",
				q["name"], q["year"], q["wins"], q["losses"], ot, sign, strconv.FormatFloat(q["pct"].(float64), 'f', -1, 64), q["gf"], q["ga"], q["diff"])
		}
		b.WriteString(`</table><div class="row"><ul class="pagination">`)
		last := (len(rows) + 24) / 25
		for i := 1; i <= last; i++ {
			fmt.Fprintf(&b, "<li>\n<a href=\"/pages/forms/?page_num=%d\">\n%[1]d\n</a></li>", i)
		}
		if at < last {
			fmt.Fprintf(&b, `<li><a href="/pages/forms/?page_num=%d" aria-label="Next"><span aria-hidden="true">&raquo;</span></a></li>`, at+1)
		}
		writePage(w, "Hockey Teams", b.String()+`</ul><select name="per_page" id="per_page"><option value="25" selected>25</option><option value="50">50</option></select></div>`)
	})
	return &practiceSite{mux, rows}
}
