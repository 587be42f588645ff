package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/frontier/redis"
)

// fleetOrder is `crawl fleet` with its flags.
type fleetOrder struct {
	streams
	redis, job   string
	caFile       string
	passwordFile string
	yes, asJSON  bool
	maxPages     int64
	maxTime      time.Duration
	bounds       redis.Bounds // of those that were given
}

// fleetActions are what can be done, and what is said when it is.
var fleetActions = map[string]redis.Control{"pause": redis.Paused, "resume": redis.Running, "drain": redis.Draining}

// fleetPatience is how long an operator waits for a Redis that does not answer.
const fleetPatience = 30 * time.Second

// fleetCommand is for operators of a crawl that several processes share.
func fleetCommand(s streams) *cobra.Command {
	o := fleetOrder{streams: s}
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
		DisableFlagsInUseLine: true,
		ValidArgs:             words,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(words, args[0]) {
				return usage(fmt.Errorf("fleet needs one of %s", oneOf(words)))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := errors.Join(o.readBounds(cmd, args[0]), o.misplaced(args[0])); err != nil {
				return usage(err)
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return o.run(ctx, args[0])
		},
	}
	f := cmd.Flags()
	f.SortFlags = false // the order is by importance
	f.StringVar(&o.job, "job", "", "`name` of the crawl; empty = CRAWL_FLEET_JOB")
	f.StringVar(&o.redis, "redis", "", "`URL` of its Redis or Valkey, ${NAME} in it for a variable of the environment; empty = CRAWL_FLEET_REDIS")
	f.StringVar(&o.caFile, "redis-ca-file", "", "PEM `file` of authorities for its TLS; empty = CRAWL_FLEET_CA_FILE")
	f.StringVar(&o.passwordFile, "redis-passfile", "", "`file` with its password; empty = CRAWL_FLEET_PASSWORD_FILE")
	f.BoolVar(&o.asJSON, "json", false, "of status: write it as JSON")
	f.Int64Var(&o.maxPages, "max-pages", 0, "of set: pages of all processes together, `N`; 0 = no bound")
	f.DurationVar(&o.maxTime, "max-time", 0, "of set: `time` since the job was begun, such as 90m; 0 = no bound")
	f.BoolVar(&o.yes, "yes", false, "of purge: without this it is refused")
	return cmd
}

func (o *fleetOrder) run(ctx context.Context, action string) error {
	for flag, name := range map[*string]string{
		&o.redis: "CRAWL_FLEET_REDIS", &o.job: "CRAWL_FLEET_JOB", &o.caFile: "CRAWL_FLEET_CA_FILE", &o.passwordFile: "CRAWL_FLEET_PASSWORD_FILE",
	} {
		if *flag == "" {
			*flag = lookup(o.env, name)
		}
	}
	switch {
	case o.redis == "":
		return usage(errors.New("no Redis: give --redis URL, or CRAWL_FLEET_REDIS"))
	case o.job == "":
		return usage(errors.New("no job: give --job NAME, or CRAWL_FLEET_JOB"))
	case action == "purge" && !o.yes:
		return usage(fmt.Errorf("purge forgets the job %s with all its URLs, and cannot be undone: add --yes if that is meant", o.job))
	}
	at := config.Fleet{Redis: o.redis, CAFile: o.caFile, PasswordFile: o.passwordFile}
	opt, err := at.Client(func(name string) (string, bool) {
		v := lookup(o.env, name)
		return v, v != ""
	})
	if err != nil {
		return usage(err)
	}
	whole := ctx
	ctx, cancel := context.WithTimeout(ctx, fleetPatience)
	defer cancel()
	fail := func(err error) error { return ioError(&crawl.FleetError{Job: o.job, Err: err}) }
	dial := redis.Dial
	if action == "purge" {
		dial = redis.DialToPurge
	}
	fleet, err := dial(ctx, opt, o.job)
	if errors.Is(err, redis.ErrNoJob) {
		return ioError(fmt.Errorf("there is no job %s in that Redis", o.job))
	}
	if err != nil {
		return fail(err)
	}
	defer fleet.Close()
	switch action {
	case "status":
		st, err := fleet.Status(ctx)
		if err != nil {
			return fail(err)
		}
		if o.asJSON {
			return outputError(writeJSON(o.out, st))
		}
		return outputError(writeFleet(o.out, &st, widthOf(o.out)))
	case "set":
		return o.set(ctx, fleet)
	case "purge":
		keys, err := fleet.Purge(whole) // of a large job it takes minutes
		if err != nil {
			return fail(err)
		}
		_, err = fmt.Fprintf(o.out, "%s: %s removed\n", o.job, plural(keys, "key"))
		return outputError(err)
	}
	if err := fleet.SetControl(ctx, fleetActions[action]); err != nil {
		return fail(err)
	}
	_, err = fmt.Fprintf(o.out, "%s: %s\n", o.job, fleetActions[action])
	return outputError(err)
}

// readBounds takes the flags of set.
func (o *fleetOrder) readBounds(cmd *cobra.Command, action string) error {
	if cmd.Flags().Changed("max-pages") {
		o.bounds.Pages = &o.maxPages
	}
	if cmd.Flags().Changed("max-time") {
		o.bounds.Time = &o.maxTime
	}
	given := o.bounds != redis.Bounds{}
	switch {
	case action == "set" && !given:
		return errors.New("set needs what to set: --max-pages N, --max-time TIME, or both")
	case action != "set" && given:
		return fmt.Errorf("--max-pages and --max-time are for 'fleet set', and not for 'fleet %s'", action)
	case o.maxPages < 0 || o.maxPages > mostPages:
		return fmt.Errorf("--max-pages %d: give 0 for no bound, or 1 to %d", o.maxPages, int64(mostPages))
	case o.maxTime < 0 || o.maxTime > 0 && o.maxTime < time.Second || o.maxTime > longestTime:
		return fmt.Errorf("--max-time %v: give 0 for no bound, or 1s to %v", o.maxTime, longestTime)
	}
	return nil
}

// misplaced refuses flags that would have no effect.
func (o *fleetOrder) misplaced(action string) error {
	switch {
	case o.asJSON && action != "status":
		return fmt.Errorf("--json is for 'fleet status', and not for 'fleet %s'", action)
	case o.yes && action != "purge":
		return fmt.Errorf("--yes is for 'fleet purge', and not for 'fleet %s', which asks nothing", action)
	}
	return nil
}

// mostPages and longestTime are what the settings of the same names have at most.
const (
	mostPages   = 1_000_000_000_000
	longestTime = 8760 * time.Hour
)

// set changes bounds of the job, and says what follows of it.
func (o *fleetOrder) set(ctx context.Context, fleet *redis.Fleet) error {
	before, err := fleet.Set(ctx, o.bounds)
	if errors.Is(err, redis.ErrUncounted) {
		return usage(fmt.Errorf("--max-pages: the job %s %w", o.job, errUncounted))
	}
	if err != nil {
		return ioError(&crawl.FleetError{Job: o.job, Err: err})
	}
	st, err := fleet.Status(ctx)
	if err != nil {
		return ioError(&crawl.FleetError{Job: o.job, Err: err})
	}
	for _, term := range slices.Sorted(maps.Keys(before)) {
		say(o.out, "%s: %s is %s, was %s\n", o.job, term, bound(st.Terms[term]), bound(before[term]))
	}
	if advice := advice(&st); st.Ended != "" && advice != "" {
		say(o.out, "%s\n", advice)
	}
	for i := range st.Budgets {
		if _, set := before[st.Budgets[i].Name]; set && st.Ended == "" && st.Budgets[i].UsedUp() {
			say(o.out, "%s: so its processes end\n", budgetLine(&st.Budgets[i]))
		}
	}
	return nil
}

// errUncounted is why a bound of pages cannot be set.
var errUncounted = errors.New("has no max_pages, so that its processes may not count their pages: 'crawl fleet drain' it, set the bound, and begin them again")

// bound is the value of one for people.
func bound(value string) string {
	if value == "" || value == "0" {
		return "none"
	}
	return value
}
