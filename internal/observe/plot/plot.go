// Package plot draws lines over time as SVG: one chart of panels that stand one below the
// other and share their axes, so that an eye compares them.
//
// The picture is one file that needs nothing else. Its colours follow the viewer's scheme, and lines
// are told apart by their strokes as well. The same chart is the same file, byte by byte.
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

// Chart is a picture. A chart without panels is a title.
type Chart struct {
	Title string
	// Subject says in a sentence what is to be seen, for those who do not see it.
	Subject string
	Unit    string // that of the vertical axes: "requests/s"
	Panels  []Panel
}

// Panel is one pair of axes.
type Panel struct {
	Title string
	Lines []Line
	// Marks are moments to be seen below the axis, such as refusals; MarksName is their entry in the legend.
	Marks     []Mark
	MarksName string
}

// Style is how a line is drawn.
type Style uint8

// The styles. The zero Style is [Area].
const (
	Area   Style = iota // filled down to zero, and in steps: what there is
	Solid               // what is reached
	Dashed              // what is planned
)

// Line is values over time.
type Line struct {
	Name   string
	Style  Style
	Points []Point // in the order of At
}

// Point is one value. What is no finite number is a gap.
type Point struct {
	At    time.Duration
	Value float64
}

// Mark is how often something happened from one moment to another.
type Mark struct {
	From, To time.Duration
	N        int
}

// The measures of a picture, in pixels. It is as wide as a page of text on a screen.
const (
	width       = 960
	left        = 64  // room for the figures of the vertical axis
	right       = 16  //
	headHeight  = 44  // the title of the chart
	panelHead   = 40  // title and legend of a panel
	plotHeight  = 180 //
	marksHeight = 10  // the ticks of marks below the axis
	axisHeight  = 26  // the figures of the horizontal axis
	panelHeight = panelHead + plotHeight + marksHeight + axisHeight
)

// style follows the colour scheme of whoever looks. The colours are told apart by those who
// see no red or no green (Okabe and Ito's palette).
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
	return p.w.Flush() // which has the first error of all
}

// bounds are the last moment and the largest value of all.
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

// NiceCeil is the next number from v on that is 1, 2 or 5 with zeros, and 1 for none.
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

// painter writes elements. Errors stay in the buffer until the end.
type painter struct {
	w   *bufio.Writer
	end time.Duration // at the right end of the axes
	top float64       // at their upper end
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
		const letter = 6.6 // pixels, on average
		x += 26 + letter*float64(len(name)) + 18
	}
	for _, l := range d.Lines {
		entry(l.Style.class(), "h20", l.Name)
	}
	if d.MarksName != "" {
		entry("mark", "h20v4h-20z", d.MarksName)
	}
}

// axes draws a grid with four steps upwards and about eight to the right.
func (p *painter) axes(base int, unit string) {
	for i := range 5 {
		v := p.top * float64(i) / 4
		y := p.y(v, base)
		p.put(`<path class="grid" d="M%d %sH%d"/>`+"\n", left, number(y), width-right)
		p.text(left-6, y+4, "e", strconv.FormatFloat(v, 'g', 4, 64))
	}
	p.text(left-6, float64(base-plotHeight-10), "e", unit)
	p.put(`<path class="axis" d="M%d %dV%dH%d"/>`+"\n", left, base-plotHeight, base, width-right)
	step := timeStep(p.end)
	for at := time.Duration(0); at <= p.end; at += step {
		x := p.x(at)
		p.put(`<path class="axis" d="M%s %dv4"/>`+"\n", number(x), base+marksHeight)
		p.text(x, float64(base+marksHeight+18), "m", clockTime(at))
	}
}

// timeStep is what is between two figures of a time axis: as people count time, and ten at most.
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

// clockTime is a time as a stopwatch has it: 0:30, 12:00, 1:05:00.
func clockTime(d time.Duration) string {
	s := int(d / time.Second)
	if s < 3600 {
		return fmt.Sprintf("%d:%02d", s/60, s%60)
	}
	return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
}

// line draws a curve, which ends before a gap and begins anew behind it. In an area a value holds until the next; as
// long as it does not change there is nothing to write.
func (p *painter) line(l *Line, base int) {
	var d strings.Builder
	area, down := l.Style == Area, false // the pen
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

// number is a coordinate: two decimals are finer than any screen.
func number(v float64) string {
	return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64)
}

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a builder does not fail
	return b.String()
}
