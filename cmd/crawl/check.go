package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/treadlight/crawl/cmd/crawl/internal/exit"
	"github.com/treadlight/crawl/cmd/crawl/internal/flags"
	"github.com/treadlight/crawl/cmd/crawl/internal/human"
	"github.com/treadlight/crawl/cmd/crawl/internal/terminal"
	"github.com/treadlight/crawl/internal/frontier/disk"
)

// checkCommand looks for damage in a crawl that is kept.
func checkCommand(s terminal.Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "check DIR",
		Short: "Look for damage in a crawl that is kept",
		Long: `Check reads all of the state of a crawl (--state DIR, or --output DIR/) and
tells what is wrong with it: what SQLite finds in its own structure, rows that
contradict each other, URLs that are none of their host, and files of records
that are gone or shorter than the state knows them to be. It changes nothing,
and the crawl may be under way. Exit code 3 says that something is wrong.

What it cannot see is a bit that has flipped in a number, or in the path of a
URL, and gives another that could be: the file system is there for that.`,
		Example: `  crawl check site
  crawl check site && cp -a site /backup/    of a crawl that is not under way`,
		Args:              flags.OneDir("check"),
		ValidArgsFunction: flags.CompleteDirs,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return checkState(ctx, s, args[0])
		},
	}
}

func checkState(ctx context.Context, s terminal.Streams, dir string) error {
	view, err := disk.Look(dir)
	if err != nil {
		return exit.IO(err)
	}
	defer func() { _ = view.Close() }() // it was only read
	wrong := 0
	var unsaid error
	checked, err := view.Check(ctx, func(problem string) {
		wrong++
		if _, err := fmt.Fprintf(s.Out, "%s: %s\n", dir, human.Clean(problem)); unsaid == nil {
			unsaid = err
		}
	})
	switch {
	case ctx.Err() != nil:
		return &exit.Error{Code: exit.CodeInterrupted}
	case unsaid != nil:
		return exit.Output(unsaid)
	case err != nil:
		return exit.IO(err)
	case wrong > 0:
		return exit.IO(fmt.Errorf("%s has %s: restore it from a copy, with its records, or begin anew with --overwrite", dir, human.Plural(wrong, "problem")))
	}
	_, err = fmt.Fprintf(s.Out, "%s: nothing is wrong in %s and %s of records\n", dir, human.Plural(checked.Rows, "row"), human.Plural(checked.Files, "file"))
	return exit.Output(err)
}
