//go:build unix

package console

import (
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock/clocktest"
	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/observe/telemetry"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/ratelimit"
)

// BenchmarkScrape is what it costs to look at a crawl of a hundred thousand hosts: a snapshot, which the
// limiter's states are all of, and a scrape with one in it.
func BenchmarkScrape(b *testing.B) {
	const hosts = 100_000
	limits := ratelimit.DefaultConfig()
	limits.MaxDomains = hosts
	limiter, err := ratelimit.New(limits)
	require.NoError(b, err)
	states := make([]frontier.HostState, 50)
	for i := range hosts {
		name := fmt.Sprintf("h%d.test", i)
		permit, err := limiter.Acquire(b.Context(), name)
		require.NoError(b, err)
		limiter.Feedback(name, ratelimit.Feedback{StatusCode: 200, Latency: time.Millisecond})
		permit.Release()
		states[i%len(states)] = frontier.HostState{Host: name, Queued: i}
	}
	meter := telemetry.New()
	meter.Start()
	snapshot := func() pipeline.Snapshot {
		return pipeline.Snapshot{Limiter: limiter.Snapshot(), Hosts: states, ElapsedSeconds: 1}
	}
	a, err := ParseAddress("8080")
	require.NoError(b, err)
	clk := clocktest.NewFake(time.Unix(1_800_000_000, 0))
	g := &rig{clk: clk}
	crawl := g.crawl()
	crawl.Snapshot, crawl.Collectors = snapshot, meter.Collectors()
	g.Console, err = New(Config{Address: a, Clock: clk}, crawl)
	require.NoError(b, err)
	for _, piece := range []struct {
		name string
		do   func()
	}{
		{"snapshot", func() { snapshot() }},
		{"scrape", func() { clk.Advance(time.Minute); g.metrics.handler.ServeHTTP(sinkhole{}, scrape) }},
		{"scrape of a shared snapshot", func() { g.metrics.handler.ServeHTTP(sinkhole{}, scrape) }},
	} {
		b.Run(piece.name, func(b *testing.B) {
			from := cpuTime(b)
			for b.Loop() {
				piece.do()
			}
			b.ReportMetric(float64((cpuTime(b)-from).Microseconds())/1e3/float64(b.N), "cpu-ms")
		})
	}
}

var scrape = &http.Request{Method: http.MethodGet, Header: http.Header{}}

// sinkhole is an answer that nobody reads.
type sinkhole struct{}

func (sinkhole) Header() http.Header         { return http.Header{} }
func (sinkhole) Write(p []byte) (int, error) { return len(p), nil }
func (sinkhole) WriteHeader(int)             {}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
