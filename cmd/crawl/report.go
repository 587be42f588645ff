package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/treadlight/crawl/cmd/crawl/internal/exit"
	"github.com/treadlight/crawl/cmd/crawl/internal/filekind"
	"github.com/treadlight/crawl/cmd/crawl/internal/human"
	"github.com/treadlight/crawl/cmd/crawl/internal/report"
	"github.com/treadlight/crawl/cmd/crawl/internal/terminal"
	"github.com/treadlight/crawl/internal/records/summary"
	"github.com/treadlight/crawl/internal/store/atomicfile"
)

// reporting is `crawl report` with its flags.
type reporting struct {
	terminal.Streams
	path        string
	html, stats string
	asJSON      bool
	round, top  int
}

// reportCommand says how a crawl went by what it has written.
func reportCommand(s terminal.Streams) *cobra.Command {
	o := reporting{Streams: s}
	cmd := &cobra.Command{
		Use:   "report [flags] DIR|FILE",
		Short: "Say how a crawl went: broken links, redirects, slow hosts",
		Long: `Report reads what a crawl has written, over or under way: the directory of one
that is kept, or a file of records (JSON lines or CSV, compressed with gzip or
not). It tells what was answered, which links are broken and on which pages they
stand, chains of redirects, repetitions, what robots.txt keeps back and pages
ask for, the slowest hosts, the largest pages, and what has changed in a round.

The file may be larger than the memory: it is read twice, line by line. What has
no list of links, as CSV and crawls with record no-links, names one referrer of
each broken page. A directory without records is told of by its state alone.`,
		Example: `  crawl report site                        a kept crawl, its newest round
  crawl report pages.jsonl.gz              a file of records
  crawl report site --html report.html     a page for a browser, all in one file
  crawl report site --json | jq .broken.listed
  crawl report pages.jsonl --stats s.json  and what limited each host`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return exit.Usage(fmt.Errorf("report needs one DIR or FILE, as 'crawl --output' wrote it, and was given %d", len(args)))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.path = args[0]
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return o.run(ctx)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false // the order is by importance
	f.StringVar(&o.html, "html", "", "write one page for a browser to `file`, with everything in it; - is standard output")
	f.BoolVar(&o.asJSON, "json", false, "write JSON, for programs")
	f.StringVar(&o.stats, "stats", "", "tell what limited each host from this `file`, which 'crawl --stats FILE' has written")
	f.IntVar(&o.round, "round", 0, "the round of a crawl that is kept; 0 = the latest")
	f.IntVar(&o.top, "top", 0, "length of each list; 0 = 10, or 100 with --html and --json")
	return cmd
}

// longestReport bounds --top: as many lines of a list nobody reads, and programs have the
// records.
const longestReport = 10_000

// run reads, and writes in the form that is wanted.
func (o *reporting) run(ctx context.Context) error {
	switch {
	case o.html != "" && o.asJSON:
		return exit.Usage(errors.New("--html and --json are two forms: give one"))
	case o.round < 0:
		return exit.Usage(fmt.Errorf("--round %d: give 1 or more, or 0 for the latest", o.round))
	case o.top < 0 || o.top > longestReport:
		return exit.Usage(fmt.Errorf("--top %d: give 1 to %d, or 0 for the usual length", o.top, longestReport))
	}
	usual := 10
	if o.html != "" || o.asJSON {
		usual = 100
	}
	sum, err := summary.Read(ctx, o.path, summary.Config{Round: o.round, List: cmp.Or(o.top, usual)})
	switch {
	case errors.Is(err, context.Canceled):
		return &exit.Error{Code: exit.CodeInterrupted, Err: errors.New("interrupted: the report needs the whole file")}
	case err != nil:
		return exit.IO(noReport(o.path, err))
	}
	if err := o.addLimits(sum); err != nil {
		return err
	}
	switch {
	case o.asJSON:
		return exit.Output(terminal.WriteJSON(o.Out, sum))
	case o.html == "-":
		return exit.Output(sum.WriteHTML(o.Out))
	case o.html != "":
		return o.writePage(sum)
	}
	t := report.Text{Sum: sum, Columns: terminal.WidthOf(o.Out)}
	_, err = io.WriteString(o.Out, human.Clean(t.String()))
	return exit.Output(err)
}

// writePage writes the whole page or nothing, and not over what the report is about.
func (o *reporting) writePage(sum *summary.Summary) error {
	from, errFrom := os.Stat(o.path)
	to, errTo := os.Stat(o.html)
	if errFrom == nil && errTo == nil && os.SameFile(from, to) {
		return exit.Usage(fmt.Errorf("--html %s is what the report is about: give another file", o.html))
	}
	if err := atomicfile.Replace(o.html, 0o666, sum.WriteHTML); err != nil {
		return exit.Write("--html", err)
	}
	return nil
}

// noReport says of a file that is something else what it is.
func noReport(path string, err error) error {
	if e, ok := errors.AsType[*summary.NoRecordsError](err); ok && e.Err != nil {
		if kind := filekind.Of(path); kind != "" {
			return fmt.Errorf("%w: %s", err, kind)
		}
	}
	return err
}

// addLimits says what held hosts back, by the newest snapshot of --stats.
func (o *reporting) addLimits(sum *summary.Summary) error {
	if o.stats == "" {
		return nil
	}
	f, err := os.Open(o.stats)
	if err != nil {
		return exit.IO(fmt.Errorf("open --stats: %w", err))
	}
	defer func() { _ = f.Close() }() // it was only read
	snap, err := report.LastSnapshot(f)
	if err != nil {
		return exit.IO(fmt.Errorf("read --stats %s: %w", o.stats, err))
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
