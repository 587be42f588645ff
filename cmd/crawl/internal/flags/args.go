package flags

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/treadlight/crawl/cmd/crawl/internal/exit"
)

// NoArgs is for verbs that take none.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return exit.Usage(fmt.Errorf("%q takes no arguments, and was given %q", cmd.CommandPath(), args[0]))
	}
	return nil
}

// OneDir wants the directory of a crawl that is kept, and nothing else.
func OneDir(verb string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 1 && args[0] != "" {
			return nil
		}
		n := 0
		for _, dir := range args {
			if dir != "" {
				n++
			}
		}
		return exit.Usage(fmt.Errorf("%s needs one DIR, as 'crawl --state DIR' or 'crawl --output DIR/' made it, and was given %d", verb, n))
	}
}

// CompleteDirs completes names of directories.
func CompleteDirs(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}
