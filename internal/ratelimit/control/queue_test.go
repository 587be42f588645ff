package control

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock"
)

// answersIn feeds n answers of a latency, of requests sent one after the other at 25/s.
func (r *rig) answersIn(latency time.Duration, n int) {
	for range n {
		r.pass(40 * time.Millisecond)
		q := r.send()
		q.sent = r.now.Add(-latency)
		r.hear(q, reply{})
	}
}

// windowOf feeds answers of a latency until a window of them has been judged.
func (r *rig) windowOf(latency time.Duration) {
	for r.answersIn(latency, 1); r.queue.windowN > 0; {
		r.answersIn(latency, 1)
	}
}

// usual is a rig that cruises at a host whose answers usually take so long.
func usual(t *testing.T, ceil float64, latency time.Duration) *rig {
	t.Helper()
	r := cruisingAt(t, ceil)
	r.quietTill = forever
	r.answersIn(latency, 2*plainAnswers)
	require.InEpsilon(t, seconds(latency), r.queue.mean, 0.01)
	require.Equal(t, cruising, r.mode)
	return r
}

// Latency that doubles and grows by more than the floor is a queue, on the second look;
// anything less is not.
func TestQueueShows(t *testing.T) {
	for _, tc := range []struct {
		name         string
		usual, later time.Duration
		queue        bool
	}{
		{"doubled and more", 100 * time.Millisecond, 250 * time.Millisecond, true},
		{"not quite doubled", 100 * time.Millisecond, 190 * time.Millisecond, false},
		{"doubled below the floor", 20 * time.Millisecond, 60 * time.Millisecond, false},
		{"tripled by the scheduler", 300 * time.Microsecond, time.Millisecond, false},
		{"a hundredfold below the floor", 300 * time.Microsecond, 30 * time.Millisecond, false},
		{"over the floor", 20 * time.Millisecond, 80 * time.Millisecond, true},
		{"faster", 100 * time.Millisecond, 10 * time.Millisecond, false},
	} {
		r := usual(t, 25, tc.usual)
		before := r.rate
		r.answersIn(tc.later, 90)
		require.Equal(t, tc.queue, r.mode == draining, tc.name)
		require.Equal(t, tc.queue, r.event.Cause == CauseLatency, tc.name)
		if tc.queue {
			require.Less(t, r.rate, 0.8*before, tc.name)
			require.LessOrEqual(t, r.ceil, 0.98*25, tc.name)
			require.False(t, r.provisional, tc.name)
		} else {
			require.InDelta(t, before, r.rate, 1e-9, tc.name)
		}
	}
}

// One huge page among others is no queue, nor is one slow second.
func TestOnePageIsNoQueue(t *testing.T) {
	r := usual(t, 25, 100*time.Millisecond)
	for range 20 {
		r.answersIn(10*time.Second, 1)
		r.answersIn(100*time.Millisecond, 30)
	}
	require.Equal(t, cruising, r.mode)
	r.answersIn(time.Second, 20)
	r.answersIn(100*time.Millisecond, 60)
	require.Equal(t, cruising, r.mode)
}

// When a queue empties at the lower rate the strategy goes on, under the lower ceiling.
func TestQueueThatEmpties(t *testing.T) {
	r := usual(t, 25, 100*time.Millisecond)
	r.answersIn(400*time.Millisecond, 60)
	require.Equal(t, draining, r.mode)
	r.pass(5 * time.Second)
	r.answersIn(100*time.Millisecond, 60)
	require.Equal(t, cruising, r.mode)
	require.Less(t, r.ceil, 25.0)
	require.InDelta(t, r.cruise(), r.rate, 1e-9)
}

// While it gets better the rate goes lower, a few times.
func TestQueueThatShrinks(t *testing.T) {
	r := usual(t, 25, 100*time.Millisecond)
	latency := 4 * time.Second
	for r.mode != draining {
		r.windowOf(latency)
	}
	for range 3 {
		before := r.ceil
		latency = latency * 7 / 10
		r.now = r.drained
		r.windowOf(latency)
		require.Equal(t, draining, r.mode)
		require.Less(t, r.ceil, before)
	}
	require.LessOrEqual(t, r.drains, uint8(5))
}

// What does not get better at half the rate has nothing to do with it: the slower answers
// are the new usual, and what was believed is believed again.
func TestSlowerHostIsNoQueue(t *testing.T) {
	r := usual(t, 25, 100*time.Millisecond)
	for range 60 {
		r.answersIn(400*time.Millisecond, 10)
		r.pass(time.Second)
		if r.event.Cause == CauseRebased {
			break
		}
	}
	require.Equal(t, CauseRebased, r.event.Cause)
	require.InDelta(t, 25, r.ceil, 1e-9)
	require.InEpsilon(t, 0.4, r.queue.mean, 0.01)
	r.answersIn(400*time.Millisecond, 200)
	require.Equal(t, cruising, r.mode)
}

// A search that met slower answers which had nothing to do with it goes on.
func TestSearchGoesOnAfterRebase(t *testing.T) {
	h := stranger
	h.Ceiling = 1000
	r := newRig(t, h)
	r.drive(clock.Instant(4*time.Second), willing)
	require.Equal(t, searching, r.mode)
	r.queue.mu, r.queue.answers = float32(math.Log(0.04)), plainAnswers
	slow := func(clock.Instant) reply { return reply{latency: 300 * time.Millisecond} }
	for r.event.Cause != CauseRebased && r.now < clock.Instant(5*time.Minute) {
		r.drive(r.now.Add(time.Second), slow)
	}
	require.Equal(t, CauseRebased, r.event.Cause)
	require.Equal(t, searching, r.mode)
	r.drive(r.now.Add(time.Minute), slow)
	require.Greater(t, r.rate, 100.0)
}

// A host that can do only so much at a time is driven near its capacity and not beyond.
func TestWorkersAreNotQueuedFor(t *testing.T) {
	const workers, service = 5, 200 * time.Millisecond // 25/s
	var free [workers]clock.Instant
	var longest time.Duration
	host := func(at clock.Instant) reply {
		first := 0
		for i, f := range free {
			if f < free[first] {
				first = i
			}
		}
		free[first] = max(free[first], at).Add(service)
		longest = max(longest, free[first].Sub(at))
		return reply{latency: free[first].Sub(at)}
	}
	r := newRig(t, stranger)
	r.drive(clock.Instant(2*time.Minute), host)
	longest = 0
	grants := r.drive(clock.Instant(12*time.Minute), host)
	require.Greater(t, float64(len(grants)), 0.8*10*60*25)
	require.Less(t, longest, 10*service)
}

// Of few answers the spread is not believed to be smaller than it may be.
func TestSpread(t *testing.T) {
	q := queue{answers: fewAnswers - 1, variance: 0.01}
	require.InDelta(t, leastSpread, q.spread(), 1e-9)
	q.answers = fewAnswers
	require.InDelta(t, 0.01, q.spread(), 1e-9)
}
