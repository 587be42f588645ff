package steer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/control"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// feed gives the estimator n admitted requests with that many in flight at each.
func (d *connections) feed(n, inFlight int) {
	for range n {
		d.passed(&Sample{Observation: &control.Observation{InFlight: inFlight}})
	}
}

// turnedAway returns a refusal that came at an instant, 10 ms after its request was sent.
func turnedAway(at clock.Instant, inFlight int) *Sample {
	o := control.Observation{InFlight: inFlight, Class: outcome.Throttled, SentAt: at.Add(-10 * time.Millisecond)}
	return &Sample{Observation: &o, At: at}
}

// Refusals with the same number in flight, while that many are rarely admitted, are a bound on connections. The bound
// ends after a while.
func TestConnectionLimit(t *testing.T) {
	for _, tc := range []struct {
		name     string
		inFlight []int         // at the refusals
		gap      time.Duration // from one to the next
		well     int           // requests that are admitted before each with as many in flight as at the first
		want     int           // the bound
	}{
		{"the same", []int{9, 9, 9}, time.Second, 0, 8},
		{"it varies", []int{9, 10, 9, 10}, time.Second, 0, 0},
		{"as many went well", []int{9, 9, 9}, time.Second, 50, 0},
		{"as many went well too often", []int{9, 9, 9}, time.Second, 5, 0},
		{"one moment", []int{9, 9, 9}, 5 * time.Millisecond, 0, 0},
		{"a near host", []int{2, 2, 2}, time.Second, 0, 0},
		{"a near host in between", []int{9, 9, 2, 9}, time.Second, 0, 0},
		{"an answer came before a refusal", []int{9, 8, 9, 9}, time.Second, 0, 8},
		{"answers came before the next was on its way", []int{9, 9, 9}, time.Second, 4, 8},
		{"the first was not the bound's", []int{9, 8, 8, 8, 8}, time.Second, 0, 7},
		{"one fewer again and again", []int{9, 8, 8, 9, 8, 8}, time.Second, 0, 0},
	} {
		var d connections
		learned, now := false, clock.Instant(time.Minute)
		for _, n := range tc.inFlight {
			require.False(t, learned, tc.name)
			d.feed(50-tc.well, 7)
			d.feed(tc.well, tc.inFlight[0])
			now = now.Add(tc.gap)
			learned = d.refused(turnedAway(now, n))
		}
		require.Equal(t, tc.want > 0, learned, tc.name)
		require.Equal(t, tc.want, d.estimate(now.Add(limitFor-1)).InFlight, tc.name)
		require.Zero(t, d.estimate(now.Add(limitFor)), tc.name)
	}
}

// A refusal with fewer in flight than the bound allows shows that there was no such bound.
func TestConnectionLimitIsDoubted(t *testing.T) {
	var d connections
	for sec := range int64(3) {
		d.refused(turnedAway(at(sec+1), 9))
	}
	require.Equal(t, 8, d.estimate(at(4)).InFlight)
	require.False(t, d.refused(turnedAway(at(4), 7)))
	require.Zero(t, d.estimate(at(4)))
}
