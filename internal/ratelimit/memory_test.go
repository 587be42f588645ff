package ratelimit

import (
	"fmt"
	"maps"
	"math"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/treadlight/crawl/internal/clock/clocktest"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

func (r *rig) remembered() map[string]HostMemory {
	all := map[string]HostMemory{}
	for m := range r.Remember() {
		if _, twice := all[m.Domain]; twice {
			r.t.Errorf("%s is remembered twice", m.Domain)
		}
		all[m.Domain] = m
	}
	return all
}

func (r *rig) recall(want int, hosts ...HostMemory) {
	r.t.Helper()
	if got := r.Recall(slices.Values(hosts)); got != want {
		r.t.Errorf("recalled %d hosts, want %d", got, want)
	}
}

func (r *rig) next(after time.Duration, strategy string) *rig {
	r.t.Helper()
	clk := clocktest.NewFake(start.Add(after))
	c := simplest()
	c.Clock, c.Strategy = clk, strategy
	return &rig{mustNew(r.t, c), r.t, clk}
}

// A day is a day to the nanosecond, and what is owed does not age.
func TestMemoryAges(t *testing.T) {
	const most = time.Hour
	used := start
	know := HostMemory{Domain: host, LastUsed: used, Learned: Learned{Rate: 3, Pause: time.Second}}
	with := func(change func(m *HostMemory)) HostMemory { m := know; change(&m); return m }
	for _, tc := range []struct {
		name string
		was  HostMemory
		at   time.Duration // after its use
		want HostMemory    // zero for nothing
	}{
		{"just used", know, 0, know},
		{"within a day", know, memoryTTL - 1, know},
		{"a day old", know, memoryTTL, HostMemory{}},
		{"of the future", know, -time.Hour, with(func(m *HostMemory) { m.LastUsed = used.Add(-time.Hour) })},
		{
			"Retry-After", with(func(m *HostMemory) { m.RetryUntil = used.Add(time.Minute) }),
			time.Minute - 1, with(func(m *HostMemory) { m.RetryUntil = used.Add(time.Minute) }),
		},
		{"Retry-After over", with(func(m *HostMemory) { m.RetryUntil = used.Add(time.Minute) }), time.Minute, know},
		{
			"Retry-After beyond the day", with(func(m *HostMemory) { m.RetryUntil = used.Add(memoryTTL + time.Minute) }),
			memoryTTL,
			HostMemory{Domain: host, LastUsed: used, RetryUntil: used.Add(memoryTTL + time.Minute)},
		},
		{
			"Retry-After beyond belief", with(func(m *HostMemory) { m.RetryUntil = used.AddDate(7, 0, 0) }),
			time.Minute, with(func(m *HostMemory) { m.RetryUntil = used.Add(time.Minute + most) }),
		},
		{
			"held", with(func(m *HostMemory) { m.HeldUntil = used.Add(time.Minute) }),
			time.Second, with(func(m *HostMemory) { m.HeldUntil = used.Add(time.Minute) }),
		},
		{
			"its trial is still due", with(func(m *HostMemory) { m.HeldUntil = used.Add(time.Minute) }),
			memoryTTL - 1, with(func(m *HostMemory) { m.HeldUntil = used.Add(time.Minute) }),
		},
		{"no longer", with(func(m *HostMemory) { m.HeldUntil = used.Add(time.Minute) }), memoryTTL, HostMemory{}},
		{
			"held beyond the day", with(func(m *HostMemory) { m.HeldUntil = used.Add(memoryTTL + 1) }),
			memoryTTL,
			HostMemory{Domain: host, LastUsed: used, HeldUntil: used.Add(memoryTTL + 1)},
		},
		{
			"held beyond belief", with(func(m *HostMemory) { m.HeldUntil = used.AddDate(7, 0, 0) }),
			0, with(func(m *HostMemory) { m.HeldUntil = used.Add(most) }),
		},
		{"nothing known", HostMemory{Domain: host, LastUsed: used}, 0, HostMemory{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, ok := tc.was.At(used.Add(tc.at), most)
			require.Equal(t, tc.want != HostMemory{}, ok)
			if ok {
				require.Equal(t, tc.want, got)
			}
		})
	}
}

// A hold whose time is over when the next crawl begins is not forgiven: its trial is due.
func TestNextCrawlBeginsWithTheTrialOfAHold(t *testing.T) {
	for _, strategy := range control.Names() {
		t.Run(strategy, func(t *testing.T) {
			r := newRig(t, func(c *Config) { c.Strategy = strategy })
			for i := range 20 { // more than any takes to be sure
				r.to(time.Duration(i) * time.Second)
				r.Feedback(host, Feedback{Err: errReset})
			}
			require.False(t, r.remembered()[host].HeldUntil.IsZero())
			next := r.next(time.Hour, strategy)
			next.recall(1, r.remembered()[host])
			_, granted := next.grant(host)
			require.True(t, granted)
			require.Equal(t, breaker.HalfOpen, next.see(host).State)
			_, granted = next.grant(host)
			require.False(t, granted, "a second trial")
		})
	}
}

// A Retry-After of which only the memory knows holds for a domain that was asked here too.
func TestRecallOfAKnownDomainTakesTheLaterPause(t *testing.T) {
	for name, evicted := range map[string]bool{"with a state": false, "with a tombstone": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, small(1))
			r.request(host, status(503))
			if evicted {
				r.request("b.test", ok(0))
				r.request("c.test", ok(0))
			}
			require.Equal(t, !evicted, r.kept(host))
			was := HostMemory{Domain: host, LastUsed: start, Learned: Learned{Rate: 7}, RetryUntil: start.Add(10 * time.Minute)}
			r.recall(1, was)
			r.recall(0, was)
			r.wantReady(host, 0, 10*time.Minute, LimitRetryAfter)
		})
	}
}

func TestRecallPassesOver(t *testing.T) {
	was := HostMemory{Domain: host, LastUsed: start, Learned: Learned{Rate: 7}}
	t.Run("a domain with a state", func(t *testing.T) {
		r := newRig(t, nil)
		r.request(host, status(503))
		r.recall(0, was)
		require.InDelta(t, 0.5, r.see(host).FillRate, 1e-6)
	})
	t.Run("a domain with a tombstone", func(t *testing.T) {
		r := newRig(t, small(1))
		r.request(host, status(503))
		r.request("b.test", ok(0))
		r.request("c.test", ok(0))
		require.False(t, r.kept(host))
		r.recall(0, was)
		require.InDelta(t, 0.5, r.see(host).FillRate, 1e-6)
	})
	t.Run("what it recalled before", func(t *testing.T) {
		r := newRig(t, nil)
		r.recall(1, was)
		r.recall(0, HostMemory{Domain: host, LastUsed: start, Learned: Learned{Rate: 2}})
		require.InDelta(t, 7, r.see(host).FillRate, 1e-6)
	})
	t.Run("what there is no room for beside what it has learned", func(t *testing.T) {
		r := newRig(t, func(c *Config) { small(1)(c); c.MaxTombstones = 1 })
		for _, domain := range []string{host, "b.test", "c.test"} {
			r.request(domain, status(503))
		}
		require.Equal(t, 1, r.Snapshot().Tombstones)
		before := r.remembered()
		r.recall(0, HostMemory{Domain: "d.test", LastUsed: start, Learned: Learned{Rate: 7}})
		require.Equal(t, before, r.remembered())
	})
	t.Run("the invalid", func(t *testing.T) {
		r := newRig(t, nil)
		bad := []HostMemory{was, was, was, was, was, was, was, was}
		bad[0].Domain, bad[1].Domain, bad[2].Domain = "", "A.test", strings.Repeat("a", 300)
		bad[3].Rate, bad[4].Rate, bad[5].Rate = -1, float32(math.NaN()), 2e6
		bad[6].Pause, bad[7].Domain = -1, "a.test\x1b[2J"
		r.recall(0, bad...)
	})
	t.Run("everything, while it is off", func(t *testing.T) {
		r := newRig(t, func(c *Config) { c.Enabled = false })
		r.recall(0, was)
		require.Empty(t, r.remembered())
	})
	t.Run("the longest unused of too many", func(t *testing.T) {
		r := newRig(t, func(c *Config) { small(1)(c); c.MaxTombstones = 2 })
		older, newer := was, was
		older.Domain, older.LastUsed = "old.test", start.Add(-time.Hour)
		newer.Domain, newer.LastUsed = "new.test", start.Add(-time.Minute)
		r.recall(2, newer, older, was)
		require.ElementsMatch(t, []string{host, "new.test"}, slices.Collect(maps.Keys(r.remembered())))
	})
}

// A fixed rate is the user's. It neither tells what hosts tolerate nor follows it.
func TestFixedRateIsNoMemory(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Strategy, c.InitialRPS = control.NameFixed, 4 })
	r.request(host, Feedback{StatusCode: 503, RetryAfter: time.Minute})
	require.Zero(t, r.remembered()[host].Rate)
	require.Equal(t, start.Add(time.Minute), r.remembered()[host].RetryUntil)
	r.recall(1, HostMemory{Domain: "b.test", LastUsed: start, Learned: Learned{Rate: 7}, HeldUntil: start.Add(time.Minute)})
	require.InDelta(t, 4, r.see("b.test").FillRate, 1e-6)
	r.wantReady("b.test", 0, time.Minute, LimitBreaker)
}

// What was learned is believed for a day after the last use, in one crawl as in two.
func TestTombstoneForgetsAfterADay(t *testing.T) {
	for _, tc := range []struct {
		after time.Duration
		rate  float64
	}{{memoryTTL - 1, 0.5}, {memoryTTL, 1}} {
		r := newRig(t, small(1))
		r.request(host, status(503))
		r.request("b.test", ok(0))
		r.request("c.test", ok(0))
		require.False(t, r.kept(host))
		r.to(tc.after)
		require.InDelta(t, tc.rate, r.see(host).FillRate, 1e-6, "after %v", tc.after)
		_, known := r.remembered()[host]
		require.Equal(t, tc.rate != 1, known, "after %v", tc.after)
	}
}

// A tombstone is a cache line at most, and the collector has nothing to look for in hundreds of thousands of them.
func TestTombstoneHoldsNoPointers(t *testing.T) {
	var walk func(typ reflect.Type)
	walk = func(typ reflect.Type) {
		if typ.Kind() == reflect.Struct {
			for f := range typ.Fields() {
				walk(f.Type)
			}
			return
		}
		require.LessOrEqual(t, typ.Kind(), reflect.Complex128, "%v is no number", typ)
	}
	walk(reflect.TypeFor[tombstone]())
}

// Every field that a strategy remembers survives: the zero of one that was left out of Learned would show here.
func TestLearnedHoldsTheWholeMemory(t *testing.T) {
	require.Equal(t, reflect.TypeFor[control.Memory]().NumField(), reflect.TypeFor[Learned]().NumField()+1, "but for Held")
}

// What one limiter remembers and another recalls, that one remembers too.
func TestRememberRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRig(t, func(c *Config) { c.Strategy = rapid.SampledFrom(control.Names()).Draw(t, "strategy") })
		at := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "now"))
		r.to(at)
		ago := func(name string, least, most time.Duration) time.Time {
			return start.Add(at - time.Duration(rapid.Int64Range(int64(least), int64(most)).Draw(t, name)))
		}
		want := map[string]HostMemory{}
		for i := range rapid.IntRange(0, 20).Draw(t, "hosts") {
			m := HostMemory{Domain: fmt.Sprintf("%d.test", i), LastUsed: ago("used", 0, memoryTTL-1)}
			if r.strategy.Learns {
				m.Rate = rapid.Float32Range(0, maxRPS).Draw(t, "rate")
				m.Pause = time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "pause"))
			}
			if rapid.Bool().Draw(t, "told to wait") {
				m.RetryUntil = ago("retry", -time.Hour, -1)
			}
			if rapid.Bool().Draw(t, "held") {
				m.HeldUntil = ago("until", -time.Hour, -2)
			}
			if _, ok := m.At(start.Add(at), time.Hour); ok {
				want[m.Domain] = m
			}
		}
		r.recall(len(want), slices.Collect(maps.Values(want))...)
		require.Equal(t, want, r.remembered())
	})
}

// The computer's clock may be set, and the computer may sleep, while a crawl runs:
// what is remembered is told in the wall time of then.
func TestWallTimesFollowTheClock(t *testing.T) {
	clk := &skewed{Fake: clocktest.NewFake(start)}
	r := newRig(t, func(c *Config) { c.Clock = clk })
	r.Feedback(host, Feedback{StatusCode: 503, RetryAfter: time.Minute})
	clk.skew = 24 * time.Hour
	require.Equal(t, start.Add(clk.skew+time.Minute), r.remembered()[host].RetryUntil)
}

type skewed struct {
	*clocktest.Fake
	skew time.Duration
}

func (c *skewed) Now() time.Time                  { return c.Fake.Now().Add(c.skew) }
func (c *skewed) Since(t time.Time) time.Duration { return c.Fake.Since(t) }

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

// A host that was evicted is handed over no sooner than the user's rules allow, though nothing was learned of it.
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
