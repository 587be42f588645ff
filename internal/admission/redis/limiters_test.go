package redis_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/admission/redis"
	"github.com/treadlight/crawl/internal/lab/redistest"
	"github.com/treadlight/crawl/internal/ratelimit"
)

// Limiters of several processes share their budgets through one server, which forgets its
// scripts meanwhile; one of them ends as if it had been killed.
func TestLimiters(t *testing.T) {
	redistest.OnEach(t, func(t *testing.T, p redistest.Program) {
		s := p.Shared(t)
		testLimiters(t, s, s.Addr)
	})
}

func testLimiters(t *testing.T, forgetful *server, addr string) {
	const rate, tokens = 300, 200
	var granted atomic.Int64
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	begun := time.Now()
	var all sync.WaitGroup
	for i := range 3 {
		cfg := ratelimit.DefaultConfig()
		cfg.Strategy, cfg.InitialRPS, cfg.MaxRPS, cfg.GlobalRPS = "fixed", 1e5, 1e5, rate
		cfg.Fleet, cfg.FleetName = open(t, redis.Config{}, addr).Shared(slog.New(slog.DiscardHandler)), "crawl/limiters"
		l, err := ratelimit.New(cfg)
		require.NoError(t, err)
		one, kill := context.WithCancel(ctx)
		defer kill()
		all.Go(func() { _ = l.Run(one) })
		for j := range 4 {
			all.Go(func() {
				for {
					p, err := l.Acquire(one, fmt.Sprintf("h%d-%d.test", i, j))
					if err != nil {
						return
					}
					p.Release()
					switch n := granted.Add(1); {
					case n >= tokens:
						cancel()
					case n == tokens/4:
						forgetful.Do(t, "SCRIPT", "FLUSH")
					case n >= tokens/2 && i == 0:
						kill()
					}
				}
			})
		}
	}
	all.Wait()
	took := time.Since(begun)
	n := granted.Load()
	t.Logf("%d grants in %v", n, took)
	require.GreaterOrEqual(t, n, int64(tokens), "the others go on")
	require.LessOrEqual(t, float64(n), rate*(0.25+took.Seconds()), "nothing was there that the server had not given")
}
