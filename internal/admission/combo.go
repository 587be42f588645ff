package admission

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"sync/atomic"
	"time"
)

// maxCombos is how many combinations of plans are kept ready. They come from rules, of
// which there are fewer; others are made anew each time.
const maxCombos = 1024

// combo is the plans of a decision. It never changes, so that a store may keep the
// slices beyond it.
type combo struct {
	names  []string
	whole  []Plan
	shares []Plan  // this process's parts of them
	cycles []int64 // in how many windows the process has one turn at its part; 1 for in each
}

// inEach is the cycle of one plan that is not shared.
var inEach = []int64{1}

// combos keeps combinations of plans, so that a decision looks up and makes nothing.
type combos struct {
	share float64
	known atomic.Pointer[comboSet] // nil means none
}

// comboSet is those of one set of plans. It never changes.
type comboSet struct {
	set    *planSet
	byName map[string][]combo // by the first name
	n      int
}

// of is the plans of these names in set, each once. Its error wraps ErrUnknownPlan.
func (c *combos) of(set *planSet, names []string) (combo, error) {
	if len(names) == 0 {
		return combo{}, nil
	}
	if len(names) == 1 && c.share == 1 {
		i, ok := set.index[names[0]]
		if !ok {
			return combo{}, unknown(names[0])
		}
		plans := set.plans[i : i+1 : i+1]
		return combo{whole: plans, shares: plans, cycles: inEach}, nil
	}
	known := c.known.Load()
	if known == nil || known.set != set {
		known = &comboSet{set: set}
	}
	for _, have := range known.byName[names[0]] {
		if slices.Equal(have.names, names) {
			return have, nil
		}
	}
	made, err := c.combine(set, names)
	if err == nil && known.n < maxCombos {
		c.keep(known, made)
	}
	return made, err
}

// keep adds one to known. Of two that are added at once one is made again later.
func (c *combos) keep(known *comboSet, made combo) {
	next := &comboSet{set: known.set, byName: maps.Clone(known.byName), n: known.n + 1}
	if next.byName == nil {
		next.byName = map[string][]combo{}
	}
	first := made.names[0]
	next.byName[first] = append(slices.Clip(next.byName[first]), made)
	c.known.Store(next)
}

func (c *combos) combine(set *planSet, names []string) (combo, error) {
	made := combo{names: slices.Clone(names)}
	for at, name := range names {
		i, ok := set.index[name]
		if !ok {
			return combo{}, unknown(name)
		}
		if !slices.Contains(names[:at], name) {
			made.whole = append(made.whole, set.plans[i])
			part, cycle := set.plans[i].shareOf(c.share)
			made.shares, made.cycles = append(made.shares, part), append(made.cycles, cycle)
		}
	}
	return made, nil
}

// shareOf is a part of a plan, which in each whole window, or in the time in which a bucket
// fills, grants no more than that part. Of less than one token it is one in such a window, and
// the process has its turn in one of cycle windows only.
func (p Plan) shareOf(share float64) (part Plan, cycle int64) {
	tokens := float64(p.Capacity) * share
	if whole := math.Floor(tokens * (1 + 1e-9)); whole >= 1 { // 100 × (1/3) × 3 is 100
		p.Capacity = int64(whole)
		if p.TokensPerSecond > 0 {
			p.TokensPerSecond = max(minRate, p.TokensPerSecond*share)
		}
		return p, 1
	}
	_, window := p.PerWindow()
	window = min(max(window, minWindow), maxWindow)
	return Plan{Name: p.Name, Kind: KindFixedWindow, Capacity: 1, Window: window}, int64(math.Ceil(1/tokens - 1e-9))
}

// turn is how long it is until the process has a turn at a plan of such a cycle, from whole
// windows after the present one on. Processes whose numbers follow each other have theirs one
// after the other, so that together they grant no more in a window than the whole plan does.
func (a *Admitter) turn(part *Plan, cycle int64, windows int64) time.Duration {
	length := part.micros()
	start := startOf(a.now(), length)
	for ; (int64(start/length)+windows+a.cfg.Process)%cycle != 0; windows++ {
	}
	return max(0, (start + Micros(windows)*length - a.now()).duration())
}

func unknown(name string) error { return fmt.Errorf("%w %q", ErrUnknownPlan, name) }
