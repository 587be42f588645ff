package ratelimit

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/treadlight/crawl/limit"
)

// drawSpec is a cap of any kind that counts over time.
func drawSpec(t *rapid.T, name string, longestSpan int64) limit.Spec {
	kinds := []limit.Kind{
		limit.KindTokenBucket, limit.KindFixedWindow, limit.KindSlidingWindow, limit.KindSlidingWindowLog, limit.KindLeakyBucket,
	}
	if name == "quota" {
		kinds = kinds[1:4]
	}
	return limit.Spec{
		Kind: rapid.SampledFrom(kinds).Draw(t, name), Permits: rapid.Int64Range(1, 12).Draw(t, name+" permits"),
		Per: time.Duration(rapid.Int64Range(1, longestSpan).Draw(t, name+" per")),
	}
}

// ReadyAt is exact under any two caps beside a rate and a spacing: a nanosecond before it
// nothing is granted, at it something is. And no state that comes and goes, as other hosts
// crowd it out, makes a difference.
func TestReadyAtIsExactUnderCaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rule := HostRule{
			Cap: drawSpec(t, "cap", int64(3*time.Second)), Quota: drawSpec(t, "quota", int64(time.Minute)),
			MinDelay: time.Duration(rapid.Int64Range(-1, int64(time.Second)).Draw(t, "min delay")),
		}
		r := capped(t, rule, func(c *Config) { small(2)(c) })
		if rule.MinDelay == 0 {
			rule.MinDelay = -1
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			r.clk.Advance(time.Duration(rapid.Int64Range(0, int64(2*time.Second)).Draw(t, "step")))
			if rapid.IntRange(0, 3).Draw(t, "crowd") == 0 {
				for i := range 4 {
					r.grants(fmt.Sprintf("other-%d.test", i), true)
				}
			}
			at, why := r.ReadyAt(host, 0, 0)
			if why != LimitNone {
				r.to(at.Sub(start) - 1)
				if _, ok := r.grant(host); ok {
					t.Fatalf("granted a nanosecond before %v (%v)", at.Sub(start), why)
				}
				r.to(at.Sub(start))
			}
			p, ok := r.grant(host)
			if !ok {
				t.Fatalf("no permit at %v, when ReadyAt promised one (%v)", r.clk.Since(start), why)
			}
			p.Release()
		}
	})
}

// Forecasts of those behind others are never too late: who takes each permit as soon as it
// is there never finds one earlier than was said.
func TestForecastsUnderCapsAreNeverTooLate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := capped(t, HostRule{Cap: drawSpec(t, "cap", int64(3*time.Second))}, nil)
		for range rapid.IntRange(0, 20).Draw(t, "before") {
			r.clk.Advance(time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "step")))
			if p, ok := r.grant(host); ok {
				p.Release()
			}
		}
		const n = 30
		var said [n]time.Time
		for ahead := range said {
			if said[ahead], _ = r.ReadyAt(host, ahead, 0); said[ahead].IsZero() {
				said[ahead] = r.clk.Now()
			}
		}
		for ahead, forecast := range said {
			if at, why := r.ReadyAt(host, 0, 0); why != LimitNone {
				r.to(at.Sub(start))
			}
			p, ok := r.grant(host)
			require.True(t, ok)
			p.Release()
			// A millisecond is what is said where a window's end is not known.
			if late := forecast.Sub(r.clk.Now()); late > soon {
				t.Fatalf("%d ahead: said %v, was %v", ahead, forecast.Sub(start), r.clk.Since(start))
			}
		}
	})
}

// One who looks at a state that is evicted at that moment is told the truth, though its
// limiter is closed.
func TestCapsOfAStateThatIsGone(t *testing.T) {
	r := capped(t, HostRule{Cap: limit.Spec{Permits: 1, Per: time.Second}}, small(1))
	r.grants(host, true)
	s, kept := r.peek(host)
	require.True(t, kept)
	r.to(time.Hour)
	r.grants("b.test", true)
	r.laid.Load().hosts[0].rules.sweepCaps()
	s.mu.Lock()
	defer s.mu.Unlock()
	require.True(t, s.dead)
	require.Zero(t, s.capWaitLocked(capRate, 1))
	require.EqualValues(t, 1, s.capLeftLocked(capRate))
}
