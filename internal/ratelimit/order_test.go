package ratelimit

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestOrder holds an order against a slice that does the same.
func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var o useOrder
		var want []*state
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			switch do := rapid.IntRange(0, 3).Draw(t, "do"); {
			case do == 0 && len(want) > 0:
				i := rapid.IntRange(0, len(want)-1).Draw(t, "i")
				o.remove(want[i])
				require.Nil(t, want[i].newer, "it keeps nobody alive")
				require.Nil(t, want[i].older)
				want = slices.Delete(want, i, i+1)
			case do == 1 && len(want) > 0:
				o.oldest = o.oldest.newer
				want = append(want[1:], want[0])
			default:
				s := new(state)
				o.add(s)
				want = append(want, s)
			}
			require.Equal(t, len(want), o.n)
			if !slices.Equal(want, o.list()) {
				t.Fatal("not in the order of use")
			}
			if len(want) == 0 {
				require.Nil(t, o.oldest)
			}
		}
	})
}

// Whatever comes at once (grants, answers, evictions, sweeps, new rules, looks, hosts that
// come from elsewhere), the order and the index have the same states, and none that is dead.
func TestOrderBesideUse(t *testing.T) {
	c := DefaultConfig()
	c.Shards, c.MaxDomains, c.MaxTombstones, c.DomainStateTTL = 1, 8, 8, time.Millisecond
	c.MaxRPS, c.InitialRPS = 1000, 1000
	c.IPRPS, c.SiteRPS, c.GlobalRPS = 1e5, 1e5, 1e5
	l := mustNew(t, c)
	names := domains(32)
	answers := []Feedback{ok(time.Millisecond), status(429), status(503), {StatusCode: 429, RetryAfter: time.Millisecond}}
	var users, others sync.WaitGroup
	done := make(chan struct{})
	for _, look := range []func(i int){
		func(int) { l.Snapshot() },
		func(int) { l.sweep() },
		func(i int) {
			laws := rulesOf(c)
			laws.MinDelay = time.Duration(i % 2)
			if err := l.SetRules(laws); err != nil {
				t.Error(err)
			}
		},
		func(int) {
			for m := range l.Remember() {
				l.Adopt(m)
			}
		},
		func(i int) { l.MemoryOf(names[i%len(names)]) },
		func(i int) {
			if err := l.SetCeiling(names[i%3], float64(i%2*500)); err != nil {
				t.Error(err)
			}
		},
		func(i int) { l.SetAddress(names[i%len(names)], addr(fmt.Sprintf("192.0.2.%d", i%3))) },
	} {
		others.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
					look(i)
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
	sh := &l.shards[0]
	list := sh.states.list()
	require.Len(t, list, sh.index.live)
	require.Len(t, sh.index.appendAll(nil), sh.index.live)
	for i, s := range list {
		require.False(t, s.dead)
		require.Same(t, s, sh.index.get(l.identify(s.domain)))
		require.Same(t, list[(i+1)%len(list)], s.newer)
		require.Same(t, s, s.newer.older)
	}
	l.cfg.DomainStateTTL = 0
	l.sweep()
	require.Zero(t, sh.states.n)
	require.Nil(t, sh.states.oldest)
	require.Empty(t, sh.index.appendAll(nil))
}
