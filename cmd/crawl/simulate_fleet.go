package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/treadlight/crawl/internal/lab/simulate/fleet"
)

// fleetModel is `crawl simulate fleet` with its flags.
type fleetModel struct {
	streams
	processes, format string
	cfg               fleet.Config
}

// simulateFleetCommand plays a crawl of a web by many processes.
func simulateFleetCommand(s streams) *cobra.Command {
	o := fleetModel{streams: s}
	cmd := &cobra.Command{
		Use:   "fleet [flags]",
		Short: "Play a crawl of a large web by fleets of processes",
		Long: `Fleet plays how long fleets of different sizes take for a web of many hosts, and
what holds them back: the processes, or the rates that hosts tolerate. It counts
what their Redis has to bear. Hosts have pages by a power law, one process owns a
host at a time, and a process goes no faster than its capacity. See docs/explanation/scale.md
for what the model leaves out and where its figures are from.`,
		Example: `  crawl simulate fleet                                a billion pages of 10⁶ hosts
  crawl simulate fleet --max-per-host 20000           with a bound for each host
  crawl simulate fleet --processes 4 --capacity 8000 --pages 1e8 --hosts 50000`,
		DisableFlagsInUseLine: true,
		Args:                  noArgs,
		ValidArgsFunction:     cobra.NoFileCompletions,
		RunE:                  func(*cobra.Command, []string) error { return o.run() },
	}
	f := cmd.Flags()
	f.SortFlags = false // the order is by importance
	f.StringVar(&o.processes, "processes", "1,10,100,1000", "sizes of fleets, with commas between, each 1 to 100000")
	f.Float64Var(&o.cfg.Capacity, "capacity", 1000, "pages per second that one process can do")
	f.IntVar(&o.cfg.Owned, "owned", 4096, "hosts that a process owns at a time")
	f.IntVar(&o.cfg.Hosts, "hosts", 1_000_000, "hosts of the web, 1 to 10000000")
	f.Float64Var(&o.cfg.Pages, "pages", 1e9, "pages of all hosts together")
	f.Float64Var(&o.cfg.MaxPerHost, "max-per-host", 0, "pages taken of one host at most; 0 = all")
	f.Float64Var(&o.cfg.Exponent, "exponent", 1, "of the power law of pages per host")
	f.Float64Var(&o.cfg.Known, "known", 5, "URLs known for each page that is visited")
	f.Float64Var(&o.cfg.QueuedBytes, "queued-bytes", 75, "bytes that Redis takes for a URL that is queued")
	f.Float64Var(&o.cfg.Commands, "commands", 0.5, "commands of Redis for each page")
	f.Float64Var(&o.cfg.PageBytes, "page-bytes", 25_000, "bytes of a page on the line")
	f.Uint64Var(&o.cfg.Seed, "seed", 1, "what rates and the order of hosts are drawn from")
	f.StringVar(&o.format, "format", "table", "form of the output, a `word`: table or json")
	return cmd
}

func (o *fleetModel) run() error {
	if o.format != "table" && o.format != "json" {
		return usage(fmt.Errorf("--format %q: give table or json", o.format))
	}
	var all []fleet.Result
	for word := range strings.SplitSeq(o.processes, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || n < 1 {
			return usage(fmt.Errorf("--processes %q: give numbers from 1 with commas between", o.processes))
		}
		c := o.cfg
		c.Processes = n
		r, err := fleet.Run(c)
		if err != nil {
			return usage(errors.New(strings.TrimPrefix(err.Error(), "fleet: ")))
		}
		all = append(all, r)
	}
	if o.format == "json" {
		return outputError(writeJSON(o.out, all))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s pages of %s hosts; the slowest host alone takes %s\n\n", short(all[0].Pages), count(o.cfg.Hosts), days(all[0].Longest))
	layout(&b, fleetColumns(all), widthOf(o.out))
	_, err := fmt.Fprint(o.out, b.String())
	return outputError(err)
}

func fleetColumns(all []fleet.Result) []column {
	t := []column{
		{title: "processes"},
		{title: "pages/s"},
		{title: "busy"},
		{title: "50%"},
		{title: "90%"},
		{title: "99%"},
		{title: "all"},
		{title: "commands/s"},
		{title: "memory"},
		{title: "line/process"},
	}
	for _, r := range all {
		for i, cell := range []string{
			count(r.Processes), short(r.Rate), fmt.Sprintf("%.0f%%", 100*r.Busy), days(r.Half), days(r.Most), days(r.Nearly), days(r.Seconds),
			short(r.Commands), size(int64(r.Memory)), short(8*r.Line) + "bit/s",
		} {
			t[i].cells = append(t[i].cells, cell)
		}
	}
	return t
}

// short is a number of three digits or so.
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

// days is a duration in the largest unit that makes sense.
func days(s float64) string {
	switch day := 24 * time.Hour.Seconds(); {
	case s >= day:
		return fmt.Sprintf("%.1fd", s/day)
	case s >= time.Hour.Seconds():
		return fmt.Sprintf("%.1fh", s/time.Hour.Seconds())
	}
	return seconds(s)
}
