package ratelimit

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	xtime "golang.org/x/time/rate"

	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// ample is a limiter under which nobody ever waits, so that what is measured is the
// engine and not the host's pace. No Config goes so far: a thousand million a second.
func ample(t tester, strategy string) *AdaptiveRateLimiter {
	t.Helper()
	c := DefaultConfig()
	c.Strategy = strategy
	c.TokenBucketCapacity = 1000
	l := mustNew(t, c)
	base := &l.laid.Load().base
	base.start, base.floor, base.ceiling = 1e9*perSecond, 1e9*perSecond, 1e9*perSecond
	return l
}

func mustNew(t tester, c Config) *AdaptiveRateLimiter {
	t.Helper()
	l, err := New(c)
	if err != nil {
		t.Fatalf("New = %v", err)
	}
	return l
}

func domains(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("host-%d.example.com", i)
	}
	return all
}

// scatter visits the domains in an order that caches cannot follow.
func scatter(i, n int) int { return int(uint64(uint32(i)*2654435761) * uint64(n) >> 32) }

type step struct {
	name  string
	keeps bool // the permit
	do    func(l *AdaptiveRateLimiter, ctx context.Context, domain string) error
}

var steps = []step{
	{"Acquire", true, func(l *AdaptiveRateLimiter, ctx context.Context, domain string) error {
		_, err := l.Acquire(ctx, domain)
		return err
	}},
	{"AcquireRelease", false, func(l *AdaptiveRateLimiter, ctx context.Context, domain string) error {
		p, err := l.Acquire(ctx, domain)
		if err == nil {
			p.Release()
		}
		return err
	}},
	{"AcquireFeedbackRelease", false, func(l *AdaptiveRateLimiter, ctx context.Context, domain string) error {
		p, err := l.Acquire(ctx, domain)
		if err == nil {
			l.Feedback(domain, Feedback{StatusCode: 200, Latency: 20 * time.Millisecond})
			p.Release()
		}
		return err
	}},
}

// batch is how many calls are timed together: about a tenth of a millisecond, which
// a busy machine seldom interrupts.
const batch = 1000

// stopwatch times batches of two things by turns, so that both meet the same
// machine; their ratio is that of the median batches.
type stopwatch struct{ engine, allow []time.Duration }

func (w *stopwatch) run(calls int, call func(i int), allow func()) {
	for done := 0; done < calls; {
		n := min(batch, calls-done)
		begin := time.Now()
		for i := range n {
			call(done + i)
		}
		middle := time.Now()
		for range n {
			allow()
		}
		end := time.Now()
		if done += n; n == batch {
			w.engine, w.allow = append(w.engine, middle.Sub(begin)), append(w.allow, end.Sub(middle))
		}
	}
}

func median(d []time.Duration) float64 {
	slices.Sort(d)
	return float64(d[len(d)/2])
}

// benchStrategy is the default one, but for a step that keeps its permits.
func benchStrategy(s step) string {
	if s.keeps {
		return control.NameFixed
	}
	return control.NameSteer
}

// benchStep runs the step on the names and x/time's Allow beside it, in as many
// goroutines as there are processors if parallel.
func benchStep(b *testing.B, s step, names []string, parallel bool) {
	l := ample(b, benchStrategy(s))
	lim := xtime.NewLimiter(1e9, 1000)
	for _, name := range names {
		if err := s.do(l, context.Background(), name); err != nil {
			b.Fatal(err)
		}
	}
	workers := 1
	if parallel {
		workers = runtime.GOMAXPROCS(0)
	}
	watches := make([]stopwatch, workers)
	var wg sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for g := range watches {
		wg.Go(func() {
			watches[g].run(b.N/workers, func(i int) {
				if err := s.do(l, context.Background(), names[scatter(i*workers+g, len(names))]); err != nil {
					b.Error(err)
				}
			}, func() { lim.Allow() })
		})
	}
	wg.Wait()
	report(b, watches)
}

func report(b *testing.B, watches []stopwatch) {
	var all stopwatch
	for _, w := range watches {
		all.engine, all.allow = append(all.engine, w.engine...), append(all.allow, w.allow...)
	}
	if len(all.engine) == 0 {
		return // b.N is still being found
	}
	engine, allow := median(all.engine), median(all.allow)
	b.ReportMetric(engine/batch, "engine-ns")
	b.ReportMetric(allow/batch, "allow-ns")
	b.ReportMetric(engine/allow, "ratio")
}

// BenchmarkEngine measures the steps of a ready request on one domain and scattered
// over a hundred thousand, alone and in parallel. Read engine-ns, and ratio, which
// is to x/time's Allow on one limiter in the same run; ns/op holds both.
func BenchmarkEngine(b *testing.B) {
	for _, n := range []int{1, 100_000} {
		names := domains(n)
		for _, s := range steps {
			for _, parallel := range []bool{false, true} {
				mode := "serial"
				if parallel {
					mode = "parallel"
				}
				b.Run(fmt.Sprintf("%s/domains=%d/%s", s.name, n, mode), func(b *testing.B) {
					benchStep(b, s, names, parallel)
				})
			}
		}
	}
}

// BenchmarkSnapshot is the price of one look at a hundred thousand domains.
func BenchmarkSnapshot(b *testing.B) {
	l := ample(b, control.NameSteer)
	for _, name := range domains(100_000) {
		if err := steps[2].do(l, b.Context(), name); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		l.Snapshot()
	}
}

// TestHotPathAllocatesNothing holds for a domain that has been used before.
func TestHotPathAllocatesNothing(t *testing.T) {
	for _, strategy := range control.Names() {
		l := ample(t, strategy)
		for _, s := range steps {
			if strategy == control.NameSteer && s.keeps {
				continue // it bounds the permits that are out
			}
			for range 100 {
				if err := s.do(l, t.Context(), host); err != nil {
					t.Fatal(err)
				}
			}
			if n := testing.AllocsPerRun(1000, func() { _ = s.do(l, t.Context(), host) }); n != 0 {
				t.Errorf("%s: %s allocates %v times, want 0", strategy, s.name, n)
			}
		}
		if n := testing.AllocsPerRun(1000, func() { l.ReadyAt(host, 2, 2) }); n != 0 {
			t.Errorf("%s: ReadyAt allocates %v times, want 0", strategy, n)
		}
	}
}
