package ratelimit

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock/clocktest"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// A host goes from one limiter to another and back: what the other has learned counts, and
// no order to wait is lost on the way.
func TestAdopt(t *testing.T) {
	c := simplest()
	clk := clocktest.NewFake(start)
	c.Clock = clk
	a, b := &rig{mustNew(t, c), t, clk}, &rig{mustNew(t, c), t, clk}
	_, _, ok := a.MemoryOf(host)
	require.False(t, ok, "of a host that was never asked")
	a.request(host, Feedback{StatusCode: http.StatusOK, Latency: 10 * time.Millisecond})
	m, gap, ok := a.MemoryOf(host)
	require.True(t, ok)
	require.Equal(t, time.Duration(float64(time.Second)/a.see(host).FillRate).Round(time.Millisecond), gap.Round(time.Millisecond))
	require.Equal(t, a.remembered()[host], m)

	require.True(t, b.Adopt(m))
	at, _ := b.ReadyAt(host, 0, 0)
	mine, _ := a.ReadyAt(host, 0, 0)
	require.True(t, !at.Before(mine), "the pace is kept: %v, and not before %v", at, mine)

	clk.Advance(time.Minute)
	b.request(host, Feedback{StatusCode: http.StatusTooManyRequests, RetryAfter: 5 * time.Minute, Latency: time.Millisecond})
	back, _, ok := b.MemoryOf(host)
	require.True(t, ok)
	require.True(t, a.Adopt(back), "though it knows the host")
	want, _ := b.ReadyAt(host, 0, 0)
	got, why := a.ReadyAt(host, 0, 0)
	require.Equal(t, LimitRetryAfter, why)
	require.WithinDuration(t, want, got, time.Millisecond)
	require.True(t, a.Adopt(m), "what is older")
	got, _ = a.ReadyAt(host, 0, 0)
	require.WithinDuration(t, want, got, time.Millisecond, "no order is lost")

	bad := m
	bad.Domain = "NO HOST"
	require.False(t, a.Adopt(bad))
}

// While a host is being asked nothing changes but an order to wait.
func TestAdoptOfOneThatIsAsked(t *testing.T) {
	c := simplest()
	clk := clocktest.NewFake(start)
	c.Clock = clk
	a := &rig{mustNew(t, c), t, clk}
	permit, ok := a.grant(host)
	require.True(t, ok)
	until := start.Add(time.Minute)
	require.True(t, a.Adopt(HostMemory{Domain: host, LastUsed: start, RetryUntil: until}))
	at, why := a.ReadyAt(host, 0, 0)
	require.Equal(t, LimitRetryAfter, why)
	require.WithinDuration(t, until, at, time.Millisecond)
	permit.Release()
}

// A host that was evicted is handed over no sooner than the user's rules allow, though nothing
// was learned of it.
func TestGapOfAnEvictedHost(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*Config)
		want   time.Duration
	}{
		{"a rate", func(c *Config) { c.InitialRPS, c.MaxRPS = 2, 2 }, 500 * time.Millisecond},
		{"a delay", func(c *Config) { c.MinDelay = 3 * time.Second }, 3 * time.Second},
	} {
		r := newRig(t, func(c *Config) {
			small(1)(c)
			c.Strategy = control.NameSteer
			tc.change(c)
		})
		r.request(host, ok(time.Millisecond))
		r.request("b.test", ok(time.Millisecond))
		require.False(t, r.kept(host), tc.name)
		_, gap, known := r.MemoryOf(host)
		require.True(t, known, tc.name)
		require.Equal(t, tc.want, gap, tc.name)
	}
}
