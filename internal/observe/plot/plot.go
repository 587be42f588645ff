// Package plot draws lines over time as SVG: a chart of panels, one below the other, with the same axes, so that they can
// be compared.
//
// The picture is one file that needs no other files. Its colors follow the color scheme of the viewer, and lines also
// differ by their strokes. The same chart always gives the same file, byte by byte.
package plot

import (
	"bufio"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

// Chart is a picture. A chart without panels has only a title.
type Chart struct {
	Title string
	// Subject describes the picture in a sentence, for people who cannot see it.
	Subject string
	Unit    string // of the vertical axes, such as "requests/s"
	Panels  []Panel
}

// Panel is a pair of axes with its lines.
type Panel struct {
	Title string
	Lines []Line
	// Marks are moments shown below the axis, such as refusals. MarksName is their entry in the legend.
	Marks     []Mark
	MarksName string
}

// Style says how a line is drawn.
type Style uint8

// The styles. The zero Style is [Area].
const (
	Area   Style = iota // filled down to zero, and in steps: for what exists
	Solid               // for what is reached
	Dashed              // for what is planned
)

// Line is a series of values over time.
type Line struct {
	Name   string
	Style  Style
	Points []Point // sorted by At
}

// Point is one value. A value that is not a finite number makes a gap in the line.
type Point struct {
	At    time.Duration
	Value float64
}

// Mark says how often something happened between two moments.
type Mark struct {
	From, To time.Duration
	N        int
}

// Dimensions of a picture, in pixels. It is as wide as a page of text on a screen.
const (
	width       = 960
	left        = 64  // for the numbers of the vertical axis
	right       = 16  //
	headHeight  = 44  // the title of the chart
	panelHead   = 40  // title and legend of a panel
	plotHeight  = 180 //
	marksHeight = 10  // the ticks of marks below the axis
	axisHeight  = 26  // the numbers of the horizontal axis
	panelHeight = panelHead + plotHeight + marksHeight + axisHeight
)

// style follows the color scheme of the viewer. People with red-green blindness can tell the colors apart (Okabe and
// Ito's palette).
const style = `<style>
text{font:12px system-ui,sans-serif;fill:#333}.t{font-size:16px;font-weight:600}.p{font-size:13px;font-weight:600}
.e{text-anchor:end}.m{text-anchor:middle}.back{fill:#fff}.axis{stroke:#888;fill:none}.grid{stroke:#8884;fill:none}
.area{fill:#56b4e944;stroke:#56b4e9}.solid{fill:none;stroke:#0072b2;stroke-width:1.5}.dashed{fill:none;stroke:#d55e00;stroke-width:1.5;stroke-dasharray:5 3}
.mark{fill:#c0006a}
@media (prefers-color-scheme:dark){text{fill:#ddd}.back{fill:#15181e}.axis{stroke:#999}.solid{stroke:#8ecbff}.dashed{stroke:#ffa04d}.mark{fill:#ff6fb5}}
</style>
`

func (s Style) class() string { return [...]string{"area", "solid", "dashed"}[min(s, Dashed)] }

// Write writes the picture to w.
func (c *Chart) Write(w io.Writer) error {
	end, most := c.bounds()
	p := &painter{w: bufio.NewWriter(w), end: end, top: NiceCeil(most)}
	height := headHeight + panelHeight*len(c.Panels)
	p.put(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-labelledby="title desc">`+"\n", width, height, width, height)
	p.put(`<title id="title">%s</title>`+"\n"+`<desc id="desc">%s</desc>`+"\n", escape(c.Title), escape(c.Subject))
	p.put("%s", style)
	p.put(`<rect class="back" width="%d" height="%d"/>`+"\n", width, height)
	p.text(left, 26, "t", c.Title)
	for i := range c.Panels {
		p.panel(&c.Panels[i], headHeight+panelHeight*i, c.Unit)
	}
	p.put("</svg>\n")
	return p.w.Flush() // it returns the first error of all writes
}

// bounds returns the last moment and the largest value of all lines.
func (c *Chart) bounds() (end time.Duration, most float64) {
	end = time.Second
	for _, p := range c.Panels {
		for _, l := range p.Lines {
			for _, point := range l.Points {
				if end = max(end, point.At); !math.IsInf(point.Value, 0) && point.Value > most {
					most = point.Value
				}
			}
		}
	}
	return end, most
}

// NiceCeil returns the next number from v upwards that is 1, 2 or 5 times a power of ten. It returns 1 if v is not
// positive.
func NiceCeil(v float64) float64 {
	if !(v > 0) {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, step := range []float64{1, 2, 5, 10} {
		if v <= step*power {
			return step * power
		}
	}
	return 10 * power
}

// painter writes elements. Its buffer keeps an error until the end.
type painter struct {
	w   *bufio.Writer
	end time.Duration // the moment at the right end of the axes
	top float64       // the value at the upper end of the axes
}

func (p *painter) put(format string, args ...any) { _, _ = fmt.Fprintf(p.w, format, args...) }

func (p *painter) text(x, y float64, class, s string) {
	p.put(`<text class="%s" x="%s" y="%s">%s</text>`+"\n", class, number(x), number(y), escape(s))
}

func (p *painter) x(at time.Duration) float64 {
	return left + (width-left-right)*min(max(at.Seconds()/p.end.Seconds(), 0), 1)
}

func (p *painter) y(v float64, base int) float64 {
	return float64(base) - plotHeight*min(max(v/p.top, 0), 1)
}

func (p *painter) panel(d *Panel, at int, unit string) {
	base := at + panelHead + plotHeight
	p.text(left, float64(at+14), "p", d.Title)
	p.legend(d, at+30)
	p.axes(base, unit)
	for _, l := range d.Lines {
		p.line(&l, base)
	}
	p.marks(d.Marks, base)
}

func (p *painter) legend(d *Panel, y int) {
	x := float64(left)
	entry := func(class, shape, name string) {
		p.put(`<path class="%s" d="M%s %d%s"/>`+"\n", class, number(x), y-4, shape)
		p.text(x+26, float64(y), "", name)
		const letter = 6.6 // average width in pixels
		x += 26 + letter*float64(len(name)) + 18
	}
	for _, l := range d.Lines {
		entry(l.Style.class(), "h20", l.Name)
	}
	if d.MarksName != "" {
		entry("mark", "h20v4h-20z", d.MarksName)
	}
}

// axes draws a grid with four intervals upwards and about eight to the right.
func (p *painter) axes(base int, unit string) {
	for i := range 5 {
		v := p.top * float64(i) / 4
		y := p.y(v, base)
		p.put(`<path class="grid" d="M%d %sH%d"/>`+"\n", left, number(y), width-right)
		p.text(left-6, y+4, "e", strconv.FormatFloat(v, 'g', 4, 64))
	}
	p.text(width-right, float64(base-plotHeight-10), "e", unit)
	p.put(`<path class="axis" d="M%d %dV%dH%d"/>`+"\n", left, base-plotHeight, base, width-right)
	step := timeStep(p.end)
	for at := time.Duration(0); at <= p.end; at += step {
		x := p.x(at)
		p.put(`<path class="axis" d="M%s %dv4"/>`+"\n", number(x), base+marksHeight)
		p.text(x, float64(base+marksHeight+18), "m", clockTime(at))
	}
}

// timeStep returns the interval between the numbers of a time axis: one in which people count time, at most ten on the
// axis.
func timeStep(end time.Duration) time.Duration {
	for _, step := range []time.Duration{
		time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute,
		5 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour, 3 * time.Hour,
	} {
		if end/step <= 10 {
			return step
		}
	}
	return (end / 10).Truncate(time.Hour) + time.Hour
}

// clockTime formats a time like a stopwatch: 0:30, 12:00, 1:05:00.
func clockTime(d time.Duration) string {
	s := int(d / time.Second)
	if s < 3600 {
		return fmt.Sprintf("%d:%02d", s/60, s%60)
	}
	return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
}

// line draws a line, which ends at a gap and begins again after it. In an area a value holds until the next one;
// nothing is written while it does not change.
func (p *painter) line(l *Line, base int) {
	var d strings.Builder
	area, down := l.Style == Area, false // down: the pen is on the paper
	var x, y float64
	lift := func() {
		if down && area {
			fmt.Fprintf(&d, "H%sV%dz", number(x), base)
		}
		down = false
	}
	for _, point := range l.Points {
		if math.IsNaN(point.Value) || math.IsInf(point.Value, 0) {
			lift()
			continue
		}
		before := y
		x, y = p.x(point.At), p.y(point.Value, base)
		switch {
		case !down && area:
			fmt.Fprintf(&d, "M%s %dV%s", number(x), base, number(y))
		case !down:
			fmt.Fprintf(&d, "M%s %s", number(x), number(y))
		case !area:
			fmt.Fprintf(&d, "L%s %s", number(x), number(y))
		case y != before:
			fmt.Fprintf(&d, "H%sV%s", number(x), number(y))
		}
		down = true
	}
	if lift(); d.Len() > 0 {
		p.put(`<path class="%s" d="%s"><title>%s</title></path>`+"\n", l.Style.class(), d.String(), escape(l.Name))
	}
}

func (p *painter) marks(marks []Mark, base int) {
	most := 1
	for _, m := range marks {
		most = max(most, m.N)
	}
	for _, m := range marks {
		if m.N <= 0 {
			continue
		}
		x := p.x(m.From)
		h := 3 + (marksHeight-3)*float64(m.N)/float64(most)
		p.put(`<rect class="mark" x="%s" y="%d" width="%s" height="%s"><title>%d at %s</title></rect>`+"\n",
			number(x), base+1, number(max(p.x(m.To)-x, 1)), number(h), m.N, clockTime(m.From))
	}
}

// number formats a coordinate. Two decimals are finer than any screen.
func number(v float64) string {
	return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64)
}

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a builder does not fail
	return b.String()
}
