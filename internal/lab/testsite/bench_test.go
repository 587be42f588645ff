package testsite

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/treadlight/crawl/internal/clock"
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

// BenchmarkArrive is the part under a host's lock: record, decide, finish.
func BenchmarkArrive(b *testing.B) {
	site, err := New(one(Host{Limit: Limit{Rate: 1000, Burst: 10}, Robots: Robots{Allow: true}}))
	if err != nil {
		b.Fatal(err)
	}
	h := site.hosts[0]
	t := target{kind: kindPage, n: 3}
	b.ReportAllocs()
	for b.Loop() {
		v := h.arrive(t)
		h.finish(t, v, ending{status: 200, content: true})
	}
}

type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}

// BenchmarkGate is a decision of each kind of limiter, with what it releases. Half of the
// requests are refused.
func BenchmarkGate(b *testing.B) {
	for name, limits := range map[string][]Limiter{
		"leaky-bucket":       {{Kind: kindLeaky, Rate: 1000, Burst: 10}},
		"token-bucket":       {{Kind: kindToken, Rate: 1000, Burst: 10}},
		"fixed-window":       {{Kind: kindFixed, Requests: 1000, Window: time.Second}},
		"sliding-window":     {{Kind: kindSliding, Requests: 1000, Window: time.Second}},
		"sliding-window-log": {{Kind: kindLog, Requests: 1000, Window: time.Second}},
		"concurrency":        {{Kind: kindSlots, Concurrent: 10}},
		"three":              {{Kind: kindToken, Rate: 1000, Burst: 10}, {Kind: kindLog, Requests: 1000, Window: time.Second}, {Kind: kindSlots, Concurrent: 10}},
	} {
		b.Run(name, func(b *testing.B) {
			g := gateOf(b, Host{Limits: limits})
			now := clock.Instant(0)
			b.ReportAllocs()
			for b.Loop() {
				now = now.Add(500 * time.Microsecond)
				if g.admit(now).ok {
					g.release()
				}
			}
		})
	}
}
