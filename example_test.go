package crawl_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/treadlight/crawl"
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

// Pages is the shortest way to a crawl: a loop.
func ExampleCrawler_Pages() {
	url, stop := serve()
	defer stop()

	cfg := crawl.DefaultConfig()
	cfg.RateLimit.InitialRPS, cfg.RateLimit.MaxRPS = 50, 100 // it is our own server
	c, err := crawl.New(cfg)
	if err != nil {
		log.Fatal(err)
	}
	n := 0
	for page, err := range c.Pages(context.Background(), url) {
		if err != nil {
			log.Fatal(err)
		}
		if page.Status == 200 && len(page.Body) > 0 {
			n++
		}
	}
	fmt.Println(n, "pages")
	// Output: 5 pages
}

// Run with a handler is for programs that do their work in passing.
func ExampleCrawler_Run() {
	url, stop := serve()
	defer stop()

	cfg := crawl.DefaultConfig()
	cfg.RateLimit.InitialRPS, cfg.RateLimit.MaxRPS = 50, 100
	cfg.MaxPages = 1
	cfg.OnPage = func(_ context.Context, page *crawl.Page) error {
		fmt.Println(page.Status, page.ContentType, len(page.Links), "links")
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

	client, err := crawl.Client(crawl.ClientConfig{
		UserAgent:  "feedreader/1.0 (+mailto:ops@example.org)",
		InitialRPS: 50, MaxRPS: 100, AllowPrivate: true, // it is our own server, on this machine
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

	cfg := crawl.DefaultConfig()
	cfg.RateLimit.InitialRPS, cfg.RateLimit.MaxRPS = 50, 100
	cfg.State.Dir, cfg.MaxPages = dir, 2
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
	again := state.Config()
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
