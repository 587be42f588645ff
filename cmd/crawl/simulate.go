package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/treadlight/crawl/internal/document/spelling"
	"github.com/treadlight/crawl/internal/lab/simulate"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

const simulateLong = `Simulate runs the strategies that pace a host against model servers, with the
real engine and in virtual time: fifteen minutes at a host take a fraction of a
second, and the same command gives the same numbers. The servers limit in the
ways that are in use, queue up, fail, change their minds and lock out. In S23
several hosts at one address share a limit, or have one each.

It prints a table of how much of what each host would have admitted was used,
and how much was refused. A PATTERN chooses scenarios by name, as in 'S1*';
R and a number is a host drawn from that number. --trace shows one run as it
goes instead, and --plot draws one scenario under each strategy.`

const simulateExamples = `  crawl simulate                            every scenario, some seconds
  crawl simulate 'S1*' S7                   some of them
  crawl simulate --list                     what there is
  crawl simulate --strategy steer,gradient --seeds 5
  crawl simulate --random 50                hosts nobody has tuned for
  crawl simulate S7 --trace                 one run: rate, refusals, reasons
  crawl simulate S7 --trace --every 1s --format json
  crawl simulate S7 --plot s7.svg           a picture of rate and capacity`

// simulateCommand runs strategies against model servers, those of all.
func simulateCommand(s streams, all []simulate.Scenario) *cobra.Command {
	o := simulation{streams: s, all: all}
	cmd := &cobra.Command{
		Use:                   "simulate [flags] [PATTERN...]",
		Short:                 "Run the strategies against model servers, in virtual time",
		Long:                  simulateLong,
		Example:               simulateExamples,
		DisableFlagsInUseLine: true,
		Args:                  cobra.ArbitraryArgs, // names of scenarios, beside the command below it
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return simulate.Names(all), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.patterns = args
			o.given = cmd.Flags().Changed
			return o.run(cmd.Context())
		},
	}
	cmd.AddCommand(simulateFleetCommand(s))
	f := cmd.Flags()
	f.SortFlags = false // the order is by importance
	// The defaults are those under which the strategies are compared, not those of a
	// crawl: a ceiling of 10 per second would hide most of what there is to see.
	f.StringVar(&o.strategies, "strategy", "steer,aimd,"+simulate.Oracle, "`words` with commas between: "+oneOf(strategies()))
	f.IntVar(&o.seeds, "seeds", 1, "runs of each, with one seed after another")
	f.Uint64Var(&o.seed, "seed", 1, "the first seed")
	f.IntVar(&o.random, "random", 0, "run `n` hosts drawn at random, R1 and so on; without a PATTERN only those")
	f.Float64Var(&o.rate, "rate", 1, "requests per second to begin with")
	f.Float64Var(&o.maxRate, "max-rate", 2000, "requests per second not to go above; a start that is not given moves along")
	f.DurationVar(&o.duration, "duration", 0, "length of each run; 0 = the scenario's, 15m or 30m")
	f.BoolVar(&o.trace, "trace", false, "show how one scenario goes, line by line")
	f.DurationVar(&o.every, "every", 0, "a line of --trace each time; 0 = when something changed, and each minute")
	f.StringVar(&o.plot, "plot", "", "draw one scenario, a panel for each strategy, into `file` as SVG")
	f.BoolVar(&o.list, "list", false, "list the scenarios and run nothing")
	f.StringVar(&o.format, "format", "table", "form of the output, a `word`: table or json")
	for name, words := range map[string][]string{"strategy": strategies(), "format": {"table", "json"}} {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)) // both exist
	}
	return cmd
}

// simulation is the verb with its flags.
type simulation struct {
	streams
	all      []simulate.Scenario
	patterns []string
	given    func(flag string) bool // on the command line, be it with the default

	// The flags, each under its name; asJSON is --format, understood.
	strategies, format  string
	plot                string
	seeds, random       int
	seed                uint64
	rate, maxRate       float64
	duration, every     time.Duration
	trace, list, asJSON bool
}

// strategies are all that can be asked for: those of the engine, the default first,
// and the bound.
func strategies() []string {
	return append(control.Names(), simulate.Oracle)
}

// run checks everything before the first run, so that a mistake costs no wait.
func (o *simulation) run(ctx context.Context) error {
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
	if o.list {
		return outputError(o.writeList(scs))
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	// Who interrupts twice does not want to wait for the table either.
	context.AfterFunc(ctx, stop)
	switch {
	case o.trace:
		return o.runTrace(ctx, scs, cfgs)
	case o.plot != "":
		return o.runPlot(ctx, scs, cfgs)
	}
	return o.runTable(ctx, scs, cfgs)
}

// most keeps the results of a comparison, half a kilobyte each, in memory.
const most = 10_000

// rateRange is what the engine can pace; the bounds are those of its configuration.
const rateRange = "requests per second, 0.000001 to 1000000"

// check refuses values out of range and flags that would be ignored.
func (o *simulation) check() error {
	switch o.format {
	case "table", "json":
		o.asJSON = o.format == "json"
	default:
		return usage(fmt.Errorf("--format %q: give table or json", o.format))
	}
	// As for a crawl: who lowers the maximum does not have to know where a crawl starts.
	if o.given("max-rate") && !o.given("rate") {
		o.rate = min(o.rate, o.maxRate)
	}
	inRange := func(rps float64) bool { return rps >= 1e-6 && rps <= 1e6 } // NaN is not
	switch {
	case o.seeds < 1 || o.seeds > most:
		return usage(fmt.Errorf("--seeds %d: give 1 to %d", o.seeds, most))
	case o.seed < 1:
		return usage(fmt.Errorf("--seed %d: give at least 1", o.seed))
	case o.random < 0 || o.random > most:
		return usage(fmt.Errorf("--random %d: give 0 to %d hosts", o.random, most))
	case !inRange(o.maxRate):
		return usage(fmt.Errorf("--max-rate %v: give %s", o.maxRate, rateRange))
	case !inRange(o.rate):
		return usage(fmt.Errorf("--rate %v: give %s", o.rate, rateRange))
	case o.rate > o.maxRate:
		return usage(fmt.Errorf("--rate %v is above --max-rate %v: lower one or raise the other", o.rate, o.maxRate))
	case o.duration != 0 && (o.duration < simulate.MinDuration || o.duration > simulate.MaxDuration):
		return usage(fmt.Errorf("--duration %v: give 1m1s to 24h; the first minute is counted apart", o.duration))
	case o.every != 0 && o.every < time.Second:
		return usage(fmt.Errorf("--every %v: give at least 1s", o.every))
	}
	return o.checkModes()
}

// checkModes refuses flags of one way to run the verb that another does not heed.
func (o *simulation) checkModes() error {
	mode, ignored := "without --trace", []string{"every"}
	switch {
	case o.list:
		mode, ignored = "with --list", []string{"trace", "plot", "every", "seeds", "seed", "strategy", "rate", "max-rate"}
	case o.trace:
		mode, ignored = "with --trace, which shows one run", []string{"plot", "seeds", "random"}
	case o.plot != "":
		mode, ignored = "with --plot, which draws one scenario", []string{"every", "seeds", "random", "format"}
	}
	for _, name := range ignored {
		if o.given(name) {
			return usage(fmt.Errorf("--%s has no effect %s: remove it", name, mode))
		}
	}
	return nil
}

// configs are the columns of the table.
func (o *simulation) configs() ([]simulate.Named, error) {
	var names []string
	for name := range strings.SplitSeq(o.strategies, ",") {
		name = strings.TrimSpace(name)
		if !slices.Contains(strategies(), name) {
			return nil, usage(fmt.Errorf("--strategy %q: give %s, or some with commas between%s", name, oneOf(strategies()), meant(spelling.Nearest(name, strategies()))))
		}
		if slices.Contains(names, name) {
			return nil, usage(fmt.Errorf("--strategy %s: %q is there twice", o.strategies, name))
		}
		names = append(names, name)
	}
	if o.trace && o.given("strategy") && len(names) > 1 {
		return nil, usage(fmt.Errorf("--trace shows one run: give one --strategy, and not %d", len(names)))
	}
	cfgs := simulate.Strategies(names...)
	for i := range cfgs {
		c := &cfgs[i].Config
		// The floor is policy that nobody asked for here: it gives way to the start.
		c.InitialRPS, c.MaxRPS, c.MinRPS = o.rate, o.maxRate, min(c.MinRPS, o.rate)
	}
	return cfgs, nil
}

// scenarios are the rows of the table.
func (o *simulation) scenarios() ([]simulate.Scenario, error) {
	patterns := slices.Clone(o.patterns)
	for _, p := range patterns {
		if _, err := path.Match(p, ""); err != nil {
			return nil, usage(fmt.Errorf("PATTERN %q: write [a-z] for one of several letters, and \\[ for a bracket", p))
		}
	}
	for i := range o.random {
		patterns = append(patterns, fmt.Sprintf("R%d", i+1))
	}
	scs, err := simulate.Select(o.all, patterns...)
	if unknown, ok := errors.AsType[*simulate.UnknownError](err); ok {
		return nil, usage(fmt.Errorf("no scenario matches %q%s; --list has all", unknown.Pattern, o.nearScenarios(unknown.Pattern)))
	}
	if err != nil {
		return nil, err
	}
	if o.duration > 0 { // Select gives copies
		for i := range scs {
			scs[i].Duration = o.duration
		}
	}
	return scs, nil
}

// maxNear is how many names a mistake is answered with.
const maxNear = 5

// nearScenarios lists the names that may have been meant: those that go on where the
// pattern ends before those that are a slip away. Case is no difference.
func (o *simulation) nearScenarios(pattern string) string {
	type guess struct {
		name string
		far  int
	}
	var guesses []guess
	typed := strings.ToLower(pattern)
	for _, name := range simulate.Names(o.all) {
		lower := strings.ToLower(name)
		far := spelling.Distance(typed, lower)
		if strings.HasPrefix(lower, typed) {
			far = 0
		}
		if far <= 1+len(typed)/4 { // as package spelling has it, but for one slip less: names are short
			guesses = append(guesses, guess{name, far})
		}
	}
	if len(guesses) == 0 {
		return ""
	}
	slices.SortStableFunc(guesses, func(a, b guess) int { return cmp.Compare(a.far, b.far) })
	var names []string
	for _, g := range guesses[:min(len(guesses), maxNear)] {
		if g.far > 0 && guesses[0].far == 0 {
			break // who began a name did not mean another
		}
		names = append(names, g.name)
	}
	return "; near it: " + strings.Join(names, ", ")
}

// writeList says what there is to run.
func (o *simulation) writeList(scs []simulate.Scenario) error {
	if o.asJSON {
		list := make([]scenarioJSON, len(scs))
		for i := range scs {
			list[i] = describeScenario(&scs[i])
		}
		return writeJSON(o.out, list)
	}
	t := []column{{title: "scenario", left: true}, {title: "runs for"}, {title: "the host", left: true}}
	for i := range scs {
		sc := describeScenario(&scs[i])
		for c, text := range []string{sc.Name, seconds(sc.Duration), sc.Doc} {
			t[c].cells = append(t[c].cells, text)
		}
	}
	var b strings.Builder
	layout(&b, t, o.columns())
	_, err := io.WriteString(o.out, b.String())
	return err
}

// columns is how wide a table may be: a terminal's width, and any in a file, where
// nothing wraps.
func (o *simulation) columns() int {
	const wide = 1000
	if isTerminal(o.out) {
		return widthOf(o.out)
	}
	return wide
}

// interrupted is the end of a run that was asked to end. What is done has been shown.
func (o *simulation) interrupted(format string, args ...any) error {
	say(o.err, "interrupted: "+format+"\n", args...)
	return &exitError{code: exitInterrupted}
}

// writeJSON writes one document, indented like the other verbs'.
func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
