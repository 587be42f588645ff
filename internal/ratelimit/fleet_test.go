package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/admission/memory"
)

type kept struct {
	count *memory.Repository
	cut   atomic.Bool
	trips atomic.Int64
}

func (k *kept) Take(ctx context.Context, key string, b SharedBucket, n int64) (TokensTaken, error) {
	k.trips.Add(1)
	time.Sleep(time.Millisecond)
	if k.cut.Load() {
		return TokensTaken{}, errors.New("cut off")
	}
	plan, err := admission.Plan{Name: b.Name, Capacity: b.Capacity, TokensPerSecond: b.Rate}.Settle()
	if err != nil {
		return TokensTaken{}, err
	}
	r, err := k.count.Take(ctx, key, []admission.Plan{plan}, n)
	return TokensTaken{r.Allowed, r.Remaining, r.Wait}, err
}

type fleetWorld struct {
	t     *testing.T
	count *memory.Repository
	begun time.Time

	mu     sync.Mutex
	grants []time.Duration // since it began
}

func newFleetWorld(t *testing.T) *fleetWorld {
	t.Helper()
	m, err := memory.New(memory.Config{})
	require.NoError(t, err)
	return &fleetWorld{t: t, count: m, begun: time.Now()}
}

func (w *fleetWorld) join(change func(c *Config)) (*AdaptiveRateLimiter, *kept) {
	k := &kept{count: w.count}
	return bubbleLimiter(w.t, func(c *Config) {
		c.Fleet, c.FleetName = k, "job"
		change(c)
	}), k
}

// work has a process ask hosts, each by a worker that takes what it gets, until ctx ends. Some
// ask as a scheduler does, which never waits within the limiter.
func (w *fleetWorld) work(ctx context.Context, l *AdaptiveRateLimiter, hosts []string, took time.Duration) {
	var all sync.WaitGroup
	all.Go(func() { _ = l.Run(ctx) })
	for i, h := range hosts {
		all.Go(func() {
			for ctx.Err() == nil {
				if i%2 == 0 {
					if at, why := l.ReadyAt(h, 0, 0); why != LimitNone {
						wait(ctx, max(time.Until(at), time.Millisecond))
						continue
					}
				}
				p, err := l.Acquire(ctx, h)
				if err != nil {
					return
				}
				w.mu.Lock()
				w.grants = append(w.grants, time.Since(w.begun))
				w.mu.Unlock()
				wait(ctx, took)
				p.Release()
			}
		})
	}
	all.Wait()
}

func (w *fleetWorld) sum() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.grants)
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

func (w *fleetWorld) most(rate float64) float64 {
	slices.Sort(w.grants)
	var worst, low float64
	for i, at := range w.grants { // Σ grants − rate×t climbs by no more than the burst
		level := float64(i) - rate*at.Seconds()
		if i == 0 || level < low {
			low = level
		}
		worst = max(worst, level+1-low)
	}
	return worst
}

func names(prefix, suffix string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("%s%d%s", prefix, i, suffix))
	}
	return all
}

// Whoever shares a budget, the sum is what one alone would have had, and no span has more than is stated.
func TestFleetSumsToThePlan(t *testing.T) {
	for _, c := range []struct {
		name      string
		rate      float64
		processes int
		set       func(c *Config)
		suffix    string
	}{
		{"global 50", 50, 2, func(c *Config) { c.GlobalRPS = 50 }, ".test"},
		{"global 400 of four", 400, 4, func(c *Config) { c.GlobalRPS = 400 }, ".test"},
		{"global 2 of three", 2, 3, func(c *Config) { c.GlobalRPS = 2 }, ".test"},
		{"a site", 10, 2, func(c *Config) { c.SiteRPS = 10 }, ".example.com"},
		{"a slow site", 0.5, 3, func(c *Config) { c.SiteRPS = 0.5 }, ".example.com"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newFleetWorld(t)
				const span = 40 * time.Second
				ctx, cancel := context.WithTimeout(t.Context(), span)
				defer cancel()
				var all sync.WaitGroup
				for i := range c.processes {
					l, _ := w.join(c.set)
					all.Go(func() { w.work(ctx, l, names(fmt.Sprintf("h%d-", i), c.suffix, 6), 20*time.Millisecond) })
				}
				all.Wait()
				burst := max(1, c.rate*batchSpan.Seconds()) + c.rate*batchLife.Seconds()
				require.LessOrEqual(t, w.most(c.rate), burst+1e-6)
				require.GreaterOrEqual(t, float64(len(w.grants)), .9*c.rate*span.Seconds(), "what nobody has is lost to all")
			})
		})
	}
}

// An address is one budget for all processes, however they came to know of it.
func TestFleetSharesAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFleetWorld(t)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		var all sync.WaitGroup
		for i := range 2 {
			l, _ := w.join(func(c *Config) { c.IPRPS = 4 })
			hosts := names(fmt.Sprintf("h%d-", i), ".test", 4)
			for _, h := range hosts {
				l.SetAddress(h, netip.MustParseAddr("192.0.2.7"))
			}
			all.Go(func() { w.work(ctx, l, hosts, time.Millisecond) })
		}
		all.Wait()
		require.LessOrEqual(t, w.most(4), 1+4*batchLife.Seconds()+1e-6)
		require.GreaterOrEqual(t, len(w.grants), 108)
	})
}

// A process that dies or is cut off takes what it had with it; the others go on, and it
// stops when that is used up. Then it says why, and goes on when it is let.
func TestFleetCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFleetWorld(t)
		set := func(c *Config) { c.GlobalRPS = 20 }
		one, line := w.join(set)
		two, _ := w.join(set)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var all sync.WaitGroup
		all.Go(func() { w.work(ctx, one, names("a", ".test", 4), time.Millisecond) })
		other, kill := context.WithCancel(ctx)
		all.Go(func() { w.work(other, two, names("b", ".test", 4), time.Millisecond) })
		time.Sleep(10 * time.Second)
		kill()
		time.Sleep(10 * time.Second)
		require.GreaterOrEqual(t, w.sum(), 360, "one has all of it now")
		line.cut.Store(true)
		time.Sleep(batchLife + time.Second)
		before := w.sum()
		time.Sleep(10 * time.Second)
		require.Equal(t, before, w.sum(), "what it had is used up")
		require.Equal(t, "the whole fleet (whoever keeps the count does not answer): at most 20/s", one.see("a0.test").Reason)
		line.cut.Store(false)
		time.Sleep(10 * time.Second)
		require.InDelta(t, 200, w.sum()-before, 16, "no burst for the time that it was cut off")
		cancel()
		all.Wait()
		require.LessOrEqual(t, w.most(20), 5+20*batchLife.Seconds()+1e-6)
		require.Less(t, line.trips.Load(), int64(len(w.grants)), "tokens come some at a time")
	})
}

func (l *AdaptiveRateLimiter) see(domain string) DomainSnapshot {
	d, _ := l.Inspect(domain)
	return d
}

// Bytes are charged when they have come, and what they were beyond the plan is paid by all.
func TestFleetSharesBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFleetWorld(t)
		const rate, page = 100_000, 3_000
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		var sum atomic.Int64
		var all sync.WaitGroup
		for i := range 2 {
			l, _ := w.join(func(c *Config) { c.GlobalBytes = rate })
			all.Go(func() { _ = l.Run(ctx) })
			for j := range 4 {
				rnd := rand.New(rand.NewPCG(uint64(i), uint64(j)))
				all.Go(func() {
					for {
						p, err := l.Acquire(ctx, fmt.Sprintf("h%d-%d.test", i, j))
						if err != nil {
							return
						}
						wait(ctx, 10*time.Millisecond)
						n := rnd.Int64N(2 * page)
						l.ChargeBytes(n)
						sum.Add(n)
						p.Release()
					}
				})
			}
		}
		all.Wait()
		most := rate*(30+batchSpan.Seconds()+batchLife.Seconds()) + 8*2*page
		require.LessOrEqual(t, float64(sum.Load()), most)
		require.GreaterOrEqual(t, float64(sum.Load()), .9*rate*30)
	})
}

// A process has the slots that it was told of, for as long as it was told.
func TestShareSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFleetWorld(t)
		l, _ := w.join(func(c *Config) { c.GlobalConcurrency = 8 })
		try := func() (Permit, error) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return l.Acquire(ctx, "a.test")
		}
		_, err := try()
		require.ErrorIs(t, err, context.DeadlineExceeded, "nothing was told yet")
		_, why := l.ReadyAt("a.test", 0, 0)
		require.Equal(t, LimitGlobalConcurrency, why)
		l.ShareSlots(2, time.Now().Add(time.Minute))
		first, err := try()
		require.NoError(t, err)
		_, err = try()
		require.NoError(t, err)
		_, err = try()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, "the whole fleet, of which this process has 2: at most 8 requests out at a time, nothing left", l.see("a.test").Reason)
		held, want := l.Slots()
		require.Equal(t, []int{2, 4}, []int{held, want}, "it could use more")
		held, want = l.Slots()
		require.Equal(t, []int{2, 2}, []int{held, want})

		waits := make(chan error)
		go func() {
			_, err := l.Acquire(t.Context(), "b.test")
			waits <- err
		}()
		synctest.Wait()
		l.ShareSlots(3, time.Now().Add(time.Minute))
		require.NoError(t, <-waits, "who waits is told")
		l.ShareSlots(1, time.Now().Add(time.Minute))
		first.Release()
		_, err = try()
		require.ErrorIs(t, err, context.DeadlineExceeded, "two are out, and one may be")
		l.ShareSlots(8, time.Now().Add(time.Minute))
		held, _ = l.Slots()
		require.Equal(t, 8, held, "so many may be out the next moment")
		time.Sleep(time.Minute)
		_, err = try()
		require.ErrorIs(t, err, context.DeadlineExceeded, "the share has ended")
		budgets, _ := NewUseRates(l).Now()
		require.Equal(t, map[string]float64{"ratelimit.global_concurrency": 2}, budgets)
	})
}

// Without a fleet none of it is there.
func TestNoFleetNoFeeds(t *testing.T) {
	r := newRig(t, func(c *Config) { c.GlobalRPS, c.SiteRPS, c.GlobalBytes, c.GlobalConcurrency = 5, 5, 5, 5 })
	require.Nil(t, r.shared.global.tokenSource)
	require.Nil(t, r.shared.global.caps.tokenSource)
	require.Nil(t, r.shared.slots())
	budgets, scopes := NewUseRates(r.AdaptiveRateLimiter).Now()
	require.True(t, budgets == nil && scopes == nil)
	r.ShareSlots(1, start)
	held, want := r.Slots()
	require.Zero(t, held+want)
}

// What a process tells of a rate is what it was over a quarter of a minute, and what goes at
// once when it begins, or is told a moment after, is none.
func TestRatesOfBudgets(t *testing.T) {
	k := &kept{}
	r := newRig(t, func(c *Config) { c.GlobalRPS, c.Fleet = 20, k })
	rates, before := NewUseRates(r.AdaptiveRateLimiter), int64(0)
	for _, step := range []struct {
		after time.Duration
		used  int64
		want  float64
	}{
		{0, 0, 0},
		{1100 * time.Millisecond, 5, 5 / 1.1},
		{5 * time.Second, 105, 21},
		{5100 * time.Millisecond, 110, 21},
		{10 * time.Second, 205, 20.5},
		{15 * time.Second, 305, 305 / 15.0},
		{20 * time.Second, 405, 20},
		{35 * time.Second, 405, 0},
		{36 * time.Second, 420, 15 / 16.0},
	} {
		r.to(step.after)
		r.shared.use["/global"] += step.used - before
		before = step.used
		got, _ := rates.Now()
		require.InDelta(t, step.want, got["ratelimit.global_rps"], 1e-9, "%v", step.after)
	}
	for range 1000 {
		r.clk.Advance(100 * time.Millisecond)
		rates.Now()
	}
	require.LessOrEqual(t, len(rates.marks), int(useSpan/time.Second)+2)
}

func TestKeepBusiest(t *testing.T) {
	u := uses{"x": {"a": 1, "b": 3, "c": 2, "d": 2}}
	u.keepBusiest(3)
	require.Equal(t, uses{"x": {"b": 3, "c": 2, "d": 2}}, u)
	u.keepBusiest(5)
	require.Len(t, u["x"], 3)
}

// What was used of each scope is told once, of those that were used most, by the setting.
func TestScopeUses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFleetWorld(t)
		l, _ := w.join(func(c *Config) { c.IPRPS, c.SiteRPS = 50, 100 })
		require.Empty(t, l.shared.usedSince())
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		hosts := []string{"a.one.test", "b.one.test", "c.two.test"}
		for i, h := range hosts {
			l.SetAddress(h, netip.MustParseAddr(fmt.Sprintf("192.0.2.%d", i+1)))
		}
		w.work(ctx, l, hosts, time.Millisecond)
		uses := l.shared.usedSince()
		require.Len(t, uses["ratelimit.ip_rps"], 3)
		sites := uses["ratelimit.site_rps"]
		require.Len(t, sites, 2)
		require.Greater(t, sites["one.test"], sites["two.test"])
		require.InDelta(t, w.sum(), sites["one.test"]+sites["two.test"], 0.1, "every request is of a site")
		require.Empty(t, l.shared.usedSince(), "it was told before")
	})
}
