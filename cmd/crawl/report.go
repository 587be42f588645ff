package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/cmd/crawl/internal/flags"
	"github.com/treadlight/crawl/cmd/crawl/internal/view"
	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/memory"
	"github.com/treadlight/crawl/internal/records/summary"
	"github.com/treadlight/crawl/internal/store/atomicfile"
)

type reporting struct {
	cli.Streams
	path        string
	html, stats string
	asJSON      bool
	round, top  int
}

// reportCommand returns the command that reports on a crawl from what it has written.
func reportCommand(s cli.Streams) *cobra.Command {
	o := reporting{Streams: s}
	cmd := verb("report")
	cmd.Args, cmd.ValidArgsFunction = flags.OneArg("report needs one DIR or FILE, as 'crawl --output' wrote it"), nil
	cmd.RunE = flags.Interruptible(func(ctx context.Context, args []string) error {
		o.path = args[0]
		if err := flags.URLInPlace(o.path, "report reads what a crawl has written; 'crawl audit URL' says what is wrong with a site"); err != nil {
			return err
		}
		return o.run(ctx)
	})
	f := cmd.Flags()
	f.SortFlags = false // the order is by importance
	f.StringVar(&o.html, "html", "", "write one page for a browser to `file`, with everything in it; - is standard output")
	f.BoolVar(&o.asJSON, "json", false, "write JSON, for programs")
	f.StringVar(&o.stats, "stats", "", "tell what limited each host from this `file`, which 'crawl --stats FILE' has written")
	f.IntVar(&o.round, "round", 0, "the round of a crawl that is kept; 0 = the latest")
	f.IntVar(&o.top, "top", 0, "length of each list; 0 = 10, or 100 with --html and --json")
	return cmd
}

// longestReport bounds --top. Nobody reads longer lists, and programs can read the records.
const longestReport = 10_000

// run reads the records or the state and writes the report in the requested form.
func (o *reporting) run(ctx context.Context) error {
	switch {
	case o.html != "" && o.asJSON:
		return cli.Usagef("--html and --json are two forms: give one")
	case o.round < 0:
		return cli.Usagef("--round %d: give 1 or more, or 0 for the latest", o.round)
	case o.top < 0 || o.top > longestReport:
		return cli.Usagef("--top %d: give 1 to %d, or 0 for the usual length", o.top, longestReport)
	}
	usual := 10
	if o.html != "" || o.asJSON {
		usual = 100
	}
	if err := cli.CheckSkipped(o.path); err != nil {
		return err
	}
	sum, err := summary.Read(ctx, o.path, summary.Config{Round: o.round, List: cmp.Or(o.top, usual)})
	switch {
	case errors.Is(err, context.Canceled):
		return &cli.Error{Code: cli.CodeInterrupted, Err: errors.New("interrupted: the report needs the whole file")}
	case err != nil:
		if e, ok := errors.AsType[*summary.NoRecordsError](err); ok && e.Err != nil && cli.FileKind(o.path) != "" {
			err = fmt.Errorf("%w: %s", err, cli.FileKind(o.path)) // the file is of another kind
		}
		return cli.IO(err)
	}
	if err := o.addLimits(sum); err != nil {
		return err
	}
	switch {
	case o.asJSON:
		return cli.Output(cli.WriteJSON(o.Out, sum))
	case o.html == "-":
		return cli.Output(sum.WriteHTML(o.Out))
	case o.html != "":
		return o.writePage(sum)
	}
	t := view.Text{Sum: sum, Columns: cli.WidthOf(o.Out)}
	_, err = io.WriteString(o.Out, cli.Clean(t.String()))
	return cli.Output(err)
}

// writePage writes the whole page or nothing. It does not overwrite the file that the report is about.
func (o *reporting) writePage(sum *summary.Summary) error {
	if cli.SameFile(o.path, o.html) {
		return cli.Usagef("--html %s is what the report is about: give another file", o.html)
	}
	return cli.Write("--html", atomicfile.Replace(o.html, 0o666, sum.WriteHTML))
}

// addLimits adds what limited each host, from the last snapshot in the file of --stats.
func (o *reporting) addLimits(sum *summary.Summary) error {
	if o.stats == "" {
		return nil
	}
	f, err := os.Open(o.stats)
	if err != nil {
		return cli.IOf("open --stats: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	snap, err := view.LastSnapshot(f)
	if err != nil {
		return cli.IOf("read --stats %s: %w", o.stats, err)
	}
	hosts := sum.Hosts.Listed
	for i := range hosts {
		for j := range snap.Limiter.Top {
			if d := &snap.Limiter.Top[j]; d.Domain == hosts[i].Host {
				hosts[i].Limit, hosts[i].Reason, hosts[i].Rate = d.LimitedBy.String(), d.Reason, d.FillRate
			}
		}
	}
	return nil
}

// statsCommand returns the command that prints a stats file for people. The crawl may run, have ended, or be on another
// machine.
func statsCommand(s cli.Streams) *cobra.Command {
	cmd := verb("stats")
	cmd.Args, cmd.ValidArgsFunction = flags.OneArg("stats needs one FILE, as 'crawl --stats FILE' writes it"), nil
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		r := s.In
		if args[0] != "-" {
			f, err := os.Open(args[0])
			if err != nil {
				return cli.IO(err)
			}
			defer func() { _ = f.Close() }() // it was only read
			r = f
		}
		snap, err := view.LastSnapshot(r)
		if err != nil {
			return cli.IOf("read %s: %w", args[0], err)
		}
		told := view.Report{Snap: snap, Columns: cli.WidthOf(s.Out)}
		return cli.Output(told.Write(s.Out))
	}
	return cmd
}

// hostsCommand returns the command that prints the file of --remember for people.
func hostsCommand(s cli.Streams) *cobra.Command {
	cmd := verb("hosts")
	cmd.Args, cmd.ValidArgsFunction = flags.OneArg("hosts needs one FILE, as 'crawl --remember FILE' writes it"), nil
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		known, damage, err := loadHosts(args[0])
		if err != nil {
			return cli.IO(noHosts(args[0], err))
		}
		if damage.Rows > 0 {
			cli.Say(s.Err, "crawl: %s of %s: the first is number %d: %s\n", cli.Plural(damage.Rows, "damaged row"), args[0], damage.First, cli.Clean(damage.Err.Error()))
		}
		var b strings.Builder
		if len(known) == 0 {
			b.WriteString("nothing that was learned within a day\n")
		} else {
			cli.Layout(&b, knownColumns(known, clock.System().Now()), cli.WidthOf(s.Out))
		}
		_, err = fmt.Fprint(s.Out, b.String())
		return cli.Output(err)
	}
	return cmd
}

// loadHosts reads a file of --remember. Unlike for a crawl, it is an error if the file does not exist.
func loadHosts(path string) ([]ratelimit.HostMemory, memory.Damage, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, memory.Damage{}, err
	}
	file, err := memory.At(memory.Config{Path: path, MaxWait: longestWait})
	if err != nil {
		return nil, memory.Damage{}, err
	}
	return file.Load()
}

// noHosts adds to the error of a file of another kind what it is, and which file to give. The error for a crawl advises
// to name a file that does not exist yet, which does not help here.
func noHosts(path string, err error) error {
	kind := cmp.Or(cli.FileKind(path), "it is none of this program's files")
	if format, ok := errors.AsType[*memory.FormatError](err); !ok || format.Version != 0 {
		return err
	}
	return fmt.Errorf("%s has nothing that was learned of hosts: %s; give one that 'crawl --remember FILE' has written", path, kind)
}

// longestWait is the largest value of ratelimit.max_retry_after. The file does not say which value the crawl had.
const longestWait = 168 * time.Hour

// knownColumns returns the table of hosts.
func knownColumns(known []ratelimit.HostMemory, now time.Time) cli.Rows {
	// "asked" is how long ago the last request was, "Retry-After" and "held for" how long the wait still lasts.
	t := cli.Columns("<host", "rate/s=-", "asked~1", "refused for=-~2", "Retry-After=-", "held for=-")
	for i := range known {
		m := &known[i]
		t.Row(
			m.Domain, cli.OrUnknown(m.Rate > 0, fmt.Sprintf("%.2f", m.Rate)), cli.Seconds(now.Sub(m.LastUsed).Seconds())+" ago",
			cli.OrUnknown(m.Pause > 0, cli.Seconds(m.Pause.Seconds())), left(m.RetryUntil, now), left(m.HeldUntil, now),
		)
	}
	return t
}

// left returns how long it is until t, or a dash if t is zero. It is 0.0s if t has passed: a trial request to the host
// is due then.
func left(t, now time.Time) string {
	return cli.OrUnknown(!t.IsZero(), cli.Seconds(t.Sub(now).Seconds()))
}
