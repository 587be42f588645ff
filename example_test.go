package crawl_test

import (
	"context"
	"fmt"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/crawltest"
	"github.com/treadlight/crawl/internal/lab/testsite"
)

// serve starts a small made-up site on loopback, in place of a real one.
func serve() (url string, stop func()) {
	site, err := testsite.New(testsite.Uniform(1, 5, 0))
	if err != nil {
		log.Fatal(err)
	}
	if err := site.Listen(); err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := site.Run(ctx); err != nil {
			log.Print(err)
		}
	}()
	return site.URL(0), func() { cancel(); <-done }
}

// The shortest program: a loop. A Fetcher answers here in place of the network.
func ExampleCrawler_Crawl() {
	ctx := context.Background()
	c, err := crawl.New(crawl.Options{Fetcher: crawltest.Numbered(2)})
	if err != nil {
		log.Fatal(err)
	}
	for page, err := range c.Crawl(ctx, "https://example.com/") {
		if err != nil {
			log.Fatal(err)
		}
		if page.OK() {
			fmt.Println(page.URL, page.Status, page.Title(), page.Text())
		}
	}
	// Output:
	// https://example.com/ 200 1 next
	// https://example.com/2 200 2 next
}

// A scraper of lists and details. Without Sinks its items are printed.
func ExampleRouter() {
	ctx := context.Background()
	type Book struct{ Title, Price, From string }
	r := crawl.NewRouter()
	r.Handle("/catalogue/page-{n}", func(_ context.Context, p *crawl.Page) error {
		for el := range p.Find("article.product h3 a") {
			p.Follow(el.Attr("href"), crawl.WithMeta("list", p.URL.Path), crawl.WithPriority(1))
		}
		return nil
	})
	r.Handle("/catalogue/{name}/index.html", func(_ context.Context, p *crawl.Page) error {
		return p.Emit(Book{Title: p.First("h1").Text(), Price: p.First(".price_color").Text(), From: p.Meta("list")})
	})
	c, err := crawl.New(crawl.Options{
		Router:     r,
		Fetcher:    books, // in place of the network, so that it need not be polite
		Politeness: crawl.PolitenessOptions{Strategy: "off"},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := c.Run(ctx, "https://books.example/"); err != nil {
		log.Fatal(err)
	}
	// Unordered output:
	// {"Title":"A Light in the Attic","Price":"£51.77","From":"/catalogue/page-1"}
	// {"Title":"Soumission","Price":"£50.10","From":"/catalogue/page-1"}
}

var books = crawltest.NewSite(map[string]crawltest.Page{
	"/":                                {Body: `<a href=/catalogue/page-1>Books</a>`},
	"/catalogue/page-1":                {Body: `<article class=product><h3><a href=attic/index.html>A Light</a></h3></article><article class=product><h3><a href=soumission/index.html>Soumission</a></h3></article>`},
	"/catalogue/attic/index.html":      {Body: `<h1>A Light in the Attic</h1><p class=price_color>£51.77</p>`},
	"/catalogue/soumission/index.html": {Body: `<h1>Soumission</h1><p class=price_color>£50.10</p>`},
})

// Run with a handler is for programs that do their work in passing.
func ExampleCrawler_Run() {
	url, stop := serve()
	defer stop()

	cfg := crawl.Options{}
	cfg.Politeness.InitialRPS, cfg.Politeness.MaxRPS = 50, 100
	cfg.MaxPages = 1
	cfg.OnPage = func(_ context.Context, page *crawl.Page) error {
		fmt.Println(page.Status, page.ContentType, len(page.Links()), "links")
		return nil
	}
	c, err := crawl.New(cfg)
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := c.Run(ctx, url); err != nil {
		log.Fatal(err)
	}
	fmt.Fprintln(os.Stdout, c.Snapshot().State)
	// Output:
	// 200 text/html 4 links
	// limit
}

// Client is for programs that ask for URLs of their own: an http.Client that is polite.
func ExampleClient() {
	url, stop := serve()
	defer stop()

	client, err := crawl.NewClient(crawl.ClientConfig{
		Politeness: crawl.PolitenessOptions{InitialRPS: 50, MaxRPS: 100},
		UserAgent:  "feedreader/1.0 (+mailto:ops@example.org)", AllowPrivate: true, // it is our own server, on this machine
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	for range 3 {
		res, err := client.Get(url)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(res.Status)
		if err := res.Body.Close(); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(client.Snapshot().Requests, "requests")
	// Output:
	// 200 OK
	// 200 OK
	// 200 OK
	// 3 requests
}

// A crawl that is kept goes on after whatever ended it, here a limit, with the settings
// and the seeds it was begun with.
func ExampleOpenState() {
	url, stop := serve()
	defer stop()
	dir, err := os.MkdirTemp("", "crawl")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	cfg := crawl.Options{}
	cfg.Politeness.InitialRPS, cfg.Politeness.MaxRPS = 50, 100
	cfg.StateDir, cfg.MaxPages = dir, 2
	c, err := crawl.New(cfg)
	if err != nil {
		log.Fatal(err)
	}
	if err := c.Run(context.Background(), url); err != nil {
		log.Fatal(err)
	}
	fmt.Println(c.Snapshot().Pages, "pages")

	// Another day, in another process:
	state, err := crawl.OpenState(crawl.StateConfig{Dir: dir})
	if err != nil {
		log.Fatal(err)
	}
	again := state.Options()
	again.MaxPages = 0 // no limit
	c, err = crawl.New(again)
	if err != nil {
		log.Fatal(err)
	}
	if err := c.Run(context.Background()); err != nil {
		log.Fatal(err)
	}
	fmt.Println(c.Snapshot().Pages, "more")
	// Output:
	// 2 pages
	// 3 more
}

type versions map[string]string

func (v versions) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	version, found := v[r.URL.Path]
	if !found {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("ETag", `"`+version+`"`)
	if r.Header.Get("If-None-Match") == `"`+version+`"` {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("Content-Type", "text/html")
	fmt.Fprintf(w, "<title>%s %s</title>", r.URL.Path, version)
	for _, path := range slices.Sorted(maps.Keys(v)) { // or no two answers were the same
		fmt.Fprintf(w, "<a href=%s>x</a>", path)
	}
}

// A crawl that is done is visited again to see what has changed.
func ExampleOpenAgain() {
	var site atomic.Pointer[versions]
	site.Store(&versions{"/": "1", "/news": "1"})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { site.Load().ServeHTTP(w, r) }))
	defer server.Close()
	dir, err := os.MkdirTemp("", "crawl")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	cfg := crawl.Options{}
	cfg.Politeness.InitialRPS, cfg.Politeness.MaxRPS = 50, 100
	cfg.StateDir, cfg.Scope.IgnoreSitemaps = dir, true
	c, err := crawl.New(cfg)
	if err != nil {
		log.Fatal(err)
	}
	if err := c.Run(context.Background(), server.URL); err != nil {
		log.Fatal(err)
	}

	// Another day, in another process:
	site.Store(&versions{"/": "1", "/news": "2"})
	state, err := crawl.OpenAgain(crawl.StateConfig{Dir: dir}, crawl.Again{})
	if err != nil {
		log.Fatal(err)
	}
	c, err = crawl.New(state.Options())
	if err != nil {
		log.Fatal(err)
	}
	for page, err := range c.Crawl(context.Background()) {
		if err != nil {
			log.Fatal(err)
		}
		if page.Change == "changed" {
			fmt.Println("changed:", page.Title())
		}
	}
	fmt.Println(c.Snapshot().Changes)
	// Output:
	// changed: /news 2
	// map[changed:1 unchanged:1]
}
