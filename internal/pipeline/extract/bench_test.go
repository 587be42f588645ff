package extract

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	nethtml "golang.org/x/net/html"

	"github.com/treadlight/crawl/internal/pipeline/canonical"
)

// benchPages are the pages of installed documentation if there is any, and made-up
// ones of about the same size and density of links if not.
func benchPages(b *testing.B) (pages [][]byte) {
	b.Helper()
	const enough = 200 // spread over the alphabet, for neighbours are alike
	files, _ := filepath.Glob("/usr/share/doc/python3.*/html/*/*.html")
	for i, name := range files {
		if i%(len(files)/enough+1) != 0 {
			continue
		}
		if page, err := os.ReadFile(name); err == nil {
			pages = append(pages, page)
		}
	}
	for i := 0; len(pages) < 50; i++ {
		pages = append(pages, madeUpPage(i))
	}
	return pages
}

// madeUpPage has 160 links in 80 KB.
func madeUpPage(n int) []byte {
	var p bytes.Buffer
	fmt.Fprintf(&p, "<!DOCTYPE html><html lang=en><head><meta charset=utf-8><title>Page %d</title></head><body>\n", n)
	for i := range 160 {
		fmt.Fprintf(&p, `<div class="section" id="s%d"><p>%s<a class="reference internal" href="../p%d/%d.html#s%d" title="x"><code class="xref"><span class="pre">f%d()</span></code></a></p></div>`+"\n",
			i, strings.Repeat("some words of text ", 16), n%7, i, i, i)
	}
	return p.Bytes()
}

func benchBase(b *testing.B) canonical.URL {
	return mustParse(b, "https://docs.example.org/3/library/index.html")
}

func BenchmarkPage(b *testing.B) {
	for _, bb := range []struct {
		name string
		opts Options
	}{{"links", Options{}}, {"everything", Options{Text: true, Resources: true}}} {
		b.Run(bb.name, func(b *testing.B) {
			pages, base := benchPages(b), benchBase(b)
			var e Extractor
			var r Result
			links, size := 0, 0
			b.ReportAllocs()
			n := 0
			for ; b.Loop(); n++ {
				page := pages[n%len(pages)]
				size += len(page)
				_ = e.Page(base, "text/html", "utf-8", page, bb.opts, &r)
				links += len(r.Links)
			}
			b.SetBytes(int64(size / n))
			b.ReportMetric(float64(links)/float64(n), "links/op")
		})
	}
}

// BenchmarkTokenize is what a bare loop over the tokenizer costs, which is the least
// that reading the same pages can.
func BenchmarkTokenize(b *testing.B) {
	pages := benchPages(b)
	size, n := 0, 0
	b.ReportAllocs()
	for ; b.Loop(); n++ {
		page := pages[n%len(pages)]
		size += len(page)
		z := nethtml.NewTokenizer(bytes.NewReader(page))
		for z.Next() != nethtml.ErrorToken {
			continue
		}
	}
	b.SetBytes(int64(size / n))
}

// BenchmarkTokenizeLinks is the bare loop that asks for each link's href as most
// programs do.
func BenchmarkTokenizeLinks(b *testing.B) {
	pages := benchPages(b)
	size, n := 0, 0
	b.ReportAllocs()
	for ; b.Loop(); n++ {
		page := pages[n%len(pages)]
		size += len(page)
		z := nethtml.NewTokenizer(bytes.NewReader(page))
		for tt := z.Next(); tt != nethtml.ErrorToken; tt = z.Next() {
			if tt != nethtml.StartTagToken {
				continue
			}
			name, more := z.TagName()
			for string(name) == "a" && more {
				_, _, more = z.TagAttr()
			}
		}
	}
	b.SetBytes(int64(size / n))
}
