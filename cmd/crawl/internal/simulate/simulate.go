// Package simulate is `crawl simulate` behind its flags: tables, traces and plots of simulated runs.
package simulate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/document/spelling"
	"github.com/treadlight/crawl/internal/lab/simulate"
	"github.com/treadlight/crawl/internal/observe/plot"
	"github.com/treadlight/crawl/internal/ratelimit/control"
	"github.com/treadlight/crawl/internal/store/atomicfile"
)

// Options is the verb with its flags.
type Options struct {
	cli.Streams
	Patterns []string
	Given    func(flag string) bool // on the command line, be it with the default

	// The flags, each under its name; asJSON is --format, understood.
	Strategies, Format  string
	Plot                string
	Seeds, Random       int
	Seed                uint64
	Rate, MaxRate       float64
	Duration, Every     time.Duration
	Trace, List, asJSON bool
}

// Strategies are all that can be asked for: those of the engine, the default first, and the bound.
func Strategies() []string {
	return append(control.Names(), simulate.Oracle)
}

// Run checks everything before the first run, so that a mistake costs no wait.
func (o *Options) Run(ctx context.Context) error {
	if err := o.check(); err != nil {
		return err
	}
	cfgs, err := o.configs()
	if err != nil {
		return err
	}
	scs, err := o.scenarios()
	if err != nil {
		return err
	}
	if o.List {
		return cli.Output(o.writeList(scs))
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	// Who interrupts twice does not want to wait for the table either.
	context.AfterFunc(ctx, stop)
	switch {
	case o.Trace:
		return o.runTrace(ctx, scs, cfgs)
	case o.Plot != "":
		return o.runPlot(ctx, scs, cfgs)
	}
	return o.runTable(ctx, scs, cfgs)
}

// most keeps the results of a comparison, half a kilobyte each, in memory.
const most = 10_000

// rateRange is what the engine can pace; the bounds are those of its configuration.
const rateRange = "requests per second, 0.000001 to 1000000"

// check refuses values out of range and flags that would be ignored.
func (o *Options) check() error {
	o.asJSON = o.Format == "json"
	if err := checkFormat(o.Format); err != nil {
		return err
	}
	// As for a crawl: who lowers the maximum does not have to know where a crawl starts.
	if o.Given("max-rate") && !o.Given("rate") {
		o.Rate = min(o.Rate, o.MaxRate)
	}
	inRange := func(rps float64) bool { return rps >= 1e-6 && rps <= 1e6 } // NaN is not
	switch {
	case o.Seeds < 1 || o.Seeds > most:
		return cli.Usagef("--seeds %d: give 1 to %d", o.Seeds, most)
	case o.Seed < 1:
		return cli.Usagef("--seed %d: give at least 1", o.Seed)
	case o.Random < 0 || o.Random > most:
		return cli.Usagef("--random %d: give 0 to %d hosts", o.Random, most)
	case !inRange(o.MaxRate):
		return cli.Usagef("--max-rate %v: give %s", o.MaxRate, rateRange)
	case !inRange(o.Rate):
		return cli.Usagef("--rate %v: give %s", o.Rate, rateRange)
	case o.Rate > o.MaxRate:
		return cli.Usagef("--rate %v is above --max-rate %v: lower one or raise the other", o.Rate, o.MaxRate)
	case o.Duration != 0 && (o.Duration < simulate.MinDuration || o.Duration > simulate.MaxDuration):
		return cli.Usagef("--duration %v: give 1m1s to 24h; the first minute is counted apart", o.Duration)
	case o.Every != 0 && o.Every < time.Second:
		return cli.Usagef("--every %v: give at least 1s", o.Every)
	}
	return o.checkModes()
}

func checkFormat(word string) error {
	if word != "table" && word != "json" {
		return cli.Usagef("--format %q: give table or json", word)
	}
	return nil
}

// checkModes refuses flags of one way to run the verb that another does not heed.
func (o *Options) checkModes() error {
	mode, ignored := "without --trace", []string{"every"}
	switch {
	case o.List:
		mode, ignored = "with --list", []string{"trace", "plot", "every", "seeds", "seed", "strategy", "rate", "max-rate"}
	case o.Trace:
		mode, ignored = "with --trace, which shows one run", []string{"plot", "seeds", "random"}
	case o.Plot != "":
		mode, ignored = "with --plot, which draws one scenario", []string{"every", "seeds", "random", "format"}
	}
	for _, name := range ignored {
		if o.Given(name) {
			return cli.Usagef("--%s has no effect %s: remove it", name, mode)
		}
	}
	return nil
}

func (o *Options) configs() ([]simulate.Named, error) {
	var names []string
	for name := range strings.SplitSeq(o.Strategies, ",") {
		name = strings.TrimSpace(name)
		if _, err := control.Find(name); err != nil && name != simulate.Oracle {
			return nil, cli.Usagef("--strategy %q: give %s, or some with commas between%s", name, cli.OneOf(Strategies()), cli.Meant(spelling.Nearest(name, Strategies())))
		}
		if slices.Contains(names, name) {
			return nil, cli.Usagef("--strategy %s: %q is there twice", o.Strategies, name)
		}
		names = append(names, name)
	}
	if o.Trace && o.Given("strategy") && len(names) > 1 {
		return nil, cli.Usagef("--trace shows one run: give one --strategy, and not %d", len(names))
	}
	cfgs := simulate.Strategies(names...)
	for i := range cfgs {
		c := &cfgs[i].Config
		// The floor is policy that nobody asked for here: it gives way to the start.
		c.InitialRPS, c.MaxRPS, c.MinRPS = o.Rate, o.MaxRate, min(c.MinRPS, o.Rate)
	}
	return cfgs, nil
}

func (o *Options) scenarios() ([]simulate.Scenario, error) {
	patterns := slices.Clone(o.Patterns)
	for _, p := range patterns {
		if _, err := path.Match(p, ""); err != nil {
			return nil, cli.Usagef("PATTERN %q: write [a-z] for one of several letters, and \\[ for a bracket", p)
		}
	}
	for i := range o.Random {
		patterns = append(patterns, fmt.Sprintf("R%d", i+1))
	}
	scs, err := simulate.Select(simulate.Scenarios(), patterns...)
	if unknown, ok := errors.AsType[*simulate.UnknownError](err); ok {
		return nil, cli.Usagef("no scenario matches %q%s; --list has all", unknown.Pattern, nearScenarios(unknown.Pattern))
	}
	if err != nil {
		return nil, err
	}
	if o.Duration > 0 { // Select gives copies
		for i := range scs {
			scs[i].Duration = o.Duration
		}
	}
	return scs, nil
}

// nearScenarios lists the first names that go on where the pattern ends, or else the one that is a slip away.
func nearScenarios(pattern string) string {
	all := simulate.Names(simulate.Scenarios())
	names := slices.DeleteFunc(slices.Clone(all), func(name string) bool {
		return !strings.HasPrefix(strings.ToLower(name), strings.ToLower(pattern))
	})
	if near := spelling.Nearest(pattern, all); near != "" && len(names) == 0 {
		names = []string{near}
	}
	if len(names) == 0 {
		return ""
	}
	return "; near it: " + strings.Join(names[:min(len(names), 5)], ", ")
}

func (o *Options) writeList(scs []simulate.Scenario) error {
	if o.asJSON {
		list := make([]scenarioJSON, len(scs))
		for i := range scs {
			list[i] = describeScenario(&scs[i])
		}
		return cli.WriteJSON(o.Out, list)
	}
	t := cli.Columns("<scenario", "runs for", "<the host")
	for i := range scs {
		sc := describeScenario(&scs[i])
		t.Row(sc.Name, cli.Seconds(sc.Duration), sc.Doc)
	}
	var b strings.Builder
	cli.Layout(&b, t, o.columns())
	_, err := io.WriteString(o.Out, b.String())
	return err
}

// columns is how wide a table may be: a terminal's width, and any in a file, where nothing wraps.
func (o *Options) columns() int {
	const wide = 1000
	if cli.IsTerminal(o.Out) {
		return cli.WidthOf(o.Out)
	}
	return wide
}

// interrupted is the end of a run that was asked to end. What is done has been shown.
func (o *Options) interrupted(format string, args ...any) error {
	cli.Say(o.Err, "interrupted: "+format+"\n", args...)
	return &cli.Error{Code: cli.CodeInterrupted}
}

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
		points := thinner{every: max(sc.Length()/plotPoints, time.Second).Truncate(time.Second)}
		run := simulate.Simulation{Scenario: *sc, Config: cfg.Config, Seed: o.Seed, OnSecond: points.add}
		result, err := run.Run(ctx)
		if err != nil && errors.Is(err, ctx.Err()) {
			return o.interrupted("nothing was drawn")
		}
		if err != nil {
			return err
		}
		points.flush()
		chart.Panels = append(chart.Panels, panel(cfg.Config.Strategy, points.told))
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

// panel draws moments. What the host would admit and what is planned are as at the end of each, what was admitted is
// the mean. What there is none of is not in the legend.
func panel(title string, moments []moment) plot.Panel {
	p := plot.Panel{Title: title}
	capacity := plot.Line{Name: "the host would admit", Style: plot.Area}
	admitted, rate := plot.Line{Name: "admitted", Style: plot.Solid}, plot.Line{Name: "planned", Style: plot.Dashed}
	planned := false
	for i := range moments {
		m := &moments[i]
		from, to := inSeconds(m.From), inSeconds(m.To)
		capacity.Points = append(capacity.Points, plot.Point{At: from, Value: m.Capacity})
		admitted.Points = append(admitted.Points, plot.Point{At: from, Value: float64(m.Admitted) / (m.To - m.From)})
		now := math.NaN() // the one who knows the server has no rate
		if m.Rate > 0 {
			now, planned = m.Rate, true
		}
		rate.Points = append(rate.Points, plot.Point{At: from, Value: now})
		if m.Refused > 0 {
			p.Marks, p.MarksName = append(p.Marks, plot.Mark{From: from, To: to, N: m.Refused}), "refused"
		}
	}
	if p.Lines = []plot.Line{capacity, admitted}; planned {
		p.Lines = append(p.Lines, rate)
	}
	return p
}

func inSeconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
