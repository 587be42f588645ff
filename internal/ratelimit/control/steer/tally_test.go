package steer

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTally(t *testing.T) {
	for _, tc := range []struct {
		name    string
		seconds []uint8 // of the answers
		want    uint16
	}{
		{"nothing is known", nil, 0},
		{"no answer is dated", []uint8{0, 0, 0}, 0},
		{"more than in the second before", []uint8{7, 7, 8, 8, 8}, 3},
		{"as many", []uint8{7, 7, 8, 8}, 2},
		{"fewer: it counts in another way", []uint8{7, 7, 7, 8, 8}, 0},
		{"answers without a date between", []uint8{7, 8, 0, 8}, 2},
		{"the minute is over", []uint8{60, 1, 1}, 2},
		{"one of the second before comes late", []uint8{7, 8, 8, 7, 8}, 3},
		{"and makes it the larger", []uint8{7, 7, 8, 8, 7}, 0},
		{"late over the minute", []uint8{60, 1, 60, 1}, 2},
		{"the first of all is of the minute's last second", []uint8{59, 59}, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var c tally
			for _, s := range tc.seconds {
				c.add(s)
			}
			require.Equal(t, tc.want, c.most())
		})
	}
	c := tally{dated: 7, now: math.MaxUint16}
	c.add(7)
	require.EqualValues(t, math.MaxUint16, c.most())
}
