package ratelimit

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

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

// benchStrategy is the default one, but for a step that keeps its permits.
func benchStrategy(s step) string {
	if s.keeps {
		return control.NameFixed
	}
	return control.NameSteer
}

// BenchmarkEngine measures the steps of a ready request on one domain and scattered
// over a hundred thousand, alone and in parallel.
func BenchmarkEngine(b *testing.B) {
	for _, n := range []int{1, 100_000} {
		names := domains(n)
		for _, s := range steps {
			for _, workers := range []int{1, runtime.GOMAXPROCS(0)} {
				b.Run(fmt.Sprintf("%s/domains=%d/workers=%d", s.name, n, workers), func(b *testing.B) {
					l := ample(b, benchStrategy(s))
					run := func(worker, calls int) {
						for i := range calls {
							if err := s.do(l, context.Background(), names[scatter(i*workers+worker, n)]); err != nil {
								b.Error(err)
							}
						}
					}
					run(0, n)
					b.ReportAllocs()
					b.ResetTimer()
					var wg sync.WaitGroup
					for w := range workers {
						wg.Go(func() { run(w, b.N/workers) })
					}
					wg.Wait()
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
