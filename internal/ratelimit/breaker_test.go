package ratelimit

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/ratelimit/breaker"
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

func TestProbeFails(t *testing.T) {
	r := broken(t, nil)
	r.to(19 * time.Second)
	r.request(host, Feedback{Err: errReset, Latency: time.Millisecond, SentAt: r.clk.Now()})
	r.wantDenied(34 * time.Second)
	require.Equal(t, 1, r.Snapshot().Open)
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

func TestOnlyOverloadTrips(t *testing.T) {
	for _, tc := range []struct {
		name string
		fb   Feedback
		want breaker.State
	}{
		{"500", status(500), breaker.Open},
		{"503", status(503), breaker.Open},
		{"429", status(429), breaker.Open},
		{"network", Feedback{Err: errReset}, breaker.Open},
		{"timeout", Feedback{Err: context.DeadlineExceeded}, breaker.Open},
		{"404", status(404), breaker.Closed},
		{"403", status(403), breaker.Closed},
		{"slow", ok(time.Minute), breaker.Closed},
		{"we gave up", Feedback{Err: context.Canceled}, breaker.Closed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, nil)
			for i := range 20 {
				r.to(time.Duration(i) * 2 * time.Minute)
				tc.fb.SentAt = r.clk.Now()
				r.Feedback(host, tc.fb)
				if r.see(host).State == breaker.Open {
					break
				}
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
