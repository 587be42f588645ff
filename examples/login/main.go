// Command login fills in a form and crawls what only the session shows.
package main

import (
	"context"
	"io"
	"log"
	"net/http/cookiejar"
	"net/url"
	"os"

	"github.com/treadlight/crawl"
)

var pace crawl.PolitenessOptions

func run(ctx context.Context, out io.Writer, login string) error {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return err
	}
	r, say := crawl.NewRouter(), log.New(out, "", 0) // a logger, since handlers run at the same time
	r.Handle("/login", func(_ context.Context, p *crawl.Page) error {
		form := url.Values{
			"user": {"ann"}, "password": {os.Getenv("PASSWORD")}, "token": {p.First("input[name=token]").Attr("value")},
		}
		action := p.First("form").Attr("action")
		p.Follow(action, crawl.WithBody("application/x-www-form-urlencoded", []byte(form.Encode())), crawl.WithLabel("in"))
		return nil
	})
	r.Handle("label:in", func(_ context.Context, p *crawl.Page) error {
		for a := range p.Find("a") {
			p.Follow(a.Attr("href"))
		}
		return nil
	})
	r.Handle("/orders/{id}", func(_ context.Context, p *crawl.Page) error {
		say.Println(p.URL.Path, p.First("h1").Text())
		return nil
	})
	c, err := crawl.New(crawl.Options{Politeness: pace, Router: r, CookieJar: jar, HandlersFollow: true})
	if err != nil {
		return err
	}
	return c.Run(ctx, login)
}

func main() {
	if err := run(context.Background(), os.Stdout, os.Args[1]); err != nil {
		log.Fatal(err)
	}
}
