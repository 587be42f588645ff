package main

import (
	"context"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/cmd/crawl/internal/docs"
	"github.com/treadlight/crawl/cmd/crawl/internal/flags"
)

// docsCommand returns the command that shows the documentation.
func docsCommand(s cli.Streams) *cobra.Command {
	var listen, output string
	cmd := verb("docs")
	cmd.Flags().StringVar(&listen, "listen", anyPort, "the `address` of this machine to show it at")
	cmd.Flags().StringVarP(&output, "output", "o", "", "write it as files into this `dir` instead")
	cmd.RunE = flags.Interruptible(func(ctx context.Context, _ []string) error {
		if cmd.Flags().Changed("output") && (output == "" || cmd.Flags().Changed("listen")) {
			return cli.Usagef("--output: give the name of a directory, and no --listen with it")
		}
		if err := namedAsFile("the documentation", output); err != nil {
			return err
		}
		site, err := docs.New(cli.Version())
		if err != nil {
			return err
		}
		if output != "" {
			if err := site.Write(output); err != nil {
				return cli.Write("--output", err)
			}
			cli.Say(s.Err, "%s written: open %s\n", cli.Plural(int64(len(site)), "file"), filepath.Join(output, "index.html"))
			return nil
		}
		return cli.Serve(ctx, "listen", listen, site, func(url string) {
			cli.Say(s.Err, "the documentation is shown at %s (Ctrl-C ends it)\n", url)
		})
	})
	return cmd
}
