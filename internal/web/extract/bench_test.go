package extract

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	nethtml "golang.org/x/net/html"

	"github.com/treadlight/crawl/internal/web/canonical"
)

type benchPage struct {
	base canonical.URL
	body []byte
}

// benchPages are the pages of an installed documentation in the order of their paths, so that neighbours link to each
// other as in a crawl, or made-up ones with fewer and longer paragraphs if there is none.
func benchPages(b *testing.B) (pages []benchPage) {
	b.Helper()
	const dir = "/usr/share/doc/libboost-doc/doc/"
	_ = filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(name) != ".html" {
			return err
		}
		body, err := os.ReadFile(name)
		if err == nil {
			pages = append(pages, benchPage{mustParse(b, "https://docs.example.org/"+strings.TrimPrefix(name, dir)), body})
		}
		return err
	})
	for i := 0; len(pages) < 50; i++ {
		pages = append(pages, benchPage{mustParse(b, fmt.Sprintf("https://docs.example.org/p%d/%d.html", i%7, i)), madeUpPage(i)})
	}
	return pages
}

func madeUpPage(n int) []byte {
	var p bytes.Buffer
	fmt.Fprintf(&p, "<!DOCTYPE html><html lang=en><head><meta charset=utf-8><title>Page %d</title></head><body>\n", n)
	for i := range 160 {
		fmt.Fprintf(&p, `<div class="section" id="s%d"><p>%s<a class="reference internal" href="../p%d/%d.html#s%d" title="x"><code class="xref"><span class="pre">f%d()</span></code></a></p></div>`+"\n",
			i, strings.Repeat("some words of text ", 16), n%7, i, i, i)
	}
	return p.Bytes()
}

// reader returns a function that reads a page and counts its links.
func reader(b *testing.B, e *Extractor, opts Options) func(*benchPage) int {
	b.Helper()
	var r Result
	return func(p *benchPage) int {
		if err := e.Page(p.base, "text/html", "", p.body, opts, &r); err != nil {
			b.Fatal(err)
		}
		return len(r.Links)
	}
}

// tokenize is the bare loop that most programs have: every token, each link's href.
func tokenize(p *benchPage) (links int) {
	z := nethtml.NewTokenizer(bytes.NewReader(p.body))
	for tt := z.Next(); tt != nethtml.ErrorToken; tt = z.Next() {
		if tt != nethtml.StartTagToken {
			continue
		}
		name, more := z.TagName()
		for string(name) == "a" && more {
			var key []byte
			if key, _, more = z.TagAttr(); string(key) == "href" {
				links++
			}
		}
	}
	return links
}

// BenchmarkPage reads pages with each engine: ours for links and for all, ours on the tokenizer of x/net/html, and
// the bare loop, which resolves nothing.
func BenchmarkPage(b *testing.B) {
	for _, bb := range []struct {
		name string
		read func(*benchPage) int
	}{
		{"links", reader(b, new(Extractor), Options{})},
		{"everything", reader(b, new(Extractor), Options{Text: true, Resources: true})},
		{"oracle", reader(b, &Extractor{source: &oracle{}}, Options{})},
		{"tokenizer", tokenize},
	} {
		b.Run(bb.name, func(b *testing.B) {
			pages := benchPages(b)
			links, size, n := 0, 0, 0
			b.ReportAllocs()
			for ; b.Loop(); n++ {
				p := &pages[n%len(pages)]
				links += bb.read(p)
				size += len(p.body)
			}
			b.SetBytes(int64(size / n))
			b.ReportMetric(float64(links)/float64(n), "links/op")
		})
	}
}
