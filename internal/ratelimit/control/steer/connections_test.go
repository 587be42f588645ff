package steer

import (
	"testing"

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

func turnedAway(inFlight int) *Sample {
	return &Sample{Observation: &control.Observation{InFlight: inFlight, Class: outcome.Throttled}}
}

// Refusals with the same number in flight, while that many are rarely admitted, are a bound on connections. The bound
// ends after a while.
func TestConnectionLimit(t *testing.T) {
	for _, tc := range []struct {
		name     string
		inFlight []int // at the refusals
		answers  int   // in between, most with fewer in flight than were refused
		well     int   // of them, those with as many
		want     int   // the bound
	}{
		{"the same", []int{9, 9, 9}, 50, 0, 8},
		{"it varies", []int{9, 10, 9, 10}, 50, 0, 0},
		{"as many went well", []int{9, 9, 9}, 50, 50, 0},
		{"as many went well too often", []int{9, 9, 9}, 50, 5, 0},
		{"one moment", []int{9, 9, 9}, 8, 0, 0},
		{"a near host", []int{2, 2, 2}, 50, 0, 0},
		{"an answer came before a refusal", []int{9, 8, 9, 9}, 50, 0, 8},
		{"answers came before the next was on its way", []int{9, 9, 9}, 50, 4, 8},
		{"the first was not the bound's", []int{9, 8, 8, 8, 8}, 50, 0, 7},
		{"one fewer again and again", []int{9, 8, 8, 9, 8, 8}, 50, 0, 0},
	} {
		var d connections
		learned := false
		for _, n := range tc.inFlight {
			require.False(t, learned, tc.name)
			d.feed(tc.answers-tc.well, tc.inFlight[0]-2)
			d.feed(tc.well, tc.inFlight[0])
			learned = d.refused(turnedAway(n))
		}
		require.Equal(t, tc.want > 0, learned, tc.name)
		require.Equal(t, tc.want, d.estimate(clock.Instant(limitFor)-1).InFlight, tc.name)
		require.Zero(t, d.estimate(clock.Instant(limitFor)), tc.name)
	}
}

// A refusal with fewer in flight than the bound allows shows that there was no such bound.
func TestConnectionLimitIsDoubted(t *testing.T) {
	var d connections
	for range sameCount {
		d.feed(50, 8)
		d.refused(turnedAway(9))
	}
	require.Equal(t, 8, d.estimate(0).InFlight)
	d.feed(50, 6)
	require.False(t, d.refused(turnedAway(7)))
	require.Zero(t, d.estimate(0).InFlight)
}
