package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/lab/simulate"
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

const rootEpilogue = `The first Ctrl-C or SIGTERM finishes what is under way, for as long as grace
says, the second gives it up, a third ends the crawl at once. SIGUSR1 tells how
the crawl goes, and puts its state on the disk; SIGHUP has it read the file of
--config again. Every setting, those without a flag too, can stand in a file or
in a CRAWL_* variable: see 'crawl config --reference'.`

// run is the whole program but for the process around it.
func run(ctx context.Context, args []string, s streams) int {
	cmd := rootCommand(s)
	cmd.SetArgs(args)
	cmd.SetIn(s.in)
	cmd.SetOut(s.out)
	cmd.SetErr(s.err)
	var unshown error // of the help that a flag asks for, which cobra has no error for
	cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) { unshown = showHelp(s.out, cmd) })
	err := cmp.Or(cmd.ExecuteContext(ctx), unshown)
	if e, ok := errors.AsType[*exitError](err); err != nil && (!ok || e.err != nil) {
		complain(s.err, err) // an end that is no failure carries only a code
	}
	return code(err)
}

// rootCommand is the tree of commands. It is built anew for every run and holds all
// state of it, so that two runs in one process share nothing.
func rootCommand(s streams) *cobra.Command {
	root := &cobra.Command{
		Use:     "crawl [flags] URL...",
		Short:   "A polite web crawler that learns how fast each host may be asked",
		Long:    rootLong,
		Example: rootExamples,
		Args:    cobra.ArbitraryArgs,
		// Errors are told in one place, in our own words.
		SilenceErrors: true, SilenceUsage: true,
		DisableFlagsInUseLine: true,
		ValidArgsFunction:     cobra.NoFileCompletions,
	}
	settings := addFlags(root, func(config.Flag) bool { return true })
	settings.addConfigFlag(root)
	var asVersion, helpAll bool // a flag of our own, as cobra's has another exit code for a full disk
	root.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case asVersion:
			return showVersion(s.out)
		case helpAll:
			return outputError(fullHelp(s.out, cmd, helpColumns(s.out)))
		}
		return crawlFrom(cmd, s, settings, args)
	}
	root.SetFlagErrorFunc(flagError)
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpCommand(helpCommand(s))
	root.AddCommand(
		demoCommand(s), resumeCommand(s), againCommand(s), explainCommand(s), configCommand(s), statsCommand(s), reportCommand(s), mergeCommand(s), fleetCommand(s), hostsCommand(s), checkCommand(s), testsiteCommand(s),
		simulateCommand(s, simulate.Scenarios()), completionCommand(s), manCommand(s), versionCommand(s),
	)
	root.Flags().BoolP("help", "h", false, "show this help")
	root.Flags().BoolVar(&helpAll, "help-all", false, "show every flag, what signals do and the exit codes")
	root.Flags().BoolVar(&asVersion, "version", false, "print the version")
	for _, name := range []string{"config", "help", "help-all", "version"} {
		setGroup(root.Flags().Lookup(name), groupMessages)
	}
	return root
}

// crawlFrom crawls what the command line asks for. Without anything to do, help is what
// is wanted.
func crawlFrom(cmd *cobra.Command, s streams, settings *settings, args []string) error {
	if err := checkSeeds(cmd, args); err != nil {
		return err
	}
	loaded, err := settings.load(s.env)
	switch {
	case len(args) == 0 && cmd.Flags().NFlag() == 0 && (err != nil || len(loaded.Config.Seeds.Files) == 0 && !loaded.Config.Fleet.Shared()):
		return showHelp(cmd.OutOrStdout(), cmd)
	case err != nil:
		return err
	}
	seedless := len(args) == 0 && len(loaded.Config.Seeds.Files) == 0
	if seedless && !loaded.Config.Fleet.Shared() {
		return usage(errNoSeeds)
	}
	j := &job{streams: s, cfg: &loaded.Config, warnings: loaded.Warnings, seeds: args, join: seedless}
	if settings.fileIn(s.env) != "" {
		j.reread = func() (*config.Loaded, error) { return settings.loadAgain(s.env) }
	}
	return j.run(cmd.Context())
}

// completionCommand writes what makes a shell complete commands, flags and words.
func completionCommand(s streams) *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Print a script that makes a shell complete commands and flags",
		Example: `  source <(crawl completion bash)       add this line to ~/.bashrc to keep it
  crawl completion zsh > "${fpath[1]}/_crawl"
  crawl completion fish > ~/.config/fish/completions/crawl.fish
  crawl completion powershell | Out-String | Invoke-Expression`,
		DisableFlagsInUseLine: true,
		ValidArgs:             shells,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage(fmt.Errorf("name one shell: %s", oneOf(shells)))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				return outputError(root.GenBashCompletionV2(s.out, true))
			case "zsh":
				return outputError(root.GenZshCompletion(s.out))
			case "fish":
				return outputError(root.GenFishCompletion(s.out, true))
			case "powershell":
				return outputError(root.GenPowerShellCompletionWithDesc(s.out))
			}
			return usage(fmt.Errorf("there is no completion for %q: give %s", args[0], oneOf(shells)))
		},
	}
}
