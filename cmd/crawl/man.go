package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/treadlight/crawl/cmd/crawl/internal/exit"
	"github.com/treadlight/crawl/cmd/crawl/internal/flags"
	"github.com/treadlight/crawl/cmd/crawl/internal/help"
	"github.com/treadlight/crawl/cmd/crawl/internal/terminal"
)

// manCommand writes manual pages, for those who package the program. It is not in the help,
// which says the same.
func manCommand(s terminal.Streams) *cobra.Command {
	return &cobra.Command{
		Use:               "man DIR",
		Short:             "Write manual pages into a directory",
		Example:           "  crawl man /usr/local/share/man/man1",
		Hidden:            true,
		Args:              flags.OneDir("man"),
		ValidArgsFunction: flags.CompleteDirs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o777); err != nil { // less what the user's mask forbids
				return exit.IO(err)
			}
			root := cmd.Root()
			names := []string{}
			for _, c := range append([]*cobra.Command{root}, root.Commands()...) {
				if c.Hidden || !c.IsAvailableCommand() && c != root {
					continue
				}
				name := strings.ReplaceAll(c.CommandPath(), " ", "-") + ".1"
				if err := os.WriteFile(filepath.Join(args[0], name), []byte(help.Manual(c)), 0o666); err != nil {
					return exit.IO(err)
				}
				names = append(names, name)
			}
			_, err := fmt.Fprintln(s.Out, strings.Join(names, "\n"))
			return exit.Output(err)
		},
	}
}
