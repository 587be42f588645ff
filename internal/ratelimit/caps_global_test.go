package ratelimit

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/treadlight/crawl/limit"
)

func TestGlobalConcurrencyOfManyHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bubbleLimiter(t, func(c *Config) { c.GlobalConcurrency = 5 })
		var open, most atomic.Int64
		var wg sync.WaitGroup
		for i := range 32 {
			wg.Go(func() {
				for j := range 20 {
					p, err := l.Acquire(t.Context(), fmt.Sprintf("h%d.test", (i+j)%7))
					require.NoError(t, err)
					most.Store(max(most.Load(), open.Add(1)))
					time.Sleep(time.Duration(i+1) * time.Millisecond)
					open.Add(-1)
					p.Release()
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, 5, most.Load())
		require.EqualValues(t, 5, l.Snapshot().Caps[0].Left)
	})
}

// Bytes are charged when they are known: nobody goes while there is a debt, and what is
// out counts for what such answers bring.
func TestGlobalBytes(t *testing.T) {
	r := capped(t, HostRule{}, func(c *Config) { c.GlobalBytes = 1000 })
	p, ok := r.grant(host)
	require.True(t, ok)
	r.ChargeBytes(3000)
	p.Release()
	r.wantReady(host, 0, 2001*time.Millisecond, LimitGlobalBytes) // 2000 in debt, and one byte
	r.wantReady("b.test", 0, 2001*time.Millisecond, LimitGlobalBytes)
	require.Zero(t, r.grants(host, false))
	r.to(2001 * time.Millisecond)
	require.Equal(t, 1, r.grants(host, false), "the next may bring 3000 again")
	r.wantReady(host, 0, 3000*time.Millisecond, LimitGlobalBytes)
	r.to(3 * time.Second)
	require.Equal(t, 100, r.grants(host, true), "a full bucket is what can be had at most")
	r.ChargeBytes(0)
	r.ChargeBytes(-5)
	r.wantReady(host, 0, 0, LimitNone)
	newRig(t, nil).ChargeBytes(10) // nothing to charge
}

// One place that is promised and one that is taken are told apart.
func TestGlobalConcurrencyForecast(t *testing.T) {
	r := capped(t, HostRule{}, func(c *Config) { c.GlobalConcurrency = 2 })
	r.wantReady(host, 0, 0, LimitNone)
	r.wantReady(host, 1, 0, LimitNone)
	r.wantReady(host, 2, soon, LimitGlobalConcurrency)
	p, _ := r.grant(host)
	_, _ = r.grant("b.test")
	r.wantReady(host, 0, lookAgain, LimitGlobalConcurrency)
	require.Equal(t, "all hosts together: at most 2 requests out at a time, nothing left", r.see(host).Reason)
	p.Release()
	r.wantReady(host, 0, 0, LimitNone)
}

// A shared limiter may be emptied between the look and the grant: then the place is given back.
func TestAGrantThatFailsGivesBack(t *testing.T) {
	r := capped(t, HostRule{Cap: limit.Spec{Permits: 1, Per: time.Hour}}, func(c *Config) { c.GlobalConcurrency, c.GlobalRPS = 2, 1 })
	sh := shares{scopeGlobal: r.shared.global}
	ticket, ok := r.shared.tryTake(&sh, r.now())
	require.True(t, ok)
	_, ok = r.shared.tryTake(&sh, r.now())
	require.False(t, ok)
	r.shared.giveUp(r.now(), ticket)
	require.EqualValues(t, 2, r.Snapshot().Caps[0].Left)
	r.to(time.Second)
	require.Equal(t, 1, r.grants(host, true))
}

// One who is woken too late takes nothing with him.
func TestAWaiterPastHisDeadlineTakesNothing(t *testing.T) {
	r := capped(t, HostRule{}, func(c *Config) { c.GlobalRPS, c.GlobalConcurrency = 1, 1 })
	r.to(time.Second)
	s := r.lock(host)
	defer s.mu.Unlock()
	now := s.nowLocked()
	w := &waiter{domain: host, wake: make(chan struct{}, 1), deadline: now - 1}
	s.line = &line{waiters: []*waiter{w}}
	_, _, err := s.turnLocked(t.Context(), w, now, now)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Nil(t, s.line)
	sh := s.sharesLocked()
	_, ok := r.shared.tryTake(&sh, now)
	require.True(t, ok, "the token and the place are still there")
}

// Those who wait take of the cap when their turn comes.
func TestWaitersAreCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bubbleLimiter(t, func(c *Config) {
			c.Hosts[0].Cap = limit.Spec{Kind: limit.KindSlidingWindowLog, Permits: 2, Per: time.Second}
		})
		begun := time.Now()
		at := make([]time.Duration, 7)
		var wg sync.WaitGroup
		for i := range at {
			wg.Go(func() {
				p, err := l.Acquire(t.Context(), host)
				require.NoError(t, err)
				at[i] = time.Since(begun)
				p.Release()
			})
			synctest.Wait()
		}
		wg.Wait()
		require.Equal(t, []time.Duration{0, 0, time.Second, time.Second, 2 * time.Second, 2 * time.Second, 3 * time.Second}, at)
	})
}

// drawSpec is a cap of any kind that counts over time.
func drawSpec(t *rapid.T, name string, longestSpan int64) limit.Spec {
	kinds := []limit.Kind{
		limit.KindTokenBucket, limit.KindFixedWindow, limit.KindSlidingWindow, limit.KindSlidingWindowLog, limit.KindLeakyBucket,
	}
	if name == "quota" {
		kinds = kinds[1:4]
	}
	return limit.Spec{
		Kind: rapid.SampledFrom(kinds).Draw(t, name), Permits: rapid.Int64Range(1, 12).Draw(t, name+" permits"),
		Per: time.Duration(rapid.Int64Range(1, longestSpan).Draw(t, name+" per")),
	}
}

// ReadyAt is exact under any two caps beside a rate and a spacing: a nanosecond before it nothing is granted, at it
// something is. And no state that comes and goes, as other hosts crowd it out, makes a difference.
func TestReadyAtIsExactUnderCaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rule := HostRule{
			Cap: drawSpec(t, "cap", int64(3*time.Second)), Quota: drawSpec(t, "quota", int64(time.Minute)),
			MinDelay: time.Duration(rapid.Int64Range(-1, int64(time.Second)).Draw(t, "min delay")),
		}
		r := capped(t, rule, func(c *Config) { small(2)(c) })
		if rule.MinDelay == 0 {
			rule.MinDelay = -1
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			r.clk.Advance(time.Duration(rapid.Int64Range(0, int64(2*time.Second)).Draw(t, "step")))
			if rapid.IntRange(0, 3).Draw(t, "crowd") == 0 {
				for i := range 4 {
					r.grants(fmt.Sprintf("other-%d.test", i), true)
				}
			}
			at, why := r.ReadyAt(host, 0, 0)
			if why != LimitNone {
				r.to(at.Sub(start) - 1)
				if _, ok := r.grant(host); ok {
					t.Fatalf("granted a nanosecond before %v (%v)", at.Sub(start), why)
				}
				r.to(at.Sub(start))
			}
			p, ok := r.grant(host)
			if !ok {
				t.Fatalf("no permit at %v, when ReadyAt promised one (%v)", r.clk.Since(start), why)
			}
			p.Release()
		}
	})
}

// Forecasts of those behind others are never too late: who takes each permit as soon as it
// is there never finds one earlier than was said.
func TestForecastsUnderCapsAreNeverTooLate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := capped(t, HostRule{Cap: drawSpec(t, "cap", int64(3*time.Second))}, nil)
		for range rapid.IntRange(0, 20).Draw(t, "before") {
			r.clk.Advance(time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "step")))
			if p, ok := r.grant(host); ok {
				p.Release()
			}
		}
		const n = 30
		var said [n]time.Time
		for ahead := range said {
			if said[ahead], _ = r.ReadyAt(host, ahead, 0); said[ahead].IsZero() {
				said[ahead] = r.clk.Now()
			}
		}
		for ahead, forecast := range said {
			if at, why := r.ReadyAt(host, 0, 0); why != LimitNone {
				r.to(at.Sub(start))
			}
			p, ok := r.grant(host)
			require.True(t, ok)
			p.Release()
			// A millisecond is what is said where a window's end is not known.
			if late := forecast.Sub(r.clk.Now()); late > soon {
				t.Fatalf("%d ahead: said %v, was %v", ahead, forecast.Sub(start), r.clk.Since(start))
			}
		}
	})
}

// One who looks at a state that is evicted at that moment is told the truth, though its limiter is closed.
func TestCapsOfAStateThatIsGone(t *testing.T) {
	r := capped(t, HostRule{Cap: limit.Spec{Permits: 1, Per: time.Second}}, small(1))
	r.grants(host, true)
	s, kept := r.peek(host)
	require.True(t, kept)
	r.to(time.Hour)
	r.grants("b.test", true)
	r.rules.Load().hosts[0].caps.sweep()
	s.mu.Lock()
	defer s.mu.Unlock()
	require.True(t, s.dead)
	require.Zero(t, s.rules.caps.wait(capRate, 1))
	require.EqualValues(t, 1, s.rules.caps.left(capRate))
}
