package dashboard

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/treadlight/crawl/internal/observe/plot"
)

// The plot's own units. It is stretched to its box, and its lines keep their width.
const (
	plotWidth  = 1000
	plotHeight = 100
)

// Kind is what an event or a stretch of time means, which is also its class in the style.
type Kind string

// The kinds.
const (
	Cut  Kind = "cut"  // the host is asked less, or not at all
	Rise Kind = "rise" // it is asked more
	Note Kind = "note" // neither
	Open Kind = "open" // nothing goes out
	Half Kind = "half" // trials go out
)

// Chart is some curves over one time. Its zero draws nothing.
type Chart struct {
	ID       string // unique in a page
	Title    string
	Unit     string
	From, To time.Time
	Lines    []Line
	Bands    []Band
	Marks    []Mark
	AtLeast  float64 // the top of the scale is no lower
}

// Line is one curve.
type Line struct {
	Name   string
	Class  string  // of the style: a, b or c
	Points []Point // in order of time
}

// Point is a value at an instant. A value that is no number is a gap.
type Point struct {
	At    time.Time
	Value float64
}

// Band is a stretch of time in which something held.
type Band struct {
	From, To time.Time
	Kind     Kind
	Text     string
}

// Mark is an instant at which something happened.
type Mark struct {
	At   time.Time
	Kind Kind
	Text string
}

// Drawn is a chart as the template wants it.
type Drawn struct {
	Chart
	Top, Middle string // of the scale
	Center      time.Time
	Paths       []Path
	Areas       []Area
	Ticks       []Tick
	Summary     string // what a person who does not see it is told
	Empty       bool
}

// Path is a line as SVG draws it.
type Path struct {
	Name, Class, D, Last string
}

// Area is a band as SVG draws it.
type Area struct {
	X, Width string
	Kind     Kind
	Text     string
}

// Tick is a mark as SVG draws it.
type Tick struct {
	X    string
	Kind Kind
	Text string
}

// Draw lays a chart out.
func (c Chart) Draw() Drawn {
	d := Drawn{Chart: c, Center: c.From.Add(c.To.Sub(c.From) / 2)}
	top := c.scale()
	d.Top, d.Middle = Number(top), Number(top/2)
	var said []string
	for _, l := range c.Lines {
		p := Path{Name: l.Name, Class: l.Class, D: c.path(l.Points, top)}
		if n := len(l.Points); n > 0 && !math.IsNaN(l.Points[n-1].Value) {
			p.Last = Number(l.Points[n-1].Value)
			said = append(said, l.Name+" "+p.Last+" "+c.Unit)
		}
		d.Paths = append(d.Paths, p)
	}
	d.Empty = len(said) == 0
	d.Summary = fmt.Sprintf("%s from %s to %s, at most %s %s; last: %s",
		c.Title, clockTime(c.From), clockTime(c.To), Number(c.largest()), c.Unit, strings.Join(said, ", "))
	for _, b := range c.Bands {
		if x, end := c.x(b.From), c.x(b.To); end > 0 && x < plotWidth && end > x {
			x, end = max(x, 0), min(end, plotWidth)
			d.Areas = append(d.Areas, Area{tenth(x), tenth(end - x), b.Kind, b.Text})
		}
	}
	for _, m := range c.Marks {
		if x := c.x(m.At); x >= 0 && x <= plotWidth {
			d.Ticks = append(d.Ticks, Tick{tenth(x), m.Kind, m.Text})
		}
	}
	return d
}

func (c Chart) largest() float64 {
	top := 0.0
	for _, l := range c.Lines {
		for _, p := range l.Points {
			if p.Value > top && !math.IsInf(p.Value, 0) && !p.At.Before(c.From) {
				top = p.Value
			}
		}
	}
	return top
}

func (c Chart) scale() float64 { return plot.NiceCeil(max(c.largest(), c.AtLeast)) }

func (c Chart) x(at time.Time) float64 {
	span := c.To.Sub(c.From).Seconds()
	if span <= 0 {
		return 0
	}
	return at.Sub(c.From).Seconds() / span * plotWidth
}

// path is a curve as the d of an SVG path. What lies before the chart begins is its way in:
// the last such point is drawn, and cut off by the box.
func (c Chart) path(points []Point, top float64) string {
	var b strings.Builder
	pen := "M"
	for i, p := range points {
		if i+1 < len(points) && points[i+1].At.Before(c.From) {
			continue
		}
		if math.IsNaN(p.Value) || math.IsInf(p.Value, 0) {
			pen = "M"
			continue
		}
		b.WriteString(pen)
		b.WriteString(tenth(c.x(p.At)))
		b.WriteByte(' ')
		b.WriteString(tenth(plotHeight * (1 - p.Value/top)))
		pen = "L"
	}
	return b.String()
}

func tenth(v float64) string {
	if v == 0 { // which may have a sign
		return "0"
	}
	return strconv.FormatFloat(v, 'f', 1, 64)
}
