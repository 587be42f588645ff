package ratelimit

import (
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/treadlight/crawl/internal/clock/clocktest"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// TestStateFitsItsSizeClass: one more word in state costs each domain 32 bytes.
func TestStateFitsItsSizeClass(t *testing.T) {
	if got := unsafe.Sizeof(state{}); got > 256 {
		t.Errorf("a state takes %d bytes, want no more than the size class of 256", got)
	}
}

// career is what the domains of a measurement have gone through: an answer each second,
// some of which are refusals.
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

// run leads the domains through it. What one of them may not send in its second it does
// not send.
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

// bytesPerDomain is what a domain costs with all that belongs to it (name, index, order of
// use, state, strategy, latencies, error window, events) after its career, and when it has
// been idle for a minute since.
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

// TestBytesPerDomain holds what was measured: the bars leave a tenth over that, and a host of
// steer's that was refused takes no more than a KiB at rest.
func TestBytesPerDomain(t *testing.T) {
	names := domains(300)
	for _, c := range careers {
		for strategy, bar := range map[string]map[string][2]float64{
			control.NameAIMD:  {"once": {510, 490}, "asked": {580, 560}, "refused": {705, 670}},
			control.NameSteer: {"once": {715, 695}, "asked": {785, 765}, "refused": {1150, 1024}},
		} {
			l, used, idle := bytesPerDomain(t, strategy, c, names)
			t.Logf("%s, %s: %.0f bytes per domain just used, %.0f idle", strategy, c.name, used, idle)
			if most := bar[c.name]; used > most[0] || idle > most[1] {
				t.Errorf("%s, %s: %.0f bytes per domain just used, %.0f idle, want at most %.0f and %.0f",
					strategy, c.name, used, idle, most[0], most[1])
			}
			runtime.KeepAlive(l)
		}
	}
}

// heapInUse is what is reachable after a collection.
func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
