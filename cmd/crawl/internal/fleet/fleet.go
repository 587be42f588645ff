// Package fleet is `crawl fleet` behind its flags: the status of a fleet, and orders to it.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/exit"
	"github.com/treadlight/crawl/cmd/crawl/internal/human"
	"github.com/treadlight/crawl/cmd/crawl/internal/terminal"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/frontier/redis"
)

// Options is `crawl fleet` with its flags.
type Options struct {
	terminal.Streams
	Redis, Job   string
	CAFile       string
	PasswordFile string
	Yes, AsJSON  bool
	MaxPages     int64
	MaxTime      time.Duration
	bounds       redis.Bounds // of those that were given
}

// fleetActions are what can be done, and what is said when it is.
var fleetActions = map[string]redis.Control{"pause": redis.Paused, "resume": redis.Running, "drain": redis.Draining}

// fleetPatience is how long an operator waits for a Redis that does not answer.
const fleetPatience = 30 * time.Second

// Run does what the command asks of the fleet.
func (o *Options) Run(ctx context.Context, action string) error {
	for flag, name := range map[*string]string{
		&o.Redis: "CRAWL_FLEET_REDIS", &o.Job: "CRAWL_FLEET_JOB", &o.CAFile: "CRAWL_FLEET_CA_FILE", &o.PasswordFile: "CRAWL_FLEET_PASSWORD_FILE",
	} {
		if *flag == "" {
			*flag = terminal.LookupEnv(o.Env, name)
		}
	}
	switch {
	case o.Redis == "":
		return exit.Usage(errors.New("no Redis: give --redis URL, or CRAWL_FLEET_REDIS"))
	case o.Job == "":
		return exit.Usage(errors.New("no job: give --job NAME, or CRAWL_FLEET_JOB"))
	case action == "purge" && !o.Yes:
		return exit.Usage(fmt.Errorf("purge forgets the job %s with all its URLs, and cannot be undone: add --yes if that is meant", o.Job))
	}
	at := config.Fleet{Redis: o.Redis, CAFile: o.CAFile, PasswordFile: o.PasswordFile}
	opt, err := at.Client(func(name string) (string, bool) {
		v := terminal.LookupEnv(o.Env, name)
		return v, v != ""
	})
	if err != nil {
		return exit.Usage(err)
	}
	whole := ctx
	ctx, cancel := context.WithTimeout(ctx, fleetPatience)
	defer cancel()
	fail := func(err error) error { return exit.IO(&crawl.FleetError{Job: o.Job, Err: err}) }
	dial := redis.Dial
	if action == "purge" {
		dial = redis.DialToPurge
	}
	fleet, err := dial(ctx, opt, o.Job)
	if errors.Is(err, redis.ErrNoJob) {
		return exit.IO(fmt.Errorf("there is no job %s in that Redis", o.Job))
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
		if o.AsJSON {
			return exit.Output(terminal.WriteJSON(o.Out, st))
		}
		return exit.Output(writeStatus(o.Out, &st, terminal.WidthOf(o.Out)))
	case "set":
		return o.set(ctx, fleet)
	case "purge":
		keys, err := fleet.Purge(whole) // of a large job it takes minutes
		if err != nil {
			return fail(err)
		}
		_, err = fmt.Fprintf(o.Out, "%s: %s removed\n", o.Job, human.Plural(keys, "key"))
		return exit.Output(err)
	}
	if err := fleet.SetControl(ctx, fleetActions[action]); err != nil {
		return fail(err)
	}
	_, err = fmt.Fprintf(o.Out, "%s: %s\n", o.Job, fleetActions[action])
	return exit.Output(err)
}

// ReadBounds takes the flags of set.
func (o *Options) ReadBounds(cmd *cobra.Command, action string) error {
	if cmd.Flags().Changed("max-pages") {
		o.bounds.Pages = &o.MaxPages
	}
	if cmd.Flags().Changed("max-time") {
		o.bounds.Time = &o.MaxTime
	}
	given := o.bounds != redis.Bounds{}
	switch {
	case action == "set" && !given:
		return errors.New("set needs what to set: --max-pages N, --max-time TIME, or both")
	case action != "set" && given:
		return fmt.Errorf("--max-pages and --max-time are for 'fleet set', and not for 'fleet %s'", action)
	case o.MaxPages < 0 || o.MaxPages > mostPages:
		return fmt.Errorf("--max-pages %d: give 0 for no bound, or 1 to %d", o.MaxPages, int64(mostPages))
	case o.MaxTime < 0 || o.MaxTime > 0 && o.MaxTime < time.Second || o.MaxTime > longestTime:
		return fmt.Errorf("--max-time %v: give 0 for no bound, or 1s to %v", o.MaxTime, longestTime)
	}
	return nil
}

// Misplaced refuses flags that would have no effect.
func (o *Options) Misplaced(action string) error {
	switch {
	case o.AsJSON && action != "status":
		return fmt.Errorf("--json is for 'fleet status', and not for 'fleet %s'", action)
	case o.Yes && action != "purge":
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
func (o *Options) set(ctx context.Context, fleet *redis.Fleet) error {
	before, err := fleet.Set(ctx, o.bounds)
	if errors.Is(err, redis.ErrUncounted) {
		return exit.Usage(fmt.Errorf("--max-pages: the job %s %w", o.Job, errUncounted))
	}
	if err != nil {
		return exit.IO(&crawl.FleetError{Job: o.Job, Err: err})
	}
	st, err := fleet.Status(ctx)
	if err != nil {
		return exit.IO(&crawl.FleetError{Job: o.Job, Err: err})
	}
	for _, term := range slices.Sorted(maps.Keys(before)) {
		terminal.Say(o.Out, "%s: %s is %s, was %s\n", o.Job, term, bound(st.Terms[term]), bound(before[term]))
	}
	if advice := advice(&st); st.Ended != "" && advice != "" {
		terminal.Say(o.Out, "%s\n", advice)
	}
	for i := range st.Budgets {
		if _, set := before[st.Budgets[i].Name]; set && st.Ended == "" && st.Budgets[i].UsedUp() {
			terminal.Say(o.Out, "%s: so its processes end\n", budgetLine(&st.Budgets[i]))
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
