package dom

import (
	"bytes"
	"testing"

	"golang.org/x/net/html"
)

// BenchmarkParse is what the feed adds to the parser on a page of the usual kind.
func BenchmarkParse(b *testing.B) {
	page := []byte(plain(256 << 10))
	b.Run("parser", func(b *testing.B) {
		b.SetBytes(int64(len(page)))
		for b.Loop() {
			if _, err := html.ParseWithOptions(bytes.NewReader(page), html.ParseOptionEnableScripting(false)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("feed", func(b *testing.B) {
		b.SetBytes(int64(len(page)))
		for b.Loop() {
			ParseWithin(page, MaxElements, counting(len(page)))
		}
	})
}
