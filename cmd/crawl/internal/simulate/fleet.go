package simulate

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/lab/simulate/fleet"
)

// FleetOptions is `crawl simulate fleet` with its flags.
type FleetOptions struct {
	cli.Streams
	Processes, Format string
	Cfg               fleet.Config
}

// Run runs the model for each size of a fleet and writes the table.
func (o *FleetOptions) Run() error {
	if o.Format != "table" && o.Format != "json" {
		return cli.Usagef("--format %q: give table or json", o.Format)
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
			return cli.Usage(errors.New(strings.TrimPrefix(err.Error(), "fleet: ")))
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
	t := cli.Rows{
		{Title: "processes"},
		{Title: "pages/s"},
		{Title: "busy"},
		{Title: "50%"},
		{Title: "90%"},
		{Title: "99%"},
		{Title: "all"},
		{Title: "commands/s"},
		{Title: "memory"},
		{Title: "line/process"},
	}
	for _, r := range all {
		t.Row(
			cli.Count(r.Processes), short(r.Rate), fmt.Sprintf("%.0f%%", 100*r.Busy), days(r.Half), days(r.Most), days(r.Nearly), days(r.Seconds),
			short(r.Commands), cli.Size(int64(r.Memory)), short(8*r.Line)+"bit/s",
		)
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
	return cli.Seconds(s)
}
