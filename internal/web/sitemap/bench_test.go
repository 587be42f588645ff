package sitemap_test

import (
	"bytes"
	"encoding/xml"
	"testing"

	"github.com/treadlight/crawl/internal/web/sitemap"
)

// BenchmarkRead reads a sitemap as large as the protocol allows, next to what the standard
// library's tokenizer takes for it without resolving anything.
func BenchmarkRead(b *testing.B) {
	body := urlset(sitemap.MaxURLs)
	base := parseURL(b, "http://a.test/sitemap.xml")
	run := func(name string, size int, read func() int) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if n := read(); n != sitemap.MaxURLs {
					b.Fatalf("%d URLs", n)
				}
			}
		})
	}
	reading := func(doc []byte) func() int {
		return func() int {
			return sitemap.Read(sitemap.Document{Body: doc, Base: base}, func(sitemap.Entry) bool { return true }).URLs
		}
	}
	run("own", len(body), reading(body))
	run("own zipped", len(body), reading(zipped(b, body)))
	run("encoding-xml tokens", len(body), func() (n int) {
		d := xml.NewDecoder(bytes.NewReader(body))
		for {
			tok, err := d.RawToken()
			if err != nil {
				return n
			}
			if end, ok := tok.(xml.EndElement); ok && end.Name.Local == "loc" {
				n++
			}
		}
	})
}
