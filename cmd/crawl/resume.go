package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/cmd/crawl/internal/flags"
	"github.com/treadlight/crawl/cmd/crawl/internal/job"
	"github.com/treadlight/crawl/internal/frontier/disk"
)

// resumeCommand goes on with a crawl that was kept.
func resumeCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "resume DIR [flags]",
		Short: "Go on with a crawl that was kept, however it ended",
		Long: `Resume goes on with a crawl that has a state (--state DIR, or --output DIR/) and
ended before all was visited: by an interrupt, a limit, a full disk or a power
cut. What was recorded is not fetched again, and no record is there twice.

It needs nothing but the directory. The settings of the first run are in there,
values of headers as they were given, in files for their owner alone; CRAWL_*
variables are not asked again. Flags that are given now are stronger, and so is
a file of --config. -q and -v were for that run alone: say them again. Records
go on where they are.

--max-pages counts the pages of all runs, --max-time begins anew with each. A
file of seeds that was not read to its end is read again. A crawl that has
visited everything says so and ends with 0; 'crawl again' visits it once more.

What makes a crawl wider (--depth, --scope, --include) counts for the pages that
are still to be visited: links that earlier runs left out are not found again.

It takes every flag of 'crawl' but --output, --format, --state and --overwrite.`,
		Example: `  crawl -o site/ https://example.com/      records and state in site
  crawl resume site                        after Ctrl-C, or whatever ended it
  crawl resume site --max-pages 5000       with another limit
  crawl resume site -c 16 --max-rate 2     slower than before
  crawl --state s -o p.jsonl https://example.com/ || crawl resume s`,
		Args:              flags.OneDir("resume"),
		ValidArgsFunction: flags.CompleteDirs,
	}
	settings := flags.AddAll(cmd, true)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		j := &job.Job{Options: job.Options{Streams: s, Resumed: true}}
		return j.GoOnIn(cmd.Context(), settings, args[0], crawl.OpenState)
	}
	return cmd
}

// againCommand visits anew what a crawl has visited.
func againCommand(s cli.Streams) *cobra.Command {
	var again crawl.Again
	cmd := &cobra.Command{
		Use:   "again DIR [flags]",
		Short: "Visit the pages of a crawl that is done again: what has changed?",
		Long: `Again begins a new round of a crawl that has a state (--state DIR, or --output
DIR/) and has come to its end. Every URL that it knows is asked for once more,
robots.txt first, and what is found on the way is followed. Servers are asked by
what they call the version that is known (ETag, Last-Modified): a page that has
not changed is answered with 304 and costs a header. 'change' in each record
says whether a page is new, changed, unchanged or gone, also where a server
knows no versions; what failed, or is refused, says nothing.

The records of round 2 go to a file of their own, records-2.jsonl beside
records.jsonl, and so on. A round that is interrupted is gone on with by 'crawl
resume DIR'. --max-pages and --max-time count for each round.

What a limit has left, or hosts that refused to be asked, stays queued: a round
with the same --max-pages is about the same pages, one with more goes on behind
them. After an interrupt, go on with 'crawl resume' first, or begin a round all
the same with --unfinished, which visits what is left as well.

A page that has not changed is not read for links again. What makes a crawl
wider (--depth, --scope, --include) finds all there is to find together with
--set fetch.conditional=false, which asks for every page whole.

It takes every flag of 'crawl' but --output, --format, --state and --overwrite.`,
		Example: `  crawl -o site/ https://example.com/      the first round
  crawl again site                         what has changed since
  crawl again site --max-age 168h          of what was last seen a week ago
  jq -r 'select(.change == "changed").url' site/records-2.jsonl`,
		Args:              flags.OneDir("again"),
		ValidArgsFunction: flags.CompleteDirs,
	}
	cmd.Flags().DurationVar(&again.MaxAge, "max-age", 0, "ask only for what was answered longer ago than that `time`, or not at all; 0 = for everything")
	cmd.Flags().BoolVar(&again.Unfinished, "unfinished", false, "begin a round though the last one was interrupted")
	settings := flags.AddAll(cmd, true)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if again.MaxAge < 0 {
			return cli.Usagef("--max-age is %v: give a time above zero, such as 24h", again.MaxAge)
		}
		j := &job.Job{Options: job.Options{Streams: s, Resumed: true, Again: true}}
		return j.GoOnIn(cmd.Context(), settings, args[0], func(cfg crawl.StateConfig) (*crawl.State, error) {
			return crawl.OpenAgain(cfg, again)
		})
	}
	return cmd
}

// checkCommand looks for damage in a crawl that is kept.
func checkCommand(s cli.Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "check DIR",
		Short: "Look for damage in a crawl that is kept",
		Long: `Check reads all of the state of a crawl (--state DIR, or --output DIR/) and
tells what is wrong with it: what SQLite finds in its own structure, rows that
contradict each other, URLs that are none of their host, and files of records
that are gone or shorter than the state knows them to be. It changes nothing,
and the crawl may be under way. Exit code 3 says that something is wrong.

What it cannot see is a bit that has flipped in a number, or in the path of a
URL, and gives another that could be: the file system is there for that.`,
		Example: `  crawl check site
  crawl check site && cp -a site /backup/    of a crawl that is not under way`,
		Args:              flags.OneDir("check"),
		ValidArgsFunction: flags.CompleteDirs,
		RunE:              flags.Interruptible(func(ctx context.Context, args []string) error { return checkState(ctx, s, args[0]) }),
	}
}

func checkState(ctx context.Context, s cli.Streams, dir string) error {
	view, err := disk.Look(dir)
	if err != nil {
		return cli.IO(err)
	}
	defer func() { _ = view.Close() }() // it was only read
	wrong := 0
	var unsaid error
	checked, err := view.Check(ctx, func(problem string) {
		wrong++
		if _, err := fmt.Fprintf(s.Out, "%s: %s\n", dir, cli.Clean(problem)); unsaid == nil {
			unsaid = err
		}
	})
	switch {
	case ctx.Err() != nil:
		return &cli.Error{Code: cli.CodeInterrupted}
	case unsaid != nil:
		return cli.Output(unsaid)
	case err != nil:
		return cli.IO(err)
	case wrong > 0:
		return cli.IOf("%s has %s: restore it from a copy, with its records, or begin anew with --overwrite", dir, cli.Plural(wrong, "problem"))
	}
	_, err = fmt.Fprintf(s.Out, "%s: nothing is wrong in %s and %s of records\n", dir, cli.Plural(checked.Rows, "row"), cli.Plural(checked.Files, "file"))
	return cli.Output(err)
}
