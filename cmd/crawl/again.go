package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/exit"
	"github.com/treadlight/crawl/cmd/crawl/internal/flags"
	"github.com/treadlight/crawl/cmd/crawl/internal/job"
	"github.com/treadlight/crawl/cmd/crawl/internal/terminal"
	"github.com/treadlight/crawl/internal/config"
)

// againCommand visits anew what a crawl has visited.
func againCommand(s terminal.Streams) *cobra.Command {
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
	settings := flags.Add(cmd, func(config.Flag) bool { return true })
	flags.Hide(cmd) // the help of crawl has them
	settings.AddConfigFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if again.MaxAge < 0 {
			return exit.Usage(fmt.Errorf("--max-age is %v: give a time above zero, such as 24h", again.MaxAge))
		}
		j := &job.Job{Options: job.Options{Streams: s, Resumed: true, Again: true}}
		return j.GoOnIn(cmd.Context(), settings, args[0], func(cfg crawl.StateConfig) (*crawl.State, error) {
			return crawl.OpenAgain(cfg, again)
		})
	}
	return cmd
}
