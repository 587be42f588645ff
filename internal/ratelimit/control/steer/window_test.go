package steer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/control"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// seen is a window and the history that samples made.
type seen struct {
	window
	history
}

// asked admits n requests, evenly, between two seconds.
func (s *seen) asked(n int, from, to float64) {
	for i := range n {
		at := clock.Instant((from + (to-from)*float64(i)/float64(n)) * 1e9)
		s.history.add(at)
		s.window.observe(&s.history, &Sample{Tuning: &DefaultTuning, Observation: &control.Observation{SentAt: at}, At: at, Rate: float64(n) / (to - from)})
	}
}

// refused refuses a request at a second, with a Retry-After, at a rate.
func (s *seen) refused(at float64, order time.Duration, rate float64) {
	sent := clock.Instant(at * 1e9)
	s.window.observe(&s.history, &Sample{Tuning: &DefaultTuning, Observation: &control.Observation{SentAt: sent, Class: outcome.Throttled, RetryAfter: order}, At: sent, Rate: rate})
}

// One refusal bounds the rate of the window whose rest it was; a second one, after as much again, makes that sure.
func TestRestOfAWindow(t *testing.T) {
	var s seen
	s.asked(600, 0, 12)
	s.refused(12, 48*time.Second, 100)
	s.asked(600, 60.1, 110) // the window is over at 60
	e := s.estimate()
	require.InDelta(t, .6, e.Confidence, 1e-9)
	require.LessOrEqual(t, e.Rate, 10.1)
	require.GreaterOrEqual(t, e.Most, 9.9)
	s.refused(110, 10*time.Second, 12)
	s.asked(1, 120.1, 121)
	e = s.estimate()
	require.Greater(t, e.Confidence, .9)
	require.InEpsilon(t, 10, e.Rate, .03)
	require.InEpsilon(t, 10, e.Most, .03)
	p, _ := s.chance(clock.Instant(121e9), 11)
	require.Greater(t, p, .85, "of a rate beyond it")
	p, _ = s.chance(clock.Instant(121e9), 9)
	require.Zero(t, p)
}

// A Retry-After that comes though much more was admitted in as long is a habit of the host and no window's length, from
// then on.
func TestOrderOfHabit(t *testing.T) {
	var s seen
	s.asked(60, 0, 6)
	s.refused(6, 30*time.Second, 30)
	s.asked(300, 36.1, 66)
	require.InDelta(t, .6, s.order.weight, 1e-9)
	s.refused(66, 30*time.Second, 10)
	s.asked(300, 96.1, 126)
	require.True(t, s.habit)
	require.Zero(t, s.order)
	s.refused(126, 30*time.Second, 10)
	s.asked(1, 156.1, 157)
	require.Zero(t, s.order)
}

// A Retry-After is a habit too if rates were refused twice in a row that a window of its length admits.
func TestOrderOfHabitByRates(t *testing.T) {
	for second, habit := range map[float64]bool{19: true, 21: false} {
		var s seen
		s.asked(160, 0, 8)
		s.refused(8, 4*time.Second, 20) // 80 in 4 s, if that is the window
		s.asked(int(8*second), 12.1, 20.1)
		s.refused(20.1, 4*time.Second, second)
		s.asked(1, 24.2, 25)
		require.Equal(t, habit, s.habit, "%v/s", second)
		require.Equal(t, habit, s.order == quota{}, "%v/s", second)
	}
}

// A rate that goes well for as long as a window refutes the window.
func TestWindowIsRefuted(t *testing.T) {
	var s seen
	s.asked(60, 0, 6)
	s.refused(6, 30*time.Second, 30)
	s.asked(200, 36.1, 80)
	s.refute(&DefaultTuning, &s.history, clock.Instant(60e9), clock.Instant(80e9))
	require.Positive(t, s.order.weight, "not for long enough")
	s.refute(&DefaultTuning, &s.history, clock.Instant(37e9), clock.Instant(80e9))
	require.Zero(t, s.order)
	require.True(t, s.habit)
}
