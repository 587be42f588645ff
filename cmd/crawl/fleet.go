package main

import (
	"cmp"
	"context"
	_ "embed" // texts/fleet.txt
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/cmd/crawl/internal/flags"
	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/assembly/fleet"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/frontier/redis"
)

// fleetCommand returns the command for operators of a crawl that several processes share.
func fleetCommand(s cli.Streams) *cobra.Command {
	o := fleetOptions{Streams: s}
	words := []string{"status", "pause", "resume", "drain", "set", "purge"}
	cmd := verb("fleet")
	cmd.ValidArgs, cmd.ValidArgsFunction = words, nil
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if len(args) != 1 || !slices.Contains(words, args[0]) {
			return cli.Usagef("fleet needs one of %s", cli.OneOf(words))
		}
		return nil
	}
	f := cmd.Flags()
	cmd.RunE = flags.Interruptible(func(ctx context.Context, args []string) error {
		if err := o.check(f, args[0]); err != nil {
			return flags.Wrong(err)
		}
		return o.run(ctx, args[0])
	})
	f.SortFlags = false // the order is by importance
	f.String("job", "", "`name` of the crawl; empty = CRAWL_FLEET_JOB")
	f.String("redis", "", "`URL` of its Redis or Valkey, ${NAME} in it for a variable of the environment; empty = CRAWL_FLEET_REDIS")
	f.String("redis-ca-file", "", "PEM `file` of authorities for its TLS; empty = CRAWL_FLEET_CA_FILE")
	f.String("redis-passfile", "", "`file` with its password; empty = CRAWL_FLEET_PASSWORD_FILE")
	f.BoolVar(&o.AsJSON, "json", false, "of status: write it as JSON")
	f.String("max-pages", "", "of set: pages of all processes together, `N`; 0 = no bound")
	f.String("max-time", "", "of set: `time` since the job was begun, such as 90m; 0 = no bound")
	f.BoolVar(&o.Yes, "yes", false, "of purge: without this it is refused")
	return cmd
}

type fleetOptions struct {
	cli.Streams
	Yes, AsJSON bool
	Job         string
	client      rueidis.ClientOption
	bounds      redis.Bounds // those that flags of fleet set gave
}

// fleetSettings maps flags that are also settings of a crawl to their paths. Loading them as settings checks them.
var fleetSettings = map[string]string{
	"job": "fleet.job", "redis": "fleet.redis", "redis-ca-file": "fleet.ca_file", "redis-passfile": "fleet.password_file",
	"max-pages": "max_pages", "max-time": "max_time",
}

// fleetActions maps actions to the control that they set, which is printed when that is done.
var fleetActions = map[string]redis.Control{"pause": redis.Paused, "resume": redis.Running, "drain": redis.Draining}

// fleetPatience is how long a command waits for a Redis that does not answer.
const fleetPatience = 30 * time.Second

// check loads flags and variables, and returns an error for flags that would have no effect.
func (o *fleetOptions) check(set *pflag.FlagSet, action string) error {
	from := config.Sources{Env: slices.DeleteFunc(slices.Clone(o.Env), func(kv string) bool { return !strings.HasPrefix(kv, "CRAWL_FLEET_") })}
	set.Visit(func(f *pflag.Flag) {
		if path := fleetSettings[f.Name]; path != "" {
			from.Flags = append(from.Flags, config.FlagValue{Name: "set", Value: path + "=" + f.Value.String()})
		}
	})
	loaded, err := config.Load(from)
	if err != nil {
		return err
	}
	if set.Changed("max-pages") {
		o.bounds.Pages = &loaded.Config.MaxPages
	}
	if set.Changed("max-time") {
		o.bounds.Time = &loaded.Config.MaxTime
	}
	o.Job = loaded.Config.Fleet.Job
	given := o.bounds != redis.Bounds{}
	switch {
	case o.Job == "":
		return errors.New("no job: give --job NAME and --redis URL, or CRAWL_FLEET_JOB and CRAWL_FLEET_REDIS")
	case action == "set" && !given:
		return errors.New("set needs what to set: --max-pages N, --max-time TIME, or both")
	case action != "set" && given:
		return fmt.Errorf("--max-pages and --max-time are for 'fleet set', and not for 'fleet %s'", action)
	case o.AsJSON && action != "status":
		return fmt.Errorf("--json is for 'fleet status', and not for 'fleet %s'", action)
	case o.Yes && action != "purge":
		return fmt.Errorf("--yes is for 'fleet purge', and not for 'fleet %s', which asks nothing", action)
	case action == "purge" && !o.Yes:
		return fmt.Errorf("purge forgets the job %s with all its URLs, and cannot be undone: add --yes if that is meant", o.Job)
	}
	o.client, err = fleet.Client(&loaded.Config.Fleet, func(name string) (string, bool) {
		v := cli.LookupEnv(o.Env, name)
		return v, v != ""
	})
	return err
}

// run carries out the action.
func (o *fleetOptions) run(ctx context.Context, action string) error {
	whole := ctx
	ctx, cancel := context.WithTimeout(ctx, fleetPatience)
	defer cancel()
	dial := redis.Dial
	if action == "purge" {
		dial = redis.DialToPurge
	}
	fleet, err := dial(ctx, o.client, o.Job)
	if errors.Is(err, redis.ErrNoJob) {
		return cli.IOf("there is no job %s in that Redis", o.Job)
	}
	if err != nil {
		return o.fail(err)
	}
	defer fleet.Close()
	switch action {
	case "status":
		st, err := fleet.Status(ctx)
		if err != nil {
			return o.fail(err)
		}
		if o.AsJSON {
			return cli.Output(cli.WriteJSON(o.Out, st))
		}
		return cli.Output(writeStatus(o.Out, &st, cli.WidthOf(o.Out)))
	case "set":
		return o.set(ctx, fleet)
	case "purge":
		keys, err := fleet.Purge(whole) // a large job takes minutes
		if err != nil {
			return o.fail(err)
		}
		_, err = fmt.Fprintf(o.Out, "%s: %s removed\n", o.Job, cli.Plural(keys, "key"))
		return cli.Output(err)
	}
	if err := fleet.SetControl(ctx, fleetActions[action]); err != nil {
		return o.fail(err)
	}
	_, err = fmt.Fprintf(o.Out, "%s: %s\n", o.Job, fleetActions[action])
	return cli.Output(err)
}

func (o *fleetOptions) fail(err error) error {
	return cli.IO(&assembly.FleetError{Job: o.Job, Err: err})
}

// set changes bounds of the job, and prints the changes and what they mean for its processes.
func (o *fleetOptions) set(ctx context.Context, fleet *redis.Fleet) error {
	before, err := fleet.Set(ctx, o.bounds)
	if err != nil {
		return o.fail(err)
	}
	st, err := fleet.Status(ctx)
	if err != nil {
		return o.fail(err)
	}
	for _, term := range slices.Sorted(maps.Keys(before)) {
		cli.Say(o.Out, "%s: %s is %s, was %s\n", o.Job, term, bound(st.Terms[term]), bound(before[term]))
	}
	if advice := advice(&st); st.Ended != "" && advice != "" {
		cli.Say(o.Out, "%s\n", advice)
	}
	for i := range st.Budgets {
		if _, set := before[st.Budgets[i].Name]; set && st.Ended == "" && st.Budgets[i].UsedUp() {
			cli.Say(o.Out, "%s: so its processes end\n", budgetLine(st.Budgets[i]))
		}
	}
	return nil
}

func bound(value string) string {
	if value == "" || value == "0" {
		return "none"
	}
	return value
}

//go:embed texts/fleet.txt
var fleetText string

var fleetPage = cli.NewPage(fleetText, 0, "", map[string]any{
	"standing": standing, "advice": advice, "budget": budgetLine, "add": func(a, b int64) int64 { return a + b },
})

// writeStatus writes a status for people.
func writeStatus(w io.Writer, s *redis.Status, columns int) error {
	var b strings.Builder
	b.WriteString(fleetPage.Text(s, 0))
	if len(s.Workers) > 0 {
		b.WriteString("\n")
		cli.Layout(&b, workerColumns(s), columns)
	}
	_, err := io.WriteString(w, cli.Clean(b.String()))
	return err
}

var standings = map[redis.Ended][2]string{
	redis.EndedComplete: {"complete"},
	redis.EndedPages:    {"ended: max_pages", "crawl fleet set --job %s --max-pages N, and begin its processes again"},
	redis.EndedTime:     {"ended: max_time", "crawl fleet set --job %s --max-time TIME, and begin its processes again"},
	redis.EndedDrained:  {"drained", "crawl fleet resume --job %s, and begin its processes again"},
	redis.EndedBlocked:  {"ended: only blocked hosts remain"},
}

func standing(s *redis.Status) string {
	if s.Ended == redis.EndedAlone {
		return string(s.Control) + ", but no process is at it"
	}
	for i := range s.Budgets {
		if s.Ended == "" && s.Budgets[i].UsedUp() {
			return "ending: " + s.Budgets[i].Name
		}
	}
	return cmp.Or(standings[s.Ended][0], string(s.Control))
}

// advice returns what an operator can do about a job that ended before all was visited, or why nothing was; "" if there
// is nothing to say.
func advice(s *redis.Status) string {
	then := standings[s.Ended][1]
	switch {
	case then != "":
		return "to go on: " + fmt.Sprintf(then, s.Job)
	case s.Ended == redis.EndedComplete && s.Unvisited != "":
		return "nothing could be asked for: " + s.Unvisited
	case s.Ended == redis.EndedComplete && s.Unanswered && s.Done > 0:
		return "no seed could be reached"
	case s.Ended == redis.EndedBlocked:
		return s.Blocked + "; to try them once more begin its processes again"
	case s.Ended == redis.EndedAlone:
		return "to go on: begin its processes again, by the same commands"
	}
	return ""
}

func budgetLine(b redis.Budget) string {
	switch b.Name {
	case "max_pages":
		return fmt.Sprintf("%s: %s of %s", b.Name, cli.Count(int64(b.Used)), b.Plan)
	case "max_time":
		return fmt.Sprintf("%s: %s of %s", b.Name, cli.Seconds(b.Used), b.Plan)
	case "ratelimit.global_bytes":
		return fmt.Sprintf("%s: %s a second of %s", b.Name, cli.Size(int64(b.Used)), b.Plan)
	case "ratelimit.global_rps":
		return fmt.Sprintf("%s: %.1f a second of %s", b.Name, b.Used, b.Plan)
	case "ratelimit.ip_rps", "ratelimit.site_rps":
		if b.Scope == "" {
			return fmt.Sprintf("%s: nothing of %s a second each", b.Name, b.Plan)
		}
		return fmt.Sprintf("%s: %.1f a second of %s at %s, the busiest", b.Name, b.Used, b.Plan, b.Scope)
	}
	return fmt.Sprintf("%s: %.0f of %s", b.Name, b.Used, b.Plan)
}

func workerColumns(s *redis.Status) cli.Rows {
	t := cli.Columns("<process", "<state", "hosts", "done", "found~3", "dropped=0~2", "hosts lost=0~1", "<lease")
	for i := range s.Workers {
		p := &s.Workers[i]
		lease := "ended"
		if p.Alive {
			lease = "for " + cli.Seconds(p.Until.Sub(s.Now).Seconds())
		}
		t.Row(p.Name, string(p.Doing), cli.Count(p.Hosts), cli.Count(p.Done), cli.Count(p.Added), cli.Count(p.Dropped), cli.Count(p.Lost), lease)
	}
	return t
}
