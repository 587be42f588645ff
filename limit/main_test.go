package limit_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/clock/clocktest"
	"github.com/treadlight/crawl/limit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

type subject struct {
	name  string
	make  func(tb testing.TB, opts ...limit.Option) limit.Weighted
	timed bool // time brings permits; if not, a release does
}

const (
	suiteMax = 3
	suitePer = 3 * time.Second
)

func of(kind limit.Kind, tune func(*limit.Spec)) subject {
	s := limit.Spec{Kind: kind, Permits: suiteMax, Per: suitePer}
	if kind == limit.KindConcurrency {
		s.Per = 0
	}
	if tune != nil {
		tune(&s)
	}
	return subject{string(kind), func(_ testing.TB, opts ...limit.Option) limit.Weighted {
		return must(limit.New(s, opts...))
	}, kind != limit.KindConcurrency}
}

func subjects() []subject {
	var all []subject
	for _, kind := range limit.Kinds() {
		all = append(all, of(kind, nil))
	}
	interval := of(limit.KindTokenBucket, func(s *limit.Spec) { s.Refill = limit.RefillInterval })
	interval.name = "token-bucket-interval"
	fast := of(limit.KindTokenBucket, func(s *limit.Spec) { s.Permits, s.Per, s.Burst = 1, 1, suiteMax })
	return append(all, interval,
		both("all-rates", all[0], all[3]), both("all-mixed", fast, all[5]), both("all-one", all[2]))
}

// both composes the subjects. Where one of them is a Concurrency, permits are made to
// come by releases only, which the caller sees to.
func both(name string, members ...subject) subject {
	s := subject{name: name, timed: true}
	for _, m := range members {
		s.timed = s.timed && m.timed
	}
	s.make = func(tb testing.TB, opts ...limit.Option) limit.Weighted {
		var parts []limit.Weighted
		for _, m := range members {
			parts = append(parts, m.make(tb, opts...))
		}
		return must(limit.All(parts...))
	}
	return s
}

func eachSubject(t *testing.T, run func(t *testing.T, s subject)) {
	for _, s := range subjects() {
		t.Run(s.name, func(t *testing.T) { run(t, s) })
	}
}

func fakeClock() *clocktest.Fake { return clocktest.NewFake(epoch) }

func drain(tb testing.TB, l limit.Weighted) int64 {
	tb.Helper()
	n := l.Statistics().Available
	if n > 0 {
		require.True(tb, l.TryAcquireN(n), "TryAcquireN(%d), which is what is available", n)
	}
	require.False(tb, l.TryAcquire(), "TryAcquire of a drained limiter")
	return n
}

type order struct {
	mu    sync.Mutex
	begin time.Time
	names []string
	at    []time.Duration
}

func newOrder() *order { return &order{begin: time.Now()} }

func (o *order) add(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.names = append(o.names, name)
	o.at = append(o.at, time.Since(o.begin))
}

func (o *order) get() ([]string, []time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.names), slices.Clone(o.at)
}

type countingClock struct {
	clock.Clock
	mu         sync.Mutex
	live, most int
}

type countingTimer struct {
	clock.Timer
	c    *countingClock
	once sync.Once
}

func (c *countingClock) NewTimer(d time.Duration) clock.Timer {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.live++
	c.most = max(c.most, c.live)
	return &countingTimer{Timer: c.Clock.NewTimer(d), c: c}
}

func (t *countingTimer) Stop() bool {
	t.once.Do(func() {
		t.c.mu.Lock()
		t.c.live--
		t.c.mu.Unlock()
	})
	return t.Timer.Stop()
}

// settableClock is what no clock should be: it can go back.
type settableClock struct {
	clock.Clock
	mu  sync.Mutex
	now time.Duration
}

func (c *settableClock) set(now time.Duration) {
	c.mu.Lock()
	c.now = now
	c.mu.Unlock()
}

func (c *settableClock) Since(time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
