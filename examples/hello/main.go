// Command hello prints each page of a site.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/treadlight/crawl"
)

var pace crawl.PolitenessOptions // zero: one request a second to begin with, ten at most

func run(ctx context.Context, out io.Writer, seed string) error {
	c, err := crawl.New(crawl.Options{Politeness: pace})
	if err != nil {
		return err
	}
	for page, err := range c.Crawl(ctx, seed) {
		if err != nil {
			return err
		}
		if page.OK() {
			fmt.Fprintln(out, page.Status, page.URL, page.Title())
		}
	}
	return nil
}

func main() {
	if err := run(context.Background(), os.Stdout, os.Args[1]); err != nil {
		log.Fatal(err)
	}
}
