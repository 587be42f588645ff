package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/treadlight/crawl/internal/clock/clocktest"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const host = "a.test"

type rig struct {
	*AdaptiveRateLimiter
	t   tester
	clk *clocktest.Fake
}

type tester interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	FailNow()
	Context() context.Context
}

// simplest is a configuration with the simplest strategy that learns: its figures can be worked out by hand.
func simplest() Config {
	c := DefaultConfig()
	c.Strategy = control.NameAIMD
	return c
}

func newRig(t tester, change func(c *Config)) *rig {
	t.Helper()
	clk := clocktest.NewFake(start)
	c := simplest()
	c.Clock = clk
	if change != nil {
		change(&c)
	}
	return &rig{mustNew(t, c), t, clk}
}

func (r *rig) to(d time.Duration) {
	r.t.Helper()
	r.clk.Advance(d - r.clk.Since(start))
}

func (r *rig) grant(domain string) (Permit, bool) {
	r.t.Helper()
	ctx := deadlineContext{r.t.Context(), r.clk.Now()}
	p, err := r.Acquire(ctx, domain)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, ErrCircuitOpen) {
		r.t.Fatalf("Acquire(%s) = %v", domain, err)
	}
	return p, err == nil
}

func (r *rig) request(domain string, fb Feedback) {
	r.t.Helper()
	p, ok := r.grant(domain)
	if !ok {
		r.t.Fatalf("no permit for %s at %v", domain, r.clk.Since(start))
	}
	r.Feedback(domain, fb)
	p.Release()
}

func (r *rig) see(domain string) DomainSnapshot {
	d, _ := r.Inspect(domain)
	return d
}

func (r *rig) wantReady(domain string, ahead int, at time.Duration, why Limit) {
	r.t.Helper()
	got, limit := r.ReadyAt(domain, ahead, ahead)
	want := start.Add(at)
	if at == 0 {
		want = time.Time{}
	}
	if !got.Equal(want) || limit != why {
		r.t.Errorf("at %v: ReadyAt(%s, %d) = %v, %v, want %v, %v", r.clk.Since(start), domain, ahead, got.Sub(start), limit, at, why)
	}
}

// deadlineContext overrides nothing but the deadline, as some callers' types do.
type deadlineContext struct {
	context.Context
	deadline time.Time
}

func (c deadlineContext) Deadline() (time.Time, bool) { return c.deadline, true }

func ok(latency time.Duration) Feedback { return Feedback{StatusCode: 200, Latency: latency} }

func status(code int) Feedback { return Feedback{StatusCode: code, Latency: 10 * time.Millisecond} }

// The law of the blueprint, step by step. The target is 1s, so 2s and more is slow.
func TestAIMDTrajectory(t *testing.T) {
	for _, tc := range []struct {
		name string
		fb   Feedback
		want float64
	}{
		{"prompt success", ok(100 * time.Millisecond), 1.1},
		{"success just below the target", ok(time.Second - 1), 1.1},
		{"success at the target", ok(time.Second), 1},
		{"success just below slow", ok(2*time.Second - 1), 1},
		{"slow success", ok(2 * time.Second), 0.5},
		{"slow 404", Feedback{StatusCode: 404, Latency: 2 * time.Second}, 0.5},
		{"redirect", status(301), 1.1},
		{"404", status(404), 1},
		{"429", status(429), 0.5},
		{"503", status(503), 0.5},
		{"500", status(500), 0.5},
		{"network", Feedback{Err: fmt.Errorf("read: %w", errReset)}, 0.5},
		{"timeout", Feedback{Err: context.DeadlineExceeded}, 0.5},
		{"we gave up", Feedback{Err: context.Canceled, Latency: time.Hour}, 1},
		{"Retry-After on a 429", Feedback{StatusCode: 429, RetryAfter: time.Second}, 0.5},
		{"Retry-After on a 200", Feedback{StatusCode: 200, RetryAfter: time.Second}, 0.5},
		{"Retry-After on a redirect", Feedback{StatusCode: 301, RetryAfter: time.Second}, 0.5},
		{"nothing", Feedback{}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, nil)
			r.Feedback(host, tc.fb)
			require.EqualValues(t, tc.want, r.see(host).FillRate, "%+v", tc)
		})
	}
}

func TestAIMDBounds(t *testing.T) {
	r := newRig(t, func(c *Config) { c.MinRPS, c.MaxRPS = 0.3, 1.25 })
	for i, want := range []float64{1.1, 1.2, 1.25, 1.25} {
		r.to(time.Duration(i) * time.Second)
		r.Feedback(host, ok(0))
		require.Equal(t, want, r.see(host).FillRate)
	}
	for i, want := range []float64{0.625, 0.3125, 0.3, 0.3} {
		r.to(time.Duration(10+i) * time.Second)
		r.Feedback(host, status(429))
		require.Equal(t, want, r.see(host).FillRate)
	}
}

// Five requests were out when the first 429 came: one decrease, and none of the five
// raises the rate either. What is sent afterwards counts again.
func TestOneDecreasePerCongestion(t *testing.T) {
	r := newRig(t, func(c *Config) {
		c.TokenBucketCapacity = 10
		c.ConsecutiveFailThreshold = 100
		c.ErrorRateThreshold = 1
	})
	sent := r.clk.Now()
	r.to(time.Second)
	for i, tc := range []struct {
		code int
		sent time.Time
		want float64
	}{
		{429, sent, 0.5},
		{429, sent, 0.5},
		{503, sent, 0.5},
		{200, sent, 0.5},
		{200, start.Add(time.Second - 1), 0.5},
		{200, start.Add(time.Second), 0.6}, // at the instant of the cut, so by its rate
		{429, start.Add(time.Second), 0.3},
	} {
		if i == 5 {
			r.to(2 * time.Second)
		}
		r.Feedback(host, Feedback{StatusCode: tc.code, SentAt: tc.sent})
		require.EqualValues(t, tc.want, r.see(host).FillRate, "%+v", tc)
	}
}

// The target follows a host that is slow by nature, and never goes below what the
// user expects however fast the host is.
func TestLatencyTargetFollowsTheHost(t *testing.T) {
	r := newRig(t, func(c *Config) { c.LatencyTarget = 100 * time.Millisecond })
	for i, tc := range []struct {
		latency time.Duration
		want    float64
	}{
		{150 * time.Millisecond, 1}, // average 110
		{150 * time.Millisecond, 1}, // 118
		{110 * time.Millisecond, 1.1},
		{236 * time.Millisecond, 0.55}, // twice 116.4 is 232.8
	} {
		r.to(time.Duration(i+1) * time.Second)
		r.Feedback(host, ok(tc.latency))
		require.EqualValues(t, tc.want, r.see(host).FillRate, "%+v", tc)
	}
	near := newRig(t, func(c *Config) { c.LatencyTarget = 100 * time.Millisecond })
	for i := range 50 {
		near.to(time.Duration(i+1) * time.Second)
		near.Feedback(host, ok(100*time.Microsecond))
	}
	was := near.see(host).FillRate
	near.to(time.Minute)
	near.Feedback(host, ok(5*time.Millisecond)) // fifty times the average, and no queue
	require.InDelta(t, was+0.1, near.see(host).FillRate, 1e-9)
}

func TestContexts(t *testing.T) {
	r := newRig(t, nil)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := r.Acquire(ended, host)
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, r.Snapshot().Domains, "an ended context made a state")

	r.request(host, Feedback{}) // the next is due in a second
	for _, tc := range []struct {
		deadline time.Duration
		wait     bool
	}{
		{-time.Second, false}, {0, false}, {time.Second - 1, false},
	} {
		_, err := r.Acquire(deadlineContext{t.Context(), start.Add(tc.deadline)}, host)
		var late *WaitError
		require.ErrorAs(t, err, &late)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, WaitError{Domain: host, Wait: time.Second, Limit: LimitStart}, *late)
		require.Contains(t, err.Error(), "1s (start)")
	}
	r.to(time.Minute)
	_, err = r.Acquire(deadlineContext{t.Context(), start}, host) // past, though not ended
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, granted := r.grant(host)
	require.True(t, granted, "the calls that failed have taken something")
}

func TestDisabled(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Enabled = false; c.InitialRPS = 0.1 })
	for range 100 {
		r.request(host, Feedback{StatusCode: 429, RetryAfter: time.Hour, Retry: true})
	}
	r.SetCrawlDelay(host, time.Hour)
	r.wantReady(host, 5, 0, LimitNone)
	s := r.Snapshot()
	require.Equal(t, []uint64{100, 100, 0}, []uint64{s.Requests, s.Retries, uint64(s.Domains)})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := r.Acquire(ended, host)
	require.ErrorIs(t, err, context.Canceled)
}

func TestOverReleaseIsCountedAndFreesNothing(t *testing.T) {
	r := newRig(t, func(c *Config) { c.TokenBucketCapacity = 2 })
	a, _ := r.grant(host)
	b, _ := r.grant(host)
	a.Release()
	b.Release()
	a.Release()
	s := r.Snapshot()
	require.Equal(t, uint64(1), s.OverReleased)
	require.Zero(t, s.InFlight)
}

// A clock that jumps between now and five seconds ago lets a limiter that believes
// it refill its bucket on every other call.
func TestTimeThatGoesBackGrantsNothing(t *testing.T) {
	clk := &wobbly{Fake: clocktest.NewFake(start)}
	c := simplest()
	c.Clock, c.TokenBucketCapacity = clk, 10
	l := mustNew(t, c)
	clk.Advance(time.Minute)
	granted := 0
	for i := range 400 {
		clk.back = time.Duration(i%2) * 5 * time.Second
		if _, err := l.Acquire(deadlineContext{t.Context(), start.Add(time.Minute)}, host); err == nil {
			granted++
		}
	}
	require.Equal(t, 10, granted)
}

type wobbly struct {
	*clocktest.Fake
	back time.Duration
}

func (w *wobbly) Since(t time.Time) time.Duration { return w.Fake.Since(t) - w.back }
