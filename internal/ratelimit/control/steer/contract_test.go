package steer

import (
	"cmp"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
	"github.com/treadlight/crawl/internal/ratelimit/control"
	"github.com/treadlight/crawl/internal/ratelimit/control/controltest"
	"github.com/treadlight/crawl/internal/ratelimit/estimate"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// rig is a steer whose host the test plays, on a clock that the test moves.
type rig struct {
	*Steer
	t    *testing.T
	w    *estimate.Window
	host control.Host
	now  clock.Instant
	told map[control.Cause]bool // events of plans
}

func newRig(t *testing.T, h control.Host) *rig {
	return &rig{Steer: newSteer(&DefaultTuning, controltest.Config(), 0, h), t: t, w: controltest.Window(), host: h, told: map[control.Cause]bool{}}
}

// hear tells the steer the outcome, now, of a request that was sent at an instant.
func (r *rig) hear(sent clock.Instant, status int, order time.Duration) {
	r.Observe(r.now, control.Observation{
		SentAt: sent, Class: outcome.Of(status, nil), Forbidden: outcome.Forbidden(status), Latency: r.now.Sub(sent),
		RetryAfter: order, InFlight: 1, Floor: r.host.Floor, Ceiling: r.host.Ceiling, Window: r.w,
	})
}

// ask waits until the plan grants a request, sends it, and tells its outcome a tenth of a second later.
func (r *rig) ask(status int) {
	p := r.Plan(r.now)
	r.now = max(p.NotBefore, r.now.Add(seconds(1/p.Rate)-100*time.Millisecond), r.now)
	sent := r.now
	r.Sent(sent, 1)
	r.now = r.now.Add(100 * time.Millisecond)
	r.hear(sent, status, 0)
}

// run sends requests for so long.
func (r *rig) run(d time.Duration, status int) {
	for end := r.now.Add(d); r.now < end; {
		r.ask(status)
	}
}

// meet sends requests to a model for a minute, and then for some more, of which it counts what was admitted and what
// was not.
func (r *rig) meet(m model, d time.Duration) (admitted, refused int) {
	const latency = 20 * time.Millisecond
	for end := clock.Instant(time.Minute + d); r.now < end; {
		p := r.Plan(r.now)
		r.told[p.Event.Cause] = true
		r.now = max(p.NotBefore, r.now.Add(seconds(1/p.Rate)-latency), r.now)
		sent := r.now
		r.Sent(sent, 1)
		a := m(sent, 1)
		r.now = sent.Add(latency + a.latency)
		r.Observe(r.now, control.Observation{
			SentAt: sent, Class: cmp.Or(a.class, outcome.OK), Forbidden: a.forbidden, Latency: r.now.Sub(sent), RetryAfter: a.order, Quota: a.quota,
			Second: uint8(sent/clock.Instant(time.Second)%60) + 1, InFlight: 1, Floor: r.host.Floor, Ceiling: r.host.Ceiling, Window: r.w,
		})
		switch {
		case sent < clock.Instant(time.Minute):
		case a.forbidden || a.class.Overload():
			refused++
		default:
			admitted++
		}
	}
	return admitted, refused
}

// unavailable returns a model that answers 503 where m refuses.
func unavailable(m model) model {
	return func(at clock.Instant, inFlight int) reply {
		r := m(at, inFlight)
		if r.class == outcome.Throttled {
			r.class = outcome.Unavailable
		}
		return r
	}
}

// away returns a model that fails all requests between two instants.
func away(m model, from, to time.Duration, as outcome.Class) model {
	return func(at clock.Instant, inFlight int) reply {
		if at > clock.Instant(from) && at < clock.Instant(to) {
			return reply{class: as}
		}
		return m(at, inFlight)
	}
}

// Each kind of limit is found, an outage teaches nothing, and random failures do not slow the rate.
func TestLimitsAreFound(t *testing.T) {
	t.Parallel()
	open := func(clock.Instant, int) reply { return reply{} }
	for _, tc := range []struct {
		name          string
		model         model
		most          float64 // that is allowed, per second
		rate          float64 // that is possible
		used, refused float64 // at least, and at most: shares
		says          control.Cause
	}{
		{"nothing", open, 20, 20, .97, 0, control.CauseNone},
		{"bucket, 429", bucket(10, 20, 0), 40, 10, .9, .02, control.CauseMeasured},
		{"bucket, 503", unavailable(bucket(10, 20, 0)), 40, 10, .9, .02, control.CauseEstimated},
		{"bucket, 429, orders 5 s", bucket(5, 5, 5*time.Second), 40, 5, .85, .02, control.CauseSearched},
		{"fixed window, 503", unavailable(fixed(100, 10*time.Second, silent, false)), 40, 10, .85, .02, control.CauseQuota},
		{"told window", fixed(80, 4*time.Second, wholeRest, true), 40, 20, .9, .01, control.CauseNone},
		{"block", evasive(10, 10*time.Second), 40, 10, .8, .02, control.CauseBlocked},
		{"a tenth fails", flaky(), 20, 18, .9, .12, control.CauseNone},
		{"503 for 20 s", away(open, 90*time.Second, 110*time.Second, outcome.Unavailable), 20, 20, .85, .02, control.CauseRecovered},
		{"500 for 20 s", away(open, 90*time.Second, 110*time.Second, outcome.ServerError), 20, 20, .85, .02, control.CauseRecovered},
		{"500 for 20 s, bucket", away(bucket(10, 20, 0), 90*time.Second, 110*time.Second, outcome.ServerError), 40, 10, .8, .02, control.CauseRecovered},
	} {
		h := controltest.Stranger
		h.Ceiling = tc.most
		const d = 4 * time.Minute
		r := newRig(t, h)
		admitted, refused := r.meet(tc.model, d)
		assert.True(t, r.told[tc.says], "%s: %v in %v", tc.name, tc.says, r.told)
		assert.GreaterOrEqual(t, float64(admitted)/d.Seconds(), tc.used*tc.rate, tc.name)
		assert.LessOrEqual(t, float64(refused)/float64(admitted+refused), tc.refused, tc.name)
	}
}

// Nothing is sent before the end of a Retry-After, and one request is sent right after it.
func TestOrderIsKept(t *testing.T) {
	for _, status := range []int{429, 503} {
		r := newRig(t, controltest.Stranger)
		r.run(5*time.Second, 200)
		at := r.now
		r.hear(at.Add(-50*time.Millisecond), status, 30*time.Second)
		for r.now < at.Add(30*time.Second) {
			p := r.Plan(r.now)
			require.GreaterOrEqual(t, p.NotBefore, at.Add(30*time.Second))
			r.now = r.now.Add(time.Second)
		}
		require.NotEqual(t, breaker.Open, r.Plan(r.now).State)
		sent := r.now
		require.NotZero(t, r.Sent(sent, 1), "it is the trial")
		require.Greater(t, r.Plan(r.now).NotBefore, r.now.Add(time.Minute), "and the only one")
		r.now = r.now.Add(time.Second)
		r.hear(sent, 200, 0)
		require.NotEqual(t, Wait, r.mode)
	}
}

// A request that was sent before a pause began neither ends nor prolongs the pause, and is no second refusal.
func TestAnswersOfBeforeARefusal(t *testing.T) {
	r := newRig(t, controltest.Stranger)
	r.run(8*time.Second, 200)
	before := r.now.Add(-200 * time.Millisecond)
	r.hear(before, 429, 0)
	rate, till, number := r.rate, r.till, r.event.Number
	for _, status := range []int{200, 429, 503, 500, 403} {
		r.hear(before, status, 0)
		require.Equal(t, Wait, r.mode, status)
		require.Equal(t, till, r.till, status)
	}
	require.Equal(t, rate, r.rate)
	require.Equal(t, number, r.event.Number)
}

// Pages that do not exist, or that only some users may see, say nothing of the rate.
func TestPagesThatAreMissingDoNotSlow(t *testing.T) {
	want := newRig(t, controltest.Stranger)
	want.run(6*time.Second, 200)
	for _, status := range []int{301, 401, 404, 410} {
		r := newRig(t, controltest.Stranger)
		r.run(6*time.Second, status)
		require.InDelta(t, want.rate, r.rate, 1e-9, status)
		require.Zero(t, r.Failures())
	}
}

// A bound of the owner is no knowledge of the host: when it is raised the search goes on, and a lower one holds at
// once.
func TestBoundsOfTheOwner(t *testing.T) {
	h := controltest.Stranger
	h.Ceiling = 10
	r := newRig(t, h)
	r.run(20*time.Second, 200)
	require.InDelta(t, 10, r.Plan(r.now).Rate, 1e-9)
	require.True(t, math.IsInf(r.hi, 1))
	require.Zero(t, r.Memory(r.now).Rate, "nothing was learned")
	r.host.Ceiling = 100
	r.run(20*time.Second, 200)
	require.Greater(t, r.Plan(r.now).Rate, 20.0, "as fast as ten requests a second use it")
	r.host.Ceiling = 5
	r.run(time.Second, 200)
	require.LessOrEqual(t, r.Plan(r.now).Rate, 5.0)
}

// The way back to a remembered rate begins at a quarter of it.
func TestRecall(t *testing.T) {
	h := controltest.Stranger
	h.Memory = control.Memory{Rate: 40}
	r := newRig(t, h)
	require.InDelta(t, 10, r.Plan(r.now).Rate, .1)
	r.run(10*time.Second, 200)
	require.InDelta(t, 45, r.Plan(r.now).Rate, 6)
	h.Memory = control.Memory{Held: clock.Instant(time.Minute)}
	r = newRig(t, h)
	p := r.Plan(r.now)
	require.Equal(t, breaker.Open, p.State)
	require.Equal(t, clock.Instant(time.Minute), p.NotBefore)
}

// No call allocates while no event happens.
func TestNoAllocations(t *testing.T) {
	r := newRig(t, controltest.Stranger)
	r.run(30*time.Second, 200)
	r.hear(r.now.Add(-time.Millisecond), 429, 0)
	r.run(30*time.Second, 200)
	require.Zero(t, testing.AllocsPerRun(1000, func() { r.ask(200) }))
}

// BenchmarkRequest measures a request's share of the time under the host's lock: Plan, Sent and Observe.
func BenchmarkRequest(b *testing.B) {
	for _, refused := range []bool{false, true} {
		b.Run(map[bool]string{false: "never refused", true: "refused before"}[refused], func(b *testing.B) {
			s, w := Maker(nil)(controltest.Config(), 0, controltest.Stranger), controltest.Window()
			o := control.Observation{Class: outcome.OK, Latency: 50 * time.Millisecond, InFlight: 1, Floor: .1, Ceiling: 50, Window: w}
			now := clock.Instant(0)
			request := func() {
				p := s.Plan(now)
				now = max(p.NotBefore, now.Add(seconds(1/p.Rate)))
				s.Sent(now, 1)
				o.SentAt = now.Add(-50 * time.Millisecond)
				s.Observe(now, o)
			}
			for range 2000 {
				request()
			}
			if refused {
				o.Class = outcome.Throttled
				request()
				o.Class = outcome.OK
			}
			b.ReportAllocs()
			for b.Loop() {
				request()
			}
		})
	}
}

// Where few URLs wait no faster rate is tried, since they could tell nothing. Many are as good as no call of SetDemand.
func TestDemandBoundsExperiments(t *testing.T) {
	meet := func(urls int) (rate float64, probed bool) {
		h := controltest.Stranger
		h.Ceiling = 40
		r := newRig(t, h)
		if urls >= 0 {
			r.SetDemand(urls)
		}
		m := bucket(10, 20, 0)
		for end := clock.Instant(3 * time.Minute); r.now < end; {
			p := r.Plan(r.now)
			probed = probed || r.mode == Probe
			r.now = max(p.NotBefore, r.now.Add(seconds(1/p.Rate)-20*time.Millisecond), r.now)
			sent := r.now
			r.Sent(sent, 1)
			r.now = r.now.Add(20 * time.Millisecond)
			status := 200
			if m(sent, 1).class == outcome.Throttled {
				status = 429
			}
			r.hear(sent, status, 0)
		}
		return r.rate, probed
	}
	_, probed := meet(3)
	require.False(t, probed, "three URLs are left")
	want, probed := meet(-1)
	require.True(t, probed)
	got, _ := meet(math.MaxInt)
	require.InDelta(t, want, got, 0, "many are as good as not told")
	require.True(t, probed)
}

// A long refusal of a rate well above what is proven is no outage, and says nothing against what is proven: a block
// after a bold step would look like a window of a slow host.
func TestProvenRateOutlastsBoldStep(t *testing.T) {
	for _, tc := range []struct {
		rate float64
		kept bool
	}{{30, true}, {20.5, false}} {
		r := newRig(t, control.Host{Floor: .1, Ceiling: 100, Start: 20})
		r.meetPause()
		r.interval = interval{lo: 20, hi: 60, run: 400}
		r.mode, r.rate = Probe, tc.rate
		r.probe = probe{at: r.now}
		r.run(time.Second/2, 200)
		require.InDelta(t, tc.rate, r.rate, 1e-9)
		r.run(15*time.Second, 429)
		for r.mode == Wait {
			r.ask(200)
		}
		require.Equal(t, tc.kept, r.last > 0, "%v/s: not taken for an outage", tc.rate)
		require.InDelta(t, 20, r.lo, 1e-9, "%v/s", tc.rate)
		require.Equal(t, tc.kept, r.hi < 31, "%v/s: %v", tc.rate, r.hi)
	}
}
