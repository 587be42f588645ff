package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/treadlight/crawl/cmd/crawl/internal/build"
	"github.com/treadlight/crawl/cmd/crawl/internal/exit"
	"github.com/treadlight/crawl/cmd/crawl/internal/flags"
	"github.com/treadlight/crawl/cmd/crawl/internal/report"
	"github.com/treadlight/crawl/cmd/crawl/internal/terminal"
	"github.com/treadlight/crawl/internal/config"
)

// configCommand answers "what would it do, and who said so": it loads the layers exactly
// as a crawl does and prints the result instead.
func configCommand(s terminal.Streams) *cobra.Command {
	var asJSON, reference bool
	cmd := &cobra.Command{
		Use:   "config [flags]",
		Short: "Print the effective configuration and where each value came from",
		Long: `Config prints every setting as a crawl with the same file, environment and flags
would use it, each with its origin. The output is itself a configuration file.

It takes every flag of 'crawl' beside its own.`,
		Example: `  crawl config                           the defaults, and what CRAWL_* changes
  crawl config --config site.yaml -c 16  the same for this file and flag
  crawl config > site.yaml               a file to start from
  crawl config --reference               all settings: range, default, flag`,
		DisableFlagsInUseLine: true,
		Args:                  flags.NoArgs,
		ValidArgsFunction:     cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&reference, "reference", false, "print the manual of all settings, as Markdown")
	settings := flags.Add(cmd, func(config.Flag) bool { return true })
	flags.Hide(cmd) // the help of crawl has them; forty lines of them here would bury these
	settings.AddConfigFlag(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		if reference {
			return exit.Output(config.Reference(s.Out))
		}
		loaded, err := settings.Load(s.Env)
		if err != nil {
			return err
		}
		for _, w := range loaded.Warnings { // comments of the YAML would be lost in a pipe
			_, _ = fmt.Fprintln(s.Err, "crawl: warning:", w)
		}
		if asJSON {
			return exit.Output(loaded.WriteJSON(s.Out))
		}
		return exit.Output(loaded.WriteYAML(s.Out))
	}
	return cmd
}

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
		DisableFlagsInUseLine: true,
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

// versionCommand is --version for those who look for a verb.
func versionCommand(s terminal.Streams) *cobra.Command {
	return &cobra.Command{
		Use:                   "version",
		Short:                 "Print the version",
		Example:               "  crawl version    what a bug report should begin with",
		DisableFlagsInUseLine: true,
		Args:                  flags.NoArgs,
		ValidArgsFunction:     cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			return showVersion(s.Out)
		},
	}
}

// showVersion prints the version.
func showVersion(w io.Writer) error {
	_, err := fmt.Fprintln(w, build.VersionText())
	return exit.Output(err)
}
