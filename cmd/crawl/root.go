package main

import (
	"cmp"
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/treadlight/crawl/cmd/crawl/internal/exit"
	"github.com/treadlight/crawl/cmd/crawl/internal/flags"
	"github.com/treadlight/crawl/cmd/crawl/internal/help"
	"github.com/treadlight/crawl/cmd/crawl/internal/job"
	"github.com/treadlight/crawl/cmd/crawl/internal/terminal"
	"github.com/treadlight/crawl/internal/config"
)

// What the help of the main command says, in lines of 80 columns at most: a test holds
// it to that.
const rootLong = `Crawl visits a site, or many, as fast as each host tolerates and no faster: it
learns the rate from statuses and latencies, obeys robots.txt and every
Retry-After, and never lets one bad host slow another.

It writes one record per URL to standard output or to a file.`

const rootExamples = `  crawl demo                                    see it at work, offline
  crawl https://example.com/                    one site, records on the screen
  crawl -d 3 -o pages.jsonl https://example.com/
  crawl --scope domain --max-pages 1000 -o pages.jsonl https://example.com/
  crawl -i seeds.txt --format csv -o pages.csv  many sites
  crawl -o site/ https://example.com/           kept in site as it goes
  crawl resume site                             on from there, whatever ended it
  crawl again site                              when done: what has changed
  crawl --stats s.json -o p.jsonl https://example.com/ && crawl stats s.json`

// run is the whole program but for the process around it.
func run(ctx context.Context, args []string, s terminal.Streams) int {
	cmd := rootCommand(s)
	cmd.SetArgs(args)
	cmd.SetIn(s.In)
	cmd.SetOut(s.Out)
	cmd.SetErr(s.Err)
	var unshown error // of the help that a flag asks for, which cobra has no error for
	cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) { unshown = help.Show(s.Out, cmd) })
	err := cmp.Or(cmd.ExecuteContext(ctx), unshown)
	if e, ok := errors.AsType[*exit.Error](err); err != nil && (!ok || e.Err != nil) {
		exit.Complain(s.Err, err) // an end that is no failure carries only a code
	}
	return exit.CodeOf(err)
}

// rootCommand is the tree of commands. It is built anew for every run and holds all
// state of it, so that two runs in one process share nothing.
func rootCommand(s terminal.Streams) *cobra.Command {
	root := &cobra.Command{
		Use:     "crawl [flags] URL...",
		Short:   "A polite web crawler that learns how fast each host may be asked",
		Long:    rootLong,
		Example: rootExamples,
		Args:    cobra.ArbitraryArgs,
		// Errors are told in one place, in our own words.
		SilenceErrors: true, SilenceUsage: true,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	settings := flags.Add(root, func(config.Flag) bool { return true })
	settings.AddConfigFlag(root)
	var asVersion, helpAll bool // a flag of our own, as cobra's has another exit code for a full disk
	root.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case asVersion:
			return showVersion(s.Out)
		case helpAll:
			return exit.Output(help.WriteFull(s.Out, cmd, help.Columns(s.Out)))
		}
		return crawlFrom(cmd, s, settings, args)
	}
	root.SetFlagErrorFunc(help.FlagError)
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpCommand(helpCommand(s))
	root.AddCommand(
		demoCommand(s), resumeCommand(s), againCommand(s), explainCommand(s), configCommand(s), statsCommand(s), reportCommand(s), mergeCommand(s), fleetCommand(s), hostsCommand(s), checkCommand(s), testsiteCommand(s),
		simulateCommand(s), completionCommand(s), manCommand(s), versionCommand(s),
	)
	for _, cmd := range append(root.Commands(), root) {
		cmd.DisableFlagsInUseLine = true // the usage says it
	}
	root.Flags().BoolP("help", "h", false, "show this help")
	root.Flags().BoolVar(&helpAll, "help-all", false, "show every flag, what signals do and the exit codes")
	root.Flags().BoolVar(&asVersion, "version", false, "print the version")
	for _, name := range []string{"config", "help", "help-all", "version"} {
		flags.SetGroup(root.Flags().Lookup(name), flags.GroupMessages)
	}
	return root
}

// crawlFrom crawls what the command line asks for. Without anything to do, help is what
// is wanted.
func crawlFrom(cmd *cobra.Command, s terminal.Streams, settings *flags.Settings, args []string) error {
	if err := help.CheckSeeds(cmd, args); err != nil {
		return err
	}
	loaded, err := settings.Load(s.Env)
	switch {
	case len(args) == 0 && cmd.Flags().NFlag() == 0 && (err != nil || len(loaded.Config.Seeds.Files) == 0 && !loaded.Config.Fleet.Shared()):
		return help.Show(cmd.OutOrStdout(), cmd)
	case err != nil:
		return err
	}
	seedless := len(args) == 0 && len(loaded.Config.Seeds.Files) == 0
	if seedless && !loaded.Config.Fleet.Shared() {
		return exit.Usage(job.ErrNoSeeds)
	}
	j := &job.Job{Options: job.Options{Streams: s, Settings: &loaded.Config, Warnings: loaded.Warnings, Seeds: args, Join: seedless}}
	if settings.FileIn(s.Env) != "" {
		j.Reread = func() (*config.Loaded, error) { return settings.LoadAgain(s.Env) }
	}
	return j.Run(cmd.Context())
}
