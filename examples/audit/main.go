// Command audit asks for what a sitemap lists, and for nothing else, and prints what is wrong with it.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/treadlight/crawl"
)

var pace crawl.PolitenessOptions

func run(ctx context.Context, out io.Writer, sitemap string) error {
	c, err := crawl.New(crawl.Options{Politeness: pace, HandlersFollow: true}) // no links of pages
	if err != nil {
		return err
	}
	good := 0
	for page, err := range c.Crawl(ctx, sitemap) {
		switch {
		case err != nil:
			return err
		case page.Depth == 0: // the sitemap
		case page.Err != nil:
			fmt.Fprintln(out, "failed    ", page.URL, page.Err)
		case page.RedirectTo != "":
			fmt.Fprintln(out, "redirected", page.URL, "->", page.RedirectTo)
		case !page.OK():
			fmt.Fprintln(out, "status", page.Status, page.URL)
		case page.First("link[rel=canonical]").OK() && page.First("link[rel=canonical]").URL("href") != page.URL.String():
			fmt.Fprintln(out, "canonical ", page.URL, "is", page.First("link[rel=canonical]").URL("href"))
		case page.Title() == "":
			fmt.Fprintln(out, "no title  ", page.URL)
		default:
			good++
		}
	}
	fmt.Fprintln(out, good, "pages are as they should be")
	return nil
}

func main() {
	if err := run(context.Background(), os.Stdout, os.Args[1]); err != nil {
		log.Fatal(err)
	}
}
