//go:build unix

package extract

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	nethtml "golang.org/x/net/html"

	"github.com/treadlight/crawl/internal/web/canonical"
)

// BenchmarkCost has our engine and the bare loop take turns on the same pages, a few milliseconds each, and reports
// what each costs in processor time, the collector's included: on a machine that does other things too, their ratio
// still holds.
func BenchmarkCost(b *testing.B) {
	const turn = 64
	pages := benchPages(b)
	ours, bare := time.Duration(0), time.Duration(0)
	var e Extractor
	var r Result
	read := func(p *benchPage) int {
		if err := e.Page(p.base, "text/html", "", p.body, Options{}, &r); err != nil {
			b.Fatal(err)
		}
		return len(r.Links)
	}
	n := 0
	for at := 0; b.Loop(); at = (at + turn) % len(pages) {
		block := pages[at:min(at+turn, len(pages))]
		ours += cost(b, block, read)
		bare += cost(b, block, tokenize)
		n += len(block)
	}
	b.ReportMetric(float64(ours.Microseconds())/float64(n), "ours-µs/page")
	b.ReportMetric(float64(bare.Microseconds())/float64(n), "tokenizer-µs/page")
	b.ReportMetric(float64(bare)/float64(ours), "ratio")
}

// cost is the processor time that reading pages takes.
func cost(b *testing.B, pages []benchPage, read func(*benchPage) int) time.Duration {
	b.Helper()
	from := cpuTime(b)
	for i := range pages {
		read(&pages[i])
	}
	return cpuTime(b) - from
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

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
