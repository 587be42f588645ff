package docs_test

import (
	"context"
	"iter"
	"os"
	"path"
	"path/filepath"

	"github.com/treadlight/crawl"
)

// What follows is the code of docs/how-to/coming-from-scrapy.md, in its order.

// spider crawls from seeds by the routes of o, and writes what they emit to a file of JSON lines.
func spider[T any](ctx context.Context, o crawl.Options, file string, seeds ...string) error {
	items, err := crawl.Items[T](file, nil)
	if err != nil {
		return err
	}
	defer items.Close()
	o.Sinks = append(o.Sinks, items)
	c, err := crawl.New(o)
	if err != nil {
		return err
	}
	return c.Run(ctx, seeds...)
}

func texts(elements iter.Seq[crawl.Element]) (all []string) {
	for e := range elements {
		all = append(all, e.Text())
	}
	return all
}

func savePages(ctx context.Context, o crawl.Options, dir string) error {
	c, err := crawl.New(o)
	if err != nil {
		return err
	}
	for page, err := range c.Crawl(ctx, "https://quotes.toscrape.com/page/1/", "https://quotes.toscrape.com/page/2/") {
		if err != nil {
			return err
		}
		name := filepath.Join(dir, "quotes-"+path.Base(page.URL.Path)+".html")
		if err := os.WriteFile(name, page.Body, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func quotes(ctx context.Context, o crawl.Options, file, seed string) error {
	o.Router = crawl.NewRouter()
	o.Router.Handle("/{path...}", func(_ context.Context, p *crawl.Page) error {
		for q := range p.Find("div.quote") {
			text, author := q.First("span.text").Text(), q.First("small.author").Text()
			if err := p.Emit(map[string]any{"text": text, "author": author, "tags": texts(q.Find("a.tag"))}); err != nil {
				return err
			}
		}
		p.Follow(p.First("li.next a").Attr("href"))
		return nil
	})
	return spider[map[string]any](ctx, o, file, seed)
}

type Author struct{ Name, Born, Bio string }

func authors(ctx context.Context, o crawl.Options, file string) error {
	o.Router = crawl.NewRouter()
	o.Router.Handle("/author/{name...}", func(_ context.Context, p *crawl.Page) error {
		return p.Emit(Author{p.First(".author-title").Text(), p.First(".author-born-date").Text(), p.First(".author-description").Text()})
	})
	o.Router.Handle("/{path...}", func(_ context.Context, p *crawl.Page) error {
		for a := range p.Find(".author + a, li.next a") {
			p.Follow(a.Attr("href"))
		}
		return nil
	})
	return spider[Author](ctx, o, file, "https://quotes.toscrape.com/")
}

func quotesOf(ctx context.Context, o crawl.Options, file, tag string) error {
	return quotes(ctx, o, file, "https://quotes.toscrape.com/tag/"+tag+"/")
}
