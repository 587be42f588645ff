package ratelimit

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/ratelimit/control"
	"github.com/treadlight/crawl/limit"
)

func TestHostRules(t *testing.T) {
	r := newRig(t, func(c *Config) {
		c.Hosts = []HostRule{
			{Match: "Fast.Example.com", InitialRPS: 5, MaxRPS: 50},
			{Match: "*.example.com", MaxRPS: 0.5},
			{Match: "port.test:8080", MinDelay: 3 * time.Second},
			{Match: "*", InitialRPS: 2},
		}
	})
	for _, tc := range []struct {
		domain string
		want   float64
	}{
		{"fast.example.com", 5},
		{"fast.example.com:8080", 5},
		{"slow.example.com", 0.5},
		{"a.b.example.com", 0.5},
		{"example.com", 2},
		{"notexample.com", 2},
		{"port.test", 2},
		{"port.test:8080", 0.333333},
		{"[::1]:9000", 2},
	} {
		require.EqualValues(t, tc.want, r.see(tc.domain).FillRate, "%+v", tc)
	}
}

func TestConfigDefaults(t *testing.T) {
	c := DefaultConfig()
	require.Equal(t, "steer", c.Strategy)
	require.Equal(t, []float64{1, 0.1, 10, 1, 0.1, 0.5, 2, 0.5}, []float64{
		c.InitialRPS, c.MinRPS, c.MaxRPS, c.TokenBucketCapacity, c.AIMDIncrease, c.AIMDDecrease, c.LatencyDegradeFactor, c.ErrorRateThreshold,
	})
	require.Equal(t, []int{10, 5, 2, 64, 16, 100_000, 400_000}, []int{
		c.MinSamplesToTrip, c.ConsecutiveFailThreshold, c.HalfOpenProbes, c.LatencySamples, c.Shards, c.MaxDomains, c.MaxTombstones,
	})
	require.Equal(t, []time.Duration{time.Second, 15 * time.Second, 30 * time.Second, 2 * time.Second, 10 * time.Minute}, []time.Duration{
		c.LatencyTarget, c.OpenStateDuration, c.StatsWindow, c.StatsBucket, c.DomainStateTTL,
	})
	_, err := New(c)
	require.NoError(t, err)
	_, err = New(Config{})
	require.NoError(t, err, "the zero Config is a limiter that is off")
}

func TestConfigRejects(t *testing.T) {
	for _, tc := range []struct {
		want   string
		change func(c *Config)
	}{
		{"InitialRPS = 11: want a rate from MinRPS to MaxRPS", func(c *Config) { c.InitialRPS = 11 }},
		{"InitialRPS = NaN", func(c *Config) { c.InitialRPS = math.NaN() }},
		{"MinRPS = -1", func(c *Config) { c.MinRPS = -1 }},
		{"MaxRPS = +Inf", func(c *Config) { c.MaxRPS = math.Inf(1) }},
		{"TokenBucketCapacity = 0.5", func(c *Config) { c.TokenBucketCapacity = 0.5 }},
		{"TokenBucketCapacity = 1001", func(c *Config) { c.TokenBucketCapacity = 1001 }},
		{"AIMDIncrease = -1", func(c *Config) { c.AIMDIncrease = -1 }},
		{"AIMDDecrease = 1: want a factor above 0 and below 1", func(c *Config) { c.AIMDDecrease = 1 }},
		{"LatencyTarget = -1s", func(c *Config) { c.LatencyTarget = -time.Second }},
		{"LatencyDegradeFactor = 0.5", func(c *Config) { c.LatencyDegradeFactor = 0.5 }},
		{"ErrorRateThreshold = 2", func(c *Config) { c.ErrorRateThreshold = 2 }},
		{"MinSamplesToTrip = -1", func(c *Config) { c.MinSamplesToTrip = -1 }},
		{"ConsecutiveFailThreshold = -1", func(c *Config) { c.ConsecutiveFailThreshold = -1 }},
		{"OpenStateDuration = -1s", func(c *Config) { c.OpenStateDuration = -time.Second }},
		{"HalfOpenProbes = 65536: want 1 to 65535", func(c *Config) { c.HalfOpenProbes = 65536 }},
		{"LatencySamples = 256: want 1 to 255", func(c *Config) { c.LatencySamples = 256 }},
		{"LatencySamples = -1", func(c *Config) { c.LatencySamples = -1 }},
		{"StatsWindow = 30s, StatsBucket = 7s", func(c *Config) { c.StatsBucket = 7 * time.Second }},
		{"DomainStateTTL = -1ns", func(c *Config) { c.DomainStateTTL = -1 }},
		{"Shards = 12: want a power of two", func(c *Config) { c.Shards = 12 }},
		{"Shards = -16", func(c *Config) { c.Shards = -16 }},
		{"MaxDomains = -1", func(c *Config) { c.MaxDomains = -1 }},
		{"MaxTombstones = -1", func(c *Config) { c.MaxTombstones = -1 }},
		{"MaxWaiters = -1", func(c *Config) { c.MaxWaiters = -1 }},
		{"MaxRetryAfter = -1ns", func(c *Config) { c.MaxRetryAfter = -1 }},
		{"MinDelay = -1ns", func(c *Config) { c.MinDelay = -1 }},
		{"GlobalRPS = -1", func(c *Config) { c.GlobalRPS = -1 }},
		{"ThrottledAfter = -1ns", func(c *Config) { c.ThrottledAfter = -1 }},
		{`Strategy = "guess": want one of ` + strings.Join(control.Names(), ", "), func(c *Config) { c.Strategy = "guess" }},
		{"Hosts[0].Match = : want a host", func(c *Config) { c.Hosts = []HostRule{{}} }},
		{"Hosts[0].Match = a*.test", func(c *Config) { c.Hosts = []HostRule{{Match: "a*.test"}} }},
		{"Hosts[0].Match = *:80", func(c *Config) { c.Hosts = []HostRule{{Match: "*:80"}} }},
		{"Hosts[1].MaxRPS = -1", func(c *Config) { c.Hosts = []HostRule{{Match: "*"}, {Match: host, MaxRPS: -1}} }},
		{"Hosts[0].MinRPS = 2", func(c *Config) { c.Hosts = []HostRule{{Match: host, MinRPS: 2, MaxRPS: 1}} }},
		{"Hosts[0].InitialRPS = 2", func(c *Config) { c.Hosts = []HostRule{{Match: host, InitialRPS: 2, MaxRPS: 1}} }},
		{"Hosts[0].MinDelay = 2562047h", func(c *Config) { c.Hosts = []HostRule{{Match: host, MinDelay: math.MaxInt64}} }},
	} {
		c := DefaultConfig()
		tc.change(&c)
		_, err := New(c)
		if err == nil || !strings.HasPrefix(err.Error(), "ratelimit: "+tc.want) {
			t.Errorf("New = %v, want ratelimit: %s …", err, tc.want)
		}
	}
}

func TestGlobalCapacityIsTenMilliseconds(t *testing.T) {
	for _, tc := range []struct {
		rps  float64
		want int64
	}{
		{1e-6, token}, {100, token}, {200, 2 * token}, {1e5, 1000 * token}, {1e6, 1000 * token},
	} {
		require.EqualValues(t, tc.want, newRig(t, func(c *Config) { c.GlobalRPS = tc.rps }).shared.global.capacity, "%+v", tc)
	}
}

func rulesOf(c Config) Rules {
	return Rules{InitialRPS: c.InitialRPS, MinRPS: c.MinRPS, MaxRPS: c.MaxRPS, MinDelay: c.MinDelay, Hosts: c.Hosts}
}

// New rules hold at once: for who is known, who waits and who comes.
func TestSetRules(t *testing.T) {
	r := newRig(t, fast)
	r.request(host, ok(time.Millisecond))
	_, granted := r.grant(host)
	require.False(t, granted)
	r.wantReady(host, 0, 10*time.Millisecond, LimitRule)

	laws := rulesOf(r.cfg)
	laws.MinDelay = 3 * time.Second
	require.NoError(t, r.SetRules(laws))
	r.wantReady(host, 0, 3*time.Second, LimitRule)
	r.request("new.test", ok(time.Millisecond))
	r.wantReady("new.test", 0, 3*time.Second, LimitRule)

	laws.Hosts = []HostRule{{Match: host, MinDelay: -1, MaxRPS: 2}}
	require.NoError(t, r.SetRules(laws))
	r.wantReady(host, 0, 500*time.Millisecond, LimitRule)
	r.wantReady("new.test", 0, 3*time.Second, LimitRule)

	laws.Hosts, laws.MinDelay = nil, 0
	require.NoError(t, r.SetRules(laws))
	r.wantReady(host, 0, 10*time.Millisecond, LimitRule)
}

// What a host asked for is no rule, and stays.
func TestSetRulesKeepsOrders(t *testing.T) {
	r := newRig(t, fast)
	r.request(host, Feedback{StatusCode: 429, RetryAfter: time.Minute})
	laws := rulesOf(r.cfg)
	laws.MaxRPS, laws.InitialRPS = 1000, 1000
	require.NoError(t, r.SetRules(laws))
	r.wantReady(host, 0, time.Minute, LimitRetryAfter)
}

func TestSetRulesRefuses(t *testing.T) {
	ten := limit.Spec{Kind: limit.KindFixedWindow, Permits: 10, Per: time.Hour}
	capped := []HostRule{{Match: "a.test", Cap: ten}, {Match: "*", MaxRPS: 5}}
	for _, tc := range []struct {
		name   string
		was    []HostRule
		change func(*Rules)
		want   string
	}{
		{"a bad rate", nil, func(r *Rules) { r.MaxRPS = -1 }, "MaxRPS"},
		{"a bad match", nil, func(r *Rules) { r.Hosts = []HostRule{{Match: "/"}} }, "Hosts[0].Match"},
		{"a new cap", nil, func(r *Rules) { r.Hosts = capped[:1] }, "rules cannot be added"},
		{"a cap that goes", capped, func(r *Rules) { r.Hosts = capped[1:] }, "rules cannot be added"},
		{"another cap", capped, func(r *Rules) {
			r.Hosts = []HostRule{{Match: "a.test", Cap: limit.Spec{Kind: limit.KindFixedWindow, Permits: 99, Per: time.Hour}}, capped[1]}
		}, "Hosts[0]: MaxInFlight, Cap and Quota"},
		{"a bound in flight", capped, func(r *Rules) { r.Hosts = []HostRule{capped[0], {Match: "*", MaxInFlight: 1}} }, "Hosts[1]: MaxInFlight"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, func(c *Config) { fast(c); c.Hosts = tc.was })
			r.request(host, ok(time.Millisecond))
			before := r.rules.Load()
			laws := rulesOf(r.cfg)
			tc.change(&laws)
			require.ErrorContains(t, r.SetRules(laws), tc.want)
			require.Same(t, before, r.rules.Load())
		})
	}
}

// A cap goes on counting what it had granted.
func TestSetRulesKeepsCaps(t *testing.T) {
	capped := HostRule{Match: host, Cap: limit.Spec{Kind: limit.KindFixedWindow, Permits: 3, Per: time.Hour}}
	r := newRig(t, func(c *Config) { fast(c); c.Hosts = []HostRule{capped} })
	for i := range 2 {
		r.to(time.Duration(i) * time.Second)
		r.request(host, ok(time.Millisecond))
	}
	capped.MaxRPS = 50
	laws := rulesOf(r.cfg)
	laws.Hosts = []HostRule{capped}
	require.NoError(t, r.SetRules(laws))
	r.to(3 * time.Second)
	r.request(host, ok(time.Millisecond))
	r.to(4 * time.Second)
	_, granted := r.grant(host)
	require.False(t, granted, "the fourth of three")
	r.wantReady(host, 0, time.Hour, LimitCap)
}

func (r *rig) crawl(domain string, d time.Duration) {
	r.t.Helper()
	for end := r.clk.Now().Add(d); ; {
		now := r.clk.Now()
		at, _ := r.ReadyAt(domain, 0, 0)
		if at = later(at, now); !at.Before(end) {
			r.clk.Advance(max(0, end.Sub(now)))
			return
		}
		r.clk.Advance(at.Sub(now))
		if p, ok := r.grant(domain); ok {
			r.clk.Advance(time.Millisecond)
			r.Feedback(domain, Feedback{StatusCode: 200, Latency: time.Millisecond})
			p.Release()
		}
	}
}

// What only the user or robots.txt bounded is no knowledge of the host: it is not remembered,
// and once the bound is higher the search goes on to it.
func TestRaisedBoundIsSearchedFor(t *testing.T) {
	for _, tc := range []struct {
		name         string
		lower, raise func(r *rig, laws Rules) error
	}{
		{
			"rules",
			func(r *rig, laws Rules) error { laws.MaxRPS = 3; return r.SetRules(laws) },
			func(r *rig, laws Rules) error { return r.SetRules(laws) },
		},
		{
			"the operator",
			func(r *rig, _ Rules) error { return r.SetCeiling(host, 3) },
			func(r *rig, _ Rules) error { return r.SetCeiling(host, 0) },
		},
		{
			"Crawl-delay",
			func(r *rig, _ Rules) error { r.SetCrawlDelay(host, time.Second); return nil },
			func(r *rig, _ Rules) error { r.SetCrawlDelay(host, 0); return nil },
		},
	} {
		r := newRig(t, func(c *Config) { c.Strategy, c.MaxRPS = control.NameSteer, 300 })
		laws := rulesOf(r.cfg)
		require.NoError(t, tc.lower(r, laws), tc.name)
		r.crawl(host, 2*time.Minute)
		require.LessOrEqual(t, r.see(host).FillRate, 3.0, tc.name)
		require.Zero(t, r.remembered()[host].Rate, tc.name)
		require.NoError(t, tc.raise(r, laws), tc.name)
		r.crawl(host, time.Second)
		require.Less(t, r.see(host).FillRate, 10.0, tc.name)
		r.crawl(host, 15*time.Second)
		require.Greater(t, r.see(host).FillRate, 250.0, tc.name)
	}
}

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
	require.Equal(t, "at most 0.5/s, set while the crawl runs", d.Reason)
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
