package main

import (
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/treadlight/crawl/cmd/crawl/internal/audit"
	"github.com/treadlight/crawl/cmd/crawl/internal/audit/report"
	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/cmd/crawl/internal/flags"
	"github.com/treadlight/crawl/cmd/crawl/internal/job"
	"github.com/treadlight/crawl/internal/config"
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
	f.StringSliceVar(&cfg.Skip, "skip", nil, "leave out `findings`: RULE, or RULE=REGEXP of URLs")
	f.StringVar(&cfg.Against, "against", "", "say what is new and what is fixed since the audit in this `dir` or file")
	f.BoolVar(&cfg.JSON, "json", false, "print JSON, for programs")
	f.BoolVar(&list, "list-rules", false, "print all rules, and audit nothing")
	settings := flags.Add(cmd, func(f config.Flag) bool { return auditTakes(f) })
	f.StringVar(&settings.File, "config", "", "read settings from this YAML or JSON `file`; flags are stronger")
	f.VisitAll(func(f *pflag.Flag) { f.Hidden = f.Hidden || flags.GroupOf(f) != flags.GroupOwn || f.Name == "config" })
	cmd.Args, cmd.ValidArgsFunction = cobra.ArbitraryArgs, nil
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if list {
			form := "txt"
			if cfg.JSON {
				form = "json"
			}
			return cli.Output(report.WriteRules(s.Out, form))
		}
		if len(args) == 0 {
			return cli.Usagef("audit needs a URL, such as crawl audit https://example.com/")
		}
		if err := flags.CheckSeeds(cmd.Root(), args); err != nil {
			return err
		}
		// An audit visits the resources of pages too, and it follows nofollow links, since these can be broken as well.
		settings.Given = slices.Insert(settings.Given, 0, config.FlagValue{Name: "resources", Value: "true"},
			config.FlagValue{Name: "set", Value: "robots.follow_nofollow=true"})
		loaded, err := settings.Load(s.Env)
		if err != nil {
			return err
		}
		cfg.Seeds = args
		config.ToProgram(&loaded.Config, &cfg.Options)
		cfg.Options.Output.Overwrite = overwrite
		cfg.Quiet = loaded.Config.Log.Quiet()
		cfg.Term, cfg.Log, cfg.Every = job.Messages(s, loaded)
		return audit.Run(cmd.Context(), cfg)
	}
	return cmd
}

// auditTakes reports whether the audit takes the flag of a setting: those about how a site is visited.
func auditTakes(f config.Flag) bool {
	switch flags.GroupOfSetting(f.Path) {
	case flags.GroupSeeds:
		return f.Path != "seeds.file" && f.Path != "duplicates.find" && f.Path != "scope.resources"
	case flags.GroupPolite, flags.GroupFetch, flags.GroupAccess, flags.GroupMessages:
		return true
	}
	return false
}
