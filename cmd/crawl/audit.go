package main

import (
	"github.com/spf13/cobra"

	"github.com/treadlight/crawl/cmd/crawl/internal/audit"
	"github.com/treadlight/crawl/cmd/crawl/internal/audit/report"
	"github.com/treadlight/crawl/cmd/crawl/internal/audit/rules"
	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/cmd/crawl/internal/flags"
	"github.com/treadlight/crawl/cmd/crawl/internal/job"
)

// auditCommand returns the command that reports what is wrong with a site.
func auditCommand(s cli.Streams) *cobra.Command {
	cfg := audit.Config{Out: s.Out}
	var list, overwrite bool
	cmd := verb("audit")
	f := cmd.Flags()
	f.StringVarP(&cfg.Dir, "output", "o", "", "write report.html, findings.csv, junit.xml and audit.json into this `dir`")
	f.BoolVar(&overwrite, "overwrite", false, "replace the audit that is there")
	f.BoolVar(&cfg.External, "external", false, "check links to other sites too, by HEAD and then GET")
	f.StringSliceVar(&cfg.FailOn, "fail-on", []string{"error"}, "exit code 20 for these `findings`: severities, RULE, RULE=REGEXP of URLs; new = only those that --against has not, alone: new errors; none")
	f.StringSliceVar(&cfg.Skip, "skip", nil, "leave out `findings`: RULE, RULE=REGEXP of URLs, or a severity and what is below it")
	f.StringSliceVar(&cfg.Only, "only", nil, "report no other `findings` than these: RULE, RULE=REGEXP of URLs, severities")
	f.StringVar(&cfg.Against, "against", "", "say what is new and what is fixed since the audit in this `dir` or file")
	f.BoolVar(&cfg.JSON, "json", false, "print JSON, for programs")
	f.BoolVar(&list, "list-rules", false, "print all rules, and audit nothing")
	settings := visitFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case list && cfg.JSON:
			return cli.Output(cli.WriteJSON(s.Out, rules.Table))
		case list:
			return cli.Output(report.WriteRules(s.Out, "txt"))
		case len(args) == 0:
			return cli.Usagef("audit needs a URL, such as crawl audit https://example.com/")
		}
		if err := namedAsFile("an audit", cfg.Dir); err != nil {
			return err
		}
		if err := flags.CheckSeeds(cmd.Root(), args); err != nil {
			return err
		}
		loaded, err := settings.Load(s.Env)
		if err != nil {
			return err
		}
		cfg.Seeds = args
		cfg.Options = job.OptionsOf(&loaded.Config)
		// An audit visits the resources of pages too, and it follows nofollow links, since these can be broken as well.
		cfg.Options.Scope.Resources, cfg.Options.Scope.FollowNofollow = true, true
		cfg.Options.Output.Overwrite = overwrite
		cfg.Quiet = loaded.Config.Log.Quiet()
		cfg.Term, cfg.Log, cfg.Every = job.Messages(s, loaded)
		return audit.Run(cmd.Context(), cfg)
	}
	return cmd
}
