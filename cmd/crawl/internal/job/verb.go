package job

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/config"
)

// Messages returns the terminal and the logger of a verb, and the time between two lines of progress, as for [Supervise].
// It logs the warnings of the settings.
func Messages(s cli.Streams, loaded *config.Loaded) (term *cli.Terminal, log *slog.Logger, every time.Duration) {
	cfg := &loaded.Config.Log
	term = cli.NewTerminal(s.Err, s.Env, cfg.Progress)
	log = cli.NewLogger(term, cfg, cli.LevelOf(cfg.Level))
	for _, warning := range loaded.Warnings {
		log.Warn(warning) //nolint:sloglint // the configuration's warnings are sentences with their fix
	}
	if cfg.Progress != "none" && !cfg.Quiet() {
		every = loaded.Config.Stats.Interval
	}
	return term, log, every
}

// OfProgram returns a logger for the crawl of a verb. It drops messages about fields of crawl.Options, because the
// command has already reported the same of its flags.
func OfProgram(log *slog.Logger) *slog.Logger { return slog.New(ofProgram{log.Handler()}) }

type ofProgram struct{ slog.Handler }

// Handle implements [slog.Handler].
func (h ofProgram) Handle(ctx context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "Options.") {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// Supervise runs the crawl of a verb that uses the package crawl. Signals act as they do on the command crawl: the
// first interrupt stops in order, the second gives up what is in flight, a third ends the process. A status line shows
// the progress, or, where there is no terminal, a log line at every interval; zero means no progress. The error is that
// of run, or [ErrForced].
func Supervise(ctx context.Context, term *cli.Terminal, log *slog.Logger, every time.Duration, c *crawl.Crawler, run func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	line := func() []any {
		s := c.Snapshot()
		return []any{slog.Int64("pages", s.Pages), slog.Int64("queued", s.Frontier.Queued), slog.Int64("errors", s.Errors)}
	}
	w := (&Job{term: term, log: log}).watch(signalActions{
		stop:   c.Stop,
		force:  func() { cancel(ErrForced) },
		giveUp: func() { os.Exit(cli.CodeForced) },
		tell:   func() error { log.Info("progress", line()...); return nil },
	})
	defer w.end()
	beside, stop := context.WithCancel(ctx)
	var background sync.WaitGroup
	if every > 0 {
		background.Go(func() { showStatus(beside, term, every, c, func() { log.Info("progress", line()...) }) })
	}
	err := run(ctx)
	stop()
	background.Wait()
	if errors.Is(context.Cause(ctx), ErrForced) {
		return ErrForced
	}
	return err
}

// showStatus shows how a crawl goes until ctx ends.
func showStatus(ctx context.Context, term *cli.Terminal, every time.Duration, c *crawl.Crawler, log func()) {
	if term.Live() {
		every = cli.StatusEvery
		defer term.Clear()
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !term.Live() {
			log()
			continue
		}
		s := c.Snapshot()
		parts := []string{cli.Seconds(s.ElapsedSeconds), cli.Plural(s.Pages, "page"), cli.Count(s.Frontier.Queued) + " queued", fmt.Sprintf("%d active", s.Frontier.Leased)}
		if s.Errors > 0 {
			parts = append(parts, cli.Plural(s.Errors, "error"))
		}
		term.Show(append(parts, cli.Size(s.Bytes))...)
	}
}
