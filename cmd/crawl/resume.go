package main

import (
	"github.com/spf13/cobra"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/flags"
	"github.com/treadlight/crawl/cmd/crawl/internal/job"
	"github.com/treadlight/crawl/cmd/crawl/internal/terminal"
	"github.com/treadlight/crawl/internal/config"
)

// resumeCommand goes on with a crawl that was kept.
func resumeCommand(s terminal.Streams) *cobra.Command {
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
	settings := flags.Add(cmd, func(config.Flag) bool { return true })
	flags.Hide(cmd) // the help of crawl has them
	settings.AddConfigFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		j := &job.Job{Options: job.Options{Streams: s, Resumed: true}}
		return j.GoOnIn(cmd.Context(), settings, args[0], crawl.OpenState)
	}
	return cmd
}
