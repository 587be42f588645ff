package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/treadlight/crawl/cmd/crawl/internal/exit"
	"github.com/treadlight/crawl/cmd/crawl/internal/help"
	"github.com/treadlight/crawl/cmd/crawl/internal/human"
	"github.com/treadlight/crawl/cmd/crawl/internal/terminal"
)

// helpCommand is `crawl help [COMMAND]`. Unlike cobra's own it knows a wrong command
// for a mistake.
func helpCommand(s terminal.Streams) *cobra.Command {
	return &cobra.Command{
		Use:                   "help [COMMAND]",
		DisableFlagsInUseLine: true,
		Short:                 "Show the help of a command",
		Example: `  crawl help          the same as crawl --help
  crawl help config   the same as crawl config --help`,
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return exit.Usage(fmt.Errorf("there is no command %q%s", strings.Join(args, " "), human.Meant(help.NearestCommand(cmd.Root(), args[0]))))
			}
			about.InitDefaultHelpFlag()
			return help.Show(s.Out, about)
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
