package steer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// served gives a queueing responses for so long at a rate, each of which took so long, and returns how often it
// found a queue.
func (q *queueing) served(from clock.Instant, long time.Duration, rate float64, latency time.Duration) (now clock.Instant, found int) {
	for now = from; now < from.Add(long); now = now.Add(time.Duration(1e9 / rate)) {
		o := control.Observation{Latency: latency, SentAt: now.Add(-latency), InFlight: int(rate*latency.Seconds()) + 1}
		if q.observe(&Sample{Tuning: &DefaultTuning, Observation: &o, At: now, Rate: rate}) {
			found++
		}
	}
	return now, found
}

// What a host completes while responses wait is its capacity, and bounds the rate until the queue is long ago.
func TestQueueBoundsTheRate(t *testing.T) {
	var q queueing
	now, found := q.served(0, 20*time.Second, 40, 100*time.Millisecond)
	require.Zero(t, found)
	require.Zero(t, q.estimate(&DefaultTuning))
	now, found = q.served(now, time.Second, 40, 400*time.Millisecond)
	require.Zero(t, found, "it may be chance")
	now, found = q.served(now, 100*time.Millisecond, 40, 400*time.Millisecond)
	require.Equal(t, 1, found)
	require.InEpsilon(t, 40*above*DefaultTuning.Draining, q.estimate(&DefaultTuning).Rate, .05, "it empties first")
	require.LessOrEqual(t, q.inFlight(36), 5, "hardly one waits")
	now, _ = q.served(now, time.Second, 30, 100*time.Millisecond)
	before := q.estimate(&DefaultTuning).Rate
	require.InEpsilon(t, 40*above, before, .05)
	require.LessOrEqual(t, q.inFlight(before), 10)
	_, found = q.served(now, time.Minute, 45, 100*time.Millisecond)
	require.Zero(t, found)
	require.Greater(t, q.estimate(&DefaultTuning).Rate, 2*before, "nothing waits any more")
	require.Greater(t, q.inFlight(45), 15)
}

// Latencies that do not fall at a lower rate do not depend on it, and are usual from then on.
func TestSlowerPagesAreNoQueue(t *testing.T) {
	var q queueing
	now, _ := q.served(0, 20*time.Second, 40, 100*time.Millisecond)
	now, found := q.served(now, 10*time.Second, 40, 400*time.Millisecond)
	require.Equal(t, 1, found)
	_, found = q.served(now, time.Minute, 40, 400*time.Millisecond)
	require.Zero(t, found)
	require.Greater(t, q.estimate(&DefaultTuning).Rate, 80.)
}

// One huge page is no queue and leaves the usual latency nearly as it was, and a host may become slower little by little.
func TestQueueIsNoHugePage(t *testing.T) {
	var q queueing
	now, _ := q.served(0, 20*time.Second, 40, 100*time.Millisecond)
	was := q.usual
	now, _ = q.served(now, time.Second, 1, time.Minute)
	require.InEpsilon(t, was, q.usual, .01)
	for latency := 100 * time.Millisecond; latency < time.Second; latency += 10 * time.Millisecond {
		var found int
		now, found = q.served(now, 5*time.Second, 40, latency)
		require.Zero(t, found, latency)
	}
}

// A near host whose responses take ten milliseconds in place of one has no queue.
func TestLatencyHasAFloor(t *testing.T) {
	var q queueing
	now, _ := q.served(0, 20*time.Second, 40, time.Millisecond)
	_, found := q.served(now, 20*time.Second, 40, 10*time.Millisecond)
	require.Zero(t, found)
}
