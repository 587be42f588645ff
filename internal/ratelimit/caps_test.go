package ratelimit

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/ratelimit/control"
	"github.com/treadlight/crawl/limit"
)

// capped is a limiter whose engine never holds anybody back, with a rule for host.
func capped(t tester, rule HostRule, change func(c *Config)) *rig {
	t.Helper()
	return newRig(t, func(c *Config) {
		c.Strategy = control.NameFixed
		c.InitialRPS, c.MaxRPS, c.TokenBucketCapacity = 1e6, 1e6, 1000
		rule.Match = host
		c.Hosts = []HostRule{rule}
		if change != nil {
			change(c)
		}
	})
}

func (r *rig) grants(domain string, release bool) (n int) {
	r.t.Helper()
	for ; n < 100; n++ {
		p, ok := r.grant(domain)
		if !ok {
			return n
		}
		if release {
			p.Release()
		}
	}
	return n
}

// More ahead than a cap ever has room for: a forecast by its rate, and never an overflow.
func TestCapsFarAhead(t *testing.T) {
	r := capped(t, HostRule{Cap: limit.Spec{Kind: limit.KindFixedWindow, Permits: 4, Per: time.Second}}, nil)
	r.wantReady(host, 3, 0, LimitNone)
	r.wantReady(host, 4, soon, LimitCap)
	r.wantReady(host, 8, time.Second+soon, LimitCap)
	r.to(900 * time.Millisecond)
	require.Equal(t, 4, r.grants(host, true))
	r.wantReady(host, 0, time.Second, LimitCap)
	r.wantReady(host, 3, time.Second, LimitCap)
	r.wantReady(host, 4, 2*time.Second, LimitCap)
	r = capped(t, HostRule{Cap: limit.Spec{Kind: limit.KindSlidingWindowLog, Permits: 3, Per: time.Second}}, nil)
	_, _ = r.grant(host)
	r.to(300 * time.Millisecond)
	_, _ = r.grant(host)
	r.to(500 * time.Millisecond)
	for ahead, at := range []time.Duration{0, 1000, 1300, 1500, 2000, 2300, 2500, 3000} {
		why := LimitCap
		if ahead == 0 {
			why = LimitNone
		}
		r.wantReady(host, ahead, at*time.Millisecond, why)
	}
	r = capped(t, HostRule{Cap: limit.Spec{Permits: 1, Per: longest, Burst: 2}}, nil)
	at, why := r.ReadyAt(host, math.MaxInt32, 0)
	require.Equal(t, LimitCap, why)
	require.Equal(t, start.Add(longest), at)
}

func TestConcurrencyCapFreesWithThePermit(t *testing.T) {
	for name, rule := range map[string]HostRule{
		"cap":   {Cap: limit.Spec{Kind: limit.KindConcurrency, Permits: 3}},
		"rule":  {MaxInFlight: 3},
		"lower": {MaxInFlight: 3, Cap: limit.Spec{Kind: limit.KindConcurrency, Permits: 5}},
	} {
		t.Run(name, func(t *testing.T) {
			r := capped(t, rule, nil)
			require.Equal(t, 3, r.InFlightCap(host))
			require.Zero(t, r.InFlightCap("b.test"))
			var out []Permit
			for range 3 {
				p, ok := r.grant(host)
				require.True(t, ok)
				out = append(out, p)
			}
			require.Zero(t, r.grants(host, false))
			_, why := r.ReadyAt(host, 0, 0)
			want := LimitCap
			if name != "cap" {
				want = LimitRule
			}
			require.Equal(t, want, why)
			out[0].Release()
			require.Equal(t, 1, r.grants(host, false))
			out[1].Release()
			out[2].Release()
			require.Equal(t, 2, r.grants(host, false), "each place is freed once")
			require.Zero(t, r.Snapshot().OverReleased)
		})
	}
}

// One who waits for a place is woken by the release, in the order of arrival, and one whose time is up is told then.
func TestWaitersForAPlace(t *testing.T) {
	for name, change := range map[string]func(c *Config){
		"cap":    func(c *Config) { c.Hosts[0].Cap = limit.Spec{Kind: limit.KindConcurrency, Permits: 1} },
		"rule":   func(c *Config) { c.Hosts[0].MaxInFlight = 1 },
		"global": func(c *Config) { c.GlobalConcurrency = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := bubbleLimiter(t, change)
				begun := time.Now()
				first, err := l.Acquire(t.Context(), host)
				require.NoError(t, err)
				_, err = l.Acquire(deadlineContext{t.Context(), time.Now().Add(50 * time.Millisecond)}, host)
				require.ErrorIs(t, err, context.DeadlineExceeded, "a deadline without a timer")
				require.Equal(t, 50*time.Millisecond, time.Since(begun))
				var order []int
				var wg sync.WaitGroup
				for i := range 3 {
					wg.Go(func() {
						p, err := l.Acquire(t.Context(), host)
						require.NoError(t, err)
						order = append(order, i)
						time.Sleep(time.Second)
						p.Release()
					})
					synctest.Wait()
				}
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				_, err = l.Acquire(ctx, host)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.Equal(t, 150*time.Millisecond, time.Since(begun), "not before there is no hope")
				first.Release()
				wg.Wait()
				require.Equal(t, []int{0, 1, 2}, order)
			})
		})
	}
}

func bubbleLimiter(t *testing.T, change func(c *Config)) *AdaptiveRateLimiter {
	t.Helper()
	c := simplest()
	c.Strategy = control.NameFixed
	c.InitialRPS, c.MaxRPS, c.TokenBucketCapacity = 1e6, 1e6, 1000
	c.Hosts = []HostRule{{Match: host}}
	change(&c)
	return mustNew(t, c)
}

func TestQuotaIsABlockNotAPace(t *testing.T) {
	r := capped(t, HostRule{
		Quota: limit.Spec{Permits: 5, Per: 24 * time.Hour},
		Cap:   limit.Spec{Kind: limit.KindSlidingWindowLog, Permits: 3, Per: time.Second},
	}, nil)
	require.Equal(t, 3, r.grants(host, true))
	r.wantReady(host, 0, time.Second, LimitCap)
	r.wantReady(host, 1, time.Second, LimitCap)
	r.wantReady(host, 2, 24*time.Hour, LimitQuota) // the sixth
	r.to(time.Second)
	require.Equal(t, 2, r.grants(host, true))
	r.wantReady(host, 0, 24*time.Hour, LimitQuota)
	d := r.see(host)
	require.Equal(t, LimitQuota, d.LimitedBy)
	require.Equal(t, "your quota: 5 requests per 24h (fixed-window), nothing left, more in 23h59m59s", d.Reason)
	r.to(24 * time.Hour)
	require.Equal(t, 3, r.grants(host, true))
}

// A cap says in its own words what it is and what is left of it.
func TestCapsInTheSnapshot(t *testing.T) {
	r := capped(t, HostRule{
		Cap:   limit.Spec{Kind: limit.KindSlidingWindowLog, Permits: 2, Per: time.Second},
		Quota: limit.Spec{Kind: limit.KindSlidingWindow, Permits: 10, Per: time.Hour},
	}, func(c *Config) { c.GlobalConcurrency, c.GlobalBytes = 3, 1000 })
	want := []CapSnapshot{
		{Limit: LimitCap, Kind: limit.KindSlidingWindowLog, Permits: 2, PerMS: 1000, Left: 2},
		{Limit: LimitQuota, Kind: limit.KindSlidingWindow, Permits: 10, PerMS: 3600_000, Left: 10},
	}
	require.Equal(t, want, r.see(host).Caps, "of one that nobody has asked yet")
	r.grants(host, true)
	want[0].Left, want[0].NextInMS, want[1].Left = 0, 1000, 8
	d := r.see(host)
	require.Equal(t, want, d.Caps)
	require.Equal(t, "your cap: 2 requests per 1s (sliding-window-log), nothing left, more in 1s", d.Reason)
	r.to(time.Second)
	d = r.see(host)
	require.Equal(t, LimitCap, d.LimitedBy, "it is slower than the rate, and so what paces the host")
	require.Equal(t, "your cap: 2 requests per 1s (sliding-window-log), 2 left", d.Reason)

	p, _ := r.grant("b.test")
	r.ChargeBytes(1500)
	snap := r.Snapshot()
	require.Equal(t, []CapSnapshot{
		{Limit: LimitGlobalConcurrency, Kind: limit.KindConcurrency, Permits: 3, Left: 2},
		{Limit: LimitGlobalBytes, Kind: limit.KindTokenBucket, Permits: 1000, PerMS: 1000, Left: -500, NextInMS: 501},
	}, snap.Caps)
	d = r.see("b.test")
	require.Equal(t, LimitGlobalBytes, d.LimitedBy)
	require.Equal(t, "all hosts together: at most 1000 bytes per second, 500 bytes in debt, paid in 501ms", d.Reason)
	p.Release()
	text, err := json.Marshal(&snap)
	require.NoError(t, err)
	require.Contains(t, string(text), `"caps":[{"limit":"global_concurrency","kind":"concurrency","permits":3,"left":2},`)
	var back LimiterSnapshot
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, snap.Caps, back.Caps)
}

// Eviction is no way round a cap, however often and whatever was taken in between, and the full ones are forgotten.
func TestCapsSurviveEviction(t *testing.T) {
	for _, kind := range []limit.Kind{
		limit.KindTokenBucket, limit.KindFixedWindow, limit.KindSlidingWindow, limit.KindSlidingWindowLog, limit.KindLeakyBucket,
	} {
		t.Run(string(kind), func(t *testing.T) {
			r := capped(t, HostRule{
				Cap:   limit.Spec{Kind: kind, Permits: 3, Per: time.Hour},
				Quota: limit.Spec{Permits: 2, Per: 24 * time.Hour},
			}, func(c *Config) { small(2)(c); c.Hosts[0].Match = "*" })
			total := 0
			for i := range 50 {
				total += r.grants(host, true)
				r.clk.Advance(1) // the others are used later
				for j := range 3 {
					r.grants(fmt.Sprintf("other-%d.test", (i+j)%6), true)
				}
				require.False(t, r.kept(host))
				r.to(time.Duration(i)*time.Minute/10 + time.Second)
			}
			want := 2
			if kind == limit.KindLeakyBucket {
				want = 1 // the second is due after twenty minutes
			}
			require.Equal(t, want, total)
			require.NotZero(t, r.Snapshot().Evicted)
			require.NotZero(t, r.see(host).Caps[1].Permits-r.see(host).Caps[1].Left, "looked at without a state")
		})
	}
}

func TestFullCapsAreForgotten(t *testing.T) {
	r := capped(t, HostRule{Cap: limit.Spec{Permits: 3, Per: time.Second}}, func(c *Config) {
		small(4)(c)
		c.MaxTombstones = 16
		c.Hosts[0].Match = "*"
	})
	keyed := r.rules.Load().hosts[0].caps.rule[capRate].keyed
	for i := range 2000 {
		r.to(time.Duration(i) * time.Second)
		r.grants(fmt.Sprintf("h%d.test", i), true)
		require.LessOrEqual(t, keyed.Len(), 4+16, "those of 4 states and of MaxTombstones")
	}
	r.to(2000 * time.Second)
	r.sweep()
	r.sweep() // one that moved while the first went by
	require.Equal(t, 4, keyed.Len(), "those of states")
}

// Beyond the bound domains share a limiter: slower for them, and never more than one's cap.
func TestCapsBeyondTheirBoundAreShared(t *testing.T) {
	r := capped(t, HostRule{Cap: limit.Spec{Permits: 2, Per: time.Hour}}, func(c *Config) {
		small(1)(c)
		c.MaxTombstones = 1
		c.Hosts[0].Match = "*"
	})
	granted := map[string]int{}
	for i := range 60 {
		name := fmt.Sprintf("h%d.test", i%6)
		if p, ok := r.grant(name); ok {
			granted[name]++
			p.Release()
		}
	}
	for name, n := range granted {
		require.LessOrEqual(t, n, 2, name)
	}
}

func TestCapsOfALimiterThatIsOff(t *testing.T) {
	r := capped(t, HostRule{MaxInFlight: 2, Cap: limit.Spec{Permits: 1, Per: time.Hour}}, func(c *Config) { c.Enabled = false })
	require.Equal(t, 100, r.grants(host, true))
	require.Equal(t, 2, r.InFlightCap(host))
	r.ChargeBytes(1)
}

func TestWrongCaps(t *testing.T) {
	for _, tc := range []struct {
		change func(c *Config)
		want   string
	}{
		{func(c *Config) { c.Hosts = []HostRule{{Match: "*", MaxInFlight: -1}} }, "Hosts[0].MaxInFlight = -1: want 0 for no bound"},
		{func(c *Config) { c.Hosts = []HostRule{{Match: "*", Cap: limit.Spec{Kind: "sliding", Permits: 1}}} }, `Hosts[0].Cap: limit: sliding: Kind is "sliding": use one of token-bucket, `},
		{func(c *Config) { c.Hosts = []HostRule{{Match: "*", Cap: limit.Spec{Permits: 1}}} }, "Hosts[0].Cap: limit: token-bucket: Per is 0s: set it"},
		{func(c *Config) { c.Hosts = []HostRule{{Match: "*"}, {Match: "*", Quota: limit.Spec{Per: 1}}} }, "Hosts[1].Quota: limit: fixed-window: Permits is 0: set it"},
		{func(c *Config) {
			c.Hosts = []HostRule{{Match: "*", Quota: limit.Spec{Kind: limit.KindConcurrency, Permits: 1}}}
		}, "Hosts[0].Quota: Kind is concurrency: set it to one that counts over time"},
		{func(c *Config) { c.GlobalConcurrency = -1 }, "GlobalConcurrency = -1: want 0 to"},
		{func(c *Config) { c.GlobalBytes = -1 }, "GlobalBytes = -1: want 0 to"},
		{func(c *Config) { c.GlobalBytes = math.MaxInt64 }, "GlobalBytes = 9223372036854775807: want 0 to"},
	} {
		c := simplest()
		tc.change(&c)
		_, err := New(c)
		require.ErrorContains(t, err, "ratelimit: "+tc.want)
	}
}

func unhurried(r *rules) {
	r.start, r.floor, r.ceiling, r.capacity = 1e9*perSecond, 1e9*perSecond, 1e9*perSecond, 1000*token
}

// A capped host's grant costs no memory either.
func TestHotPathWithCapsAllocatesNothing(t *testing.T) {
	for _, kind := range limit.Kinds() {
		spec := limit.Spec{Kind: kind, Permits: 1e9, Per: time.Second}
		switch kind {
		case limit.KindConcurrency:
			spec.Per = 0
		case limit.KindSlidingWindowLog:
			spec.Per = time.Millisecond // or the log would grow all the while
		}
		c := DefaultConfig()
		c.Strategy = control.NameFixed
		c.GlobalConcurrency, c.GlobalBytes = 1000, 1<<40
		c.Hosts = []HostRule{{Match: "*", Cap: spec, Quota: limit.Spec{Permits: 1e9, Per: 24 * time.Hour}, MaxInFlight: 1000}}
		l := mustNew(t, c)
		unhurried(&l.rules.Load().hosts[0])
		ctx := t.Context()
		visit := func() {
			p, err := l.Acquire(ctx, host)
			if err != nil {
				return
			}
			l.Feedback(host, Feedback{StatusCode: 200, Latency: 20 * time.Millisecond})
			l.ChargeBytes(1000)
			p.Release()
			l.ReadyAt(host, 1, 1)
		}
		for range 5000 { // a log grows to what is in view
			visit()
		}
		if n := testing.AllocsPerRun(1000, visit); n != 0 {
			t.Errorf("%s: a grant allocates %v times, want 0", kind, n)
		}
	}
}

// What settings call a span, and back.
func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0", time.Second: "1s", time.Minute: "1m", 5 * time.Minute: "5m", time.Hour: "1h",
		90 * time.Minute: "1h30m", 10 * time.Second: "10s", time.Hour + 10*time.Second: "1h0m10s",
		100 * time.Hour: "100h", 1500 * time.Millisecond: "1.5s", 10 * time.Minute: "10m", -time.Minute: "-1m",
	} {
		require.Equal(t, want, Span(d))
		back, err := time.ParseDuration(want)
		require.NoError(t, err)
		require.Equal(t, d, back)
	}
}
