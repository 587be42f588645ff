package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/treadlight/crawl/cmd/crawl/internal/build"
	"github.com/treadlight/crawl/cmd/crawl/internal/exit"
	"github.com/treadlight/crawl/cmd/crawl/internal/flags"
	"github.com/treadlight/crawl/cmd/crawl/internal/terminal"
)

// versionCommand is --version for those who look for a verb.
func versionCommand(s terminal.Streams) *cobra.Command {
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
	_, err := fmt.Fprintln(w, build.VersionText())
	return exit.Output(err)
}
