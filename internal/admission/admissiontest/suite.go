// Package admissiontest is the suite that every [admission.Repository] must pass: it makes the same decisions as the
// pure functions of package admission, step by step and to the last bit; charges all plans or none; grants exactly the
// capacity to thousands of concurrent callers; and counts no key for another, whatever characters it contains.
package admissiontest

import (
	"cmp"
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/clock"
)

// Options are the sizes that the test of a repository may change.
type Options struct {
	// Goroutines is how many goroutines take tokens at once. Zero means 2000.
	Goroutines int
	// Steps is the number of steps of each comparison with the pure functions. Zero means 500.
	Steps int
	// Keys is the number of keys for which the repository has exact accounts at least. Zero means 2500.
	Keys int
}

// Open returns an empty repository that takes its time from clk, and closes it when the test ends. The suite may close
// it before.
type Open func(t *testing.T, clk *Clock) admission.Repository

// Run runs the suite, each test on a repository of its own.
func Run(t *testing.T, open Open, opts Options) {
	opts.Goroutines = cmp.Or(opts.Goroutines, 2000)
	opts.Keys = cmp.Or(opts.Keys, 2500)
	opts.Steps = cmp.Or(opts.Steps, 500)
	for _, tc := range []struct {
		name string
		test func(*suite)
	}{
		{"steps", (*suite).steps},
		{"steps of close clocks", (*suite).closeSteps},
		{"replaced plans", (*suite).replacedSteps},
		{"all or none", (*suite).allOrNone},
		{"looking costs nothing", (*suite).looking},
		{"clock a little back", (*suite).littleBack},
		{"clock far back", (*suite).farBack},
		{"a lifetime idle", (*suite).idle},
		{"extreme plans", (*suite).extremes},
		{"keys apart", (*suite).keysApart},
		{"plans apart", (*suite).plansApart},
		{"remove", (*suite).remove},
		{"keys", (*suite).keys},
		{"remove where", (*suite).removeWhere},
		{"ended context", (*suite).endedContext},
		{"one plan at once", (*suite).oneAtOnce},
		{"three plans at once", (*suite).threeAtOnce},
		{"close", (*suite).closing},
	} {
		t.Run(tc.name, func(t *testing.T) {
			clk := NewClock()
			tc.test(&suite{T: t, clk: clk, repo: open(t, clk), opts: opts, model: model{}})
		})
	}
}

type suite struct {
	*testing.T
	clk   *Clock
	repo  admission.Repository
	opts  Options
	model model
}

func (s *suite) take(key string, n int64, plans ...admission.Plan) admission.Result {
	s.Helper()
	r, err := s.repo.Take(s.Context(), key, plans, n)
	require.NoError(s, err)
	return r
}

// compare has the repository and the model decide, and fails the test if they differ.
func (s *suite) compare(key string, n int64, plans ...admission.Plan) admission.Result {
	s.Helper()
	now := s.clk.Now()
	want := s.model.take(key, plans, admission.MicrosOf(now), n)
	if got := s.take(key, n, plans...); got != want {
		s.Fatalf("Take(%q, %+v, %d) at %v =\n %+v, want\n %+v", key, plans, n, now.Sub(start), got, want)
	}
	return want
}

func (s *suite) admits(key string, limit int, plans ...admission.Plan) int {
	s.Helper()
	for i := range limit + 1 {
		if !s.take(key, 1, plans...).Allowed {
			return i
		}
	}
	return limit + 1
}

// model has the states of what keys have used of plans, which begin anew if a bucket becomes a window.
type model map[account]admission.State

type account struct {
	key, plan string
	window    bool
}

func (m model) take(key string, plans []admission.Plan, now admission.Micros, n int64) admission.Result {
	states := make([]admission.State, len(plans))
	of := func(p *admission.Plan) account { return account{key, p.Name, p.Window != 0} }
	for i := range plans {
		var known bool
		if states[i], known = m[of(&plans[i])]; !known {
			states[i] = plans[i].Fresh(now)
		}
	}
	r := admission.TakeAll(states, plans, now, n)
	for i := range plans {
		if a := of(&plans[i]); r.Allowed && n > 0 {
			delete(m, account{key, a.plan, !a.window})
			m[a] = states[i]
		}
	}
	return r
}

// Bucket returns a token bucket, settled if its numbers are valid.
func Bucket(name string, capacity int64, perSecond float64) admission.Plan {
	return admission.Plan{Name: name, Kind: admission.KindTokenBucket, Capacity: capacity, TokensPerSecond: perSecond}
}

// Fixed returns a fixed window, settled if its numbers are valid.
func Fixed(name string, capacity int64, length time.Duration) admission.Plan {
	return admission.Plan{Name: name, Kind: admission.KindFixedWindow, Capacity: capacity, Window: length}
}

// Sliding returns a sliding window, settled if its numbers are valid.
func Sliding(name string, capacity int64, length time.Duration) admission.Plan {
	return admission.Plan{Name: name, Kind: admission.KindSlidingWindow, Capacity: capacity, Window: length}
}

// Take calls r.Take and fails the test on an error. It may be called from any goroutine.
func Take(t testing.TB, r admission.Repository, key string, n int64, plans ...admission.Plan) admission.Result {
	t.Helper()
	res, err := r.Take(context.Background(), key, plans, n)
	assert.NoError(t, err) //nolint:testifylint // require may not be called by another goroutine than the test's
	return res
}

// Clock is a clock that the test moves, also backwards, which the other clocks of tests cannot do. Its timers run in
// real time, so that callers who wait for an answer, or for a batch, get it although the clock stands still. It is safe
// for concurrent use.
type Clock struct {
	clock.Clock              // the system clock, for its timers
	after       atomic.Int64 // nanoseconds after start
}

// start is not on the border of any window that the suite uses, except windows of whole milliseconds.
var start = time.Date(2026, 3, 4, 5, 6, 7, 890e6, time.UTC)

// NewClock returns a clock that shows a time in 2026, at a whole millisecond.
func NewClock() *Clock { return &Clock{Clock: clock.System()} }

// Now returns the time that the clock shows.
func (c *Clock) Now() time.Time { return start.Add(time.Duration(c.after.Load())) }

// Since returns the time from t to Now, which is negative if the clock was moved back.
func (c *Clock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// Move moves the clock by d, which may be negative. Repositories count in microseconds; the suite moves the clock by
// whole ones.
func (c *Clock) Move(d time.Duration) { c.after.Add(int64(d)) }

// Set sets the clock to t, which must be within 292 years of now.
func (c *Clock) Set(t time.Time) { c.after.Store(int64(t.Sub(start))) }
