package testsite

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
)

// BenchmarkPage is the cost of generating one page of a full-sized site.
func BenchmarkPage(b *testing.B) {
	site, err := New(Uniform(1, 1000, 0))
	if err != nil {
		b.Fatal(err)
	}
	h := site.hosts[0]
	var buf []byte
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		buf = h.appendPage(buf[:0], 1+n%999)
	}
}

// BenchmarkHandler is what the site takes away from the crawler it shares a machine
// with, net/http apart: routing, deciding, recording, generating.
func BenchmarkHandler(b *testing.B) {
	site, err := New(Uniform(8, 1000, 0))
	if err != nil {
		b.Fatal(err)
	}
	requests := make([]*http.Request, 1000)
	for n := range requests {
		requests[n] = httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/p/"+strconv.Itoa(max(1, n)), nil)
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		w := discard{header: http.Header{}}
		for n := 0; pb.Next(); n++ {
			site.Handler(n%8).ServeHTTP(w, requests[n%1000])
		}
	})
}

type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}
