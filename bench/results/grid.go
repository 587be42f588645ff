package main

import (
	"fmt"
	"html"
	"strings"
)

// grid is a picture of bars: a row and a column per thing that is compared, and some bars in each cell.
type grid struct {
	title, subject string
	legend         string
	columns, rows  []string
	cells          [][][]bar // by row and column
}

// bar is a length from 0 to 1, with what is written behind it.
type bar struct {
	length float64
	text   string
	class  string // good, bad or plain
}

// Sizes in pixels.
const (
	left, top    = 180, 84
	cellW, cellH = 106, 40
	barW, barH   = 52, 12
)

// svg draws the grid. Its colors follow the color scheme of the viewer.
func (g grid) svg() string {
	columnW := max(cellW, 960/len(g.columns)-left/len(g.columns))
	long := columnW - cellW + barW
	var b strings.Builder
	width, height := left+columnW*len(g.columns), top+cellH*len(g.rows)+8
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" font-family="system-ui, sans-serif" font-size="12">
<title>%s</title><desc>%s</desc>
<style>
svg { color-scheme: light dark; background: #fff; } text { fill: #1f2328; } .good { fill: #2563a8; } .bad { fill: #c2410c; } .plain { fill: #7a828c; } line { stroke: #d0d7de; }
@media (prefers-color-scheme: dark) { svg { background: #0d1117; } text { fill: #e6edf3; } .good { fill: #6cb0f5; } .bad { fill: #f59e6c; } .plain { fill: #9aa4af; } line { stroke: #3d444d; } }
</style>
<text x="8" y="22" font-size="15" font-weight="600">%s</text>
<text x="8" y="42">%s</text>
`, width, height, html.EscapeString(g.title), html.EscapeString(g.subject), html.EscapeString(g.title), html.EscapeString(g.legend))
	for i, name := range g.columns {
		fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\" font-weight=\"600\">%s</text>\n", left+i*columnW, top-12, html.EscapeString(name))
	}
	for i, name := range g.rows {
		y := top + i*cellH
		fmt.Fprintf(&b, "<line x1=\"8\" x2=\"%d\" y1=\"%d\" y2=\"%d\"/>\n<text x=\"8\" y=\"%d\">%s</text>\n", width-8, y-2, y-2, y+cellH/2, html.EscapeString(name))
		for j, bars := range g.cells[i] {
			for k, v := range bars {
				x, y := left+j*columnW, y+4+k*(barH+4)
				w := max(1, min(1, v.length)*float64(long))
				fmt.Fprintf(&b, "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\" rx=\"2\"/><text x=\"%.1f\" y=\"%d\" font-size=\"11\">%s</text>\n",
					v.class, x, y, w, barH, float64(x)+w+4, y+barH-2, html.EscapeString(v.text))
			}
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}
