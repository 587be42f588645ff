package main

import (
	"github.com/spf13/cobra"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/cmd/crawl/internal/flags"
	"github.com/treadlight/crawl/cmd/crawl/internal/simulate"

	lab "github.com/treadlight/crawl/internal/lab/simulate"
	"github.com/treadlight/crawl/internal/lab/simulate/fleet"
)

// simulateCommand returns the command that runs strategies against model servers.
func simulateCommand(s cli.Streams) *cobra.Command {
	o := simulate.Options{Streams: s}
	cmd := verb("simulate")
	cmd.Args = cobra.ArbitraryArgs // names of scenarios, although the command has a subcommand
	cmd.ValidArgsFunction = func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return lab.Names(lab.Scenarios()), cobra.ShellCompDirectiveNoFileComp // read on completion alone
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.Patterns, o.Given = args, cmd.Flags().Changed
		return o.Run(cmd.Context())
	}
	cmd.AddCommand(simulateFleetCommand(s))
	f := cmd.Flags()
	f.SortFlags = false // the order is by importance
	// The defaults are those under which the strategies are compared, not those of a crawl: its ceiling of 10 requests
	// per second would hide most differences.
	f.StringVar(&o.Strategies, "strategy", "steer,aimd,"+lab.Oracle, "`words` with commas between: "+cli.OneOf(simulate.Strategies()))
	f.IntVar(&o.Seeds, "seeds", 1, "runs of each, with one seed after another")
	f.Uint64Var(&o.Seed, "seed", 1, "the first seed")
	f.IntVar(&o.Random, "random", 0, "run `n` hosts drawn at random, R1 and so on; without a PATTERN only those")
	f.Float64Var(&o.Rate, "rate", 1, "requests per second to begin with")
	f.Float64Var(&o.MaxRate, "max-rate", 2000, "requests per second not to go above; a start that is not given is at most that")
	flags.DurationVar(f, &o.Duration, "duration", 0, "length of each run; 0 = the scenario's, 15m or 30m")
	f.BoolVar(&o.Trace, "trace", false, "show how one scenario goes, line by line")
	flags.DurationVar(f, &o.Every, "every", 0, "a line of --trace each time; 0 = when something changed, and each minute")
	f.StringVar(&o.Plot, "plot", "", "draw one scenario, a panel for each strategy, into `file` as SVG")
	f.BoolVar(&o.List, "list", false, "list the scenarios and run nothing")
	f.StringVar(&o.Format, "format", "table", "form of the output, a `word`: table or json")
	for name, words := range map[string][]string{"strategy": simulate.Strategies(), "format": {"table", "json"}} {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)) // both flags exist
	}
	return cmd
}

// simulateFleetCommand returns the command that simulates how many processes crawl a large web together.
func simulateFleetCommand(s cli.Streams) *cobra.Command {
	o := simulate.FleetOptions{Streams: s, Cfg: fleet.Default()}
	cmd := verb("simulate-fleet")
	cmd.RunE = func(*cobra.Command, []string) error { return o.Run() }
	f := cmd.Flags()
	f.SortFlags = false // the order is by importance
	f.StringVar(&o.Processes, "processes", "1,10,100,1000", "sizes of fleets, with commas between, each 1 to 100000")
	f.Float64Var(&o.Cfg.Capacity, "capacity", o.Cfg.Capacity, "pages per second that one process can do")
	f.IntVar(&o.Cfg.Owned, "owned", o.Cfg.Owned, "hosts that a process owns at a time")
	f.IntVar(&o.Cfg.Hosts, "hosts", o.Cfg.Hosts, "hosts of the web, 1 to 10000000")
	f.Float64Var(&o.Cfg.Pages, "pages", o.Cfg.Pages, "pages of all hosts together")
	f.Float64Var(&o.Cfg.MaxPerHost, "max-per-host", o.Cfg.MaxPerHost, "pages taken of one host at most; 0 = all")
	f.Float64Var(&o.Cfg.Exponent, "exponent", o.Cfg.Exponent, "of the power law of pages per host")
	f.Float64Var(&o.Cfg.Known, "known", o.Cfg.Known, "URLs known for each page that is visited")
	f.Float64Var(&o.Cfg.QueuedBytes, "queued-bytes", o.Cfg.QueuedBytes, "bytes that Redis takes for a URL that is queued")
	f.Float64Var(&o.Cfg.Commands, "commands", o.Cfg.Commands, "commands of Redis for each page")
	f.Float64Var(&o.Cfg.PageBytes, "page-bytes", o.Cfg.PageBytes, "bytes of a page on the line")
	f.Uint64Var(&o.Cfg.Seed, "seed", o.Cfg.Seed, "what rates and the order of hosts are drawn from")
	f.StringVar(&o.Format, "format", "table", "form of the output, a `word`: table or json")
	return cmd
}
