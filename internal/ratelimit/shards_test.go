package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/ratelimit/breaker"
)

func (r *rig) kept(domain string) bool {
	_, known := r.Inspect(domain)
	return known
}

func small(domains int) func(c *Config) {
	return func(c *Config) { c.Shards, c.MaxDomains = 1, domains }
}

func TestSweepEvictsTheIdleOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := mustNew(t, simplest())
		r := &rig{AdaptiveRateLimiter: l, t: t}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- l.Run(ctx) }()
		use := func(domain string) Permit {
			p, err := l.Acquire(t.Context(), domain)
			require.NoError(t, err)
			return p
		}
		use("idle.test").Release()
		out := use("out.test")
		var waiting sync.WaitGroup
		l.Feedback("waited.test", Feedback{StatusCode: 503, RetryAfter: time.Hour})
		waiting.Go(func() { use("waited.test").Release() })
		time.Sleep(4 * time.Minute)
		use("later.test").Release()
		time.Sleep(6*time.Minute + time.Second) // sweeps at 5 and 10 minutes
		synctest.Wait()
		for domain, want := range map[string]bool{"idle.test": false, "out.test": true, "waited.test": true, "later.test": true} {
			require.Equal(t, want, r.kept(domain), domain)
		}
		require.Equal(t, uint64(1), l.Snapshot().Evicted)
		require.Equal(t, uint64(3), l.Snapshot().Requests, "what the evicted did is forgotten")
		out.Release()
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		require.False(t, r.kept("out.test"))
		waiting.Wait()
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
	})
}

func TestCapEvictsTheLongestUnused(t *testing.T) {
	r := newRig(t, small(3))
	for i, domain := range []string{"a.test", "b.test", "c.test", "d.test"} {
		r.to(time.Duration(i) * time.Second)
		r.request(domain, ok(0))
	}
	require.False(t, r.kept("a.test"))
	r.to(4 * time.Second)
	r.Feedback("b.test", ok(0)) // used since, unlike c
	r.request("e.test", ok(0))
	require.True(t, r.kept("b.test"))
	require.False(t, r.kept("c.test"))
	require.Equal(t, 3, r.Snapshot().Domains)
	require.Equal(t, uint64(2), r.Snapshot().Evicted)
}

func TestCapSparesTheActive(t *testing.T) {
	r := newRig(t, small(2))
	a, _ := r.grant("a.test")
	b, _ := r.grant("b.test")
	c, granted := r.grant("c.test") // over the cap rather than broken
	require.True(t, granted)
	s := r.Snapshot()
	require.Equal(t, []uint64{3, 1, 0}, []uint64{uint64(s.Domains), s.OverCap, s.Evicted})
	b.Release()
	r.request("d.test", ok(0))
	require.False(t, r.kept("b.test"))
	a.Release()
	c.Release()
	r.request("e.test", ok(0))
	require.Equal(t, 2, r.Snapshot().Domains, "the excess is not made up for")
}

// Whatever a domain owes when it is evicted, it owes when it comes back.
func TestEvictionKeepsObligations(t *testing.T) {
	for _, tc := range []struct {
		name string
		owe  func(r *rig)
		at   time.Duration
		why  Limit
	}{
		{"Retry-After", func(r *rig) { r.Feedback(host, Feedback{StatusCode: 503, RetryAfter: time.Minute}) }, time.Minute, LimitRetryAfter},
		{"a spent token", func(r *rig) { r.request(host, Feedback{}) }, time.Second, LimitStart},
		{"Crawl-delay", func(r *rig) { r.SetCrawlDelay(host, 20*time.Second); r.request(host, Feedback{}) }, 20 * time.Second, LimitCrawlDelay},
		{"learned rate", func(r *rig) { r.request(host, status(503)) }, 2 * time.Second, LimitLearned},
		{"open breaker", func(r *rig) {
			for range 5 {
				r.Feedback(host, Feedback{Err: errReset})
			}
		}, 15 * time.Second, LimitBreaker},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, small(1))
			tc.owe(r)
			rate := r.see(host).FillRate
			for i := range 3 {
				r.request(fmt.Sprintf("%d.test", i), ok(0))
			}
			require.False(t, r.kept(host))
			r.wantReady(host, 0, tc.at, tc.why) // of the tombstone
			_, granted := r.grant(host)
			require.False(t, granted)
			require.True(t, r.kept(host))
			r.wantReady(host, 0, tc.at, tc.why) // of the state made from it
			require.Equal(t, rate, r.see(host).FillRate)
			r.to(tc.at - 1)
			_, granted = r.grant(host)
			require.False(t, granted)
			r.to(tc.at)
			_, granted = r.grant(host)
			require.True(t, granted)
		})
	}
}

// An evicted half-open breaker comes back half-open, not closed.
func TestEvictionKeepsAHalfOpenBreaker(t *testing.T) {
	r := newRig(t, small(1))
	for range 5 {
		r.Feedback(host, Feedback{Err: errReset})
	}
	r.to(15 * time.Second)
	r.request(host, ok(0))
	r.request("b.test", ok(0))
	require.False(t, r.kept(host))
	r.to(time.Minute)
	probe, granted := r.grant(host)
	require.True(t, granted)
	require.Equal(t, breaker.HalfOpen, r.see(host).State)
	_, granted = r.grant(host)
	require.False(t, granted)
	probe.Release()
}

func TestTombstonesAreSmallAndBounded(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(tombstone{}), uintptr(64))
	r := newRig(t, func(c *Config) { small(1)(c); c.MaxTombstones = 5 })
	for i := range 100 {
		r.request(fmt.Sprintf("%d.test", i), status(503))
	}
	require.Equal(t, 5, r.Snapshot().Tombstones)
	unused := newRig(t, small(1))
	for i := range 100 {
		unused.SetCrawlDelay(fmt.Sprintf("%d.test", i), 0)
	}
	require.Zero(t, unused.Snapshot().Tombstones, "what owes nothing leaves nothing")
}

// A state may be evicted between being found and being locked. Whoever has found it
// looks again: two states of one domain would grant twice.
func TestEvictionRacesWithUse(t *testing.T) {
	c := simplest()
	small(2)(&c)
	c.MaxTombstones = 100
	l := mustNew(t, c)
	var wg sync.WaitGroup
	var mu sync.Mutex
	granted := map[string]int{}
	for range 8 {
		wg.Go(func() {
			for i := range 2000 {
				domain := fmt.Sprintf("%d.test", i%5)
				// No deadline is far enough: a second grant within this test's
				// fraction of a second would be one too many.
				p, err := l.Acquire(deadlineContext{t.Context(), time.Now()}, domain)
				if err != nil {
					if !errors.Is(err, context.DeadlineExceeded) {
						t.Error(err)
					}
					continue
				}
				mu.Lock()
				granted[domain]++
				mu.Unlock()
				p.Release()
			}
		})
	}
	began := l.epoch
	wg.Wait()
	most := 1 + int(time.Since(began).Seconds()) // capacity and a token a second
	for domain, n := range granted {
		if n > most {
			t.Errorf("%s: %d grants, want at most %d", domain, n, most)
		}
	}
	s := l.Snapshot()
	total := 0
	for _, n := range granted {
		total += n
	}
	require.Equal(t, uint64(total), s.Requests)
	require.NotZero(t, s.Evicted)
}

// Whatever comes at once (grants, answers, evictions, sweeps, new rules, looks, hosts that
// come from elsewhere), a shard has the states that there are, and none that is dead.
func TestShardBesideUse(t *testing.T) {
	c := DefaultConfig()
	c.Shards, c.MaxDomains, c.MaxTombstones, c.DomainStateTTL = 1, 8, 8, time.Millisecond
	c.MaxRPS, c.InitialRPS, c.IPRPS, c.SiteRPS, c.GlobalRPS = 1000, 1000, 1e5, 1e5, 1e5
	l := mustNew(t, c)
	names := domains(32)
	answers := []Feedback{ok(time.Millisecond), status(429), status(503), {StatusCode: 429, RetryAfter: time.Millisecond}}
	var users, others sync.WaitGroup
	done := make(chan struct{})
	laws := rulesOf(c)
	for _, look := range []func(i int) error{
		func(int) error { l.Snapshot(); return nil },
		func(int) error { l.sweep(); return nil },
		func(i int) error { laws.MinDelay = time.Duration(i % 2); return l.SetRules(laws) },
		func(int) error {
			for m := range l.Remember() {
				l.Adopt(m)
			}
			return nil
		},
		func(i int) error { l.MemoryOf(names[i%len(names)]); return nil },
		func(i int) error { return l.SetCeiling(names[i%3], float64(i%2*500)) },
		func(i int) error {
			l.SetAddress(names[i%len(names)], addr(fmt.Sprintf("192.0.2.%d", i%3)))
			return nil
		},
	} {
		others.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
					if err := look(i); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	for worker := range 4 {
		users.Go(func() {
			for i := range 300 {
				domain := names[(i*7+worker)%len(names)]
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				p, err := l.Acquire(ctx, domain)
				cancel()
				if err != nil {
					continue // it is to wait, or its circuit is open
				}
				l.Feedback(domain, answers[i%len(answers)])
				p.Release()
			}
		})
	}
	users.Wait()
	close(done)
	others.Wait()
	l.Feedback(names[0], answers[0]) // as the sweep may have come last
	sh := &l.shards[0]
	require.NotEmpty(t, sh.states)
	for domain, s := range sh.states {
		require.False(t, s.dead)
		require.Equal(t, domain, s.domain)
	}
	l.cfg.DomainStateTTL = 0
	l.sweep()
	require.Empty(t, sh.states)
}
