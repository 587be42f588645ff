package steer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// served gives a queueing so many seconds of responses at a rate, each of which took so long.
func (q *queueing) served(from clock.Instant, seconds int, rate float64, latency time.Duration) (now clock.Instant, causes []control.Cause) {
	for now = from; now < from.Add(time.Duration(seconds)*time.Second); now = now.Add(time.Duration(1e9 / rate)) {
		if c := q.observe(&Sample{Tuning: &DefaultTuning, Observation: &control.Observation{Latency: latency}, At: now, Rate: rate, Mode: Cruise}); c != 0 {
			causes = append(causes, c)
		}
	}
	return now, causes
}

// What a host completes while responses wait is its capacity, and bounds the rate until the queue is long ago.
func TestQueueBoundsTheRate(t *testing.T) {
	var q queueing
	now, causes := q.served(0, 20, 40, 100*time.Millisecond)
	require.Empty(t, causes)
	require.Zero(t, q.estimate())
	now, causes = q.served(now, 4, 40, 400*time.Millisecond)
	require.Equal(t, []control.Cause{control.CauseLatency}, causes)
	require.InEpsilon(t, 40*DefaultTuning.Draining, q.estimate().Rate, .05, "it empties first")
	now, _ = q.served(now, 2, 30, 100*time.Millisecond)
	before := q.estimate().Rate
	require.InEpsilon(t, 40, before, .05)
	_, causes = q.served(now, 60, 45, 100*time.Millisecond)
	require.Empty(t, causes)
	require.Greater(t, q.estimate().Rate, 1.2*before, "nothing waits any more")
}

// Latencies that do not fall at half the rate do not depend on it, and are usual from then on.
func TestSlowerPagesAreNoQueue(t *testing.T) {
	var q queueing
	now, _ := q.served(0, 20, 40, 100*time.Millisecond)
	_, causes := q.served(now, 30, 20, 400*time.Millisecond)
	require.Equal(t, []control.Cause{control.CauseLatency, control.CauseRebased}, causes)
	require.Zero(t, q.estimate())
}

// A near host whose responses take three times a millisecond in place of one has no queue.
func TestLatencyHasAFloor(t *testing.T) {
	var q queueing
	now, _ := q.served(0, 20, 40, time.Millisecond)
	_, causes := q.served(now, 20, 40, 10*time.Millisecond)
	require.Empty(t, causes)
}
