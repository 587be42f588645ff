package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/treadlight/crawl/cmd/crawl/internal/exit"
	"github.com/treadlight/crawl/cmd/crawl/internal/fleet"
	"github.com/treadlight/crawl/cmd/crawl/internal/human"
	"github.com/treadlight/crawl/cmd/crawl/internal/terminal"
)

// fleetCommand is for operators of a crawl that several processes share.
func fleetCommand(s terminal.Streams) *cobra.Command {
	o := fleet.Options{Streams: s}
	words := []string{"status", "pause", "resume", "drain", "set", "purge"}
	cmd := &cobra.Command{
		Use:   "fleet status|pause|resume|drain|set|purge --job NAME [flags]",
		Short: "See and steer a crawl that several processes share",
		Long: `Fleet tells how a crawl goes that several processes share (--redis, --job), and
tells all of them what to do. They hear of it within a third of their lease, 5
seconds by default.

  status  how far it is, which processes take part and what each is doing, and
          what is used of their budgets: of rates what they were over the last
          15 seconds, of ip_rps and site_rps where most is used. A master
          of a cluster that is away is named, and what others have is told
  pause   nothing further is asked for, until resume or drain
  resume  it goes on
  drain   all processes finish what is under way, and end; the job stays, and
          'resume' lets processes begin again
  set     another --max-pages or --max-time of the job, which counts from its
          beginning, or 0 for none; it holds for those that join later too,
          whatever they are given. A job that has ended by one goes on when
          its processes are begun again. Rates of the job as a whole, such as
          --global-rate, stay as they were when it was made
  purge   forget the job, with all its URLs; its processes end with an error`,
		Example: `  export CRAWL_FLEET_REDIS=redis://127.0.0.1:6379
  crawl fleet status --job news
  crawl fleet status --job news --json | jq .queued
  crawl fleet drain --job news
  crawl fleet set --job news --max-pages 5000
  crawl fleet purge --job news --yes`,
		ValidArgs: words,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(words, args[0]) {
				return exit.Usage(fmt.Errorf("fleet needs one of %s", human.OneOf(words)))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := errors.Join(o.ReadBounds(cmd, args[0]), o.Misplaced(args[0])); err != nil {
				return exit.Usage(err)
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return o.Run(ctx, args[0])
		},
	}
	f := cmd.Flags()
	f.SortFlags = false // the order is by importance
	f.StringVar(&o.Job, "job", "", "`name` of the crawl; empty = CRAWL_FLEET_JOB")
	f.StringVar(&o.Redis, "redis", "", "`URL` of its Redis or Valkey, ${NAME} in it for a variable of the environment; empty = CRAWL_FLEET_REDIS")
	f.StringVar(&o.CAFile, "redis-ca-file", "", "PEM `file` of authorities for its TLS; empty = CRAWL_FLEET_CA_FILE")
	f.StringVar(&o.PasswordFile, "redis-passfile", "", "`file` with its password; empty = CRAWL_FLEET_PASSWORD_FILE")
	f.BoolVar(&o.AsJSON, "json", false, "of status: write it as JSON")
	f.Int64Var(&o.MaxPages, "max-pages", 0, "of set: pages of all processes together, `N`; 0 = no bound")
	f.DurationVar(&o.MaxTime, "max-time", 0, "of set: `time` since the job was begun, such as 90m; 0 = no bound")
	f.BoolVar(&o.Yes, "yes", false, "of purge: without this it is refused")
	return cmd
}
