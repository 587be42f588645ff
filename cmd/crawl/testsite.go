package main

import (
	"github.com/spf13/cobra"

	"github.com/treadlight/crawl/cmd/crawl/internal/flags"
	"github.com/treadlight/crawl/cmd/crawl/internal/terminal"
	"github.com/treadlight/crawl/cmd/crawl/internal/testsite"
)

// The manual of the verb, apart from its flags.
const (
	testsiteLong = `Testsite serves hosts on 127.0.0.0/8 addresses. Pages and links are generated
from a seed, so every run is the same site. Each host may have a latency, limits
of every usual kind with or without Retry-After, a load that slows it down, a
capacity that changes with the time of day, a ban after too many refusals,
scripted statuses, outages and a robots.txt.

It prints the hosts' addresses on standard output, serves until interrupted, and
then prints what it saw: requests, refusals, requests inside a Retry-After, the
smallest gap between two requests, pages served twice, and for each limited host
how much of what it allows was used, and since when. Any crawler can be measured
by it. Ctrl-C and SIGTERM end it; the report of --report is written then.`
	testsiteExample = `  crawl testsite --hosts 20 --pages 51 --latency 20ms
  crawl testsite --limit 5 --burst 2 --retry-after
  crawl testsite --preset mixed            one host of each kind
  crawl testsite --preset mixed --print    the YAML of it, to start a file from
  crawl testsite --scenario site.yaml --report report.json
  crawl testsite --scenario site.json --for 5m --report - | jq .total
  crawl testsite --limit 5 --port 8080 & crawl http://127.0.1.1:8080/`
)

// testsiteCommand serves hosts to test any crawler on, ours included.
func testsiteCommand(s terminal.Streams) *cobra.Command {
	var o testsite.Options
	cmd := &cobra.Command{
		Use:               "testsite [flags]",
		Short:             "Serve made-up hosts to test how polite a crawler is",
		Long:              testsiteLong,
		Example:           testsiteExample,
		Args:              flags.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Check(cmd); err != nil {
				return err
			}
			return o.Serve(cmd.Context(), s)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.IntVar(&o.Hosts, "hosts", 1, "hosts, each on its own address")
	f.IntVar(&o.Pages, "pages", 100, "pages per host")
	f.DurationVar(&o.Latency, "latency", 0, "time until an answer")
	f.Float64Var(&o.Limit, "limit", 0, "requests per second each host allows; 0 = all")
	f.IntVar(&o.Burst, "burst", 0, "requests that may come ahead of --limit")
	f.BoolVar(&o.RetryAfter, "retry-after", false, "name the wait in refusals")
	f.Uint64Var(&o.Seed, "seed", 1, "what pages and links are drawn from")
	f.StringVar(&o.Preset, "preset", "", "a `word` instead of the flags above: mixed, uniform or headofline")
	f.StringVar(&o.File, "scenario", "", "read the hosts from this YAML or JSON `file` instead")
	f.StringVar(&o.File, "file", "", "the older name of --scenario: a `file`")
	f.IntVar(&o.Port, "port", 0, "port of every host; 0 = that of the file, or a free one")
	f.DurationVar(&o.Time, "for", 0, "stop after that long; 0 = when interrupted")
	f.StringVar(&o.ReportTo, "report", "", "write the report as JSON to this `file`, whole or not at all; - = the same as --json")
	f.BoolVar(&o.AsJSON, "json", false, "print the report as JSON, and the addresses on standard error")
	f.BoolVar(&o.Print, "print", false, "print the site's YAML and serve nothing")
	return cmd
}
