package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// series is the samples of a candidate, one for each round.
type series []sample

// column is what all candidates of a group have shown under a load of that width.
type column struct {
	width int
	of    []series // in the order of the candidates
}

// table is what a group has shown.
type table struct {
	group   *group
	columns []column
}

// added is what a candidate adds to a request in a round: its time without that of the
// first candidate, which is the handler alone.
func (c *column) added(candidate, round int) float64 {
	return c.of[candidate][round].ns - c.of[0][round].ns
}

// median of f over the rounds.
func (c *column) median(f func(round int) float64) float64 {
	all := make([]float64, len(c.of[0]))
	for round := range all {
		all[round] = f(round)
	}
	slices.Sort(all)
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}

// yardstick is the candidate by whose time the others are divided: the one that the
// group names, or the other library that adds least.
func (t *table) yardstick(c *column) int {
	best, least := 0, math.Inf(1)
	for i, candidate := range t.group.candidates {
		if candidate.name == t.group.yardstick {
			return i
		}
		if i == 0 || candidate.ours {
			continue
		}
		if ns := c.median(func(round int) float64 { return c.added(i, round) }); ns < least {
			best, least = i, ns
		}
	}
	return best
}

// markdown is the table in words.
func (t *table) markdown() string {
	g, w := t.group, &strings.Builder{}
	fmt.Fprintf(w, "\n**%s**: %s\n\n|", g.name, g.what)
	head, rule := "", "|---|"
	for _, c := range t.columns {
		head += fmt.Sprintf(" added, %s | ratio |", plural(c.width, g.unit))
		rule += "--:|--:|"
	}
	counted := slices.ContainsFunc(g.candidates, func(c candidate) bool { return c.trips })
	if counted {
		head, rule = head+" trips a request |", rule+"--:|"
	}
	fmt.Fprintf(w, " |%s allocations | goal |\n%s--:|--:|\n", head, rule)
	for i := range g.candidates {
		t.row(w, i, counted)
	}
	return w.String()
}

func plural(n int, unit string) string {
	if n == 1 {
		return "1 " + unit
	}
	return fmt.Sprintf("%d %ss", n, unit)
}

func (t *table) row(w *strings.Builder, i int, counted bool) {
	candidate := &t.group.candidates[i]
	fmt.Fprintf(w, "| %s |", candidate.name)
	worst := 0.0
	for n := range t.columns {
		c := &t.columns[n]
		if i == 0 {
			fmt.Fprintf(w, " (%s) | |", duration(c.median(func(round int) float64 { return c.of[0][round].ns })))
			continue
		}
		yard := t.yardstick(c)
		ratio := c.median(func(round int) float64 { return c.added(i, round) / c.added(yard, round) })
		worst = max(worst, ratio)
		fmt.Fprintf(w, " %s | %.2f |", duration(c.median(func(round int) float64 { return c.added(i, round) })), ratio)
	}
	first := &t.columns[0]
	if counted {
		fmt.Fprintf(w, " %s |", t.trips(i))
	}
	allocs := first.median(func(round int) float64 { return first.of[i][round].allocs })
	fmt.Fprintf(w, " %.0f | %s |\n", allocs, verdict(candidate.goal, worst))
}

// trips is how many a request takes, beside its goal: the most of all columns, or nothing
// where nobody counts them.
func (t *table) trips(i int) string {
	most := 0.0
	for n := range t.columns {
		c := &t.columns[n]
		most = max(most, c.median(func(round int) float64 { return c.of[i][round].trips }))
	}
	goal := t.group.candidates[i].tripsGoal
	switch {
	case most == 0:
		return ""
	case goal == 0:
		return fmt.Sprintf("%.4f", most)
	}
	return fmt.Sprintf("%.4f (%s)", most, verdict(goal, most))
}

// verdict is a goal and whether the worst of the ratios has met it.
func verdict(goal, worst float64) string {
	switch {
	case goal == 0:
		return ""
	case worst <= goal:
		return fmt.Sprintf("<= %.2f", goal)
	}
	return fmt.Sprintf("<= %.2f, missed", goal)
}

func duration(ns float64) string {
	if math.Abs(ns) >= 10_000 {
		return fmt.Sprintf("%.1f µs", ns/1000)
	}
	return fmt.Sprintf("%.0f ns", ns)
}
