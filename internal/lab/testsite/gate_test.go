package testsite

import (
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/treadlight/crawl/internal/clock"
)

type asked struct {
	at     time.Duration
	status string
	wait   string
}

type limiterCase struct {
	name  string
	host  Host
	steps []asked
}

func (tc limiterCase) run(t *testing.T) {
	tc.host.Refusal.RetryAfter = retrySeconds
	r := newRig(t, one(tc.host))
	for i, s := range tc.steps {
		r.to(s.at)
		rec := r.get("/")
		require.Equal(t, s.status, fmt.Sprint(rec.Code), "step %d at %v", i, s.at)
		require.Equal(t, s.wait, rec.Header().Get("Retry-After"), "step %d at %v", i, s.at)
	}
}

func TestBucketsAtInstants(t *testing.T) {
	for _, tc := range []limiterCase{
		{"leaky bucket", Host{Limits: []Limiter{{Kind: kindLeaky, Rate: 2, Burst: 1}}}, []asked{
			{0, "200", ""},
			{0, "200", ""},
			{0, "429", "1"},
			{500*ms - 1, "429", "1"},
			{500 * ms, "200", ""},
			{500 * ms, "429", "1"},
			{10 * time.Second, "200", ""},
			{10 * time.Second, "200", ""}, // idling earns no more than the burst
			{10 * time.Second, "429", "1"},
		}},
		{"token bucket by default holds a second", Host{Limits: []Limiter{{Kind: kindToken, Rate: 2}}}, []asked{
			{0, "200", ""}, {0, "200", ""}, {0, "429", "1"}, {500 * ms, "200", ""},
		}},
	} {
		t.Run(tc.name, tc.run)
	}
}

// The windows of package admission begin with 1970 in UTC, and the rig's clock begins at 5.3s of a minute.
func TestWindowsAtInstants(t *testing.T) {
	for _, tc := range []limiterCase{
		{"fixed window", Host{Limits: []Limiter{{Kind: kindFixed, Requests: 2, Window: 10 * time.Second}}}, []asked{
			{4600 * ms, "200", ""}, // at 9.9s of the wall clock
			{4650 * ms, "200", ""},
			{4650 * ms, "429", "1"},
			{4700 * ms, "200", ""}, // at 10s
			{4700 * ms, "200", ""},
			{4700 * ms, "429", "10"},
		}},
		{"two, all or none", Host{Limits: []Limiter{{Kind: kindToken, Rate: 1, Burst: 2}, {Kind: kindLog, Requests: 3, Window: 10 * time.Second}}}, []asked{
			{0, "200", ""},
			{0, "200", ""},
			{0, "429", "1"}, // by the bucket, and the log is not charged
			{time.Second, "200", ""},
			{5 * time.Second, "429", "5"}, // by the log, and the bucket is not charged
			{10 * time.Second, "200", ""},
			{10 * time.Second, "200", ""},
			{10 * time.Second, "429", "1"},
		}},
		{"a short form begins with the site", Host{Limit: Limit{Requests: 2, Window: 10 * time.Second}}, []asked{
			{9 * time.Second, "200", ""},
			{9 * time.Second, "200", ""},
			{9 * time.Second, "429", "1"},
			{10 * time.Second, "200", ""}, // the edge lets through twice the limit, as real ones do
			{10 * time.Second, "200", ""},
			{20*time.Second - 1, "429", "1"},
			{50 * time.Second, "200", ""},
		}},
		{"short forms of two", Host{Limit: Limit{Rate: 1, Requests: 2, Window: 10 * time.Second}}, []asked{
			{0, "200", ""},
			{500 * ms, "429", "1"}, // by rate, and the window is not charged
			{time.Second, "200", ""},
			{2 * time.Second, "429", "8"}, // by window, and the rate is not charged
			{10 * time.Second, "200", ""},
		}},
	} {
		t.Run(tc.name, tc.run)
	}
}

func gateOf(t testing.TB, h Host) *gate {
	t.Helper()
	return newRig(t, one(h)).site.hosts[0].gate
}

func TestConcurrencyInGate(t *testing.T) {
	g := gateOf(t, Host{Limits: []Limiter{{Kind: kindSlots, Concurrent: 2}, {Kind: kindToken, Rate: 1, Burst: 3}}})
	require.True(t, g.admit(0).ok)
	require.True(t, g.admit(0).ok)
	require.Equal(t, unknown, g.admit(0).ready)
	g.release()
	require.True(t, g.admit(0).ok, "the refusal has not charged the bucket")
	g.release()
	require.Equal(t, clock.Instant(time.Second), g.admit(0).ready)
	require.True(t, g.admit(clock.Instant(time.Second)).ok, "the bucket's refusal has not taken a slot")
	require.Equal(t, unknown, g.admit(clock.Instant(time.Second)).ready)
}

// TestLeakyBucketIsNginx compares with limit_req as its manual and source define it: the excess of requests over the
// rate, which a refusal does not change, and which without nodelay is the time to wait.
func TestLeakyBucketIsNginx(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const gap = 250 * ms
		burst, delays := rapid.IntRange(0, 5).Draw(rt, "burst"), rapid.Bool().Draw(rt, "delays")
		g := gateOf(t, Host{Limits: []Limiter{{Kind: kindLeaky, Rate: 4, Burst: burst, Delay: delays}}})
		var now, last, excess time.Duration // excess is kept in time
		fresh := true
		for i := range rapid.IntRange(1, 40).Draw(rt, "requests") {
			now += time.Duration(rapid.IntRange(0, 400).Draw(rt, "gap")) * ms
			next := max(0, excess-(now-last)+gap)
			if fresh {
				next = 0
			}
			ok := next <= time.Duration(burst)*gap
			if ok {
				excess, last, fresh = next, now, false
			}
			p := g.admit(clock.Instant(now))
			if p.ok != ok || ok && delays && p.delay != next {
				rt.Fatalf("request %d at %v: admitted %v after %v, nginx says %v after %v", i, now, p.ok, p.delay, ok, next)
			}
		}
	})
}

// A client that knows when it will be admitted, and sends requests then, uses nearly all of Possible and never more:
// with every kind of limit, at every time of day.
func TestPossibleIsABound(t *testing.T) {
	days := map[string]Day{
		"constant": {}, "cosine": {Length: 40 * time.Second, Low: 0.2},
		"table": {Length: 30 * time.Second, Table: []Hour{{At: 5 * time.Second, Speed: 0.1}, {At: 20 * time.Second, Speed: 3}}},
	}
	for name, h := range map[string]Host{
		"rate":    {Limit: Limit{Rate: 7, Burst: 3}},
		"window":  {Limit: Limit{Requests: 30, Window: 7 * time.Second}},
		kindLeaky: {Limits: []Limiter{{Kind: kindLeaky, Rate: 7, Burst: 3}}},
		kindToken: {Limits: []Limiter{{Kind: kindToken, Rate: 7, Burst: 5}}},
		kindFixed: {Limits: []Limiter{{Kind: kindFixed, Requests: 30, Window: 7 * time.Second}}},
		kindLog:   {Limits: []Limiter{{Kind: kindLog, Requests: 30, Window: 7 * time.Second}}},
		// The assumption of the limiter, that the last window was used evenly, costs a greedy client nothing in the
		// long run.
		kindSliding: {Limits: []Limiter{{Kind: kindSliding, Requests: 30, Window: 7 * time.Second}}},
	} {
		for when, day := range days {
			t.Run(name+" "+when, func(t *testing.T) {
				h.Day = day
				g := gateOf(t, h)
				now, told := clock.Instant(0), false
				for now < clock.Instant(3*time.Minute) {
					p := g.admit(now)
					if p.ok {
						told = false
						continue
					}
					require.False(t, told, "refused at %v, when it was said to be admitted", now)
					now, told = p.ready, true
				}
				var hr HostReport
				g.report(&hr)
				require.LessOrEqual(t, hr.UsedShare, 1+1e-9)
				require.Greater(t, hr.UsedShare, 0.95)
			})
		}
	}
}

func TestOneAddress(t *testing.T) {
	r := newRig(t, Config{Port: 9000, Hosts: []Host{
		{Name: "first"},
		{Name: "pool", Count: 3, OneAddress: true, Limits: []Limiter{{Kind: kindToken, Rate: 1, Burst: 2}}, Ban: Ban{After: 2, For: time.Minute}},
		{Name: "last"},
	}})
	require.Equal(t, []string{
		"http://127.0.1.1:9000/", "http://127.0.1.2:9000/", "http://127.0.1.2:9001/", "http://127.0.1.2:9002/", "http://127.0.1.3:9000/",
	}, r.site.URLs())
	var got []int
	for _, host := range []int{1, 2, 3, 1, 2} {
		got = append(got, r.do("GET", "/", host).Code)
	}
	require.Equal(t, []int{200, 200, 429, 429, 403}, got, "two tokens for all, two refusals for all")
	report := r.site.Report()
	require.Equal(t, report.Hosts[1].Usage, report.Hosts[3].Usage)
	require.Equal(t, int64(2), report.Total.Admitted, "counted once")
	require.Equal(t, int64(1), report.Total.Bans)
	require.Equal(t, int64(1), report.Total.Banned)
	require.Zero(t, report.Hosts[0].Usage)
}

func TestBan(t *testing.T) {
	for _, tc := range []struct {
		name  string
		ban   Ban
		steps []asked
	}{
		{"status", Ban{After: 2, Within: 10 * time.Second, For: time.Minute, Status: 418}, []asked{
			{0, "200", ""},
			{0, "429", "100"},
			{11 * time.Second, "429", "89"}, // too long after the first
			{20 * time.Second, "429", "80"}, // the second within ten seconds
			{20 * time.Second, "418", ""},
			{80*time.Second - 1, "418", ""}, // which does not prolong it
			{80 * time.Second, "429", "20"},
			{80 * time.Second, "429", "20"}, // a clean record
			{80 * time.Second, "418", ""},
		}},
		{"drop", Ban{After: 1, For: time.Second, Mode: modeDrop}, []asked{
			{0, "200", ""}, {0, "429", "100"}, {0, "reset", ""}, {time.Second, "429", "99"},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, one(Host{Limits: []Limiter{{Kind: kindLeaky, Rate: 0.01}}, Ban: tc.ban, Refusal: Refusal{RetryAfter: retrySeconds}}))
			banned := int64(0)
			for i, s := range tc.steps {
				r.to(s.at)
				rec := r.get("/")
				if rec == nil {
					require.Equal(t, s.status, "reset", "step %d", i)
					banned++
					continue
				}
				require.Equal(t, s.status, fmt.Sprint(rec.Code), "step %d at %v", i, s.at)
				require.Equal(t, s.wait, rec.Header().Get("Retry-After"), "step %d", i)
				if rec.Code == 418 {
					banned++
				}
			}
			require.Equal(t, banned, r.report().Banned)
		})
	}
}

func TestQueueIsLindley(t *testing.T) {
	r := newRig(t, one(Host{Load: Load{Rate: 10, MaxWait: 500 * ms}}))
	g := r.site.hosts[0].gate
	var free, now clock.Instant
	admitted := 0
	for i := range 2000 {
		now = now.Add(time.Duration(i%7) * 30 * ms)
		p := g.admit(now)
		if free > now.Add(500*ms) {
			require.False(t, p.ok)
			require.Equal(t, free.Add(-500*ms), p.ready)
			continue
		}
		require.True(t, p.ok)
		d := newDraw(r.site.hosts[0].seed, streamLoad, admitted)
		admitted++
		free = max(free, now).Add(time.Duration(min(tailCut, -math.Log(d.unit())) * float64(100*ms)))
		require.Equal(t, free.Sub(now), p.delay)
	}
	require.Less(t, admitted, 2000, "the line was too long at times")
}

func TestWorkersStretchLatency(t *testing.T) {
	g := gateOf(t, Host{Latency: Latency{Typical: 100 * ms}, Load: Load{Workers: 2}})
	var factors []float64
	for range 5 {
		factors = append(factors, g.admit(0).factor)
	}
	require.Equal(t, []float64{1, 1, 1.5, 2, 2.5}, factors)
	g.release()
	g.release()
	g.release()
	g.release()
	require.InDelta(t, 1, g.admit(0).factor, 0)
	require.InDelta(t, 20, g.bounds.rate(), 0, "two at a time, ten of each per second")
}

// TestAddressGoesByOneTime: a host of a shared address that reads the clock before another one is served decides after
// it.
func TestAddressGoesByOneTime(t *testing.T) {
	g := gateOf(t, Host{Limit: Limit{Requests: 1, Window: time.Second}})
	require.True(t, g.admit(clock.Instant(time.Second)).ok)
	require.False(t, g.admit(clock.Instant(time.Second)-1).ok, "the window before is over")
}

const ms = time.Millisecond

func TestDayAtInstants(t *testing.T) {
	d := newDay(Day{Length: time.Minute, Table: []Hour{{At: 10 * time.Second, Speed: 0.5}, {At: 30 * time.Second, Speed: 2}, {At: 50 * time.Second, Speed: 1}}})
	for now, want := range map[time.Duration]time.Duration{
		0: 0, 10 * time.Second: 10 * time.Second, 20 * time.Second: 15 * time.Second, 30 * time.Second: 20 * time.Second,
		40 * time.Second: 40 * time.Second, time.Minute: 70 * time.Second, 80 * time.Second: 85 * time.Second,
	} {
		require.Equal(t, clock.Instant(want), d.of(clock.Instant(now)), "at %v", now)
		require.Equal(t, clock.Instant(now), d.when(clock.Instant(want)), "back from %v", want)
	}
	require.InDelta(t, 70.0/60, d.mean(), 1e-12)
	require.InDelta(t, 0.5, d.speed(clock.Instant(70*time.Second)), 0)
}

func TestCosineDay(t *testing.T) {
	d := newDay(Day{Low: 0.2})
	require.Equal(t, 24*time.Hour, d.length, "by default")
	require.InDelta(t, 0.6, d.mean(), 1e-6, "halfway between 1 and 0.2")
	require.InDelta(t, 1, d.speed(0), 0.001)
	require.InDelta(t, 0.2, d.speed(clock.Instant(12*time.Hour)), 0.001)
	require.InDelta(t, 1, d.speed(clock.Instant(48*time.Hour-1)), 0.001)
}

// TestDayThereAndBack: the clock of the day never goes back, and when returns the first instant at which it shows the
// given time, to the nanosecond.
func TestDayThereAndBack(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cfg := Day{Length: time.Duration(rapid.Int64Range(int64(time.Second), int64(1000*time.Hour)).Draw(rt, "length"))}
		if rapid.Bool().Draw(rt, "cosine") {
			cfg.Low = rapid.Float64Range(0.01, 1).Draw(rt, "low")
		} else {
			cfg.Table = []Hour{
				{At: cfg.Length / 3, Speed: rapid.Float64Range(0.01, 100.0).Draw(rt, "first")},
				{At: cfg.Length / 2, Speed: rapid.Float64Range(0.01, 100.0).Draw(rt, "second")},
			}
		}
		require.NoError(rt, checkFields(reflect.ValueOf(&cfg).Elem(), "day"))
		d := newDay(cfg)
		now := clock.Instant(rapid.Int64Range(0, int64(3*cfg.Length)).Draw(rt, "now"))
		later := now.Add(time.Duration(rapid.Int64Range(0, int64(cfg.Length)).Draw(rt, "later")))
		require.LessOrEqual(rt, d.of(now), d.of(later))
		at := d.of(later).Add(time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(rt, "wait")))
		when := d.when(at)
		require.GreaterOrEqual(rt, d.of(when), at)
		// A nanosecond of the day's clock is up to a hundred of ours.
		if before := when - clock.Instant(2/0.01); before >= 0 {
			require.Less(rt, d.of(before), at)
		}
	})
}
