package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/cmd/crawl/internal/flags"
	"github.com/treadlight/crawl/cmd/crawl/internal/job"
	"github.com/treadlight/crawl/cmd/crawl/internal/plan"
)

// mostSeeds is how many seeds a plan reads of seed files at most, since it looks at few hosts.
const mostSeeds = 100

// planCommand returns the command that looks at sites before they are crawled.
func planCommand(s cli.Streams) *cobra.Command {
	cfg := plan.Config{}
	var asJSON bool
	cmd := verb("plan")
	cmd.Args = cobra.ArbitraryArgs
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	flags.DurationVar(cmd.Flags(), &cfg.Within, "within", time.Minute, "end after this `time`")
	settings := flags.AddAll(cmd, true)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		loaded, err := settings.Load(s.Env)
		if err != nil {
			return err
		}
		if cfg.Within < time.Second || cfg.Within > time.Hour {
			return cli.Usagef("--within %v: give a time from 1s to 1h", cfg.Within)
		}
		cfg.Seeds = args
		if files := loaded.Config.Seeds.Files; len(files) > 0 {
			more, err := job.FirstSeeds(files, s.In, mostSeeds)
			if err != nil {
				return err
			}
			cfg.Seeds = append(cfg.Seeds, more...)
		}
		if len(cfg.Seeds) == 0 {
			return cli.Usagef("plan needs a URL, such as crawl plan https://example.com/")
		}
		if err := flags.CheckSeeds(cmd.Root(), cfg.Seeds); err != nil {
			return err
		}
		cfg.Args, cfg.Given, cfg.Options = args, settings.Given, job.OptionsOf(&loaded.Config)
		cfg.Term = cli.NewTerminal(s.Err, s.Env, loaded.Config.Log.Progress)
		if m := cfg.Options.Render.Mode; m == "" || m == "never" {
			cfg.Scripts = "; try --render auto"
		}
		return showPlan(cmd.Context(), s, &cfg, asJSON)
	}
	return cmd
}

// showPlan makes the plan and prints it. If the plan fails, it prints the part that there is.
func showPlan(ctx context.Context, s cli.Streams, cfg *plan.Config, asJSON bool) error {
	report, err := plan.Run(ctx, *cfg)
	var shown error
	switch {
	case report == nil:
	case asJSON:
		shown = cli.WriteJSON(s.Out, report)
	case report.Requests > 0:
		shown = report.Write(s.Out, flags.Columns(s.Out))
	}
	return errors.Join(cli.Output(shown), err)
}
