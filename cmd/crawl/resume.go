package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/cmd/crawl/internal/flags"
	"github.com/treadlight/crawl/cmd/crawl/internal/job"
	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/frontier/disk"
)

// resumeCommand returns the command that resumes a crawl from its state.
func resumeCommand(s cli.Streams) *cobra.Command {
	cmd := verb("resume")
	cmd.Args, cmd.ValidArgsFunction = flags.OneDir("resume"), flags.CompleteDirs
	settings := flags.AddAll(cmd, true)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		j := &job.Job{Options: job.Options{Streams: s, Resumed: true}}
		return j.GoOnIn(cmd.Context(), settings, args[0], assembly.OpenState)
	}
	return cmd
}

// againCommand returns the command that begins a new round of a crawl.
func againCommand(s cli.Streams) *cobra.Command {
	var again assembly.Again
	cmd := verb("again")
	cmd.Args, cmd.ValidArgsFunction = flags.OneDir("again"), flags.CompleteDirs
	flags.DurationVar(cmd.Flags(), &again.MaxAge, "max-age", 0, "ask only for what was answered longer ago than that `time`, or not at all; 0 = for everything")
	cmd.Flags().BoolVar(&again.Unfinished, "unfinished", false, "begin a round though the last one was interrupted")
	settings := flags.AddAll(cmd, true)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if again.MaxAge < 0 {
			return cli.Usagef("--max-age is %v: give a time above zero, such as 24h", again.MaxAge)
		}
		j := &job.Job{Options: job.Options{Streams: s, Resumed: true, Again: true}}
		return j.GoOnIn(cmd.Context(), settings, args[0], func(cfg assembly.StateConfig) (*assembly.State, error) {
			return assembly.OpenAgain(cfg, again)
		})
	}
	return cmd
}

// checkCommand returns the command that looks for damage in the state of a crawl and its records.
func checkCommand(s cli.Streams) *cobra.Command {
	cmd := verb("check")
	cmd.Args, cmd.ValidArgsFunction = flags.OneDir("check"), flags.CompleteDirs
	cmd.RunE = flags.Interruptible(func(ctx context.Context, args []string) error { return checkState(ctx, s, args[0]) })
	return cmd
}

func checkState(ctx context.Context, s cli.Streams, dir string) error {
	if err := flags.URLInPlace(dir, "check looks for damage in a crawl that is kept; 'crawl audit URL' says what is wrong with a site"); err != nil {
		return err
	}
	view, err := disk.Look(dir)
	if err != nil {
		return cli.IO(err)
	}
	wrong := 0
	var unsaid error
	checked, err := view.Check(ctx, func(problem string) {
		wrong++
		if _, err := fmt.Fprintf(s.Out, "%s: %s\n", dir, cli.Clean(problem)); unsaid == nil {
			unsaid = err
		}
	})
	switch {
	case ctx.Err() != nil:
		return &cli.Error{Code: cli.CodeInterrupted}
	case unsaid != nil:
		return cli.Output(unsaid)
	case err != nil:
		return cli.IO(err)
	case wrong > 0:
		return cli.IOf("%s has %s: restore it from a copy, with its records, or begin anew with --overwrite", dir, cli.Plural(wrong, "problem"))
	}
	embedded, err := view.Meta(disk.MetaEmbedded)
	if err != nil {
		return cli.IO(err)
	}
	if embedded != "" {
		_, err = fmt.Fprintf(s.Out, "%s: nothing is wrong in %s; its sinks are those of a program that uses the package crawl, and were not looked at\n", dir, cli.Plural(checked.Rows, "row"))
		return cli.Output(err)
	}
	_, err = fmt.Fprintf(s.Out, "%s: nothing is wrong in %s and %s of records\n", dir, cli.Plural(checked.Rows, "row"), cli.Plural(checked.Files, "file"))
	return cli.Output(err)
}
