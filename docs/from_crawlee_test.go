package docs_test

import (
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/treadlight/crawl"
)

// What follows is the code of docs/how-to/coming-from-crawlee.md, in its order.

func title(ctx context.Context, o crawl.Options) error {
	o.Depth, o.OnPage = -1, func(_ context.Context, p *crawl.Page) error {
		fmt.Printf("The title of %q is: %s.\n", p.URL, p.Title())
		return nil
	}
	return visit(ctx, o, "https://crawlee.dev/")
}

func titles(ctx context.Context, o crawl.Options) error {
	o.MaxPages, o.OnPage = 20, func(_ context.Context, p *crawl.Page) error {
		fmt.Printf("The title of %q is: %s.\n", p.URL, p.Title())
		return nil
	}
	return visit(ctx, o, "https://crawlee.dev/")
}

func follow(p *crawl.Page, selector, label string) {
	for a := range p.Find(selector) {
		p.Follow(a.Attr("href"), crawl.WithLabel(label))
	}
}

func collections() *crawl.Router {
	r := crawl.NewRouter()
	r.Handle("/collections", func(_ context.Context, p *crawl.Page) error {
		follow(p, "a.collection-block-item", "category")
		return nil
	})
	r.Handle("label:category", func(_ context.Context, p *crawl.Page) error {
		follow(p, ".product-item > a", "detail")
		follow(p, "a.pagination__next", "category")
		return nil
	})
	return r
}

type Product struct {
	URL, Manufacturer, Title, SKU string
	Price                         float64
	InStock                       bool
}

func products(ctx context.Context, o crawl.Options, file string) error {
	o.HandlersFollow, o.MaxPages, o.Router = true, 50, collections()
	o.Router.Handle("label:detail", func(_ context.Context, p *crawl.Page) error {
		manufacturer, _, _ := strings.Cut(path.Base(p.URL.Path), "-")
		_, price, _ := strings.Cut(p.First("span.price").Text(), "$")
		amount, err := strconv.ParseFloat(strings.ReplaceAll(price, ",", ""), 64)
		if err != nil {
			return err
		}
		return p.Emit(Product{
			p.URL.String(), manufacturer, p.First(".product-meta h1").Text(), p.First("span.product-meta__sku-number").Text(),
			amount, strings.Contains(p.First("span.product-form__inventory").Text(), "In stock"),
		})
	})
	return spider[Product](ctx, o, file, "https://warehouse-theme-metal.myshopify.com/collections")
}
