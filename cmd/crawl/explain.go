package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/treadlight/crawl/cmd/crawl/internal/exit"
	"github.com/treadlight/crawl/cmd/crawl/internal/explain"
	"github.com/treadlight/crawl/cmd/crawl/internal/flags"
	"github.com/treadlight/crawl/cmd/crawl/internal/terminal"
	"github.com/treadlight/crawl/internal/config"
)

const explainLong = `Explain tells what a crawl with the same settings would make of each URL, and
why: how it is spelled, step by step; whether it belongs to the crawl; what
robots.txt says, with the line; how the host is paced. With --control it also
tells how a crawl that runs stands with the host just now. With --state the
settings and seeds are those of a crawl that was kept, under way or not, and
what became of the URL there is told too. The reasons are those of the log and
the records.

It asks the host for robots.txt, as politely as a crawl, and for nothing else.
It takes every flag of 'crawl' beside its own. A HOST is the host's first page.`

const explainExamples = `  crawl explain https://example.com/a/../b?utm_source=x
  crawl explain --canonical tracking example.com/b?utm_source=x
  crawl explain --config site.yaml --offline --json example.com
  crawl explain --robots-file robots.txt https://example.com/private/
  crawl explain --control :9090 example.com    as a crawl with --listen :9090
  crawl explain --state site --offline example.com/lost    what became of it`

// explainCommand answers "what would it do with this URL, and why".
func explainCommand(s terminal.Streams) *cobra.Command {
	x := explain.Options{Streams: s}
	cmd := &cobra.Command{
		Use:               "explain [flags] URL|HOST...",
		Short:             "Tell what a crawl makes of a URL, and why",
		Long:              explainLong,
		Example:           explainExamples,
		ValidArgsFunction: cobra.NoFileCompletions,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return exit.Usage(errors.New("explain needs a URL or a host"))
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&x.Seeds, "seed", nil, "a `URL` the crawl begins from, repeatable; none = the URL explained is one")
	f.StringVar(&x.Robots, "robots-file", "", "judge by this `file` and ask no host")
	f.BoolVar(&x.Offline, "offline", false, "ask no host for its robots.txt")
	f.StringVar(&x.Control, "control", "", "ask the crawl that listens at this `addr` about the host")
	f.BoolVar(&x.All, "all", false, "show also the steps that change nothing")
	f.BoolVar(&x.JSON, "json", false, "print JSON, a line for each URL")
	settings := flags.Add(cmd, func(config.Flag) bool { return true })
	flags.Hide(cmd)
	state := cmd.Flags().Lookup("state")
	state.Hidden, state.Usage = false, "explain by the crawl that is kept in this `dir`, and tell what became of the URL there"
	flags.SetGroup(state, flags.GroupOwn)
	settings.AddConfigFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return x.Run(cmd.Context(), settings, state.Changed, args)
	}
	return cmd
}
