package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/cmd/crawl/internal/flags"
	"github.com/treadlight/crawl/internal/config"
)

// configCommand answers "what would it do, and who said so": it loads the layers exactly as a crawl does and prints
// the result instead.
func configCommand(s cli.Streams) *cobra.Command {
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
		Args:              flags.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&reference, "reference", false, "print the manual of all settings, as Markdown")
	settings := flags.AddAll(cmd, true)
	cmd.RunE = func(*cobra.Command, []string) error {
		if reference {
			return cli.Output(config.Reference(s.Out))
		}
		loaded, err := settings.Load(s.Env)
		if err != nil {
			return err
		}
		for _, w := range loaded.Warnings { // comments of the YAML would be lost in a pipe
			_, _ = fmt.Fprintln(s.Err, "crawl: warning:", w)
		}
		if asJSON {
			return cli.Output(loaded.WriteJSON(s.Out))
		}
		return cli.Output(loaded.WriteYAML(s.Out))
	}
	return cmd
}

// helpCommand is `crawl help [COMMAND]`. Unlike cobra's own it knows a wrong command for a mistake.
func helpCommand(s cli.Streams) *cobra.Command {
	return &cobra.Command{
		Use:                   "help [COMMAND]",
		DisableFlagsInUseLine: true,
		Short:                 "Show the help of a command",
		Example: `  crawl help          the same as crawl --help
  crawl help config   the same as crawl config --help`,
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return cli.Usagef("there is no command %q%s", strings.Join(args, " "), cli.Meant(flags.NearestCommand(cmd.Root(), args[0])))
			}
			about.InitDefaultHelpFlag()
			return flags.Show(s.Out, about)
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var names []string
			for _, c := range cmd.Root().Commands() {
				names = append(names, c.Name())
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// manCommand writes manual pages, for those who package the program. It is not in the help, which says the same.
func manCommand(s cli.Streams) *cobra.Command {
	return &cobra.Command{
		Use:               "man DIR",
		Short:             "Write manual pages into a directory",
		Example:           "  crawl man /usr/local/share/man/man1",
		Hidden:            true,
		Args:              flags.OneDir("man"),
		ValidArgsFunction: flags.CompleteDirs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o777); err != nil { // less what the user's mask forbids
				return cli.IO(err)
			}
			root := cmd.Root()
			var names []string
			for _, c := range append([]*cobra.Command{root}, root.Commands()...) {
				if c.Hidden || !c.IsAvailableCommand() && c != root {
					continue
				}
				name := strings.ReplaceAll(c.CommandPath(), " ", "-") + ".1"
				if err := os.WriteFile(filepath.Join(args[0], name), []byte(flags.Manual(c)), 0o666); err != nil {
					return cli.IO(err)
				}
				names = append(names, name)
			}
			_, err := fmt.Fprintln(s.Out, strings.Join(names, "\n"))
			return cli.Output(err)
		},
	}
}

// completionCommand writes what makes a shell complete commands, flags and words.
func completionCommand(s cli.Streams) *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Print a script that makes a shell complete commands and flags",
		Example: `  source <(crawl completion bash)       add this line to ~/.bashrc to keep it
  crawl completion zsh > "${fpath[1]}/_crawl"
  crawl completion fish > ~/.config/fish/completions/crawl.fish
  crawl completion powershell | Out-String | Invoke-Expression`,
		ValidArgs: shells,
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch strings.Join(args, " ") {
			case "bash":
				return cli.Output(root.GenBashCompletionV2(s.Out, true))
			case "zsh":
				return cli.Output(root.GenZshCompletion(s.Out))
			case "fish":
				return cli.Output(root.GenFishCompletion(s.Out, true))
			case "powershell":
				return cli.Output(root.GenPowerShellCompletionWithDesc(s.Out))
			}
			if len(args) != 1 {
				return cli.Usagef("name one shell: %s", cli.OneOf(shells))
			}
			return cli.Usagef("there is no completion for %q: give %s", args[0], cli.OneOf(shells))
		},
	}
}

// versionCommand is --version for those who look for a verb.
func versionCommand(s cli.Streams) *cobra.Command {
	return &cobra.Command{
		Use:               "version",
		Short:             "Print the version",
		Example:           "  crawl version    what a bug report should begin with",
		Args:              flags.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			return showVersion(s.Out)
		},
	}
}

// showVersion prints the version.
func showVersion(w io.Writer) error {
	_, err := fmt.Fprintln(w, cli.VersionText())
	return cli.Output(err)
}
