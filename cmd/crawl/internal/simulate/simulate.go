// Package simulate is `crawl simulate` without the declaration of its flags: tables, traces and plots of simulated
// runs.
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

// Options are the arguments and flags of the command.
type Options struct {
	cli.Streams
	Patterns []string
	Given    func(flag string) bool // whether the command line has the flag, even with its default

	// The flags, each under its name; asJSON is the value of --format.
	Strategies, Format  string
	Plot                string
	Seeds, Random       int
	Seed                uint64
	Rate, MaxRate       float64
	Duration, Every     time.Duration
	Trace, List, asJSON bool
}

// Strategies returns all strategies that can be simulated: those of the engine, the default first, and the oracle,
// which knows the server.
func Strategies() []string {
	return append(control.Names(), simulate.Oracle)
}

// Run runs the command. It checks everything before the first simulation, so that a mistake costs no time.
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
	// A second interrupt ends the process, even while the table is written.
	context.AfterFunc(ctx, stop)
	switch {
	case o.Trace:
		return o.runTrace(ctx, scs, cfgs)
	case o.Plot != "":
		return o.runPlot(ctx, scs, cfgs)
	}
	return o.runTable(ctx, scs, cfgs)
}

// most bounds the runs of a comparison, whose results of half a kilobyte each are kept in memory.
const most = 10_000

// rateRange is the range of rates that the engine accepts; the bounds are those of its configuration.
const rateRange = "requests per second, 0.000001 to 1000000"

// check returns an error for values out of range and for flags that would have no effect.
func (o *Options) check() error {
	o.asJSON = o.Format == "json"
	if err := checkFormat(o.Format); err != nil {
		return err
	}
	// As in a crawl: a user who lowers the maximum need not know the rate at the start.
	if o.Given("max-rate") && !o.Given("rate") {
		o.Rate = min(o.Rate, o.MaxRate)
	}
	inRange := func(rps float64) bool { return rps >= 1e-6 && rps <= 1e6 } // false for NaN
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

// checkModes returns an error for flags that have no effect with --list, --trace or --plot, or without --trace.
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
		// Nobody has chosen the minimum rate here, so it gives way to the rate at the start.
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
	if o.Duration > 0 { // Select has returned copies
		for i := range scs {
			scs[i].Duration = o.Duration
		}
	}
	return scs, nil
}

// nearScenarios returns a hint with the first names that begin with the pattern, or else with the name most like it; ""
// if there are none.
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

// columns returns the width of a table: that of the terminal, or more than enough for a file, where nothing wraps.
func (o *Options) columns() int {
	const wide = 1000
	if cli.IsTerminal(o.Out) {
		return cli.WidthOf(o.Out)
	}
	return wide
}

// interrupted says how far an interrupted command came, and returns the error with its exit code.
func (o *Options) interrupted(format string, args ...any) error {
	cli.Say(o.Err, "interrupted: "+format+"\n", args...)
	return &cli.Error{Code: cli.CodeInterrupted}
}

// runPlot draws one scenario under each strategy, in panels one below the other.
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

// plotPoints is the number of points of a line, at most: about one per pixel.
const plotPoints = 900

// panel draws moments. The capacity of the host and the planned rate are those at the end of each moment, the admitted
// rate is its mean. If there is no planned rate, the legend leaves it out.
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
		now := math.NaN() // the oracle has no planned rate
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
