package ratelimit

import (
	"context"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

var errReset = syscall.ECONNRESET

// holder is a strategy with a kilobyte of its own that uses all of a plan: it holds
// still for a while after a refusal, then lets one request out at a time until an
// answer comes. It stands for those that learn more than a rate.
type holder struct {
	history [256]uint32
	n       int
	until   clock.Instant
	trial   bool
}

func (h *holder) Plan(clock.Instant) control.Plan {
	p := control.Plan{Rate: 100, NotBefore: h.until}
	if h.trial {
		p.InFlight = 1
	}
	return p
}

func (h *holder) Sent(clock.Instant, int) uint32 {
	h.n++
	h.history[h.n%len(h.history)]++
	return 0
}

func (h *holder) Observe(now clock.Instant, o control.Observation) {
	if h.trial = o.Class.Overload(); h.trial {
		h.until = now.Add(3 * time.Second)
	}
}

func (*holder) Lost(clock.Instant, uint32)          {}
func (*holder) Memory(clock.Instant) control.Memory { return control.Memory{} }
func (*holder) Explain(clock.Instant) string        { return "holding" }
func (*holder) Failures() int                       { return 0 }

func newHolderRig(t *testing.T) *rig {
	r := newRig(t, func(c *Config) { c.MaxRPS = 100 })
	s := r.lock(host)
	s.strategy = &holder{}
	s.replanLocked(0)
	s.mu.Unlock()
	return r
}

func TestStrategyMayHoldAndBoundFlight(t *testing.T) {
	r := newHolderRig(t)
	r.request(host, status(503))
	r.wantReady(host, 0, 3*time.Second, LimitLearned)
	_, granted := r.grant(host)
	require.False(t, granted)

	r.to(3 * time.Second)
	trial, granted := r.grant(host)
	require.True(t, granted)
	r.to(4 * time.Second) // tokens there are, but the trial is out
	_, why := r.ReadyAt(host, 0, 0)
	require.Equal(t, LimitLearned, why)

	trial.Release()
	_, granted = r.grant(host)
	require.True(t, granted)
}

// Who waits for an answer has no timer: the release itself wakes him.
func TestStrategyWaiterIsWokenByRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := mustNew(t, simplest())
		s := l.lock(host)
		s.strategy = &holder{trial: true}
		s.replanLocked(0)
		s.mu.Unlock()
		trial, err := l.Acquire(t.Context(), host)
		require.NoError(t, err)
		begin := time.Now()
		time.AfterFunc(time.Hour, trial.Release)
		p, err := l.Acquire(t.Context(), host)
		require.NoError(t, err)
		require.Equal(t, time.Hour, time.Since(begin))
		p.Release()
	})
}

func TestStrategyRateIsKeptInBounds(t *testing.T) {
	r := newHolderRig(t)
	require.Equal(t, 100.0, r.see(host).FillRate)
	r.SetCrawlDelay(host, 4*time.Second)
	require.Equal(t, 0.25, r.see(host).FillRate)
}

// Whatever is fed to the whole engine, in whatever order: the rate is in bounds, no
// number is broken, and nothing is granted inside a Retry-After or closer than the
// spacing.
func anyOrder(t *rapid.T) {
	r := newRig(t, func(c *Config) { c.TokenBucketCapacity = 2; c.MinDelay = 100 * time.Millisecond })
	blocked, last := start, start.Add(-time.Hour)
	var out []Permit
	for range rapid.IntRange(1, 50).Draw(t, "steps") {
		now := r.clk.Now()
		if p, granted := r.grant(host); granted {
			if now.Before(blocked) || now.Sub(last) < 100*time.Millisecond {
				t.Fatalf("grant at %v, blocked until %v, last at %v", now.Sub(start), blocked.Sub(start), last.Sub(start))
			}
			last, out = now, append(out, p)
		}
		if len(out) > 0 && rapid.Bool().Draw(t, "release") {
			out[0].Release()
			out = out[1:]
		}
		fb := drawFeedback(t, now)
		r.Feedback(host, fb)
		if end := now.Add(fb.RetryAfter); end.After(blocked) {
			blocked = end
		}
		d := r.see(host)
		if !(d.FillRate >= 0.1 && d.FillRate <= 10) || !(d.ErrorRate >= 0 && d.ErrorRate <= 1) || !(d.Tokens >= 0 && d.Tokens <= 2) {
			t.Fatalf("out of bounds: %+v", d)
		}
		r.clk.Advance(time.Duration(rapid.Int64Range(0, int64(20*time.Second)).Draw(t, "pass")))
	}
}

func drawFeedback(t *rapid.T, now time.Time) Feedback {
	fb := Feedback{
		StatusCode: rapid.SampledFrom([]int{0, 200, 301, 404, 429, 500, 503}).Draw(t, "status"),
		Err:        rapid.SampledFrom([]error{nil, nil, nil, errReset, context.Canceled, context.DeadlineExceeded}).Draw(t, "error"),
		Latency:    time.Duration(rapid.Int64Range(0, int64(5*time.Second)).Draw(t, "latency")),
	}
	if rapid.Bool().Draw(t, "told") {
		fb.RetryAfter = time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "wait"))
	}
	if rapid.Bool().Draw(t, "stamped") {
		fb.SentAt = now.Add(-time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "ago")))
	}
	return fb
}

func TestAnyOrderOfEvents(t *testing.T) { rapid.Check(t, anyOrder) }

func FuzzAnyOrderOfEvents(f *testing.F) { f.Fuzz(rapid.MakeFuzz(anyOrder)) }

// What ReadyAt foretells for the one after k others is when he gets it, if each
// goes as soon as he can: but for the nanosecond a grant that rounding may cost.
func TestForecastsComeTrue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRig(t, func(c *Config) {
			c.TokenBucketCapacity = rapid.Float64Range(1, 5).Draw(t, "capacity")
			c.InitialRPS = rapid.Float64Range(0.1, 10).Draw(t, "rate")
			c.MinDelay = time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "delay"))
		})
		for range rapid.IntRange(0, 5).Draw(t, "before") {
			if p, granted := r.grant(host); granted {
				p.Release()
			}
			r.clk.Advance(time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "pass")))
		}
		if rapid.Bool().Draw(t, "told") {
			r.Feedback(host, Feedback{StatusCode: 503, RetryAfter: time.Duration(rapid.Int64Range(0, int64(5*time.Second)).Draw(t, "wait"))})
		}
		ahead := rapid.IntRange(0, 6).Draw(t, "ahead")
		want, _ := r.ReadyAt(host, ahead, ahead)
		if want.IsZero() {
			want = r.clk.Now()
		}
		for range ahead + 1 {
			if at, _ := r.ReadyAt(host, 0, 0); !at.IsZero() {
				r.clk.Advance(at.Sub(r.clk.Now()))
			}
			p, granted := r.grant(host)
			if !granted {
				t.Fatalf("no grant when foretold, at %v", r.clk.Since(start))
			}
			p.Release()
		}
		if late := r.clk.Now().Sub(want); late < 0 || late > time.Duration(ahead) {
			t.Fatalf("foretold %v, came %v later", want.Sub(start), late)
		}
	})
}
