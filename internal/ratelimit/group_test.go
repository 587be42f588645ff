package ratelimit

import (
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/treadlight/crawl/internal/ratelimit/control"
)

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

func fast(c *Config) { c.InitialRPS, c.MaxRPS = 100, 100 }

func TestGroupKeys(t *testing.T) {
	for _, tc := range []struct{ addr, want string }{
		{"192.0.2.1", "ip:192.0.2.1"},
		{"::ffff:192.0.2.1", "ip:192.0.2.1"},
		{"2001:db8::1", "ip:2001:db8::/64"},
		{"2001:db8:0:0:ffff::2", "ip:2001:db8::/64"},
		{"2001:db8:0:1::1", "ip:2001:db8:0:1::/64"},
		{"fe80::1%eth0", "ip:fe80::/64"},
	} {
		require.Equal(t, tc.want, addressKey(addr(tc.addr)).String())
	}
	require.Equal(t, groupKey{}, addressKey(netip.Addr{}))
	require.Equal(t, groupKey{}, addressKey(addr("0.0.0.0")))
	for _, tc := range []struct{ domain, want string }{
		{"a.b.example.com", "example.com"},
		{"example.com:8080", "example.com"},
		{"a.example.co.uk", "example.co.uk"},
		{"co.uk", ""},
		{"localhost", ""},
		{"192.0.2.1", ""},
		{"192.0.2.1:8080", ""},
		{"[2001:db8::1]", ""},
		{"[2001:db8::1]:8080", ""},
		{"", ""},
	} {
		require.Equal(t, tc.want, siteKey(tc.domain).site, tc.domain)
	}
}

func TestAddressCapIsExact(t *testing.T) {
	r := newRig(t, func(c *Config) { fast(c); c.IPRPS = 2 })
	for _, d := range []string{"a.test", "b.test"} {
		r.SetAddress(d, addr("192.0.2.1")) // the first takes a token for the request that told
	}
	r.SetAddress("c.test", addr("192.0.2.2"))
	for _, tc := range []struct {
		at     time.Duration
		domain string
		want   bool
	}{
		{0, "a.test", false},
		{0, "b.test", false},
		{500*time.Millisecond - 1, "a.test", false},
		{500 * time.Millisecond, "a.test", true},
		{500 * time.Millisecond, "b.test", false},
		{500 * time.Millisecond, "d.test", true}, // at no address that is known
		{1000*time.Millisecond - 1, "b.test", false},
		{1000 * time.Millisecond, "b.test", true},
		{1000 * time.Millisecond, "c.test", true},
	} {
		r.to(tc.at)
		p, got := r.grant(tc.domain)
		require.Equal(t, tc.want, got, "%s at %v", tc.domain, tc.at)
		if got {
			p.Release()
		}
	}
	r.wantReady("a.test", 0, 1500*time.Millisecond, LimitShared)
	d := r.see("a.test")
	require.Equal(t, LimitShared, d.LimitedBy)
	require.Equal(t, "ip:192.0.2.1: your rule: at most 2/s for 2 hosts together", d.Reason)
	require.Equal(t, &GroupSnapshot{Name: "ip:192.0.2.1", Hosts: 2, Rate: 2, Reason: d.Reason}, d.Group)
	require.Equal(t, 2, r.Snapshot().Groups)
}

// A host belongs to two groups: the later of their times holds, and a grant that one
// denies takes nothing of the other.
func TestSiteAndAddressTogether(t *testing.T) {
	r := newRig(t, func(c *Config) { fast(c); c.IPRPS, c.SiteRPS = 4, 1 })
	r.SetAddress("a.example.com", addr("192.0.2.1"))
	r.SetAddress("b.example.com", addr("192.0.2.1"))
	r.SetAddress("a.example.org", addr("192.0.2.1"))
	take := func(domain string, want bool) {
		t.Helper()
		p, got := r.grant(domain)
		require.Equal(t, want, got, domain)
		if got {
			p.Release()
		}
	}
	r.to(250 * time.Millisecond)
	take("a.example.com", true)
	r.to(500 * time.Millisecond)
	take("b.example.com", false) // its site has none until 1.25s
	r.wantReady("b.example.com", 0, 1250*time.Millisecond, LimitShared)
	require.Equal(t, "site:example.com", r.see("b.example.com").Group.Name)
	take("a.example.org", true) // the address has one
	take("a.example.org", false)
	r.to(1250*time.Millisecond - 1)
	take("b.example.com", false)
	r.to(1250 * time.Millisecond)
	take("b.example.com", true)
}

// Those told that they may go are told of different tokens.
func TestForecastsOfAGroupAreOfDifferentTokens(t *testing.T) {
	r := newRig(t, func(c *Config) { fast(c); c.IPRPS = 10 })
	for i := range 3 {
		r.SetAddress(fmt.Sprintf("h%d.test", i), blockAddress)
	}
	r.to(time.Second)
	r.wantReady("h0.test", 0, 0, LimitNone)
	r.wantReady("h1.test", 0, 1100*time.Millisecond, LimitShared)
	r.to(time.Second + promiseFor)
	r.wantReady("h2.test", 0, 0, LimitNone) // the first never came
}

func TestGroupsDieWithTheirMembers(t *testing.T) {
	r := newRig(t, func(c *Config) { fast(c); c.IPRPS, c.SiteRPS = 1, 0.001; c.DomainStateTTL = time.Minute })
	r.SetAddress("a.example.com", addr("192.0.2.1"))
	r.SetAddress("b.test", addr("192.0.2.1"))
	r.SetAddress("b.test", addr("192.0.2.2"))
	require.Equal(t, 4, r.Snapshot().Groups)
	r.SetAddress("b.test", netip.Addr{})
	r.to(time.Second)
	r.request("a.example.com", ok(0))
	r.to(2 * time.Minute)
	r.sweep()
	require.Zero(t, r.Snapshot().Domains)
	// What the site owes outlives its members; the rest owes nothing.
	require.Equal(t, 1, r.Snapshot().Groups)
	_, granted := r.grant("c.example.com")
	require.False(t, granted)
	r.to(2000 * time.Second)
	r.sweep()
	require.Zero(t, r.Snapshot().Groups)
	require.Zero(t, r.shared.bound.Load())
}

// Waiters of several domains of a group are served in the order in which they came.
func TestGroupServesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := simplest()
		fast(&c)
		c.IPRPS, c.SiteRPS, c.GlobalRPS = 2, 50, 50
		l := mustNew(t, c)
		var mu sync.Mutex // guards order
		var order []string
		var wg sync.WaitGroup
		for i := range 6 {
			l.SetAddress(fmt.Sprintf("h%d.example.com", i), blockAddress)
		}
		begin := time.Now()
		for i := range 6 {
			wg.Go(func() {
				name := fmt.Sprintf("h%d.example.com", i)
				p, err := l.Acquire(t.Context(), name)
				if err != nil {
					t.Errorf("Acquire(%s) = %v", name, err)
					return
				}
				mu.Lock()
				order = append(order, fmt.Sprintf("%s %v", name, time.Since(begin)))
				mu.Unlock()
				p.Release()
			})
			synctest.Wait()
		}
		wg.Wait()
		require.Equal(t, []string{
			"h0.example.com 500ms", "h1.example.com 1s", "h2.example.com 1.5s",
			"h3.example.com 2s", "h4.example.com 2.5s", "h5.example.com 3s",
		}, order)
	})
}

// Whatever the order of calls: in no span does a group get more than its capacity and its rate allow.
func TestGroupBudgetsAreNeverExceeded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ip := rapid.Float64Range(0.5, 5).Draw(t, "ip")
		site := rapid.Float64Range(0.5, 5).Draw(t, "site")
		r := newRig(t, func(c *Config) { fast(c); c.IPRPS, c.SiteRPS = ip, site })
		at := map[string]string{}
		grants := map[string][]time.Time{}
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			name := fmt.Sprintf("h%d.s%d.test.com", rapid.IntRange(0, 3).Draw(t, "host"), rapid.IntRange(0, 1).Draw(t, "sub"))
			switch rapid.IntRange(0, 3).Draw(t, "do") {
			case 0:
				at[name] = fmt.Sprintf("192.0.2.%d", rapid.IntRange(1, 2).Draw(t, "address"))
				r.SetAddress(name, addr(at[name]))
			case 1:
				r.clk.Advance(time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "pass")))
			default:
				if p, granted := r.grant(name); granted {
					p.Release()
					grants["site"] = append(grants["site"], r.clk.Now())
					grants[at[name]] = append(grants[at[name]], r.clk.Now())
				}
			}
		}
		for key, times := range grants {
			rps := map[bool]float64{true: site, false: ip}[key == "site"]
			if key == "" {
				continue // at no address
			}
			for i := range times {
				for j := i; j < len(times); j++ {
					if most := 1 + rateOf(rps).rps()*times[j].Sub(times[i]).Seconds(); float64(j-i+1) > most+1e-6 {
						t.Fatalf("%s: %d grants in %v, at %v/s", key, j-i+1, times[j].Sub(times[i]), rps)
					}
				}
			}
		}
	})
}

// The trial of a host that was paused goes out at half the rate that was refused. The rate
// that the group's experiment is to exceed is the one before.
func TestRefusedTrialIsAtNoRateOfItsOwn(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Strategy, c.InitialRPS, c.MaxRPS = control.NameSteer, 10, 100 })
	for _, domain := range []string{"a.test", "b.test"} {
		r.SetAddress(domain, addr("192.0.2.1"))
		r.request(domain, Feedback{StatusCode: 200})
	}
	refused := func() rate {
		p, granted := r.grant("a.test")
		require.True(t, granted)
		r.Feedback("a.test", Feedback{StatusCode: 429, SentAt: r.clk.Now()})
		p.Release()
		s := r.lock("a.test")
		defer s.mu.Unlock()
		return s.addr.watch.notes[s].rate
	}
	r.clk.Advance(time.Second)
	was := refused()
	require.Positive(t, was)
	r.clk.Advance(2 * trialShort)
	require.Equal(t, was, refused())
}
