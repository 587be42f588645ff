package ratelimit

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/ratelimit/control"
	"github.com/treadlight/crawl/limit"
)

// A ceiling holds at once for the one domain, below the settings or above them, and takes
// the place of a delay that they lay down; zero brings the settings back.
func TestSetCeiling(t *testing.T) {
	r := newRig(t, func(c *Config) {
		fast(c)
		c.Hosts = []HostRule{{Match: "slow.test", MinDelay: 10 * time.Second, MaxRPS: 50, InitialRPS: 50}}
	})
	r.request(host, ok(time.Millisecond))
	r.request("b.test", ok(time.Millisecond))
	r.request("slow.test", ok(time.Millisecond))
	r.wantReady(host, 0, 10*time.Millisecond, LimitRule)
	r.wantReady("slow.test", 0, 10*time.Second, LimitRule)

	require.NoError(t, r.SetCeiling("A.test:443", 0.5))
	r.wantReady(host, 0, 2*time.Second, LimitRule)
	r.wantReady("b.test", 0, 10*time.Millisecond, LimitRule)
	d := r.see(host)
	require.Equal(t, "set while the crawl runs: at most 0.5/s", d.Reason)
	require.InDelta(t, 0.5, d.OperatorRPS, 1e-9)
	require.Zero(t, r.see("b.test").OperatorRPS)

	require.NoError(t, r.SetCeiling("slow.test", 50))
	r.wantReady("slow.test", 0, 20*time.Millisecond, LimitRule)
	require.NoError(t, r.SetCeiling("slow.test", 0))
	r.wantReady("slow.test", 0, 10*time.Second, LimitRule)
	require.NoError(t, r.SetCeiling(host, 0))
	r.wantReady(host, 0, 10*time.Millisecond, LimitRule)
	require.Zero(t, r.see(host).OperatorRPS)
	require.NoError(t, r.SetCeiling(host, 0), "there is none")
}

// It is there before the domain is met, and after other rules; what robots.txt and the
// server ask for is obeyed above it.
func TestCeilingOutlives(t *testing.T) {
	r := newRig(t, func(c *Config) { fast(c); c.Strategy = control.NameFixed })
	require.NoError(t, r.SetCeiling("late.test", 0.25))
	r.request("late.test", ok(time.Millisecond))
	r.wantReady("late.test", 0, 4*time.Second, LimitRule)

	laws := rulesOf(r.cfg)
	laws.MaxRPS, laws.MinDelay = 200, 3*time.Second
	require.NoError(t, r.SetRules(laws))
	r.wantReady("late.test", 0, 4*time.Second, LimitRule)
	require.NoError(t, r.SetCeiling("late.test", 0))
	r.wantReady("late.test", 0, 3*time.Second, LimitRule)

	require.NoError(t, r.SetCeiling("late.test", 1000))
	r.SetCrawlDelay("late.test", 8*time.Second)
	r.wantReady("late.test", 0, 8*time.Second, LimitCrawlDelay)
	r.Feedback("late.test", Feedback{StatusCode: 429, RetryAfter: time.Minute})
	r.wantReady("late.test", 0, time.Minute, LimitRetryAfter)
}

// An evicted domain that comes back has its ceiling still.
func TestCeilingOutlivesEviction(t *testing.T) {
	r := newRig(t, func(c *Config) { fast(c); c.MaxDomains, c.Shards = 1, 1 })
	require.NoError(t, r.SetCeiling(host, 0.5))
	r.request(host, ok(time.Millisecond))
	r.to(time.Hour)
	r.request("b.test", ok(time.Millisecond))
	require.EqualValues(t, 1, r.Snapshot().Domains)
	r.request(host, ok(time.Millisecond))
	r.wantReady(host, 0, time.Hour+2*time.Second, LimitRule)
}

// A cap goes on counting under another ceiling.
func TestCeilingKeepsCaps(t *testing.T) {
	r := newRig(t, func(c *Config) {
		fast(c)
		c.Hosts = []HostRule{{Match: host, Cap: limit.Spec{Kind: limit.KindFixedWindow, Permits: 3, Per: time.Hour}}}
	})
	for i := range 3 {
		require.NoError(t, r.SetCeiling(host, float64(i)*100))
		r.to(time.Duration(i) * time.Second)
		r.request(host, ok(time.Millisecond))
	}
	r.to(3 * time.Second)
	_, granted := r.grant(host)
	require.False(t, granted, "the fourth of three")
	r.wantReady(host, 0, time.Hour, LimitCap)
}

func TestSetCeilingRefuses(t *testing.T) {
	r := newRig(t, fast)
	for _, rps := range []float64{-1, 1e-9, 1e9, math.NaN(), math.Inf(1)} {
		require.ErrorContains(t, r.SetCeiling(host, rps), "want 1e-6 to 1e6", rps)
	}
	for i := range maxCeilings {
		require.NoError(t, r.SetCeiling(fmt.Sprintf("%d.test", i), 5))
	}
	require.ErrorIs(t, r.SetCeiling(host, 5), ErrTooManyCeilings)
	require.NoError(t, r.SetCeiling("7.test", 6), "it has one")
	require.NoError(t, r.SetCeiling("8.test", 0))
	require.NoError(t, r.SetCeiling(host, 5))
	off := newRig(t, func(c *Config) { c.Enabled = false })
	require.ErrorContains(t, off.SetCeiling(host, 5), "not limited")
}
