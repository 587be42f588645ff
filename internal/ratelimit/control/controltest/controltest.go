// Package controltest holds the properties that every strategy must have, for the tests of each.
package controltest

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
	"github.com/treadlight/crawl/internal/ratelimit/control"
	"github.com/treadlight/crawl/internal/ratelimit/estimate"
	"github.com/treadlight/crawl/internal/ratelimit/header"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// Stranger is a host of which nothing is known.
var Stranger = control.Host{Start: 1, Floor: 0.1, Ceiling: 500}

// Config returns the default configuration of the engine.
func Config() *control.Config {
	c := &control.Config{Increase: 0.1, Decrease: 0.5, Latency: time.Second, Degrade: 2}
	if err := c.Breaker.Validate(); err != nil {
		panic(err) // the default is valid
	}
	return c
}

// Window returns an empty window of outcomes as the engine makes it.
func Window() *estimate.Window {
	w, err := estimate.NewWindow(30*time.Second, 2*time.Second)
	if err != nil {
		panic(err)
	}
	return &w
}

// draw draws any outcome that an owner might report.
func draw(t *rapid.T, now clock.Instant, w *estimate.Window) control.Observation {
	o := control.Observation{
		SentAt:   now - clock.Instant(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "ago")),
		Class:    outcome.Class(rapid.IntRange(0, int(outcome.Canceled)).Draw(t, "class")),
		Latency:  time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "latency")),
		InFlight: rapid.IntRange(0, 100).Draw(t, "in flight"),
		Floor:    rapid.Float64Range(1e-6, 10).Draw(t, "floor"),
		Window:   w,
	}
	o.Forbidden = o.Class == outcome.ClientError && rapid.Bool().Draw(t, "forbidden")
	o.Ceiling = o.Floor + rapid.Float64Range(0, 1e6).Draw(t, "span")
	if rapid.IntRange(0, 3).Draw(t, "told") == 0 {
		o.RetryAfter = time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "order"))
	}
	if rapid.IntRange(0, 3).Draw(t, "quota") == 0 {
		o.Quota = header.Quota{
			Limit:     rapid.SampledFrom([]int64{0, 1, 20, 600, math.MaxInt64}).Draw(t, "limit"),
			Remaining: rapid.SampledFrom([]int64{0, 1, 10, 599, math.MaxInt64}).Draw(t, "remaining"),
			Reset:     time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "reset")),
			Window:    rapid.SampledFrom([]time.Duration{0, 0, 1, time.Second, time.Hour}).Draw(t, "window"),
		}
	}
	o.Second = rapid.Uint8Range(0, 61).Draw(t, "second")
	o.Lifted = o.Class.Answered() && rapid.IntRange(0, 9).Draw(t, "lifted") == 0
	return o
}

// AnyOrder returns the property that, whatever happens in whatever order, the rate is a number for which outside is
// false, and at most one trial is in flight.
func AnyOrder(maker control.Maker, outside func(rate, floor, ceiling float64) bool) func(*rapid.T) {
	return func(t *rapid.T) {
		s := maker(Config(), 0, Stranger)
		w, now, sent, out := Window(), clock.Instant(0), clock.Instant(0), uint32(0)
		floor, ceiling := Stranger.Floor, Stranger.Ceiling
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			now += clock.Instant(rapid.Int64Range(0, int64(20*time.Second)).Draw(t, "pass"))
			p := s.Plan(now)
			if math.IsNaN(p.Rate) || p.Rate < 0 || outside(p.Rate, floor, ceiling) {
				t.Fatalf("rate %v outside %v to %v", p.Rate, floor, ceiling)
			}
			if p.State != breaker.HalfOpen {
				out = 0
			}
			if now >= p.NotBefore && p.State != breaker.Open && rapid.Bool().Draw(t, "send") {
				trial := s.Sent(now, 1)
				if trial != 0 && out != 0 && now < sent.Add(15*time.Second) { // after that time the trial counts as lost
					t.Fatalf("trial %d goes out while %d is", trial, out)
				}
				sent, out = now, trial
			}
			switch rapid.IntRange(0, 2).Draw(t, "then") {
			case 0:
				s.Lost(now, out)
				out = 0
			case 1:
				o := draw(t, now, w)
				s.Observe(now, o)
				if o.SentAt >= sent {
					out = 0 // only the trial was sent so late: this was its outcome
				}
				floor, ceiling = o.Floor, o.Ceiling
			}
			_, _, _ = s.Explain(now), s.Memory(now), s.Failures()
		}
	}
}

// SameHistorySamePlan checks that the same calls give the same plans.
func SameHistorySamePlan(t *testing.T, maker control.Maker) {
	t.Helper()
	run := func() (plans []control.Plan) {
		rnd := rand.New(rand.NewPCG(7, 7))
		s, w := maker(Config(), 0, Stranger), Window()
		for i := range 2000 {
			now := clock.Instant(i) * clock.Instant(100*time.Millisecond)
			if p := s.Plan(now); now >= p.NotBefore && p.State != breaker.Open {
				s.Sent(now, 1)
			}
			s.Observe(now, control.Observation{
				SentAt: now - clock.Instant(rnd.Int64N(int64(2*time.Second))), Class: outcome.Of(200+303*(rnd.IntN(20)/19), nil),
				Latency: time.Millisecond, Floor: 0.1, Ceiling: 1000, Window: w,
			})
			plans = append(plans, s.Plan(now))
		}
		return plans
	}
	require.Equal(t, run(), run())
}
