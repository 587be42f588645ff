package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/cmd/crawl/internal/flags"
	"github.com/treadlight/crawl/cmd/crawl/internal/job"
	"github.com/treadlight/crawl/cmd/crawl/internal/watch"
	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/records/sink"
)

// watchRun is one run of the command watch with its flags.
type watchRun struct {
	cli.Streams
	loaded    *config.Loaded
	o         watch.Options
	every     time.Duration
	once, all bool

	output, webhook, rss, secretFile string
	secret                           []byte // signs what the webhook receives
	ignore                           []string
}

// secretVariable is a variable that may hold the secret that signs changes for a webhook. The secret is not stored.
const secretVariable = "CRAWL_WEBHOOK_SECRET"

// keptFlags are the flags of the command that a watch keeps for its next run.
var keptFlags = []string{"every", "budget", "output", "webhook", "webhook-secret", "rss", "select", "ignore"}

// watchCommand returns the command that visits pages again and again, and reports what has changed.
func watchCommand(s cli.Streams) *cobra.Command {
	r := &watchRun{Streams: s}
	cmd := verb("watch")
	cmd.Args, cmd.ValidArgsFunction = flags.SomeArgs("watch needs a STATE: the directory of a crawl or of a watch, or a new one and URLs"), flags.CompleteDirs
	settings := flags.Add(cmd, true, func(f *config.Flag) bool {
		section, _, _ := strings.Cut(f.Path, ".")
		return !slices.Contains([]string{"fleet", "stats", "warc", "extract", "output", "state", "traces", "listen", "seeds"}, section)
	})
	set := cmd.Flags()
	set.StringVarP(&r.output, "output", "o", "", "add changes to this `file`, as lines of JSON (default: standard output)")
	set.BoolVar(&r.once, "once", false, "one round of what is due, for cron and timers; else rounds until interrupted")
	set.BoolVar(&r.all, "all", false, "ask for all pages in the first round, also those not due or gone, as far as the budget goes")
	flags.DurationVar(set, &r.every, "every", time.Hour, "from round to round this `time`, such as 7d")
	set.IntVar(&r.o.Budget, "budget", 0, "`requests` a day to each host; 0 = as many as it has URLs, from 100 to 10,000")
	set.StringVar(&r.webhook, "webhook", "", "post each change to this `URL` as JSON, until it is answered with 2xx")
	set.StringVar(&r.secretFile, "webhook-secret", "", "sign with the secret in this `file`; default: that in CRAWL_WEBHOOK_SECRET")
	set.StringVar(&r.rss, "rss", "", "have the last changes in this RSS `file`")
	set.StringVar(&r.o.Select, "select", "", "compare what this CSS `selector` selects, in place of the main text")
	set.StringArrayVar(&r.ignore, "ignore", nil, "leave what this `regexp` matches out of each line that is compared; repeatable")
	set.StringVar(&settings.File, "config", "", "read settings from this YAML or JSON `file`; flags are stronger")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := flags.CheckSeeds(cmd.Root(), args[1:]); err != nil {
			return err
		}
		r.o.Dir, r.o.Seeds = args[0], args[1:]
		saved, text, err := watch.Saved(args[0])
		if err != nil {
			return err
		}
		if err := r.keep(text, set); err != nil {
			return err
		}
		env := slices.DeleteFunc(slices.Clone(s.Env), func(kv string) bool { return strings.HasPrefix(kv, secretVariable+"=") }) // the secret is not a setting
		from := config.Sources{File: settings.FileIn(s.Env), Env: env, Flags: settings.Given, Seeds: r.o.Seeds}
		if saved != nil {
			from.Saved, from.SavedIn, from.Env = saved, args[0], nil
		}
		if r.loaded, err = flags.Load(from); err != nil {
			return err
		}
		return r.run(cmd.Context())
	}
	return cmd
}

// keep sets flags that were not given to their values in text, which the last run kept. Then it checks all flags and
// puts their values into the options, to be kept for the next run.
func (r *watchRun) keep(text string, set *pflag.FlagSet) error {
	kept := make(map[string][]string)
	if text != "" {
		if err := json.Unmarshal([]byte(text), &kept); err != nil {
			return cli.IOf("the flags that are kept in %s: %w", r.o.Dir, err)
		}
	}
	files := map[string]*string{"output": &r.output, "rss": &r.rss, "webhook-secret": &r.secretFile}
	for _, name := range keptFlags {
		f := set.Lookup(name)
		if f.Changed {
			kept[name] = nil
		}
		for _, value := range kept[name] {
			if err := set.Set(name, value); err != nil {
				return cli.IOf("as it is kept in %s: %w", r.o.Dir, err)
			}
		}
		if path := files[name]; path != nil && *path != "" && *path != sink.Stdout { // the next run may have another working directory
			if absolute, err := filepath.Abs(*path); err == nil {
				*path = absolute
			}
		}
		kept[name] = []string{f.Value.String()}
		if list, many := f.Value.(pflag.SliceValue); many {
			kept[name] = list.GetSlice()
		}
	}
	if r.every < time.Minute {
		return cli.Usagef("--every is %v: give a minute at least", r.every)
	}
	if r.o.Budget < 0 || r.o.Budget > 0 && r.o.Budget < 5 {
		return cli.Usagef("--budget is %d: give 5 requests a day at least", r.o.Budget)
	}
	for _, one := range r.ignore {
		re, err := regexp.Compile(one)
		if err != nil {
			return cli.Usagef("--ignore: %w", err)
		}
		r.o.Ignore = append(r.o.Ignore, re)
	}
	to, err := url.Parse(r.webhook)
	if r.webhook != "" && (err != nil || to.Host == "" || to.Scheme != "http" && to.Scheme != "https") {
		return cli.Usagef("--webhook: give a URL, such as https://example.com/hook")
	}
	if r.secret, err = watch.Secret(cli.LookupEnv(r.Env, secretVariable), r.secretFile); err != nil {
		return err
	}
	flags, err := json.Marshal(kept)
	r.o.Flags = string(flags)
	return err
}

func (r *watchRun) run(ctx context.Context) (err error) {
	term, log, every := job.Messages(r.Streams, r.loaded)
	signal.Ignore(syscall.SIGPIPE) // a closed pipe is then a write error, reported like any other
	defer signal.Reset(syscall.SIGPIPE)
	r.o.Settings, r.o.Log = r.loaded.Config, job.OfProgram(log)
	w, err := watch.Open(r.o)
	if err != nil {
		return err
	}
	defer func() {
		if e := w.Close(); err == nil && e != nil {
			err = cli.IO(e)
		}
	}()
	if err := r.outputs(w, term); err != nil {
		return err
	}
	err = r.rounds(ctx, w, term, log, every)
	if n := w.Waiting(); n > 0 && cli.CodeOf(err) == cli.CodeInterrupted {
		log.Warn("sending changes; interrupt again to leave them for the next run", slog.Int64("changes", n))
		again, stop := job.UntilInterrupt(ctx)
		defer stop()
		hurry, cancel := context.WithTimeout(again, 10*time.Second)
		defer cancel()
		err = cmp.Or(send(hurry, w, 1), err)
	}
	return err
}

// outputs opens the outputs that changes are written to.
func (r *watchRun) outputs(w *watch.Watch, term *cli.Terminal) (err error) {
	if r.output != "" && r.output != sink.Stdout {
		err = w.Lines(r.output)
	} else if r.webhook == "" && r.rss == "" {
		err = w.Stream(term.Beside(r.Out))
	}
	if err == nil && r.webhook != "" {
		err = w.Webhook(r.webhook, r.secret)
	}
	if err == nil && r.rss != "" {
		err = w.Feed(r.rss)
	}
	return err
}

// send sends changes before the watch ends. It is an error if the webhook has not taken all.
func send(ctx context.Context, w *watch.Watch, tries int) error {
	refused, err := w.Send(ctx, tries)
	if refused != nil && err == nil {
		err = cli.IOf("%s wait for the webhook, and the next run sends them: %w", cli.Plural(w.Waiting(), "change"), refused)
	}
	return err
}

// rounds runs one round with --once, or one after another until a signal comes, and sends what they have found.
func (r *watchRun) rounds(ctx context.Context, w *watch.Watch, term *cli.Terminal, log *slog.Logger, every time.Duration) error {
	asked, stop := job.UntilInterrupt(ctx)
	defer stop()
	for next, pause := clock.System().Now(), time.Second; ; {
		if now := clock.System().Now(); !now.Before(next) {
			err := r.round(ctx, w, term, log, every)
			if r.once && (err == nil || errors.Is(err, cli.ErrNothing)) {
				return cmp.Or(err, send(asked, w, 3))
			} else if err != nil {
				return err
			}
			next, r.all = now.Add(r.every), false
		}
		wait := next.Sub(clock.System().Now())
		sending, cancel := context.WithTimeout(asked, max(wait, time.Minute)) // a slow webhook does not keep pages waiting
		refused, err := w.Send(sending, 1)
		cancel()
		wait = next.Sub(clock.System().Now())
		switch {
		case err != nil:
			return err
		case refused == nil:
			pause = time.Second
		case asked.Err() == nil:
			pause = max(min(2*pause, 10*time.Minute), refused.After)
			log.Warn("the webhook does not take changes; they are kept and sent again", slog.Any("error", refused), slog.Duration("again_in", pause))
			wait = min(wait, pause)
		}
		if clock.Sleep(asked, clock.System(), max(wait, time.Second)) != nil {
			return &cli.Error{Code: cli.CodeInterrupted}
		}
	}
}

// round runs one round, unless too many changes wait.
func (r *watchRun) round(ctx context.Context, w *watch.Watch, term *cli.Terminal, log *slog.Logger, every time.Duration) error {
	if n := w.Waiting(); n >= watch.MaxWaiting {
		log.Warn("nothing is visited until the webhook takes changes: too many wait for it", slog.Int64("changes", n))
		return nil
	}
	counts, interrupted, err := w.Round(ctx, r.all, func(ctx context.Context, c *crawl.Crawler, run func(context.Context) error) error {
		return job.Supervise(ctx, term, log, every, c, run)
	})
	if err == nil && !r.loaded.Config.Log.Quiet() {
		r.report(&counts, term, log)
	}
	switch {
	case err != nil:
		return err
	case interrupted:
		return &cli.Error{Code: cli.CodeInterrupted}
	case r.once && counts.Visits > 0 && counts.Visits == counts.Failed:
		return cli.Advise(cli.ErrNothing, counts.Advice)
	}
	return nil
}

// report prints the counts of a round: with --once as text for people, otherwise as a log line, if the round has visited
// anything.
func (r *watchRun) report(c *watch.Counts, term *cli.Terminal, log *slog.Logger) {
	if !r.once {
		if c.Visits > 0 {
			log.Info("a round is done", slog.Int("visits", c.Visits), slog.Int("added", c.Added), slog.Int("changed", c.Changed), slog.Int("gone", c.Gone),
				slog.Int("failed", c.Failed), slog.Int("requests", c.Requests), slog.Int("pages", c.URLs), slog.Int("waiting", c.Waiting))
		}
		return
	}
	text := fmt.Sprintf("%s: %d added, %d changed, %d gone, %d unchanged", cli.Plural(c.Visits, "visit"), c.Added, c.Changed, c.Gone, c.Unchanged)
	if c.First > 0 {
		text += fmt.Sprintf(", %d seen for the first time", c.First)
	}
	if c.Failed > 0 {
		text += fmt.Sprintf(", %d failed", c.Failed)
	}
	if c.Failure != "" {
		text += "\n  failed:   " + c.Failure
	}
	text += fmt.Sprintf("\n  watched:  %s\n  requests: %s\n", cli.Plural(c.URLs, "page"), cli.Count(c.Requests))
	if c.Visits == 0 && c.Waiting == 0 && c.Failure == "" {
		text += "  due:      nothing yet; --all asks for all pages now\n"
	}
	if c.Waiting > 0 {
		text += fmt.Sprintf("  due:      %s wait for the budget of tomorrow; --budget raises it\n", cli.Plural(c.Waiting, "URL"))
	}
	cli.Say(term, "%s", text)
}
