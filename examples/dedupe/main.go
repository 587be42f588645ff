// Command dedupe reads Markdown by an extractor of its own, and says which pages repeat others.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/record"
)

var pace crawl.PolitenessOptions

// markdown finds title, links and text of text/markdown.
type markdown struct{}

var link = regexp.MustCompile(`\[[^\]]*\]\(([^) ]+)`)

func (markdown) Extract(_ context.Context, doc *crawl.Document) (*crawl.Extracted, error) {
	text := string(doc.Body)
	title, _, _ := strings.Cut(strings.TrimPrefix(text, "# "), "\n")
	e := &crawl.Extracted{Title: title, Text: link.ReplaceAllString(text, "")}
	for _, m := range link.FindAllStringSubmatch(text, -1) {
		e.Links = append(e.Links, m[1])
	}
	return e, nil
}

// repeats is a sink that prints which pages repeat others.
type repeats struct{ out io.Writer }

func (r repeats) Write(p *record.Record) (err error) {
	if p.DuplicateOf != "" {
		_, err = fmt.Fprintf(r.out, "%q: %s of %s\n", p.Title, p.Duplicate, p.DuplicateOf)
	}
	return err
}
func (repeats) Flush() error { return nil }
func (repeats) Close() error { return nil }

func run(ctx context.Context, out io.Writer, seed string) error {
	c, err := crawl.New(crawl.Options{
		Politeness: pace, Extractors: map[string]crawl.Extractor{"text/markdown": markdown{}},
		Extract: crawl.ExtractOptions{Duplicates: "exact"}, Sinks: []record.Sink{repeats{out}},
	})
	if err != nil {
		return err
	}
	return c.Run(ctx, seed)
}

func main() {
	fmt.Println("error:", run(context.Background(), os.Stdout, os.Args[1]))
}
