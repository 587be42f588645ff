package main

import (
	"slices"
	"strings"
)

// column is one column of a table for people.
type column struct {
	title string
	left  bool // text; numbers stand to the right, so that they compare
	dull  string
	keep  int // when the table is too wide, columns of the lowest go first; 0 = never
	cells []string
}

// tableGap stands between columns.
const tableGap = 2

const (
	// comfortable is the width that a last column of prose should have before columns
	// beside it give way: a short reason, or the beginning of a longer one.
	comfortable = 28
	// leastProse is the narrowest that prose is cut to. Half a reason is better than
	// none; less than this is none.
	leastProse = 12
)

// layout renders a table of at most so many screen columns, if it has as many for what
// is always kept. Columns in which every cell is dull say nothing and are left out.
func layout(b *strings.Builder, columns []column, screen int) {
	columns = slices.DeleteFunc(slices.Clone(columns), func(c column) bool {
		return c.dull != "" && !slices.ContainsFunc(c.cells, func(s string) bool { return s != c.dull })
	})
	columns = dropColumns(columns, screen)
	last := &columns[len(columns)-1]
	room := last.width()
	if last.left {
		over := max(tableWidth(columns)-screen, 0)
		room -= over
		if over > 0 && room < leastProse && len(columns) > 1 {
			columns = columns[:len(columns)-1]
			room = columns[len(columns)-1].width()
		}
	}
	writeRow(b, columns, room, func(c *column) string { return c.title })
	for i := range columns[0].cells {
		writeRow(b, columns, room, func(c *column) string { return c.cells[i] })
	}
}

// dropColumns takes away those of the lowest keep, one after another, until the rest
// fits with comfort.
func dropColumns(columns []column, screen int) []column {
	for {
		last := &columns[len(columns)-1]
		need := tableWidth(columns)
		if last.left {
			need -= max(last.width()-comfortable, 0)
		}
		victim := -1
		for i, c := range columns {
			if c.keep > 0 && (victim < 0 || c.keep < columns[victim].keep) {
				victim = i
			}
		}
		if need <= screen || victim < 0 {
			return columns
		}
		columns = slices.Delete(columns, victim, victim+1)
	}
}

// width is that of the widest cell.
func (c *column) width() int {
	n := cells(c.title)
	for _, s := range c.cells {
		n = max(n, cells(s))
	}
	return n
}

// tableWidth is the sum of all columns and the gaps between them.
func tableWidth(columns []column) int {
	n := -tableGap
	for i := range columns {
		n += columns[i].width() + tableGap
	}
	return n
}

// writeRow writes one line; room is the width of its last cell.
func writeRow(b *strings.Builder, columns []column, room int, cell func(*column) string) {
	var line strings.Builder
	for i := range columns {
		c := &columns[i]
		s := cell(c)
		if i == len(columns)-1 {
			s = cut(s, room)
		}
		pad := strings.Repeat(" ", max(c.width()-cells(s), 0))
		if c.left {
			s += pad
		} else {
			s = pad + s
		}
		line.WriteString(s + strings.Repeat(" ", tableGap))
	}
	b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
}
