package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/treadlight/crawl/cmd/crawl/internal/exit"
	"github.com/treadlight/crawl/cmd/crawl/internal/flags"
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
		Args:              flags.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
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
