package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/cmd/crawl/internal/flags"
	"github.com/treadlight/crawl/cmd/crawl/internal/job"
	"github.com/treadlight/crawl/cmd/crawl/internal/try"
)

// tryCommand returns the command that shows what rules for items find on a page.
func tryCommand(s cli.Streams) *cobra.Command {
	var asJSON bool
	cmd := verb("try")
	cmd.Args = flags.OneArg("try needs one URL")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	settings := flags.AddAll(cmd, true)
	for _, name := range []string{"item", "field", "next", "login"} {
		f := cmd.Flags().Lookup(name)
		f.Hidden = false
		flags.SetGroup(f, flags.GroupOwn)
	}
	cmd.RunE = flags.Interruptible(func(ctx context.Context, args []string) error {
		loaded, err := settings.Load(s.Env)
		if err != nil {
			return err
		}
		rules, err := loaded.Config.Extract.Rules()
		if err != nil {
			return cli.Usage(err)
		}
		report, err := try.Run(ctx, job.OptionsOf(&loaded.Config), rules, args[0])
		switch {
		case ctx.Err() != nil:
			return &cli.Error{Code: cli.CodeInterrupted}
		case err != nil:
			return flags.Wrong(err)
		case asJSON:
			err = cli.WriteJSON(s.Out, report)
		default:
			err = report.Write(s.Out, flags.Columns(s.Out))
		}
		if err != nil {
			return cli.Output(err)
		}
		if report.Missed() {
			return &cli.Error{Code: cli.CodeNothing}
		}
		return nil
	})
	return cmd
}
