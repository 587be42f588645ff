package ratelimit

import (
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

// holder is a strategy with a kilobyte of its own that uses all of a plan: it holds still for a while after a refusal,
// then lets one request out at a time until an answer comes. It stands for those that learn more than a rate.
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
func (*holder) Limit(clock.Instant) float64         { return 0 }
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
