package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/pipeline/frontier/redis"
)

// fleetOrder is `crawl fleet` with its flags.
type fleetOrder struct {
	streams
	redis, job   string
	caFile       string
	passwordFile string
	yes, asJSON  bool
}

// fleetActions are what can be done, and what is said when it is.
var fleetActions = map[string]redis.Control{"pause": redis.Paused, "resume": redis.Running, "drain": redis.Draining}

// fleetPatience is how long an operator waits for a Redis that does not answer.
const fleetPatience = 30 * time.Second

// fleetCommand is for operators of a crawl that several processes share.
func fleetCommand(s streams) *cobra.Command {
	o := fleetOrder{streams: s}
	words := []string{"status", "pause", "resume", "drain", "purge"}
	cmd := &cobra.Command{
		Use:   "fleet status|pause|resume|drain|purge --job NAME [flags]",
		Short: "See and steer a crawl that several processes share",
		Long: `Fleet tells how a crawl goes that several processes share (--redis, --job), and
tells all of them what to do. They hear of it within a third of their lease, 5
seconds by default.

  status  how far it is, which processes take part, and what is used of their
          budgets: of rates what they were over the last 15 seconds
  pause   nothing further is asked for, until resume or drain
  resume  it goes on
  drain   all processes finish what is under way, and end; the job stays, and
          'resume' lets processes begin again
  purge   forget the job, with all its URLs; its processes end with an error`,
		Example: `  export CRAWL_FLEET_REDIS=redis://127.0.0.1:6379
  crawl fleet status --job news
  crawl fleet status --job news --json | jq .queued
  crawl fleet drain --job news
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
	f.BoolVar(&o.asJSON, "json", false, "write the status as JSON")
	f.BoolVar(&o.yes, "yes", false, "purge without this is refused")
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

// writeFleet is a status for people.
func writeFleet(w io.Writer, s *redis.Status, columns int) error {
	var b strings.Builder
	state := string(s.Control)
	if s.Complete {
		state = "complete"
	}
	fmt.Fprintf(&b, "%s: %s, begun %s ago\n", s.Job, state, seconds(s.Now.Sub(s.Created).Seconds()))
	fmt.Fprintf(&b, "  URLs: %s known, %s done, %s queued", count(s.Known), count(s.Done), count(s.Queued))
	if s.Refused > 0 {
		fmt.Fprintf(&b, ", %s beyond the bound of their host", count(s.Refused))
	}
	fmt.Fprintf(&b, "\n  hosts: %s owned, %s ready, %s waiting", count(s.Owned), count(s.Ready), count(s.Waiting))
	if s.Reclaimed > 0 {
		fmt.Fprintf(&b, ", %s taken back from processes that had died", count(s.Reclaimed))
	}
	fmt.Fprintf(&b, "\n  memory: %s", size(s.MemoryBytes))
	if s.MemoryLimit > 0 {
		fmt.Fprintf(&b, " of %s", size(s.MemoryLimit))
	}
	b.WriteString("\n")
	for i := range s.Budgets {
		fmt.Fprintf(&b, "  %s\n", budgetLine(&s.Budgets[i]))
	}
	if len(s.Workers) > 0 {
		b.WriteString("\n")
		layout(&b, workerColumns(s), columns)
	}
	_, err := io.WriteString(w, clean(b.String()))
	return err
}

// budgetLine is a budget of the job and what is used of it.
func budgetLine(b *redis.Budget) string {
	switch b.Name {
	case "max_pages":
		return fmt.Sprintf("%s: %s of %s", b.Name, count(int64(b.Used)), b.Plan)
	case "max_time":
		return fmt.Sprintf("%s: %s of %s", b.Name, seconds(b.Used), b.Plan)
	case "ratelimit.global_bytes":
		return fmt.Sprintf("%s: %s a second of %s", b.Name, size(int64(b.Used)), b.Plan)
	case "ratelimit.global_rps":
		return fmt.Sprintf("%s: %.1f a second of %s", b.Name, b.Used, b.Plan)
	}
	return fmt.Sprintf("%s: %.0f of %s", b.Name, b.Used, b.Plan)
}

func workerColumns(s *redis.Status) []column {
	t := []column{
		{title: "process", left: true},
		{title: "hosts"},
		{title: "done"},
		{title: "found", keep: 3},
		{title: "dropped", dull: "0", keep: 2},
		{title: "hosts lost", dull: "0", keep: 1},
		{title: "lease", left: true},
	}
	for i := range s.Workers {
		p := &s.Workers[i]
		lease := "ended"
		if p.Alive {
			lease = "for " + seconds(p.Until.Sub(s.Now).Seconds())
		}
		for c, cell := range []string{p.Name, count(p.Hosts), count(p.Done), count(p.Added), count(p.Dropped), count(p.Lost), lease} {
			t[c].cells = append(t[c].cells, cell)
		}
	}
	return t
}
