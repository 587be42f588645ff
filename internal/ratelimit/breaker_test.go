package ratelimit

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/ratelimit/breaker"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// broken is a rig whose breaker has opened after five 500s, at one a second, the
// last at 4s. The rate is no matter here.
func broken(t *testing.T, change func(c *Config)) *rig {
	t.Helper()
	r := newRig(t, func(c *Config) {
		c.MinRPS, c.TokenBucketCapacity = 1, 10
		if change != nil {
			change(c)
		}
	})
	for i := range 5 {
		r.to(time.Duration(i) * time.Second)
		require.Equal(t, breaker.Closed, r.see(host).State)
		r.request(host, status(500))
	}
	require.Equal(t, breaker.Open, r.see(host).State)
	return r
}

func (r *rig) wantDenied(until time.Duration) {
	r.t.Helper()
	_, err := r.Acquire(r.t.Context(), host)
	var open *CircuitOpenError
	require.ErrorAs(r.t, err, &open)
	require.ErrorIs(r.t, err, ErrCircuitOpen)
	require.Equal(r.t, host, open.Domain)
	require.Equal(r.t, until, open.Until.Sub(start))
}

func TestBreakerOpensAndRecovers(t *testing.T) {
	r := broken(t, nil)
	r.wantReady(host, 0, 19*time.Second, LimitBreaker)
	r.wantDenied(19 * time.Second)
	r.to(19*time.Second - 1)
	r.wantDenied(19 * time.Second)
	r.to(19 * time.Second)
	require.Equal(t, breaker.HalfOpen, r.see(host).State)
	require.Equal(t, 1, r.Snapshot().HalfOpen)
	r.wantReady(host, 0, 0, LimitNone)
	r.wantReady(host, 1, 34*time.Second, LimitBreaker)
	first, granted := r.grant(host)
	require.True(t, granted)
	r.wantDenied(34 * time.Second) // one probe at a time
	r.wantReady(host, 0, 34*time.Second, LimitBreaker)
	r.to(20 * time.Second)
	r.Feedback(host, Feedback{StatusCode: 200, Latency: time.Second})
	first.Release()
	require.Equal(t, breaker.HalfOpen, r.see(host).State)
	r.request(host, status(404)) // a host that says no such page is well
	require.Equal(t, breaker.Closed, r.see(host).State)
	d := r.see(host)
	require.Zero(t, d.ErrorRate, "old errors are still in the window")
	require.Zero(t, d.ConsecutiveFails)
	r.to(21 * time.Second)
	r.request(host, status(500)) // one failure does not open it again
	require.Equal(t, breaker.Closed, r.see(host).State)
	require.Equal(t, uint64(5), r.Snapshot().Denied, "three times in Acquire, and twice who asked ReadyAt first")
}

// A probe without a verdict: the slot is free again, and the state stays.
func TestLostProbe(t *testing.T) {
	for _, tc := range []struct {
		name string
		lose func(r *rig, p Permit)
	}{
		{"released without feedback", func(_ *rig, p Permit) { p.Release() }},
		{"we gave up", func(r *rig, _ Permit) { r.Feedback(host, Feedback{Err: context.Canceled}) }},
		{"told to wait", func(r *rig, _ Permit) { r.Feedback(host, Feedback{StatusCode: 503, RetryAfter: 1}) }},
		{"never came back", func(r *rig, _ Permit) { r.to(34 * time.Second) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := broken(t, nil)
			r.to(19 * time.Second)
			p, _ := r.grant(host)
			tc.lose(r, p)
			require.Equal(t, breaker.HalfOpen, r.see(host).State)
			r.clk.Advance(time.Second)
			r.request(host, ok(0))
			r.request(host, ok(0))
			require.Equal(t, breaker.Closed, r.see(host).State)
		})
	}
}

// Half of ten answers are failures, never five in a row: the rate opens it at the
// tenth. With fewer samples, or when the early failures have left the window, not.
func TestErrorRateTrips(t *testing.T) {
	for _, tc := range []struct {
		name  string
		pause time.Duration
		n     int
		want  breaker.State
	}{
		{"tenth sample", time.Second, 10, breaker.Open},
		{"ninth sample", time.Second, 9, breaker.Closed},
		{"spread over more than the window", 4 * time.Second, 30, breaker.Closed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, nil)
			for i := range tc.n {
				r.to(time.Duration(i) * tc.pause)
				r.Feedback(host, status(200+303*(i%2))) // 200, 503, 200, …
			}
			require.Equal(t, tc.want, r.see(host).State)
		})
	}
}

func TestOneBadHostLeavesTheOthersAlone(t *testing.T) {
	r := broken(t, nil)
	for range 10 {
		r.request("b.test", ok(0))
		r.clk.Advance(time.Second)
	}
	require.Equal(t, 2.0, r.see("b.test").FillRate)
}

func prompt(r *rig, n int) {
	for range n {
		r.clk.Advance(time.Second)
		r.Feedback(host, ok(10*time.Millisecond))
	}
}

// The latency that counts as a sign of overload is relative to the host's best sustained
// latency: one of 10 ms is in trouble long before the 1s that any host is expected to take.
func TestLatencyTargetIsAnchored(t *testing.T) {
	const most = 100 * time.Millisecond // below it, differences are those of networks and schedulers
	t.Run("a jump", func(t *testing.T) {
		r := newRig(t, nil)
		prompt(r, 60)
		was := r.see(host)
		require.LessOrEqual(t, was.LatencyTargetMS, 50.0)
		r.clk.Advance(time.Second)
		r.Feedback(host, ok(most))
		require.Equal(t, was.FillRate/2, r.see(host).FillRate)
	})
	for _, growth := range []float64{1.001, 1.01, 1.1, 1.5} {
		t.Run(fmt.Sprintf("slower by a factor of %v each time", growth), func(t *testing.T) {
			r := newRig(t, nil)
			prompt(r, 60)
			was := r.see(host).FillRate
			for d := 10 * time.Millisecond; ; d = time.Duration(float64(d) * growth) {
				r.clk.Advance(time.Second)
				r.Feedback(host, ok(d))
				if r.see(host).FillRate < was {
					break
				}
				require.LessOrEqual(t, d, most, "rate still %v/s", r.see(host).FillRate)
			}
		})
	}
}

// A host that is slow at the lowest rate too is slow by itself: it is not held there.
func TestLatencyTargetFollowsAtTheFloor(t *testing.T) {
	r := newRig(t, nil)
	prompt(r, 60)
	for range 20 {
		r.clk.Advance(time.Minute)
		r.Feedback(host, ok(6*time.Second))
		if r.see(host).FillRate == r.cfg.MinRPS {
			break
		}
	}
	require.Equal(t, r.cfg.MinRPS, r.see(host).FillRate)
	for i := range 100 {
		r.clk.Advance(time.Minute)
		r.Feedback(host, ok(5500*time.Millisecond+time.Duration(i%2)*time.Second))
	}
	require.Greater(t, r.see(host).FillRate, 1.0)
}

// What a host in trouble takes to say so is no measure of how fast it answers, neither where
// its lowest latency bounds the target nor where the average makes it.
func TestErrorsAreNoLatencies(t *testing.T) {
	for name, fb := range map[string]Feedback{
		"timeout":         {Err: context.DeadlineExceeded, Latency: 30 * time.Second},
		"gateway timeout": {StatusCode: 504, Latency: 30 * time.Second},
		"request timeout": {StatusCode: 408, Latency: 30 * time.Second},
		"unavailable":     {StatusCode: 503, Latency: 30 * time.Second},
		"throttled":       {StatusCode: 429, Latency: 30 * time.Second},
	} {
		for _, usual := range []time.Duration{10 * time.Millisecond, 150 * time.Millisecond} {
			t.Run(fmt.Sprintf("%s of a host at %v", name, usual), func(t *testing.T) {
				r := newRig(t, func(c *Config) { c.LatencyTarget = 100 * time.Millisecond })
				for range 60 {
					r.clk.Advance(time.Second)
					r.Feedback(host, ok(usual))
				}
				was := r.see(host)
				r.clk.Advance(time.Minute)
				fb.SentAt = r.clk.Now()
				r.Feedback(host, fb)
				d := r.see(host)
				require.Equal(t, []float64{was.LatencyTargetMS, was.AvgLatencyMS, was.P95LatencyMS}, []float64{d.LatencyTargetMS, d.AvgLatencyMS, d.P95LatencyMS})
				require.Equal(t, 1, d.ConsecutiveFails)
				require.Positive(t, d.ErrorRate)
				require.Equal(t, was.FillRate/2, d.FillRate)
			})
		}
	}
}

// overload sends as the limiter lets it, from the beginning or after a healthy minute, and
// returns how long after the host began to fail its circuit opened.
func overload(t *testing.T, strategy string, rps float64, healthy time.Duration, bad Feedback) time.Duration {
	t.Helper()
	r := newRig(t, func(c *Config) {
		c.Strategy, c.InitialRPS, c.MaxRPS = strategy, rps, rps
	})
	step := 20 * time.Millisecond
	var failing time.Duration
	for at := time.Duration(0); at < 2*time.Minute; at += step {
		r.to(at)
		p, granted := r.grant(host)
		if !granted {
			continue
		}
		fb := ok(step)
		if at >= healthy {
			fb = bad
			if failing == 0 {
				failing = at + 1
			}
		}
		fb.SentAt = r.clk.Now()
		r.Feedback(host, fb)
		p.Release()
		if r.see(host).State != breaker.Closed {
			return at + 1 - failing
		}
	}
	return 2 * time.Minute
}

// Whatever the strategy and the rate before: five seconds after a host began to answer
// nothing but failures nobody asks it any more but trials.
func TestCircuitOpensWithinFiveSeconds(t *testing.T) {
	for _, strategy := range control.Names() {
		for _, rps := range []float64{1, 2, 10} {
			for _, healthy := range []time.Duration{0, time.Minute} {
				for name, bad := range map[string]Feedback{
					"429": status(429), "503": status(503), "500": status(500), "reset": {Err: errReset}, "timeout": {Err: context.DeadlineExceeded},
				} {
					t.Run(fmt.Sprintf("%s at %v/s, %s after %v", strategy, rps, name, healthy), func(t *testing.T) {
						if took := overload(t, strategy, rps, healthy, bad); took > 5*time.Second {
							t.Errorf("the circuit opened after %v, want 5s at most", took)
						}
					})
				}
			}
		}
	}
}

// The figures that a snapshot shows of a host's latency are those of as many answers as asked.
func TestLatencySamples(t *testing.T) {
	for _, samples := range []int{1, 4, 10, 100, 255} {
		r := newRig(t, func(c *Config) { c.LatencySamples = samples })
		for range 300 {
			r.Feedback(host, ok(400*time.Millisecond))
		}
		for range 5 {
			r.Feedback(host, ok(100*time.Millisecond))
		}
		quick := min(5, samples)
		mean := float64(100*quick+400*(samples-quick)) / float64(samples)
		require.InEpsilon(t, mean, r.see(host).AvgLatencyMS, 0.04, "%d samples", samples)
		want := 400.0
		if samples <= 5 {
			want = 100
		}
		require.InEpsilon(t, want, r.see(host).P95LatencyMS, 0.04, "%d samples", samples)
	}
}
