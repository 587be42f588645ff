package fetch_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/treadlight/crawl/internal/fetch"
)

// pageServer answers every request of a kept connection with the same bytes: as little
// server as there can be in the process that is measured.
func pageServer(b *testing.B, coding string, body []byte) string {
	b.Helper()
	page := fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: %s\r\nContent-Length: %d\r\n\r\n%s", coding, len(body), body)
	return "http://" + loopback(b, func(c net.Conn) {
		in := bufio.NewReader(c)
		for {
			line, err := in.ReadSlice('\n')
			if err != nil {
				return
			}
			if len(bytes.TrimSpace(line)) == 0 {
				if _, err := c.Write(page); err != nil {
					return
				}
			}
		}
	}) + "/"
}

// bareLoop is what anyone would write: a transport and a buffer that is used again.
func bareLoop(b *testing.B, url string) func() {
	b.Helper()
	t := &http.Transport{DisableCompression: true}
	b.Cleanup(t.CloseIdleConnections)
	buf := new(bytes.Buffer)
	return func() {
		req := must(http.NewRequestWithContext(b.Context(), http.MethodGet, url, http.NoBody))
		res := must(t.RoundTrip(req))
		buf.Reset()
		must(io.Copy(buf, res.Body))
		_ = res.Body.Close()
	}
}

func fetchLoop(b *testing.B, req fetch.Request) func() {
	b.Helper()
	c := newClient(b, fetch.Config{AllowPrivate: true})
	return func() { must(c.Fetch(b.Context(), req)).Release() }
}

func page() string {
	var s strings.Builder
	for i := 0; s.Len() < 20_000; i++ {
		fmt.Fprintf(&s, "<p class=x><a href=/page/%x>%d</a></p>\n", i*7919*7919, i)
	}
	return s.String()
}

func BenchmarkFetch(b *testing.B) {
	for _, coding := range []string{"identity", "gzip", "br", "zstd"} {
		b.Run(coding, func(b *testing.B) {
			run := fetchLoop(b, fetch.Request{URL: pageServer(b, coding, coded(b, coding, page()))})
			b.ReportAllocs()
			for b.Loop() {
				run()
			}
		})
	}
	b.Run("bare", func(b *testing.B) {
		run := bareLoop(b, pageServer(b, "identity", []byte(page())))
		b.ReportAllocs()
		for b.Loop() {
			run()
		}
	})
}

// alternate runs both in turn, in batches of 50, so that whatever else the computer does weighs on both. It returns what a
// run took in their best batches, which were disturbed least.
func alternate(b *testing.B, runs [2]func()) (ns [2]float64) {
	b.Helper()
	best := [2]time.Duration{time.Hour, time.Hour}
	for b.Loop() {
		for i, run := range runs {
			begin := time.Now()
			for range 50 {
				run()
			}
			best[i] = min(best[i], time.Since(begin))
		}
	}
	return [2]float64{float64(best[0].Nanoseconds()) / 50, float64(best[1].Nanoseconds()) / 50}
}

func BenchmarkRatio(b *testing.B) {
	url := pageServer(b, "identity", []byte(page()))
	ns := alternate(b, [2]func(){fetchLoop(b, fetch.Request{URL: url}), bareLoop(b, url)})
	b.ReportMetric(ns[0]/ns[1], "fetch/bare")
	b.ReportMetric(ns[0], "ns/fetch")
}

func BenchmarkCapture(b *testing.B) {
	url := pageServer(b, "identity", []byte(page()))
	ns := alternate(b, [2]func(){fetchLoop(b, fetch.Request{URL: url, Capture: true}), fetchLoop(b, fetch.Request{URL: url})})
	b.ReportMetric(ns[0]/ns[1], "capture/without")
	b.ReportMetric(ns[0]-ns[1], "ns/capture")
}
