package sitemap

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRanks(t *testing.T) {
	for level := range 5 {
		for _, n := range []int{0, 15, 16, 999} {
			rank := Rank(n, level)
			require.Equal(t, level, Level(rank))
			require.Equal(t, n < early, rank < 0)
		}
	}
	require.Equal(t, int32(0), PageRank(DefaultPriority))
	require.Less(t, PageRank(1), int32(0))
	require.Greater(t, PageRank(0), int32(0))
}
