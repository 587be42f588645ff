package crawl_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/record"
)

type site map[string]string

func (s site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, found := s[r.URL.RequestURI()]
	if !found {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	fmt.Fprint(w, body)
}

func fast(s http.Handler, t *testing.T) (crawl.Options, string) {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	cfg := crawl.Options{}
	cfg.Politeness.Strategy, cfg.Politeness.IgnoreRobots, cfg.Scope.IgnoreSitemaps = "off", true, true
	return cfg, server.URL
}

func run(t *testing.T, cfg crawl.Options, seed string) *crawl.Crawler {
	t.Helper()
	c := must(crawl.New(cfg))
	require.NoError(t, c.Run(t.Context(), seed))
	return c
}

func TestPage(t *testing.T) {
	const body = `<html lang=de><head><title> A  shop </title><base href="/goods/">
<script type="application/ld+json">{"@type":"Product"}</script><script type="application/ld+json">{broken</script></head>
<body><h1>Cups</h1><ul><li class=item id=a><a href="cup.html">A <b>cup</b></a><li class="item"><a href=" mug.html ">A mug</a></ul><img src=cup.png></body></html>`
	cfg, url := fast(site{"/": body}, t)
	cfg.MaxPages, cfg.Scope.Resources = 1, true
	var pages []*crawl.Page
	c := must(crawl.New(cfg))
	for page, err := range c.Crawl(t.Context(), url) {
		require.NoError(t, err)
		pages = append(pages, page, page.Clone())
	}
	require.Len(t, pages, 2)
	require.Nil(t, pages[0].Body, "it is over")
	require.Empty(t, pages[0].Text())
	p := pages[1]
	require.True(t, p.OK())
	require.Equal(t, url+"/", p.URL.String())
	require.Equal(t, []any{200, "page", "text/html", "utf-8", 0, 1, "A shop", "de", body},
		[]any{p.Status, p.Kind, p.ContentType, p.Charset, p.Depth, p.Attempt, p.Title(), p.Lang(), string(p.Body)})
	require.Equal(t, []string{url + "/goods/cup.html", url + "/goods/mug.html"}, p.Links())
	require.Equal(t, []string{url + "/goods/cup.png"}, p.Resources())
	require.Equal(t, "Cups A cup A mug", strings.Join(strings.Fields(p.Text()), " "))
	require.Empty(t, p.Param("n"))
	require.Nil(t, p.Values("price"))

	items := slices.Collect(p.Find("li.item"))
	require.Len(t, items, 2)
	require.Equal(t, "a", items[0].Attr("id"))
	require.Equal(t, "li", items[0].Name())
	require.Equal(t, "A cup", items[0].Text())
	require.Equal(t, `<b>cup</b>`, items[0].First("b").HTML())
	require.Equal(t, url+"/goods/mug.html", items[1].First("a").URL("href"))
	require.Equal(t, "A mug", slices.Collect(items[1].XPath("./a"))[0].Text())
	values := slices.Collect(p.XPath("//li/@class"))
	require.Len(t, values, 2)
	require.Equal(t, "item", values[0].Text())
	require.Equal(t, "2", slices.Collect(p.XPath("count(//li)"))[0].Text())
	require.Equal(t, []string{`{"@type":"Product"}`}, collect(p))

	none := p.First("table")
	require.False(t, none.OK())
	require.Equal(t, "", none.Text()+none.Name()+none.HTML()+none.Attr("x")+none.URL("x")+none.First("a").Text())
	require.Empty(t, slices.Collect(none.XPath("//a")))
	require.Panics(t, func() { p.First("li[") })
	require.Panics(t, func() { require.Empty(t, slices.Collect(p.XPath("//li["))) })
	require.Equal(t, crawl.Followed{URL: url + "/goods/x", Reason: "over", Detail: "the handler of the page has returned"}, p.Follow("x"))
}

func collect(p *crawl.Page) (blocks []string) {
	for b := range p.JSONLD() {
		blocks = append(blocks, string(b))
	}
	return blocks
}

// What is not HTML has an empty tree, and what failed says why.
func TestPagesThatAreNone(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, `<a href=moved>1</a><a href=gone>2</a><a href=broken>3</a><a href=data.json>4</a>`)
		case "/moved":
			http.Redirect(w, r, "/data.json", http.StatusFound)
		case "/broken":
			panic(http.ErrAbortHandler)
		case "/data.json":
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"a": "<p>no page</p>"}`)
		default:
			http.NotFound(w, r)
		}
	})
	cfg, url := fast(mux, t)
	cfg.Politeness.Retries = -1
	c := must(crawl.New(cfg))
	got := map[string]string{}
	for p, err := range c.Crawl(t.Context(), url) {
		require.NoError(t, err)
		class := ""
		if e, ok := errors.AsType[*crawl.PageError](p.Err); ok {
			class = e.Class
			require.NotEmpty(t, p.Err.Error())
		}
		got[p.URL.Path] = fmt.Sprint(p.Status, " ", p.OK(), " ", strings.TrimPrefix(p.RedirectTo, url), " ", class, " ", p.First("p").OK(), p.Text() == "")
	}
	require.Equal(t, map[string]string{
		"/": "200 true   false false", "/moved": "302 false /data.json  false false", "/gone": "404 false   false true",
		"/broken": "0 false  network false true", "/data.json": "200 true   false true",
	}, got)
}

func TestRouter(t *testing.T) {
	cfg, url := fast(site{
		"/":                         `<a href=/catalogue/page-1>c</a>`,
		"/catalogue/page-1":         `<article><h3><a href=/catalogue/a-b/index.html>A</a></h3></article><a href=/gone>g</a>`,
		"/catalogue/a-b/index.html": `<h1>A b</h1>`,
	}, t)
	var mu sync.Mutex
	var got []string
	note := func(name string) crawl.HandlerFunc {
		return func(_ context.Context, p *crawl.Page) error {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, name+" "+p.Param("n")+p.Param("name")+" "+p.First("h1").Text())
			return nil
		}
	}
	r := crawl.NewRouter()
	r.Handle("/catalogue/{name}/index.html", note("item"))
	r.Handle("/catalogue/page-{n}", note("list"))
	r.Handle("/{path...}", note("rest"))
	cfg.Router = r
	run(t, cfg, url)
	require.ElementsMatch(t, []string{"rest  ", "list 1 ", "item a-b A b"}, got) // and nothing for /gone, a 404

	for _, tc := range []struct {
		pattern string
		handler crawl.HandlerFunc
		want    string
	}{
		{"/catalogue/page-{x}", note(""), `crawl: pattern "/catalogue/page-{x}" conflicts with "/catalogue/page-{n}": they match the same URLs (page_test.go:`},
		{"https://a.test/", note(""), `crawl: pattern "https://a.test/": leave the scheme out`},
		{"/x", nil, `crawl: the handler of pattern "/x" (page_test.go:`},
	} {
		func() {
			defer func() { require.Contains(t, fmt.Sprint(recover()), tc.want) }()
			r.Handle(tc.pattern, tc.handler)
		}()
	}
}

func TestFollow(t *testing.T) {
	pages := site{"/": `<p>no links</p>`, "/late": "late", "/first": "first", "/dropped": "dropped", "/dropped?b": "b"}
	for i := range 20 {
		pages[fmt.Sprint("/", i)] = "page"
	}
	var order []string // of requests, one at a time
	cfg, url := fast(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		order = append(order, r.URL.RequestURI())
		pages.ServeHTTP(w, r)
	}), t)
	elsewhere := httptest.NewServer(site{"/": "page"})
	defer elsewhere.Close()
	asked := ""
	cfg.Concurrency, cfg.PerHostMax, cfg.Scope.Exclude, cfg.Fetch.AllowPrivate = 1, 1, []string{"secret"}, true
	cfg.Scope.Include = []string{"^" + regexp.QuoteMeta(url)} // which does not hold for what is followed without the scope
	cfg.OnPage = func(_ context.Context, p *crawl.Page) error {
		if p.Label() == "x" {
			asked = p.Method
			require.Equal(t, "other_host", p.Follow("/on").Reason, "its own links are not in scope")
			return nil
		}
		switch p.URL.Path {
		case "/":
			for i := range 20 {
				require.True(t, p.Follow(fmt.Sprint(i)).OK())
			}
			require.True(t, p.Follow("first#x", crawl.WithPriority(2000)).OK())
			require.True(t, p.Follow("late", crawl.WithPriority(-1)).OK())
			require.Equal(t, crawl.Followed{URL: "http://other.test/", Reason: "other_host", Detail: "host other.test is not a seed host"}, p.Follow("http://other.test"))
			require.Equal(t, "excluded", p.Follow("/secret").Reason)
			require.Equal(t, "excluded", p.Follow("http://other.test/secret", crawl.WithoutScope()).Reason)
			require.True(t, p.Follow(elsewhere.URL, crawl.WithoutScope(), crawl.WithMethod("HEAD"), crawl.WithLabel("x")).OK())
			require.Equal(t, "invalid", p.Follow("mailto:a@b.test").Reason)
			require.Equal(t, "invalid", p.Follow("http://[").Reason)
		case "/3":
			p.Follow("/dropped")
			return errors.New("no good")
		case "/4":
			p.Follow("/dropped?b")
			panic("worse")
		}
		return nil
	}
	failed := map[string]string{} // by path
	cfg.Sinks = []record.Sink{sinkFunc(func(r *record.Record) {
		if r.Error != nil {
			failed[strings.TrimPrefix(r.URL, url)] = r.Error.Class + " " + r.Error.Message
		}
	})}
	c := run(t, cfg, url)
	require.Equal(t, "done", c.Snapshot().State)
	require.Len(t, order, 23, order)
	require.Equal(t, "/", order[0])
	require.Equal(t, "HEAD", asked)
	require.Equal(t, "/first", order[1])
	require.Equal(t, "/late", order[22])
	require.Equal(t, map[string]string{"/3": "handler no good", "/4": "handler panic: worse"}, failed)
}

// echo answers with a page, a redirect or not at all, by the path, and keeps what it was asked.
type echo struct {
	mu    sync.Mutex
	asked []string
}

func (e *echo) all() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.asked)
}

func (e *echo) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || r.URL.Path == "/broken" {
		defer panic(http.ErrAbortHandler)
	}
	e.mu.Lock()
	e.asked = append(e.asked, strings.TrimSpace(r.Method+" "+r.RequestURI+" "+r.Header.Get("X-Mine")+" "+r.Header.Get("Content-Type")+" "+string(body)))
	e.mu.Unlock()
	if code := map[string]int{"/moved": http.StatusFound, "/kept": http.StatusTemporaryRedirect}[r.URL.Path]; code != 0 {
		http.Redirect(w, r, "/to"+r.URL.Path, code)
		return
	}
	w.Header().Set("Content-Type", "text/html")
	fmt.Fprint(w, "<a href=/own>own</a>")
}

// What is followed with more than a URL is asked for so, and what was attached comes with the page, over a redirect, and in
// the next run of a crawl that was interrupted.
func TestRequests(t *testing.T) {
	var echo echo
	cfg, url := fast(&echo, t)
	cfg.HandlersFollow, cfg.Concurrency, cfg.Politeness.Retries = true, 1, 2
	cfg.StateDir = filepath.Join(t.TempDir(), "state")
	var got []string
	router := crawl.NewRouter()
	var mu sync.Mutex
	note := func(what string) crawl.HandlerFunc {
		return func(_ context.Context, p *crawl.Page) error {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, what+p.Method+" "+p.URL.Path+" "+p.Meta("from"))
			return nil
		}
	}
	router.Handle("label:form", note("form "))
	router.Handle("label:once more", note("once more "))
	router.Handle("/{path...}", note(""))
	cfg.Router = router
	cfg.OnPage = func(_ context.Context, p *crawl.Page) error {
		if p.URL.Path != "/" {
			return nil
		}
		follow := func(ref string, options ...crawl.FollowOption) {
			f := p.Follow(ref, options...)
			require.True(t, f.OK(), f)
		}
		meta := crawl.WithMeta("from", "home")
		follow("/plain", meta, crawl.WithHeader("X-Mine", "yes"))
		follow("/form", crawl.WithBody("application/x-www-form-urlencoded", []byte("a=1")), crawl.WithLabel("form"), meta)
		follow("/form", crawl.WithBody("application/x-www-form-urlencoded", []byte("a=2")), crawl.WithLabel("form"))
		follow("/form", crawl.WithBody("application/x-www-form-urlencoded", []byte("a=2"))) // seen
		follow("/moved", crawl.WithBody("text/plain", []byte("x")), meta)
		follow("/kept", crawl.WithBody("text/plain", []byte("y")), crawl.WithLabel("form"), meta)
		follow("/head", crawl.WithMethod("HEAD"))
		follow("/broken", crawl.WithMethod("POST"))
		follow("/", crawl.WithAgain("1"), crawl.WithLabel("once more"))
		for _, bad := range []crawl.FollowOption{
			crawl.WithMeta("x", strings.Repeat("x", 1025)), crawl.WithHeader("Host", "other.test"), crawl.WithHeader("a b", "c"),
			crawl.WithMethod("G T"), crawl.WithMethod("CONNECT"), crawl.WithBody("text/plain", make([]byte, 64<<10)),
			crawl.WithMeta("x", "caf\xe9"), crawl.WithMeta("\xff", ""), crawl.WithLabel("\xff"), crawl.WithHeader("X-Mine", "caf\xe9"),
			crawl.WithAgain("a\nb"),
		} {
			require.Equal(t, "invalid", p.Follow("/bad", bad).Reason)
		}
		if len(echo.all()) == 1 {
			return crawl.ErrStop // the rest is for the next run
		}
		return nil
	}
	run(t, cfg, url)
	state := must(crawl.OpenState(crawl.StateConfig{Dir: cfg.StateDir}))
	kept := state.Options()
	kept.OnPage, kept.Router, kept.HandlersFollow = cfg.OnPage, cfg.Router, true
	run(t, kept, url)
	require.ElementsMatch(t, []string{
		"GET /", "GET /plain yes", "POST /form  application/x-www-form-urlencoded a=1", "POST /form  application/x-www-form-urlencoded a=2",
		"POST /moved  text/plain x", "GET /to/moved", "POST /kept  text/plain y", "POST /to/kept  text/plain y", "HEAD /head", "POST /broken", "GET /",
	}, echo.all())
	require.ElementsMatch(t, []string{
		"GET /plain home", "form POST /form home", "form POST /form ", "GET /to/moved home", "form POST /to/kept home", "HEAD /head ", "once more GET / ",
	}, got)
}

type (
	book struct {
		Title string `json:"title"`
		On    string `json:"on"`
	}
	note struct{ Text string }
)

func runInto(t *testing.T, cfg crawl.Options, seed string, sinks []record.Sink) {
	t.Helper()
	cfg.Sinks = sinks
	run(t, cfg, seed)
	for _, s := range sinks {
		require.NoError(t, s.Close())
	}
}

// Items are in their files once, whatever ends the process, and those of handlers that fail are not.
func TestEmit(t *testing.T) {
	pages := site{"/": ""}
	for i := range 30 {
		pages["/"] += fmt.Sprintf("<a href=/%d>x</a>", i)
		pages[fmt.Sprint("/", i)] = fmt.Sprintf("<h1>Book %d</h1>", i)
	}
	cfg, url := fast(pages, t)
	dir := t.TempDir()
	cfg.StateDir = filepath.Join(dir, "state")
	var handled atomic.Int64
	handler := func(_ context.Context, p *crawl.Page) error {
		title := p.First("h1").Text()
		if title == "" {
			return nil
		}
		require.NoError(t, p.Emit(book{title, p.URL.Path}))
		require.NoError(t, p.Emit(&note{"of " + title}))
		require.ErrorContains(t, p.Emit(42), "emit int: no sink takes it: add what crawl.Items[int] opens to Options.Sinks, or leave Sinks nil")
		require.ErrorContains(t, p.Emit(func() {}), "unsupported type")
		if p.URL.Path == "/7" {
			return errors.New("it is not to be")
		}
		if handled.Add(1) == 10 {
			return crawl.ErrStop
		}
		return nil
	}
	files := func(position func(string) *record.Position) (all []record.Sink) {
		books := must(crawl.Items[book](filepath.Join(dir, "books.jsonl"), position("books.jsonl")))
		notes := must(crawl.Items[note](filepath.Join(dir, "notes.jsonl"), position("notes.jsonl")))
		return []record.Sink{books, notes}
	}
	cfg.Concurrency, cfg.OnPage = 1, handler
	runInto(t, cfg, url, files(func(string) *record.Position { return nil }))
	file := must(os.OpenFile(filepath.Join(dir, "books.jsonl"), os.O_APPEND|os.O_WRONLY, 0))
	must(file.WriteString("{\"title\":\"what a crash left behind"))
	require.NoError(t, file.Close())

	state := must(crawl.OpenState(crawl.StateConfig{Dir: cfg.StateDir}))
	kept := state.Options()
	kept.OnPage = handler
	runInto(t, kept, url, files(func(name string) *record.Position {
		p := state.Position(filepath.Join(dir, name))
		return &p
	}))
	var want []string
	for i := range 30 {
		if i != 7 {
			want = append(want, fmt.Sprintf(`{"title":"Book %d","on":"/%d"}`, i, i))
		}
	}
	text := must(os.ReadFile(filepath.Join(dir, "books.jsonl")))
	require.ElementsMatch(t, want, strings.Split(strings.TrimSpace(string(text)), "\n"))
	text = must(os.ReadFile(filepath.Join(dir, "notes.jsonl")))
	require.Equal(t, 29, strings.Count(string(text), `{"Text":"of Book `))
}

// Where there are sinks, an item that none takes is an error, which says what to do.
func TestEmitToNobody(t *testing.T) {
	cfg, url := fast(site{"/": ""}, t)
	cfg.Sinks = []record.Sink{}
	var err error
	cfg.OnPage = func(_ context.Context, p *crawl.Page) error { err = p.Emit(&book{}); return nil }
	run(t, cfg, url)
	require.EqualError(t, err, "emit *crawl_test.book: no sink takes it: add what crawl.Items[crawl_test.book] opens to Options.Sinks, or leave Sinks nil to have items printed")
}

// What is wrong with the file is said in words of a program.
func TestItemsOfAnotherCrawl(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.jsonl")
	_, err := crawl.Items[int](path, &record.Position{Path: path, Bytes: 3})
	require.ErrorContains(t, err, "put the file back as it was, or begin the crawl anew with a file that is not there")
	require.NoError(t, os.WriteFile(path, []byte("1\n"), 0o600))
	_, err = crawl.Items[int](path, nil)
	require.ErrorContains(t, err, "is not empty: remove it, choose another file, or give the position to go on from")
}

// A program writes records as the command does, and goes on with a file.
func TestRecordsOfAProgram(t *testing.T) {
	o, url := fast(site{"/": "<title>a</title><h1>1</h1>", "/b": "<title>b</title>"}, t)
	o.Extract.Fields = []string{"n=css:h1"}
	lines := func(name string, seeds ...string) string {
		path := filepath.Join(t.TempDir(), name)
		var at *record.Position
		for _, seed := range seeds {
			w := must(crawl.Records(path, at, "n"))
			o.Sinks = []record.Sink{w}
			run(t, o, seed)
			require.NoError(t, w.Close())
			position := w.Mark()
			at = &position
		}
		text := must(os.ReadFile(path))
		return string(text)
	}
	require.Equal(t, url+"/\n"+url+"/b\n", lines("a.txt", url, url+"/b"))
	require.Regexp(t, `^url,kind,.*,field_n\nhttp.*,1\nhttp.*,b,.*,\n$`, lines("a.csv", url, url+"/b"))
	require.Regexp(t, `^{"url":.*"fields":{"n":"1"}.*}\n{"url".*\n$`, lines("a.jsonl", url, url+"/b"))
	require.True(t, strings.HasPrefix(lines("a.JSONL.gz", url), "\x1f\x8b"))
	for _, name := range []string{"a.warc", "a", "a.xlsx", "a.gz"} {
		_, err := crawl.Records(filepath.Join(t.TempDir(), name), nil)
		require.ErrorContains(t, err, "says no format of records")
	}
	path := filepath.Join(t.TempDir(), "a.csv")
	require.NoError(t, os.WriteFile(path, []byte("x\n"), 0o600))
	_, err := crawl.Records(path, nil)
	require.ErrorContains(t, err, "remove it, choose another file")
}
