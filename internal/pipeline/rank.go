package pipeline

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/treadlight/crawl/internal/web/canonical"
)

// Order says which URLs of a host go first. Among those it holds for equal, the one that
// was found first does.
type Order uint8

// The orders.
const (
	OrderFound   Order = iota // as they were found
	OrderBreadth              // those nearest to a seed
	OrderDepth                // those farthest from it
	numOrders
)

var orderNames = [numOrders]string{"found", "breadth", "depth"}

// String is the order's name in settings.
func (o Order) String() string { return orderNames[o] }

// UnmarshalText reads a name.
func (o *Order) UnmarshalText(text []byte) error {
	i := slices.Index(orderNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("order %q: use one of %s", text, orderNames)
	}
	*o = Order(i)
	return nil
}

// Score is what URLs that match are worth.
type Score struct {
	Match  *regexp.Regexp
	Points int // from -MaxPoints to MaxPoints; the higher go first
}

// MaxPoints bounds the points of a score.
const MaxPoints = 1000

const (
	// pointSteps is what a point weighs in links: more than any depth that counts, so that
	// points decide before depth does. MaxPoints of them fit into a rank.
	pointSteps = 1 << 20
	// deepest is where depth ceases to count. Nobody gets there by following links; a trap
	// of endless ones does.
	deepest = pointSteps/2 - 1
)

// Rank is the rank of a URL that is so many links away from a seed, for [frontier.Item].
type Rank func(u canonical.URL, depth int32) int32

// NewRank is the rank for an order and scores, of which the first that matches counts.
// Nil, which is rank zero for every URL, if they make no difference. The error names the
// score that is wrong. A Rank is safe for concurrent use.
func NewRank(order Order, scores []Score) (Rank, error) {
	for i, s := range scores {
		switch {
		case s.Match == nil:
			return nil, fmt.Errorf("pipeline: Scores[%d].Match is nil: give it a pattern", i)
		case s.Points < -MaxPoints || s.Points > MaxPoints:
			return nil, fmt.Errorf("pipeline: Scores[%d].Points is %d: give it -%d to %d", i, s.Points, MaxPoints, MaxPoints)
		}
	}
	if order == OrderFound && len(scores) == 0 {
		return nil, nil //nolint:nilnil // there is none, and that is no error
	}
	scores = slices.Clone(scores)
	return func(u canonical.URL, depth int32) int32 {
		return order.steps(depth) - int32(points(scores, u)*pointSteps)
	}, nil
}

// steps is what the order makes of a depth.
func (o Order) steps(depth int32) int32 {
	depth = min(max(depth, 0), deepest)
	switch o {
	case OrderBreadth:
		return depth
	case OrderDepth:
		return -depth
	}
	return 0
}

// points is what a URL is worth.
func points(scores []Score, u canonical.URL) int {
	for i := range scores {
		if scores[i].Match.MatchString(u.String()) {
			return scores[i].Points
		}
	}
	return 0
}
