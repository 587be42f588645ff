package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/cmd/crawl/internal/doctor"
	"github.com/treadlight/crawl/cmd/crawl/internal/flags"
	"github.com/treadlight/crawl/cmd/crawl/internal/job"
	"github.com/treadlight/crawl/internal/config"
)

// doctorCommand returns the command that looks for what would keep a crawl from its work.
func doctorCommand(s cli.Streams) *cobra.Command {
	var asJSON bool
	cmd := verb("doctor")
	cmd.Args = cobra.ArbitraryArgs
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, a line for each finding: about, state (ok, note, problem), text, advice")
	settings := flags.AddAll(cmd, true)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		for _, only := range []string{"depth=0", "sitemaps.enabled=false", "ratelimit.retry_max_attempts=0"} { // one page, once
			settings.Given = append(settings.Given, config.FlagValue{Name: "set", Value: only})
		}
		loaded, err := settings.Load(s.Env)
		if err != nil {
			return err
		}
		if err := flags.CheckSeeds(cmd.Root(), args); err != nil {
			return err
		}
		cfg := doctor.Config{URLs: args, Settings: &loaded.Config, Term: cli.NewTerminal(s.Err, s.Env, loaded.Config.Log.Progress)}
		cfg.Options = job.OptionsOf(&loaded.Config)
		cfg.Tell = func(f doctor.Finding) error {
			if asJSON {
				return cli.Output(json.NewEncoder(s.Out).Encode(f))
			}
			return cli.Output(f.Write(s.Out))
		}
		problems, err := doctor.Run(cmd.Context(), cfg)
		if err == nil && problems > 0 {
			err = &cli.Error{Code: cli.CodeOf(cli.ErrNothing), Err: fmt.Errorf("%s: the lines with an arrow say what to do", cli.Plural(int64(problems), "problem"))}
		}
		return err
	}
	return cmd
}
