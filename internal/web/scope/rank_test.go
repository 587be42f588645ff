package scope

import (
	"math"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRank(t *testing.T) {
	require.Nil(t, NewRank("found", nil))
	for _, order := range []string{"breadth", "depth"} { // however deep: the most points, none, and the fewest
		rank := NewRank(order, []Score{{regexp.MustCompile(`old`), -MaxPoints}, {regexp.MustCompile(`top`), MaxPoints}})
		for _, depths := range [][3]int32{{math.MaxInt32, 0, math.MaxInt32}, {0, math.MaxInt32, 0}, {math.MaxInt32, 0, 0}, {0, 0, math.MaxInt32}} {
			top, none, old := rank(parse(t, "http://a.test/top"), depths[0]), rank(parse(t, "http://a.test/"), depths[1]), rank(parse(t, "http://a.test/old"), depths[2])
			require.Less(t, top, none)
			require.Less(t, none, old)
		}
	}
}
