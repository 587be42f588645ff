package simulate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/lab/simulate"
	"github.com/treadlight/crawl/internal/observe/plot"
	"github.com/treadlight/crawl/internal/store/atomicfile"
)

// runPlot draws one scenario under each strategy, one below the other.
func (o *Options) runPlot(ctx context.Context, scs []simulate.Scenario, cfgs []simulate.Named) error {
	if len(scs) != 1 {
		return cli.Usagef("--plot draws one scenario: give a PATTERN for one, such as S1a, and not %d", len(scs))
	}
	sc := &scs[0]
	chart := plot.Chart{
		Title: fmt.Sprintf("%s: %s", sc.Name, sc.Doc), Unit: "requests/s",
		Subject: "What the host would admit, what was admitted and what was planned over time; refused requests are marked below the axis.",
	}
	for _, cfg := range cfgs {
		d := drawing{step: max(sc.Length()/plotPoints, time.Second).Truncate(time.Second)}
		run := simulate.Simulation{Scenario: *sc, Config: cfg.Config, Seed: o.Seed, OnSecond: d.add}
		result, err := run.Run(ctx)
		if err != nil && errors.Is(err, ctx.Err()) {
			return o.interrupted("nothing was drawn")
		}
		if err != nil {
			return err
		}
		d.flush()
		chart.Panels = append(chart.Panels, d.panel(cfg.Config.Strategy))
		if _, err := fmt.Fprintf(o.Out, "%s: %s\n", cfg.Config.Strategy, result.String()); err != nil {
			return cli.Output(err)
		}
	}
	if err := atomicfile.Replace(o.Plot, 0o666, chart.Write); err != nil {
		return cli.Write("--plot", err)
	}
	return nil
}

// plotPoints is how many a line has at most: about one for each pixel.
const plotPoints = 900

// drawing makes the lines of a panel out of seconds, several to a point.
type drawing struct {
	step     time.Duration
	from, to time.Duration // of the seconds that wait
	pending  simulate.Span

	capacity, admitted, rate []plot.Point
	refused                  []plot.Mark
}

// add takes the next second. What the host would admit and what is planned are as at the
// end of a point, what was admitted is the mean.
func (d *drawing) add(s simulate.Second) {
	d.to = s.At + time.Second
	d.pending.Admitted += s.Admitted
	d.pending.Refused += s.Refused
	planned := s.Plan.FillRate
	if planned <= 0 { // the one who knows the server has no rate
		planned = math.NaN()
	}
	if d.to-d.from < d.step {
		return
	}
	d.capacity = append(d.capacity, plot.Point{At: d.from, Value: s.Capacity})
	d.rate = append(d.rate, plot.Point{At: d.from, Value: planned})
	d.flush()
}

// flush ends a point, if one was begun.
func (d *drawing) flush() {
	if d.to <= d.from {
		return
	}
	mean := float64(d.pending.Admitted) / (d.to - d.from).Seconds()
	d.admitted = append(d.admitted, plot.Point{At: d.from, Value: mean})
	if n := d.pending.Refused; n > 0 {
		d.refused = append(d.refused, plot.Mark{From: d.from, To: d.to, N: n})
	}
	d.from, d.pending = d.to, simulate.Span{}
}

// panel is what was drawn. What there is none of is not in the legend.
func (d *drawing) panel(title string) plot.Panel {
	p := plot.Panel{Title: title, Lines: []plot.Line{
		{Name: "the host would admit", Style: plot.Area, Points: d.capacity},
		{Name: "admitted", Style: plot.Solid, Points: d.admitted},
	}}
	for _, r := range d.rate {
		if !math.IsNaN(r.Value) {
			p.Lines = append(p.Lines, plot.Line{Name: "planned", Style: plot.Dashed, Points: d.rate})
			break
		}
	}
	if p.Marks = d.refused; p.Marks != nil {
		p.MarksName = "refused"
	}
	return p
}
