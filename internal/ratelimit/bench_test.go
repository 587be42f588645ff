package ratelimit

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock/clocktest"
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
	base := &l.rules.Load().base
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
				require.NoError(t, s.do(l, t.Context(), host))
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

// TestStateFitsItsSizeClass: one more word in state costs each domain 32 bytes.
func TestStateFitsItsSizeClass(t *testing.T) {
	if got := unsafe.Sizeof(state{}); got > 256 {
		t.Errorf("a state takes %d bytes, want no more than the size class of 256", got)
	}
}

type career struct {
	name    string
	answers int
	refused []int // numbers of the answers that were 429
}

var careers = []career{
	{name: "once", answers: 1},
	{name: "asked", answers: 20},
	{name: "refused", answers: 60, refused: []int{10, 20, 30}},
}

// run leads the domains through it. What one of them may not send in its second it does not send.
func (c career) run(t tester, l *AdaptiveRateLimiter, names []string) {
	t.Helper()
	clk := l.cfg.Clock.(*clocktest.Fake)
	refused := map[int]bool{}
	for _, n := range c.refused {
		refused[n] = true
	}
	for n := 1; n <= c.answers; n++ {
		fb := ok(20 * time.Millisecond)
		if refused[n] {
			fb = status(429)
		}
		fb.SentAt = clk.Now() // it takes no time of the clock's
		for _, name := range names {
			if _, why := l.ReadyAt(name, 0, 0); why != LimitNone {
				continue
			}
			p, err := l.Acquire(t.Context(), name)
			if err != nil {
				t.Fatalf("Acquire = %v", err)
			}
			l.Feedback(name, fb)
			p.Release()
		}
		clk.Advance(time.Second)
	}
}

// bytesPerDomain is what a domain costs with all that belongs to it (name, index, order of use, state, strategy,
// latencies, error window, events) after its career, and when it has been idle for a minute since.
func bytesPerDomain(t tester, strategy string, c career, names []string) (l *AdaptiveRateLimiter, used, idle float64) {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Strategy, cfg.MaxDomains = strategy, max(2*len(names), 1000)
	cfg.Shards, cfg.Clock = 1, clocktest.NewFake(start)
	l = mustNew(t, cfg)
	before := heapInUse()
	c.run(t, l, names)
	used = float64(heapInUse()-before) / float64(len(names))
	cfg.Clock.(*clocktest.Fake).Advance(time.Minute)
	l.sweep() // nothing is old enough to go, but the error windows are empty by now
	idle = float64(heapInUse()-before) / float64(len(names))
	return l, used, idle
}

// TestBytesPerDomain holds what was measured: the bars leave a tenth over that.
func TestBytesPerDomain(t *testing.T) {
	names := domains(300)
	for _, c := range careers {
		for strategy, bar := range map[string]map[string][2]float64{
			control.NameAIMD:  {"once": {510, 490}, "asked": {580, 560}, "refused": {815, 745}},
			control.NameSteer: {"once": {715, 695}, "asked": {785, 765}, "refused": {1600, 1540}},
		} {
			l, used, idle := bytesPerDomain(t, strategy, c, names)
			for range 2 { // what others leave on the heap meanwhile only adds
				again, u, i := bytesPerDomain(t, strategy, c, names)
				runtime.KeepAlive(l)
				l, used, idle = again, min(used, u), min(idle, i)
			}
			t.Logf("%s, %s: %.0f bytes per domain just used, %.0f idle", strategy, c.name, used, idle)
			if most := bar[c.name]; used > most[0] || idle > most[1] {
				t.Errorf("%s, %s: %.0f bytes per domain just used, %.0f idle, want at most %.0f and %.0f",
					strategy, c.name, used, idle, most[0], most[1])
			}
			runtime.KeepAlive(l)
		}
	}
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
