package simulate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/lab/simulate"
	"github.com/treadlight/crawl/internal/lab/simulate/fleet"
)

const tableLegend = `
Each cell is UTIL/REFUSED in percent: of the requests that the host would have
admitted (and --max-rate allows), those that were; and of the requests that were
sent, those that its limiter refused. "1st min" is the first minute, the search;
"then" is all that follows it; a narrow screen shows only that. Over all seeds.
  +N  percent of the requests failed   xN  lockouts per run   @N  p95, seconds
Hosts at one address (S23) are counted together.
Oracle is no strategy. It knows the server: what it reaches can be reached.
`

// announced is the number of runs from which the command says how many there are: they take a second or more.
const announced = 50

// runTable compares the strategies and prints the results, also those of an interrupted comparison.
func (o *Options) runTable(ctx context.Context, scs []simulate.Scenario, cfgs []simulate.Named) error {
	clk := clock.System()
	began := clk.Now()
	term := cli.NewTerminal(o.Err, o.Env, "auto")
	total := len(scs) * len(cfgs) * o.Seeds
	if total >= announced {
		cli.Say(o.Err, "%s; Ctrl-C ends them and shows what is done\n", cli.Plural(total, "run"))
	}
	rows, err := simulate.Comparison{
		Scenarios: scs, Configs: cfgs, Seeds: o.Seeds, Seed: o.Seed,
		OnRun: func(done, total int) { term.Refresh("simulating", cli.Count(done)+" of "+cli.Plural(total, "run")) },
	}.Run(ctx)
	term.Clear()
	// If Run returns rows with an error, then ctx has ended.
	stopped := err != nil && errors.Is(err, ctx.Err())
	if err != nil && !stopped {
		return err
	}
	write := o.writeTable
	if o.asJSON {
		write = o.writeTableJSON
	}
	if err := cli.Output(write(rows, cfgs, stopped)); err != nil {
		return err
	}
	var runs, sent int
	var hosts time.Duration
	for i := range rows {
		for _, r := range slices.Concat(rows[i].Runs...) {
			runs++
			hosts += rows[i].Scenario.Length()
			sent += r.First.Sent + r.Steady.Sent
		}
	}
	cli.Say(o.Err, "%s, %s at the hosts and %s, in %s\n",
		cli.Plural(runs, "run"), cli.Seconds(hosts.Seconds()), cli.Plural(sent, "request"), cli.Seconds(clk.Since(began).Seconds()))
	if stopped {
		return o.interrupted("%d of %s done", runs, cli.Plural(total, "run"))
	}
	return nil
}

// writeTable writes the table for people. If the comparison was interrupted, it leaves out rows without a result.
func (o *Options) writeTable(rows []simulate.Row, cfgs []simulate.Named, stopped bool) error {
	t := cli.Rows{{Title: "scenario", Left: true}}
	for _, c := range cfgs {
		// On a narrow screen the column of the first minute is dropped, because the rest of the run matters more.
		t = append(t, cli.Column{Title: c.Name + " 1st min", Left: true, Keep: 1}, cli.Column{Title: "then", Left: true})
	}
	t = append(t, cli.Column{Title: "the host", Left: true})
	shown := 0
	for i := range rows {
		row := &rows[i]
		if stopped && len(slices.Concat(row.Runs...)) == 0 {
			continue
		}
		shown++
		texts := []string{row.Scenario.Name}
		for _, results := range row.Runs {
			first, steady := simulate.Cells(results)
			texts = append(texts, first, steady)
		}
		t.Row(append(texts, row.Scenario.Doc)...)
	}
	if shown > 1 && !stopped { // means over different sets of hosts do not compare
		texts := []string{"mean"}
		for c := range cfgs {
			first, steady := simulate.Means(rows, c)
			texts = append(texts, first, steady)
		}
		t.Row(append(texts, "of the shares above, each host counting once")...)
	}
	if shown == 0 {
		return nil
	}
	var b strings.Builder
	cli.Layout(&b, t, o.columns())
	b.WriteString(tableLegend)
	_, err := io.WriteString(o.Out, b.String())
	return err
}

// writeTableJSON writes the results for programs: each run by itself, because a program can compute means from runs,
// but not runs from means.
func (o *Options) writeTableJSON(rows []simulate.Row, _ []simulate.Named, stopped bool) error {
	doc := tableJSON{Scenarios: make([]rowJSON, 0, len(rows)), Interrupted: stopped}
	for i := range rows {
		row := rowJSON{scenarioJSON: describeScenario(&rows[i].Scenario), Runs: []resultJSON{}}
		for _, r := range slices.Concat(rows[i].Runs...) {
			row.Runs = append(row.Runs, describeResult(&r))
		}
		doc.Scenarios = append(doc.Scenarios, row)
	}
	return cli.WriteJSON(o.Out, doc)
}

// tableJSON is a comparison. Like those of records, the names of its fields are stable, so that a script that plots it
// works with later versions.
type tableJSON struct {
	Interrupted bool      `json:"interrupted"` // runs are missing
	Scenarios   []rowJSON `json:"scenarios"`
}

// rowJSON is a scenario and its runs, in the order of the strategies and then of the seeds. The list is flat, for data
// frames.
type rowJSON struct {
	scenarioJSON
	Runs []resultJSON `json:"runs"` // empty if none was done
}

type scenarioJSON struct {
	Name     string  `json:"name"`             // for PATTERN
	Doc      string  `json:"doc"`              // the host in one line
	Duration float64 `json:"duration_seconds"` // of a run, as --duration may set it
	Hosts    int     `json:"hosts"`            // at one address; all figures are for all of them together
}

// describeScenario returns what JSON can hold of a scenario, whose other fields are functions.
func describeScenario(sc *simulate.Scenario) scenarioJSON {
	return scenarioJSON{sc.Name, sc.Doc, sc.Length().Seconds(), max(1, sc.Hosts)}
}

// resultJSON is a run: the fields of simulate.Result, with durations in seconds, and null for what never happened.
type resultJSON struct {
	Strategy string   `json:"strategy"`
	Seed     uint64   `json:"seed"`
	First    spanJSON `json:"first_minute"`
	Steady   spanJSON `json:"then"`
	TimeTo90 *float64 `json:"time_to_90_percent_seconds"` // of the capacity
	Reaction *float64 `json:"reaction_seconds"`           // longest, from a drop of the capacity until no more is sent
	Recovery *float64 `json:"recovery_seconds"`           // longest, from a rise of the capacity until 90 % of it is used
	P95      float64  `json:"p95_seconds"`                // latency after the first minute
	simulate.Counts
	Merged   *float64 `json:"paced_as_one_seconds"` // until several hosts were first paced as one; null for a single host
	Evenness *float64 `json:"evenness"`             // see simulate.Result; null for a single host
}

// spanJSON counts the requests that reached the host in a part of a run. It includes the shares, so that nobody has to
// look up how to compute them.
type spanJSON struct {
	simulate.Span
	Utilisation  float64 `json:"utilisation"`   // admitted divided by capacity
	RefusedShare float64 `json:"refused_share"` // refused divided by sent
}

func describeResult(r *simulate.Result) resultJSON {
	d := resultJSON{
		Strategy: r.Strategy, Seed: r.Seed, First: describeSpan(r.First), Steady: describeSpan(r.Steady),
		TimeTo90: orNull(r.TimeTo90), Reaction: orNull(r.Reaction), Recovery: orNull(r.Recovery),
		P95: r.P95.Seconds(), Counts: r.Counts,
	}
	if r.Merged > 0 { // zero for a single host
		d.Merged, d.Evenness = orNull(r.Merged), &r.Evenness
	}
	return d
}

func describeSpan(s simulate.Span) spanJSON { return spanJSON{s, s.Utilisation(), s.RefusedShare()} }

func orNull(d time.Duration) *float64 {
	if d == simulate.Never {
		return nil
	}
	return new(d.Seconds())
}

// FleetOptions are the flags of `crawl simulate fleet`.
type FleetOptions struct {
	cli.Streams
	Processes, Format string
	Cfg               fleet.Config
}

// Run runs the model for each size of the fleet and writes the table.
func (o *FleetOptions) Run() error {
	if err := checkFormat(o.Format); err != nil {
		return err
	}
	var all []fleet.Result
	for word := range strings.SplitSeq(o.Processes, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || n < 1 {
			return cli.Usagef("--processes %q: give numbers from 1 with commas between", o.Processes)
		}
		c := o.Cfg
		c.Processes = n
		r, err := fleet.Run(c)
		if err != nil {
			return cli.Usage(err)
		}
		all = append(all, r)
	}
	if o.Format == "json" {
		return cli.Output(cli.WriteJSON(o.Out, all))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s pages of %s hosts; the slowest host alone takes %s\n\n", short(all[0].Pages), cli.Count(o.Cfg.Hosts), days(all[0].Longest))
	cli.Layout(&b, fleetColumns(all), cli.WidthOf(o.Out))
	_, err := fmt.Fprint(o.Out, b.String())
	return cli.Output(err)
}

func fleetColumns(all []fleet.Result) cli.Rows {
	t := cli.Columns("processes", "pages/s", "busy", "50%", "90%", "99%", "all", "commands/s", "memory", "line/process")
	for _, r := range all {
		t.Row(
			cli.Count(r.Processes), short(r.Rate), fmt.Sprintf("%.0f%%", 100*r.Busy), days(r.Half), days(r.Most), days(r.Nearly), days(r.Seconds),
			short(r.Commands), cli.Size(int64(r.Memory)), short(8*r.Line)+"bit/s",
		)
	}
	return t
}

// short returns a number with about three digits and a unit prefix.
func short(x float64) string {
	for _, u := range []struct {
		at   float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if x >= 0.9995*u.at {
			return fmt.Sprintf("%.3g %s", x/u.at, u.name)
		}
	}
	return fmt.Sprintf("%.3g", x)
}

// days returns a duration in the largest fitting unit.
func days(s float64) string {
	switch day := 24 * time.Hour.Seconds(); {
	case s >= day:
		return fmt.Sprintf("%.1fd", s/day)
	case s >= time.Hour.Seconds():
		return fmt.Sprintf("%.1fh", s/time.Hour.Seconds())
	}
	return cli.Seconds(s)
}
