package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/cmd/crawl/internal/flags"
	"github.com/treadlight/crawl/cmd/crawl/internal/job"
	"github.com/treadlight/crawl/cmd/crawl/internal/read"
	"github.com/treadlight/crawl/internal/config"
)

// readCommand returns the command that prints the main text of single pages.
func readCommand(s cli.Streams) *cobra.Command {
	cfg := read.Config{Out: s.Out}
	cmd := verb("read")
	f := cmd.Flags()
	f.BoolVar(&cfg.JSON, "json", false, "print JSON, a line for each page: url, title, byline, published, lang, markdown; of archives alone: url, status, content_type")
	f.BoolVar(&cfg.Plain, "main-text", false, "print plain text, without the marks of Markdown")
	f.IntVar(&cfg.Tokens, "chunk", 0, "print chunks of at most this many `tokens`, a JSON line each")
	settings := visitFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		archive, args, err := read.OpenArchive(args)
		switch {
		case err != nil:
			return err
		case archive != nil && len(args) == 0:
			return archive.List(s.Out, cfg.JSON)
		case len(args) == 0:
			return cli.Usagef("read needs a URL, such as crawl read https://example.com/, or an archive")
		}
		if err := flags.CheckSeeds(cmd.Root(), args); err != nil {
			return err
		}
		settings.Given = slices.Concat([]config.FlagValue{{Name: "set", Value: "sitemaps.enabled=false"}}, settings.Given,
			[]config.FlagValue{{Name: "set", Value: "depth=0"}})
		loaded, err := settings.Load(s.Env)
		if err != nil {
			return err
		}
		cfg.URLs, cfg.Options = args, job.OptionsOf(&loaded.Config)
		if archive != nil {
			cfg.Options.Fetcher, cfg.Options.Politeness.Strategy, cfg.Options.Politeness.IgnoreRobots = archive, "off", true
		}
		cfg.Term = cli.NewTerminal(s.Err, s.Env, loaded.Config.Log.Progress)
		return read.Run(cmd.Context(), cfg)
	}
	return cmd
}
