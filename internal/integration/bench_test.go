package integration_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/lab/realserver"
	"github.com/treadlight/crawl/internal/records/sink"
)

// cpuTime is the processor time this process has used; servers are other processes.
func cpuTime(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	require.NoError(tb, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkSpeed crawls a real site with the engine disabled, and beside it, in turns,
// runs the least a crawler could do: fetch the same URLs and tokenize them, over a list
// known in advance. What counts is pages per second of processor time, and the ratio.
func BenchmarkSpeed(b *testing.B) {
	const inFlight = 16
	root := pythonDocs(b)
	server := realserver.Nginx(b, root, "", "")
	out := filepath.Join(b.TempDir(), "pages.jsonl")
	var urls []string
	var crawled, bare time.Duration
	pages := 0
	crawlOnce := func() {
		w, err := sink.Open(out, sink.Config{Existing: sink.Overwrite})
		require.NoError(b, err)
		cfg := unpaced()
		cfg.Concurrency, cfg.PerHostMax = inFlight, inFlight
		seen := &records{}
		cfg.Sinks = []crawl.Sink{w}
		if urls == nil {
			cfg.Sinks = append(cfg.Sinks, seen)
		}
		c, err := assembly.New(cfg)
		require.NoError(b, err)
		require.NoError(b, c.Run(b.Context(), server.URL+"/index.html"))
		require.NoError(b, w.Close())
		for _, rec := range seen.list {
			urls = append(urls, rec.URL)
		}
		pages = int(c.Snapshot().Records)
	}
	crawlOnce() // to learn the list, and to warm up
	bareOnce(b, urls, inFlight)
	for b.Loop() {
		start := cpuTime(b)
		crawlOnce()
		crawled += cpuTime(b) - start
		start = cpuTime(b)
		bareOnce(b, urls, inFlight)
		bare += cpuTime(b) - start
	}
	total := float64(pages * b.N)
	b.ReportMetric(total/crawled.Seconds(), "crawl-pages/cpu-s")
	b.ReportMetric(total/bare.Seconds(), "bare-pages/cpu-s")
	b.ReportMetric(bare.Seconds()/crawled.Seconds(), "ratio")
	b.ReportMetric(0, "ns/op")
}

// bareOnce fetches and tokenizes each URL once, with the same number in flight, and
// reads the attributes of links as any crawler must.
func bareOnce(tb testing.TB, urls []string, inFlight int) {
	tb.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: inFlight, DisableCompression: true}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	next := make(chan string)
	var wg sync.WaitGroup
	for range inFlight {
		wg.Go(func() {
			var buf bytes.Buffer
			for u := range next {
				if err := bareFetch(tb.Context(), client, u, &buf); err != nil {
					tb.Error(err)
				}
				tokenize(buf.Bytes())
			}
		})
	}
	for _, u := range urls {
		next <- u
	}
	close(next)
	wg.Wait()
}

func bareFetch(ctx context.Context, client *http.Client, url string, buf *bytes.Buffer) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	buf.Reset()
	_, err = io.Copy(buf, resp.Body)
	return err
}

func tokenize(page []byte) (links int) {
	z := html.NewTokenizer(bytes.NewReader(page))
	for {
		switch z.Next() {
		case html.ErrorToken:
			return links
		case html.StartTagToken:
			if name, more := z.TagName(); more && string(name) == "a" {
				for more {
					var key []byte
					key, _, more = z.TagAttr()
					if string(key) == "href" {
						links++
					}
				}
			}
		}
	}
}
