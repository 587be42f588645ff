package simulate

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/treadlight/crawl/cmd/crawl/internal/exit"
	"github.com/treadlight/crawl/cmd/crawl/internal/human"
	"github.com/treadlight/crawl/cmd/crawl/internal/terminal"
	"github.com/treadlight/crawl/internal/lab/simulate/fleet"
)

// FleetOptions is `crawl simulate fleet` with its flags.
type FleetOptions struct {
	terminal.Streams
	Processes, Format string
	Cfg               fleet.Config
}

// Run runs the model for each size of a fleet and writes the table.
func (o *FleetOptions) Run() error {
	if o.Format != "table" && o.Format != "json" {
		return exit.Usage(fmt.Errorf("--format %q: give table or json", o.Format))
	}
	var all []fleet.Result
	for word := range strings.SplitSeq(o.Processes, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || n < 1 {
			return exit.Usage(fmt.Errorf("--processes %q: give numbers from 1 with commas between", o.Processes))
		}
		c := o.Cfg
		c.Processes = n
		r, err := fleet.Run(c)
		if err != nil {
			return exit.Usage(errors.New(strings.TrimPrefix(err.Error(), "fleet: ")))
		}
		all = append(all, r)
	}
	if o.Format == "json" {
		return exit.Output(terminal.WriteJSON(o.Out, all))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s pages of %s hosts; the slowest host alone takes %s\n\n", short(all[0].Pages), human.Count(o.Cfg.Hosts), days(all[0].Longest))
	human.Layout(&b, fleetColumns(all), terminal.WidthOf(o.Out))
	_, err := fmt.Fprint(o.Out, b.String())
	return exit.Output(err)
}

func fleetColumns(all []fleet.Result) human.Rows {
	t := human.Rows{
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
			human.Count(r.Processes), short(r.Rate), fmt.Sprintf("%.0f%%", 100*r.Busy), days(r.Half), days(r.Most), days(r.Nearly), days(r.Seconds),
			short(r.Commands), human.Size(int64(r.Memory)), short(8*r.Line)+"bit/s",
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
	return human.Seconds(s)
}
