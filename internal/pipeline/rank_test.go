package pipeline

import (
	"math"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/web/canonical"
)

func parsed(t *testing.T, s string) canonical.URL {
	t.Helper()
	u, err := canonical.Parse(s)
	require.NoError(t, err)
	return u
}

func TestRank(t *testing.T) {
	scores := []Score{
		{regexp.MustCompile(`/news/old/`), -MaxPoints},
		{regexp.MustCompile(`/news/`), 7},
		{regexp.MustCompile(`/top`), MaxPoints},
	}
	for _, tc := range []struct {
		name   string
		order  Order
		scores []Score
		before [2]string // the first of them goes first
		depths [2]int32
	}{
		{"near before far", OrderBreadth, nil, [2]string{"/a", "/b"}, [2]int32{1, 2}},
		{"far before near", OrderDepth, nil, [2]string{"/a", "/b"}, [2]int32{2, 1}},
		{"points before none", OrderFound, scores, [2]string{"/news/", "/b"}, [2]int32{9, 0}},
		{"points before depth", OrderBreadth, scores, [2]string{"/news/", "/b"}, [2]int32{math.MaxInt32, 0}},
		{"points before depth, the other way", OrderDepth, scores, [2]string{"/news/", "/b"}, [2]int32{0, math.MaxInt32}},
		{"depth among equal points", OrderBreadth, scores, [2]string{"/news/1", "/news/2"}, [2]int32{1, 2}},
		{"most points before many", OrderDepth, scores, [2]string{"/top", "/news/"}, [2]int32{0, math.MaxInt32}},
		{"none before fewer than none", OrderBreadth, scores, [2]string{"/b", "/news/old/"}, [2]int32{math.MaxInt32, 0}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rank, err := NewRank(tc.order, tc.scores)
			require.NoError(t, err)
			first, second := parsed(t, "https://a.test"+tc.before[0]), parsed(t, "https://a.test"+tc.before[1])
			require.Less(t, rank(first, tc.depths[0]), rank(second, tc.depths[1]))
		})
	}
}

func TestRankOfNoOrderIsNone(t *testing.T) {
	rank, err := NewRank(OrderFound, nil)
	require.NoError(t, err)
	require.Nil(t, rank)
}

func TestNewRankNamesTheField(t *testing.T) {
	_, err := NewRank(OrderFound, []Score{{regexp.MustCompile("a"), 1}, {nil, 1}})
	require.EqualError(t, err, "pipeline: Scores[1].Match is nil: give it a pattern")
	_, err = NewRank(OrderFound, []Score{{regexp.MustCompile("a"), 1001}})
	require.EqualError(t, err, "pipeline: Scores[0].Points is 1001: give it -1000 to 1000")
}

func TestOrderNames(t *testing.T) {
	for o := range numOrders {
		var back Order
		require.NoError(t, back.UnmarshalText([]byte(o.String())))
		require.Equal(t, o, back)
	}
	require.ErrorContains(t, new(Order).UnmarshalText([]byte("best")), `order "best": use one of [found breadth depth]`)
}
