package ratelimit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/ratelimit/control"
	"github.com/treadlight/crawl/limit"
)

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
		{"a new cap", nil, func(r *Rules) { r.Hosts = capped[:1] }, "rules cannot come, go"},
		{"a cap that goes", capped, func(r *Rules) { r.Hosts = capped[1:] }, "rules cannot come, go"},
		{"another cap", capped, func(r *Rules) {
			r.Hosts = []HostRule{{Match: "a.test", Cap: limit.Spec{Kind: limit.KindFixedWindow, Permits: 99, Per: time.Hour}}, capped[1]}
		}, "Hosts[0]: MaxInFlight, Cap and Quota"},
		{"a bound in flight", capped, func(r *Rules) { r.Hosts = []HostRule{capped[0], {Match: "*", MaxInFlight: 1}} }, "Hosts[1]: MaxInFlight"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, func(c *Config) { fast(c); c.Hosts = tc.was })
			r.request(host, ok(time.Millisecond))
			before := r.laid.Load()
			laws := rulesOf(r.cfg)
			tc.change(&laws)
			require.ErrorContains(t, r.SetRules(laws), tc.want)
			require.Same(t, before, r.laid.Load())
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

// crawl asks a domain that answers willingly whenever it may be asked, for so long.
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
