package scope

import (
	"regexp"
	"slices"

	"github.com/treadlight/crawl/internal/web/canonical"
)

// Score is what URLs that match are worth.
type Score struct {
	Match  *regexp.Regexp
	Points int // from -MaxPoints to MaxPoints; the higher go first
}

// MaxPoints bounds the points of a score.
const MaxPoints = 1000

const (
	// pointSteps is what a point weighs in links: more than any depth that counts, so that points decide before depth
	// does. MaxPoints of them fit into a rank.
	pointSteps = 1 << 20
	// deepest is where depth ceases to count. Nobody gets there by following links; a trap of endless ones does.
	deepest = pointSteps/2 - 1
)

// depthSteps is, by order, how far a depth moves a link back. Of equals the one that was found first goes first.
var depthSteps = map[string]int32{"found": 0, "breadth": 1, "depth": -1}

// Rank is which of a host's URLs goes first, the lowest: a URL that is so many links away from a seed. It is safe for
// concurrent use.
type Rank func(u canonical.URL, depth int32) int32

// NewRank is the rank for an order, "found", "breadth" or "depth", and scores, of which the first that matches counts.
// Nil, which is rank zero for every URL, if they make no difference.
func NewRank(order string, scores []Score) Rank {
	step := depthSteps[order]
	if step == 0 && len(scores) == 0 {
		return nil
	}
	scores = slices.Clone(scores)
	return func(u canonical.URL, depth int32) int32 {
		rank := step * min(max(depth, 0), deepest)
		if i := slices.IndexFunc(scores, func(s Score) bool { return s.Match.MatchString(u.String()) }); i >= 0 {
			rank -= int32(scores[i].Points * pointSteps)
		}
		return rank
	}
}

// Promote is a rank with more points, within what points there are.
func Promote(rank int32, points int) int32 {
	const most = MaxPoints*pointSteps + deepest
	return int32(min(max(int64(rank)-int64(points)*pointSteps, -most), most))
}
