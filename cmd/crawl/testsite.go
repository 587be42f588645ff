package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/cmd/crawl/internal/flags"
	"github.com/treadlight/crawl/internal/lab/testsite"
	"github.com/treadlight/crawl/internal/store/atomicfile"
)

// testsiteCommand returns the command that serves hosts for tests of any crawler.
func testsiteCommand(s cli.Streams) *cobra.Command {
	var o siteOptions
	cmd := verb("testsite")
	f := cmd.Flags()
	cmd.RunE = flags.Interruptible(func(ctx context.Context, _ []string) error {
		if err := o.check(f.Changed); err != nil {
			return err
		}
		return o.serve(ctx, s)
	})
	f.SortFlags = false
	f.IntVar(&o.Hosts, "hosts", 1, "hosts, each on its own address")
	f.IntVar(&o.Pages, "pages", 100, "pages per host")
	flags.DurationVar(f, &o.Latency, "latency", 0, "time until an answer")
	f.Float64Var(&o.Limit, "limit", 0, "requests per second each host allows; 0 = all")
	f.IntVar(&o.Burst, "burst", 0, "requests that may come ahead of --limit")
	f.BoolVar(&o.RetryAfter, "retry-after", false, "name the wait in refusals")
	f.Uint64Var(&o.Seed, "seed", 1, "what pages and links are drawn from")
	f.StringVar(&o.Preset, "preset", "", "a `word` instead of the flags above: mixed, uniform or headofline")
	f.StringVar(&o.File, "scenario", "", "read the hosts from this YAML or JSON `file` instead")
	f.IntVar(&o.Port, "port", 0, "port of every host; 0 = that of the file, or a free one")
	flags.DurationVar(f, &o.Time, "for", 0, "stop after that long; 0 = when interrupted")
	f.StringVar(&o.ReportTo, "report", "", "write the report as JSON to this `file`, whole or not at all; - = the same as --json")
	f.BoolVar(&o.AsJSON, "json", false, "print the report as JSON, and the addresses on standard error")
	f.BoolVar(&o.Print, "print", false, "print the site's YAML and serve nothing")
	return cmd
}

type siteOptions struct {
	File, Preset  string
	ReportTo      string
	Hosts, Pages  int
	Latency, Time time.Duration
	Limit         float64
	Burst, Port   int
	RetryAfter    bool
	Seed          uint64
	AsJSON, Print bool
}

// check returns an error for flags that would have no effect, and for zeros that the site would take for its defaults.
func (o *siteOptions) check(changed func(flag string) bool) error {
	switch {
	case o.Hosts < 1:
		return cli.Usagef("--hosts %d: give at least 1", o.Hosts)
	case o.Pages < 1:
		return cli.Usagef("--pages %d: give at least 1", o.Pages)
	}
	if err := o.checkFiles(changed); err != nil {
		return err
	}
	other := "--preset " + o.Preset
	if o.File != "" {
		other = "--scenario"
	}
	own := o.File == "" && (o.Preset == "" || o.Preset == "uniform") // the flags describe the site
	for _, name := range []string{"hosts", "pages", "latency", "limit", "burst", "retry-after", "seed"} {
		if !own && changed(name) {
			return cli.Usagef("--%s has no effect with %s: remove one of them, or print the site with --print and change it there", name, other)
		}
	}
	return nil
}

func (o *siteOptions) config() (testsite.Config, error) {
	var cfg testsite.Config
	switch {
	case o.File != "" && o.Preset != "":
		return cfg, cli.Usagef("--scenario and --preset both name a site: give one of them")
	case o.File != "":
		var err error
		if cfg, err = o.readScenario(); err != nil {
			return cfg, err
		}
	case o.Preset == "mixed":
		cfg = testsite.Mixed()
	case o.Preset == "headofline":
		cfg = testsite.HeadOfLine(5)
	case o.Preset == "" || o.Preset == "uniform":
		cfg = o.uniform()
	default:
		return cfg, cli.Usagef("--preset %q: give mixed, uniform or headofline", o.Preset)
	}
	if o.Port != 0 {
		cfg.Port = o.Port
	}
	return cfg, nil
}

// uniform returns the site that the flags describe, whose hosts are all the same.
func (o *siteOptions) uniform() testsite.Config {
	cfg := testsite.Uniform(o.Hosts, o.Pages, o.Latency)
	cfg.Seed = o.Seed
	for i := range cfg.Hosts {
		cfg.Hosts[i].Limit = testsite.Limit{Rate: o.Limit, Burst: o.Burst}
		if o.RetryAfter {
			cfg.Hosts[i].Refusal.RetryAfter = "seconds"
		}
	}
	return cfg
}

// serve runs the site until it is interrupted or its time is over, and then prints the report.
func (o *siteOptions) serve(ctx context.Context, s cli.Streams) error {
	cfg, err := o.config()
	if err != nil {
		return err
	}
	if o.Print {
		return cli.Output(testsite.WriteYAML(s.Out, cfg))
	}
	site, err := testsite.New(cfg)
	if err != nil {
		return cli.Usage(err)
	}
	if err := site.Listen(); err != nil {
		return cli.IO(err)
	}
	// Before the message: a program that waits for the message has read the addresses.
	addresses := s.Out
	if o.AsJSON { // standard output is then one JSON document, which has the addresses too
		addresses = s.Err
	}
	if _, err := fmt.Fprintln(addresses, strings.Join(site.URLs(), "\n")); err != nil {
		return cli.Output(err)
	}
	cli.Say(s.Err, "serving %s; Ctrl-C ends it and prints the report\n", cli.Plural(site.Hosts(), "host"))
	if o.Time > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.Time)
		defer cancel()
	}
	if err := site.Run(ctx); err != nil {
		return cli.IO(err)
	}
	r := site.Report()
	told := func(w io.Writer) error { return writeReport(w, &r) }
	asJSON := func(w io.Writer) error { return cli.WriteJSON(w, &r) }
	if o.AsJSON {
		told = asJSON
	}
	// Standard output comes first: if the file fails, the figures are not lost.
	err = cli.Output(told(s.Out))
	if o.ReportTo == "" {
		return err
	}
	if e := atomicfile.Replace(o.ReportTo, 0o666, asJSON); e != nil {
		err = errors.Join(err, cli.Write("--report "+o.ReportTo, cli.Cause(e)))
	}
	return err
}

// checkFiles checks --scenario and --report. A report that cannot be written is an error before the measurement, which
// may take an hour.
func (o *siteOptions) checkFiles(changed func(string) bool) error {
	switch {
	case changed("scenario") && o.File == "":
		return cli.Usagef("--scenario: give the name of a file")
	case changed("report") && o.ReportTo == "":
		return cli.Usagef("--report: give the name of a file, or - for standard output")
	case o.ReportTo == "-":
		o.AsJSON, o.ReportTo = true, ""
		return nil
	case o.ReportTo == "":
		return nil
	}
	if info, err := os.Stat(o.ReportTo); err == nil && info.IsDir() {
		return cli.Usagef("--report %s: it is a directory; give a file in it", o.ReportTo)
	}
	if _, err := os.Stat(filepath.Dir(o.ReportTo)); err != nil {
		return cli.IOf("--report %s: %w", o.ReportTo, cli.Cause(err))
	}
	return nil
}

// readScenario reads the file of the site. Its error has a line for everything that is wrong with the file.
func (o *siteOptions) readScenario() (testsite.Config, error) {
	data, err := os.ReadFile(o.File)
	if err != nil {
		return testsite.Config{}, cli.IOf("read --scenario %s: %w", o.File, cli.Cause(err))
	}
	cfg, err := testsite.Parse(data)
	if err == nil {
		return cfg, nil
	}
	var lines []error
	for line := range strings.SplitSeq(err.Error(), "\n") {
		lines = append(lines, fmt.Errorf("%s: %s", o.File, line))
	}
	return cfg, cli.Usage(errors.Join(lines...))
}

// writeHosts writes the report for people: a line per host, a line of totals, and what the columns mean. It leaves out
// some columns if the table is wider than columns.
func writeHosts(b *strings.Builder, r *testsite.Report, columns int) {
	t := cli.Columns("<host", "requests", "ok~9", "refused", "too early~12", "in flight~1", "5xx/lost~8", "avg/s~3", "peak/s~10",
		"limit/s~11", "min gap~7", "open~2", "pages", "twice~6", "robots~4", "violations~13", "KiB~5")
	for _, h := range append(slices.Clip(r.Hosts), r.Total) {
		ok, failed := int64(0), h.Resets+h.Hangs+h.Left-h.Unavailable // refusals do not count as failed; neither does a 404
		for status, n := range h.Statuses {
			if status < 400 {
				ok += n
			} else if status >= 500 {
				failed += n
			}
		}
		rate, peak, limit, gap, open := "", "", "", "", ""
		if h.URL != "" { // not the line of totals
			rate, peak, open = fmt.Sprintf("%.1f", h.Rate), fmt.Sprint(h.Peak), fmt.Sprint(h.MaxOpen)
			limit = cli.OrUnknown(h.Allowed > 0, fmt.Sprintf("%.3g", h.Allowed))
			gap = cli.OrUnknown(h.Requests > 1, h.MinGap.Round(100*time.Microsecond).String())
		}
		t.Row(h.Name, cli.Count(h.Requests), cli.Count(ok), cli.Count(h.Refusals), cli.Count(h.InsideRetryAfter), cli.Count(h.InFlight),
			cli.Count(max(0, failed)), rate, peak, limit, gap, open, fmt.Sprintf("%d/%d", h.Distinct, h.URLs), cli.Count(h.Duplicates),
			cli.Count(h.Robots), fmt.Sprintf("%d+%d", h.RobotsViolations, h.DelayViolations), cli.Count(h.Bytes>>10))
	}
	cli.Layout(b, t, columns)
	fmt.Fprintf(b, "too early: arrived inside a Retry-After; in flight: the same, within %v of the refusal, so probably sent before it was read\n"+
		"pages: served / there to be served; twice: served again; violations: of disallow and of crawl-delay\n", r.Grace)
	if r.Total.Listed > 0 {
		fmt.Fprintf(b, "found by sitemap alone: %d of %d pages\n", r.Total.ListedServed, r.Total.Listed)
	}
}

// writeReport writes everything that a site has seen, for people. It is as wide as its columns need.
func writeReport(w io.Writer, r *testsite.Report) error {
	const wide = 1000
	var b strings.Builder
	writeHosts(&b, r, wide)
	fmt.Fprintf(&b, "seed %d, %v\n", r.Seed, r.Elapsed.Round(time.Millisecond))
	t := cli.Columns("<host", "admitted", "possible", "used", "refused/1000", "reached", "converged", "bans", "banned", "<limits")
	for _, h := range append(slices.Clip(r.Hosts), r.Total) {
		if h.Limits == "" && h.URL != "" {
			continue
		}
		reached, converged := "", "" // for the line of totals
		if h.URL != "" {
			reached, converged = orNever(h.Reached), orNever(h.Converged)
		}
		t.Row(h.Name, cli.Count(h.Admitted), fmt.Sprintf("%.0f", h.Possible), fmt.Sprintf("%.1f%%", 100*h.UsedShare),
			fmt.Sprintf("%.1f", h.RefusedPer1000), reached, converged, cli.Count(h.Bans), cli.Count(h.Banned), h.Limits)
	}
	if len(t[0].Cells) > 1 {
		b.WriteString("\n")
		cli.Layout(&b, t, wide)
		b.WriteString("possible: what a client that knew the limits could have had admitted in the same time\n" +
			"reached: when 10s were used to 90 % for the first time; converged: from when on all were\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func orNever(d *time.Duration) string {
	if d == nil {
		return "never"
	}
	return d.Round(100 * time.Millisecond).String()
}
