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

	"github.com/stretchr/testify/require"

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
		req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, url, http.NoBody)
		require.NoError(b, err)
		res, err := t.RoundTrip(req)
		require.NoError(b, err)
		buf.Reset()
		_, err = io.Copy(buf, res.Body)
		require.NoError(b, err)
		_ = res.Body.Close()
	}
}

func fetchLoop(b *testing.B, url string) func() {
	b.Helper()
	c := newClient(b, fetch.Config{AllowPrivate: true})
	return func() {
		res, err := c.Fetch(b.Context(), fetch.Request{URL: url})
		require.NoError(b, err)
		res.Release()
	}
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
			run := fetchLoop(b, pageServer(b, coding, coded(b, coding, page())))
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

// BenchmarkRatio alternates Fetch and the bare loop, so that whatever else the computer does weighs on both, and
// reports the ratio of the best batches, which it disturbed least.
func BenchmarkRatio(b *testing.B) {
	ours := fetchLoop(b, pageServer(b, "identity", []byte(page())))
	bare := bareLoop(b, pageServer(b, "identity", []byte(page())))
	best := [2]time.Duration{time.Hour, time.Hour}
	for b.Loop() {
		for i, run := range []func(){ours, bare} {
			begin := time.Now()
			for range 50 {
				run()
			}
			best[i] = min(best[i], time.Since(begin))
		}
	}
	b.ReportMetric(float64(best[0])/float64(best[1]), "fetch/bare")
	b.ReportMetric(float64(best[0].Nanoseconds())/50, "ns/fetch")
}

// BenchmarkCapture alternates fetches with a capture and without, as BenchmarkRatio does.
func BenchmarkCapture(b *testing.B) {
	c := newClient(b, fetch.Config{AllowPrivate: true})
	url := pageServer(b, "identity", []byte(page()))
	best := [2]time.Duration{time.Hour, time.Hour}
	for b.Loop() {
		for i := range best {
			begin := time.Now()
			for range 50 {
				res, err := c.Fetch(b.Context(), fetch.Request{URL: url, Capture: i == 0})
				require.NoError(b, err)
				res.Release()
			}
			best[i] = min(best[i], time.Since(begin))
		}
	}
	b.ReportMetric(float64(best[0])/float64(best[1]), "capture/without")
	b.ReportMetric(float64((best[0]-best[1]).Nanoseconds())/50, "ns/capture")
}
