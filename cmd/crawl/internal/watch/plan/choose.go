package plan

import (
	"cmp"
	"slices"
)

// Choose is which of so many pages to visit: those that are due, n of them at most, the most valuable first.
func Choose(pages, n int, value func(i int) float64) []int {
	type candidate struct {
		i     int
		value float64
	}
	var due []candidate
	for i := range pages {
		if v := value(i); v >= 1 {
			due = append(due, candidate{i, v})
		}
	}
	slices.SortFunc(due, func(a, b candidate) int { return cmp.Or(cmp.Compare(b.value, a.value), cmp.Compare(a.i, b.i)) })
	chosen := make([]int, 0, min(n, len(due)))
	for _, c := range due[:min(max(n, 0), len(due))] {
		chosen = append(chosen, c.i)
	}
	return chosen
}
