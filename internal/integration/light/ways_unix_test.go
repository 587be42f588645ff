//go:build unix

package light_test

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
)

// serveVariable has the test binary serve the site of the benchmark, so that its processor time is not counted.
const serveVariable = "CRAWL_BENCH_SERVE"

// benchPages is how many pages the site of the benchmark has: 25 KB each, with 60 links. They are few, so that the ways of a round
// are next to each other in time.
const benchPages = 500

func TestMain(m *testing.M) {
	if os.Getenv(serveVariable) != "" {
		serveBench()
		return
	}
	os.Exit(m.Run())
}

func serveBench() {
	text := strings.Repeat("<p>It is a long way <b>from</b> here to the next page, and there is <i>much</i> to be read on it.</p>\n", 220)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/p/"))
		if err != nil || n < 1 || n > benchPages {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprintf(w, "<!doctype html><html><head><title>Page %d</title></head><body><h1>Page %d</h1><ul>", n, n)
		for i := range 60 {
			next := n*2 + i
			if i > 1 || next > benchPages {
				next = 1 + (n+i*i)%benchPages
			}
			fmt.Fprintf(w, `<li class="item"><a href="/p/%d">Page %d</a></li>`, next, next)
		}
		fmt.Fprint(w, "</ul>", text, "</body></html>")
	}))
	fmt.Println(server.URL)
	_, _ = bufio.NewReader(os.Stdin).ReadByte() // which ends with the benchmark
	server.Close()
}

// way is how a crawl of the benchmark's site is run.
type way struct {
	name string
	run  func(b *testing.B, seed string)
}

// BenchmarkWays crawls a site of the loopback bare, by a loop and by a router that matches each page: what do they cost beside
// the bare crawl?
func BenchmarkWays(b *testing.B) {
	beside(b, way{"loop", func(b *testing.B, seed string) {
		n := 0
		for _, err := range benchCrawler(b, crawl.Options{}).Crawl(b.Context(), seed) {
			if err != nil { // require.NoError costs half a percent of a page
				b.Fatal(err)
			}
			n++
		}
		require.Equal(b, benchPages, n)
	}}, way{"router", routed(func(context.Context, *crawl.Page) error { return nil })})
}

// BenchmarkFind is BenchmarkWays for a handler that looks into the page, which builds its tree.
func BenchmarkFind(b *testing.B) {
	beside(b, way{"find", routed(func(_ context.Context, p *crawl.Page) error {
		n := 0
		for el := range p.Find("li.item a") {
			n += len(el.Text())
		}
		if n == 0 || p.First("h1").Text() == "" {
			return fmt.Errorf("%s: nothing is found", p.URL)
		}
		return nil
	})})
}

func bare(b *testing.B, seed string) {
	require.NoError(b, benchCrawler(b, crawl.Options{}).Run(b.Context(), seed))
}

func routed(handle crawl.HandlerFunc) func(*testing.B, string) {
	return func(b *testing.B, seed string) {
		var r crawl.Router
		r.Handle("/p/{n}", handle)
		require.NoError(b, benchCrawler(b, crawl.Options{Router: &r}).Run(b.Context(), seed))
	}
}

// beside runs the ways and two bare crawls in each round, in another order each time, as what runs first finds another heap than
// what runs last. It reports the processor time of a page (µs) of the bare crawls, and how much more the ways take than both on
// average: the median of the rounds (%), with its standard error and the allocations. What one bare crawl takes more
// than the other is an error of the measurement alone. Give -benchtime=200x for 200 rounds.
func beside(b *testing.B, ways ...way) {
	ways = append([]way{{"bare", bare}, {"again", bare}}, ways...)
	seed := benchSite(b)
	took, made := make([][]float64, len(ways)), make([][]float64, len(ways)) // µs and allocations of a page, by round
	ways[0].run(b, seed)                                                     // the first one warms up
	random := rand.New(rand.NewPCG(1, 2))                                    //nolint:gosec // for an order
	for range b.N {
		for _, i := range random.Perm(len(ways)) {
			runtime.GC() // what the way before has left is not this one's
			began, allocations := processorTime(b), allocationsSoFar()
			ways[i].run(b, seed)
			took[i] = append(took[i], float64(processorTime(b)-began)/1e3/benchPages)
			made[i] = append(made[i], float64(allocationsSoFar()-allocations)/benchPages)
		}
	}
	b.ReportMetric(median(slices.Concat(took[0], took[1])), "bare-µs/page")
	report := func(name string, more []float64) {
		middle, off := median(more), make([]float64, len(more))
		for round, m := range more {
			off[round] = math.Abs(m - middle)
		}
		b.ReportMetric(middle, name+"-more-%")
		// The standard error of a median, by the median deviation of values that are about normal.
		b.ReportMetric(1.2533*1.4826*median(off)/math.Sqrt(float64(len(more))), name+"-error-%")
	}
	for i, way := range ways[1:] {
		more := make([]float64, b.N)
		for round := range more {
			base := took[0][round]
			if i > 0 {
				base = (base + took[1][round]) / 2
			}
			more[round] = 100 * (took[i+1][round]/base - 1)
		}
		report(way.name, more)
		b.ReportMetric(median(made[i+1])-median(made[0]), way.name+"-more-allocs/page")
	}
}

// benchSite starts a process that serves the site, and returns a seed of it.
func benchSite(b *testing.B) (seed string) {
	b.Helper()
	server := exec.CommandContext(b.Context(), os.Args[0])
	server.Env = append(os.Environ(), serveVariable+"=1")
	in, err := server.StdinPipe()
	require.NoError(b, err)
	out, err := server.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, server.Start())
	b.Cleanup(func() { _, _ = in.Close(), server.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(b, err)
	return strings.TrimSpace(line) + "/p/1"
}

func allocationsSoFar() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

func benchCrawler(b *testing.B, o crawl.Options) *crawl.Crawler {
	b.Helper()
	o.Politeness.Strategy, o.Politeness.IgnoreRobots, o.Scope.IgnoreSitemaps, o.Concurrency = "off", true, true, 16
	c, err := crawl.New(o)
	require.NoError(b, err)
	return c
}

// processorTime is that of this process.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var use syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &use))
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

func median[T cmp.Ordered](list []T) T {
	return slices.Sorted(slices.Values(list))[len(list)/2]
}
