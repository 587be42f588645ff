package steer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock"
)

// seen is a window and the history that samples made.
type seen struct {
	window
	history history
	ended   clock.Instant // end of the last spell
}

func second(s float64) clock.Instant { return clock.Instant(s * 1e9) }

// asked admits n requests, evenly, between two seconds.
func (s *seen) asked(n int, from, to float64) {
	for i := range n {
		s.history.add(second(from + (to-from)*float64(i)/float64(n)))
	}
}

// refused refuses a request at a second, with a Retry-After, at a rate. The spell ends with it.
func (s *seen) refused(at float64, order time.Duration, rate float64) {
	to := second(at).Add(order + 100*time.Millisecond)
	s.weigh(&DefaultTuning, &s.history, s.ended, spell{from: second(at), last: second(at).Add(order - time.Second), to: to, order: order, rate: rate}, true)
	s.ended = to
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
	s.refused(66, 30*time.Second, 10)
	s.asked(300, 96.1, 126)
	require.True(t, s.habit)
	require.Zero(t, s.quota)
	s.refused(126, 30*time.Second, 10)
	require.Zero(t, s.quota)
}

// A Retry-After is a habit too if rates were refused twice in a row that a window of its length admits.
func TestOrderOfHabitByRates(t *testing.T) {
	for rate, habit := range map[float64]bool{19: true, 21: false} {
		var s seen
		s.asked(160, 0, 8)
		s.refused(8, 4*time.Second, 20) // 80 in 4 s, if that is the window
		s.asked(int(8*rate), 12.1, 20.1)
		s.refused(20.1, 4*time.Second, rate)
		require.Equal(t, habit, s.habit, "%v/s", rate)
		require.Equal(t, habit, s.quota == quota{}, "%v/s", rate)
	}
}

// A proven rate that is much faster than the window's refutes the window.
func TestWindowIsRefuted(t *testing.T) {
	var s seen
	s.asked(60, 0.1, 6)
	s.refused(6, 30*time.Second, 30)
	s.asked(60, 36.2, 40)
	s.refused(40, 30*time.Second, 30)
	require.InDelta(t, 30, s.quota.length, 1e-9)
	s.refute(&DefaultTuning, 1.2*s.quota.high)
	require.Positive(t, s.quota.weight, "not much faster")
	s.refute(&DefaultTuning, 1.4*s.quota.high)
	require.Zero(t, s.quota)
	require.True(t, s.habit)
	s.habit = false
	s.refute(&DefaultTuning, 100)
	require.False(t, s.habit, "nothing was believed")
}
