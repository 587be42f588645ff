package cli

import (
	"slices"
	"strconv"
	"strings"
)

// Column is one column of a table for people.
type Column struct {
	Title string
	Left  bool   // aligned to the left, for text; numbers are aligned to the right
	Dull  string // the column is left out if all cells are this; empty means never
	Keep  int    // a table that is too wide loses its columns with the lowest Keep first; zero means that the column stays
	Cells []string
}

// Rows is a table that is filled row by row.
type Rows []Column

// Columns returns a table without rows. Each word describes a column: its title, with < in front if the column is text,
// and then =DULL, ~KEEP, or both in this order; see [Column].
func Columns(words ...string) Rows {
	t := make(Rows, len(words))
	for i, word := range words {
		title, keep, _ := strings.Cut(word, "~")
		title, t[i].Dull, _ = strings.Cut(title, "=")
		t[i].Title, t[i].Left = strings.CutPrefix(title, "<")
		t[i].Keep, _ = strconv.Atoi(keep)
	}
	return t
}

// Row adds a row. Line feeds in cells, which foreign text may have, become spaces.
func (t Rows) Row(cells ...string) {
	for i, cell := range cells {
		t[i].Cells = append(t[i].Cells, OneLine(cell))
	}
}

const (
	tableGap   = 2  // spaces between columns
	leastProse = 12 // the least width of a last column of text: if less is left for it, it is dropped
	mostProse  = 40 // most reasons for the pace of a host are not longer
)

// comfortable returns the width that a last column of text keeps while other columns are dropped.
func comfortable(screen int) int { return min(2*screen/5, mostProse) }

// Layout writes a table that is at most screen columns wide, unless the columns that stay are wider.
func Layout(b *strings.Builder, columns []Column, screen int) {
	columns = slices.DeleteFunc(slices.Clone(columns), func(c Column) bool {
		return c.Dull != "" && !slices.ContainsFunc(c.Cells, func(s string) bool { return s != c.Dull })
	})
	columns = dropColumns(columns, screen)
	last := &columns[len(columns)-1]
	room := last.width()
	if over := tableWidth(columns) - screen; last.Left && over > 0 {
		if room -= over; room < leastProse && len(columns) > 1 {
			columns = columns[:len(columns)-1]
			room = columns[len(columns)-1].width()
		}
	}
	writeRow(b, columns, room, func(c *Column) string { return c.Title })
	for i := range columns[0].Cells {
		writeRow(b, columns, room, func(c *Column) string { return c.Cells[i] })
	}
}

// dropColumns removes the columns with the lowest Keep, one after another, until the rest fits.
func dropColumns(columns []Column, screen int) []Column {
	for {
		last := &columns[len(columns)-1]
		need := tableWidth(columns)
		if last.Left {
			need -= max(last.width()-comfortable(screen), 0)
		}
		victim := -1
		for i, c := range columns {
			if c.Keep > 0 && (victim < 0 || c.Keep < columns[victim].Keep) {
				victim = i
			}
		}
		if need <= screen || victim < 0 {
			return columns
		}
		columns = slices.Delete(columns, victim, victim+1)
	}
}

func (c *Column) width() int {
	n := Cells(c.Title)
	for _, s := range c.Cells {
		n = max(n, Cells(s))
	}
	return n
}

func tableWidth(columns []Column) int {
	n := -tableGap
	for i := range columns {
		n += columns[i].width() + tableGap
	}
	return n
}

func writeRow(b *strings.Builder, columns []Column, room int, cell func(*Column) string) {
	var line strings.Builder
	for i := range columns {
		c := &columns[i]
		s := cell(c)
		if i == len(columns)-1 {
			s = Cut(s, room)
		}
		pad := strings.Repeat(" ", max(c.width()-Cells(s), 0))
		if c.Left {
			s += pad
		} else {
			s = pad + s
		}
		line.WriteString(s + strings.Repeat(" ", tableGap))
	}
	b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
}
