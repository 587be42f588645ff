//go:build unix

package redis_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/admission/redis"
	"github.com/treadlight/crawl/internal/lab/redistest"
	"github.com/treadlight/crawl/internal/ratelimit"
)

func TestCluster(t *testing.T) { onEach(t, testCluster) }

func testCluster(t *testing.T, program program) {
	masters, replica := program.Cluster(t)
	r := open(t, redis.Config{Keys: -1, Deadline: 20 * short}, masters[1].Addr)
	c := clusterTest{masters, replica, r, []admission.Plan{
		bucket("a", 100, 1e-6), fixed("b", 1000, 300*24*time.Hour), sliding("c", 200, 300*24*time.Hour),
	}}
	t.Run("one slot per decision", c.oneSlot)
	t.Run("exact", c.exact)
	t.Run("scripts flushed", c.flushed)
	t.Run("limiters", func(t *testing.T) { testLimiters(t, masters[0], masters[2].Addr) })
	t.Run("failover", c.failover)
	t.Run("a node is down", c.nodeDown)
}

type clusterTest struct {
	masters []*server
	replica *server
	r       *redis.Repository
	plans   []admission.Plan
}

func (c *clusterTest) keyAt(t testing.TB, master int, prefix string) string {
	t.Helper()
	for i := range 1000 {
		key := fmt.Sprint(prefix, i)
		if c.slot(t, redis.StoreKey("a", key))*3/16384 == int64(master) {
			return key
		}
	}
	t.Fatalf("no key at master %d", master)
	return ""
}

func (c *clusterTest) slot(t testing.TB, key string) int64 {
	t.Helper()
	return must(c.masters[1].Do(t, "CLUSTER", "KEYSLOT", key).AsInt64())
}

// oneSlot: hostile keys too, or the server refuses.
func (c *clusterTest) oneSlot(t *testing.T) {
	for _, key := range []string{"ann", "", "}", "{", "{}", "}{", "a}b", "{a}b", "%", "%7D", "\x00", "\r\n", "{a}:{b}"} {
		slot := c.slot(t, redis.StoreKey("a", key))
		for _, p := range c.plans {
			require.Equal(t, slot, c.slot(t, redis.StoreKey(p.Name, key)), "%q", key)
		}
		before := c.r.Statistics().Trips
		require.Equal(t, int64(99), take(t, c.r, key, 1, c.plans...).Remaining, "%q", key)
		st := c.r.Statistics()
		require.LessOrEqual(t, st.Trips-before, uint64(2), "%q: a trip, and one more if the node did not know the script", key)
	}
	require.LessOrEqual(t, c.r.Statistics().Reloads, uint64(3))
	for _, s := range c.masters {
		require.NotZero(t, must(s.Do(t, "DBSIZE").AsInt64()), "a node without keys")
	}
}

func (c *clusterTest) exact(t *testing.T) {
	require.Equal(t, int64(100), c.grantedOf(t, "exact", 2000))
}

func (c *clusterTest) grantedOf(t *testing.T, key string, n int) int64 {
	t.Helper()
	return granted(t, n, func(int) (admission.Result, error) { return c.r.Take(context.Background(), key, c.plans, 1) })
}

func (c *clusterTest) flushed(t *testing.T) {
	keys := []string{c.keyAt(t, 0, "f"), c.keyAt(t, 1, "f"), c.keyAt(t, 2, "f")}
	for range 5 {
		for _, s := range c.masters {
			s.Do(t, "SCRIPT", "FLUSH")
		}
		for _, key := range keys {
			require.True(t, take(t, c.r, key, 1, c.plans...).Allowed)
		}
	}
	for _, key := range keys {
		require.Equal(t, int64(95), take(t, c.r, key, 0, c.plans...).Remaining)
	}
}

// failover puts the replica in its master's place: the count goes on there, and that it
// has never seen the script is no matter.
func (c *clusterTest) failover(t *testing.T) {
	key := c.keyAt(t, 0, "o")
	for range 40 {
		take(t, c.r, key, 1, c.plans...)
	}
	reloads := c.r.Statistics().Reloads
	c.replica.Do(t, "SCRIPT", "FLUSH") // it was told the script when the client connected
	c.replica.Do(t, "CLUSTER", "FAILOVER")
	redistest.Eventually(t, c.replica, []string{"INFO", "replication"}, "role:master")
	require.Equal(t, int64(60), take(t, c.r, key, 0, c.plans...).Remaining)
	require.Equal(t, int64(60), c.grantedOf(t, key, 200))
	require.Greater(t, c.r.Statistics().Reloads, reloads, "the new master knew the script")
	require.Zero(t, c.r.Statistics().Failures)
}

// nodeDown: who is counted at a node that is there does not see that another is not, which is another part.
func (c *clusterTest) nodeDown(t *testing.T) {
	there, gone := c.keyAt(t, 1, "d"), c.keyAt(t, 2, "d")
	one, _ := c.r.Part(there)
	other, _ := c.r.Part(gone)
	require.NotEqual(t, one, other)
	take(t, c.r, gone, 1, c.plans...)
	c.masters[2].Stop()
	for range 5 {
		_, err := c.r.Take(context.Background(), gone, c.plans, 1)
		require.Error(t, err)
		require.True(t, take(t, c.r, there, 1, c.plans...).Allowed)
	}
}

// Sentinel says which server is the master, and after a failover another.
func TestSentinel(t *testing.T) { onEach(t, testSentinel) }

func testSentinel(t *testing.T, program program) {
	master := program.Start(t)
	host, port, err := net.SplitHostPort(master.Addr)
	require.NoError(t, err)
	slave := program.Start(t, "--replicaof", host+" "+port, "--repl-diskless-sync-delay", "0")
	redistest.Eventually(t, slave, []string{"INFO", "replication"}, "master_link_status:up")
	config := filepath.Join(t.TempDir(), "sentinel.conf")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil,
		"sentinel monitor limits %s %s 1\nsentinel down-after-milliseconds limits 500\n", host, port), 0o600))
	sentinel := program.Start(t, config, "--sentinel")
	redistest.Eventually(t, master, []string{"INFO", "replication"}, "connected_slaves:1")
	require.Eventually(t, func() bool {
		slaves, err := sentinel.Do(t, "SENTINEL", "REPLICAS", "limits").ToArray()
		return err == nil && len(slaves) == 1
	}, patience, 20*time.Millisecond)

	r := open(t, redis.Config{
		Redis:    rueidis.ClientOption{Sentinel: rueidis.SentinelOption{MasterSet: "limits"}},
		Deadline: short, Keys: -1,
	}, sentinel.Addr)
	p := bucket("p", 10, 1e-6)
	require.NoError(t, r.Ping(context.Background()))
	take(t, r, "ann", 3, p)
	require.Eventually(t, func() bool {
		n, err := slave.Do(t, "EXISTS", redis.StoreKey("p", "ann")).AsInt64()
		return err == nil && n == 1
	}, patience, 5*time.Millisecond)
	master.Stop()
	require.Eventually(t, func() bool {
		res, err := r.Take(context.Background(), "ann", []admission.Plan{p}, 0)
		return err == nil && res.Remaining == 7
	}, patience, 20*time.Millisecond)
	require.True(t, take(t, r, "ann", 7, p).Allowed)
}

// Limiters of several processes share their budgets through one server, which forgets its
// scripts meanwhile; one of them ends as if it had been killed.
func TestLimiters(t *testing.T) {
	onEach(t, func(t *testing.T, p program) {
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
		l := must(ratelimit.New(cfg))
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
