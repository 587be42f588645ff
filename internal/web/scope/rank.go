package scope

import (
	"regexp"
	"slices"

	"github.com/treadlight/crawl/internal/web/canonical"
)

// Score gives points to the URLs that match.
type Score struct {
	Match  *regexp.Regexp
	Points int // from -MaxPoints to MaxPoints; URLs with more points go first
}

// MaxPoints bounds the points of a score.
const MaxPoints = 1000

const (
	// pointSteps is how many links one point outweighs: more than any depth that counts, so that points decide before
	// depth does. MaxPoints times this fits into a rank.
	pointSteps = 1 << 20
	// deepest is the depth from which further links make no difference. Only a trap of endless links leads that far.
	deepest = pointSteps/2 - 1
)

// depthSteps is, for each order, how much each link of depth adds to the rank. Among equal ranks the URL found first
// goes first.
var depthSteps = map[string]int32{"found": 0, "breadth": 1, "depth": -1}

// Rank returns the rank of a URL that is depth links away from a seed. Of a host's URLs the one with the lowest rank
// goes first. It is safe for concurrent use.
type Rank func(u canonical.URL, depth int32) int32

// Of returns the rank of a URL. A nil Rank gives all of them the rank zero.
func (r Rank) Of(u canonical.URL, depth int32) int32 {
	if r == nil {
		return 0
	}
	return r(u, depth)
}

// NewRank returns the rank for an order, "found", "breadth" or "depth", and for scores, of which the first that matches
// counts. It returns nil, which means rank zero for every URL, if they make no difference.
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

// Promote returns the rank with points added, within the bounds of points.
func Promote(rank int32, points int) int32 { return bounded(int64(rank) - int64(points)*pointSteps) }

// Moved returns the rank of a redirect's target to: the points that were added to the rank of from are added to its own.
func (r Rank) Moved(rank int32, from, to canonical.URL, depth int32) int32 {
	return bounded(int64(r.Of(to, depth)) + int64(rank) - int64(r.Of(from, depth)))
}

func bounded(rank int64) int32 {
	const most = MaxPoints*pointSteps + deepest
	return int32(min(max(rank, -most), most))
}
