package steer

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
	"github.com/treadlight/crawl/internal/ratelimit/control"
	"github.com/treadlight/crawl/internal/ratelimit/control/controltest"
	"github.com/treadlight/crawl/internal/ratelimit/estimate"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// rig is a steer whose host the test makes up, on a clock that the test moves.
type rig struct {
	*Steer
	t    *testing.T
	w    *estimate.Window
	host control.Host
	now  clock.Instant
}

func newRig(t *testing.T, h control.Host) *rig {
	return &rig{Steer: newSteer(&DefaultTuning, controltest.Config(), 0, h), t: t, w: controltest.Window(), host: h}
}

// hear tells of an answer, now, to a request that was sent at an instant.
func (r *rig) hear(sent clock.Instant, status int, order time.Duration) {
	r.Observe(r.now, control.Observation{
		SentAt: sent, Class: outcome.Of(status, nil), Forbidden: outcome.Forbidden(status), Latency: r.now.Sub(sent),
		RetryAfter: order, InFlight: 1, Floor: r.host.Floor, Ceiling: r.host.Ceiling, Window: r.w,
	})
}

// ask waits until the plan lets a request out, sends it, and tells its answer a tenth of a second later.
func (r *rig) ask(status int) {
	p := r.Plan(r.now)
	r.now = max(p.NotBefore, r.now.Add(seconds(1/p.Rate)-100*time.Millisecond), r.now)
	sent := r.now
	r.Sent(sent, 1)
	r.now = r.now.Add(100 * time.Millisecond)
	r.hear(sent, status, 0)
}

// run asks for so long.
func (r *rig) run(d time.Duration, status int) {
	for end := r.now.Add(d); r.now < end; {
		r.ask(status)
	}
}

// Nothing goes out while an order to wait runs, and one request does when it is over.
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

// What was sent before a pause began neither ends nor prolongs it, and is no second refusal.
func TestAnswersOfBeforeARefusal(t *testing.T) {
	r := newRig(t, controltest.Stranger)
	r.run(8*time.Second, 200)
	before := r.now.Add(-200 * time.Millisecond)
	r.hear(before, 429, 0)
	rate, till, number := r.failRate, r.till, r.event.Number
	for _, status := range []int{200, 429, 503, 500, 403} {
		r.hear(before, status, 0)
		require.Equal(t, Wait, r.mode, status)
		require.Equal(t, till, r.till, status)
	}
	require.Equal(t, rate, r.failRate)
	require.Equal(t, number, r.event.Number)
}

// Pages that are not there, or not for everyone, say nothing of the rate.
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

// A bound of the owner is no knowledge of the host: the search goes on when it is raised, and a lower one
// holds at once.
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

// What is remembered is gone back to, from a quarter of it.
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

// No call of the ordinary course allocates.
func TestNoAllocations(t *testing.T) {
	r := newRig(t, controltest.Stranger)
	r.run(30*time.Second, 200)
	r.hear(r.now.Add(-time.Millisecond), 429, 0)
	r.run(30*time.Second, 200)
	require.Zero(t, testing.AllocsPerRun(1000, func() { r.ask(200) }))
}

// BenchmarkRequest is a request's share of the host's lock: Plan, Sent and Observe.
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
