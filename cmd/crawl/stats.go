package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/treadlight/crawl/cmd/crawl/internal/exit"
	"github.com/treadlight/crawl/cmd/crawl/internal/report"
	"github.com/treadlight/crawl/cmd/crawl/internal/terminal"
)

// statsCommand makes a stats file readable, also of a crawl on another machine or one
// that is no more.
func statsCommand(s terminal.Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "stats FILE",
		Short: "Show what a stats file says: totals, and per host what limits it",
		Long: `Stats shows the newest state of a crawl that writes its state to a file: totals,
what went wrong, and for each host its rate, latency and circuit, what limits
it, and how long it is idle for that. Of the hosts with the most trouble it also
tells what happened last. The file - is standard input.`,
		Example: `  crawl --stats s.json -o p.jsonl https://example.com/ &
  crawl stats s.json       the newest state in the file
  kill -USR1 PID           makes a running crawl write one at once`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return exit.Usage(fmt.Errorf("stats needs one FILE, as 'crawl --stats FILE' writes it, and was given %d", len(args)))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			r := s.In
			if args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return exit.IO(err)
				}
				defer func() { _ = f.Close() }() // it was only read
				r = f
			}
			snap, err := report.LastSnapshot(r)
			if err != nil {
				return exit.IO(fmt.Errorf("read %s: %w", args[0], err))
			}
			report := report.Report{Snap: snap, Columns: terminal.WidthOf(s.Out)}
			return exit.Output(report.Write(s.Out))
		},
	}
}
