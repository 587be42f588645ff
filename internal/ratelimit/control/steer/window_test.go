package steer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// seen is a host's history and stops.
type seen struct{ Steer }

func newSeen() *seen { return &seen{Steer{tune: &DefaultTuning, pause: &pause{}}} }

// asked admits n requests, evenly, between two seconds.
func (s *seen) asked(n int, from, to float64) {
	for i := range n {
		at := clock.Instant((from + (to-from)*float64(i)/float64(n)) * 1e9)
		s.history.add(at)
		if s.admitted++; i == 0 && s.stops[0].rate > 0 {
			s.stops[0].to, s.stops[0].admitted, s.stops[0].taught = at, s.admitted, true
			s.weigh(s.tune, &s.history)
		}
	}
}

// refused is turned away at a second with an order, at a rate.
func (s *seen) refused(at float64, order time.Duration, rate float64) {
	sent := clock.Instant(at * 1e9)
	s.stops.open(s.tune, stop{from: sent, at: sent, last: sent.Add(order - time.Second), order: order, rate: rate, class: outcome.Throttled})
}

// rest and order are the two explanations of the newest stop.
func (s *seen) explained() (rest, order quota, likely Estimate) {
	q := s.quotas(s.stops[0].to)
	return q[0], q[1], likelier(&q)
}

// One refusal bounds the rate of the window it was the rest of; a second one, after as much again, makes
// that sure.
func TestRestOfAWindow(t *testing.T) {
	s := newSeen()
	s.asked(600, 0, 12)
	s.refused(12, 48*time.Second, 100)
	s.asked(600, 60.1, 110) // the window is over at 60
	_, _, e := s.explained()
	require.InDelta(t, .6, e.Confidence, 1e-9)
	require.LessOrEqual(t, e.Rate, 10.1)
	require.GreaterOrEqual(t, e.Most, 9.9)
	s.refused(110, 10*time.Second, 12)
	s.asked(1, 120.1, 121)
	_, _, e = s.explained()
	require.Greater(t, e.Confidence, .9)
	require.InEpsilon(t, 10, e.Rate, .03)
	require.InEpsilon(t, 10, e.Most, .03)
	quotas := s.quotas(clock.Instant(121e9))
	p, _ := refused(&quotas, 11)
	require.Greater(t, p, .85, "of a rate beyond it")
	p, _ = refused(&quotas, 9)
	require.Zero(t, p)
}

// An order that comes though far more was admitted in as long is a habit and no window, for good.
func TestOrderOfHabit(t *testing.T) {
	s := newSeen()
	s.asked(60, 0, 6)
	s.refused(6, 30*time.Second, 30)
	s.asked(300, 36.1, 66)
	_, order, _ := s.explained()
	require.InDelta(t, .6, order.weight, 1e-9)
	s.refused(66, 30*time.Second, 10)
	s.asked(300, 96.1, 126)
	require.True(t, s.habit)
	for range 3 {
		_, order, _ = s.explained()
		require.Zero(t, order)
		s.refused(126, 30*time.Second, 10)
		s.asked(1, 156.1, 157)
	}
}

// A rate that goes well for as long as a window refutes it.
func TestWindowIsRefuted(t *testing.T) {
	s := newSeen()
	s.asked(60, 0, 6)
	s.refused(6, 30*time.Second, 30)
	s.asked(200, 36.1, 80)
	s.refute(clock.Instant(60e9), clock.Instant(80e9))
	require.False(t, s.habit, "not for long enough")
	s.refute(clock.Instant(37e9), clock.Instant(80e9))
	require.True(t, s.habit)
	_, order, _ := s.explained()
	require.Zero(t, order)
}
