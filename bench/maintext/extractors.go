package main

import (
	"bytes"
	"io"
	"net/url"
	"strings"

	"codeberg.org/readeck/go-readability/v2"
	trafilatura "github.com/markusmobius/go-trafilatura"
	"golang.org/x/net/html"

	"github.com/treadlight/crawl/internal/web/dom"
	"github.com/treadlight/crawl/internal/web/readable"
)

// extractors are what is measured, by name: each reads the main text of a page.
type extractor struct {
	name string
	text func(page []byte, at *url.URL) string
}

var extractors = []extractor{
	{"ours", func(page []byte, at *url.URL) string { return readable.Read(dom.Parse(page), at).Text() }},
	{"body", func(page []byte, _ *url.URL) string {
		d := dom.Parse(page)
		return dom.TextWithin(d.Root, 1<<20, nil)
	}},
	{"readability", byReadability},
	{"trafilatura", byTrafilatura(trafilatura.Options{HtmlDateMode: trafilatura.Disabled})},
	{"trafilatura-fallback", byTrafilatura(trafilatura.Options{EnableFallback: true, HtmlDateMode: trafilatura.Disabled})},
	{"trafilatura-fallback-dated", byTrafilatura(trafilatura.Options{EnableFallback: true})},
	{"trafilatura-recall", byTrafilatura(trafilatura.Options{EnableFallback: true, Focus: trafilatura.FavorRecall, HtmlDateMode: trafilatura.Disabled})},
	{"trafilatura-precision", byTrafilatura(trafilatura.Options{EnableFallback: true, Focus: trafilatura.FavorPrecision, HtmlDateMode: trafilatura.Disabled})},
}

func byReadability(page []byte, at *url.URL) string {
	p := readability.NewParser()
	a, err := p.Parse(bytes.NewReader(page), at)
	if err != nil || a.Node == nil {
		return ""
	}
	var b strings.Builder
	_ = a.RenderText(&b)
	return b.String()
}

func byTrafilatura(o trafilatura.Options) func([]byte, *url.URL) string {
	return func(page []byte, at *url.URL) string {
		o.OriginalURL = at
		root, err := html.Parse(io.Reader(bytes.NewReader(page)))
		if err != nil {
			return ""
		}
		r, err := trafilatura.ExtractDocument(root, o)
		if err != nil {
			return ""
		}
		return r.ContentText
	}
}
