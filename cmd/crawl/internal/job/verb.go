package job

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/cmd/crawl/internal/view"
	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/pipeline"
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

// OptionsOf returns settings as the options of a verb that uses the package crawl.
func OptionsOf(settings *config.Config) (o crawl.Options) {
	config.ToProgram(settings, &o)
	o.Version = cli.Version()
	return o
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
// of run, with what [Advise] adds to it, or [ErrForced].
func Supervise(ctx context.Context, term *cli.Terminal, log *slog.Logger, every time.Duration, c *crawl.Crawler, run func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := (&Job{term: term, log: log}).watch(signalActions{
		stop:   c.Stop,
		force:  func() { cancel(ErrForced) },
		giveUp: func() { os.Exit(cli.CodeForced) },
		tell: func() error {
			s := c.Snapshot()
			log.Info("progress", slog.Int64("pages", s.Pages), slog.Int64("queued", s.Frontier.Queued), slog.Int64("errors", s.Errors))
			return nil
		},
	})
	defer w.end()
	beside, stop := context.WithCancel(ctx)
	var background sync.WaitGroup
	if every > 0 {
		shown := view.Crawl{
			Snapshot: func() pipeline.Snapshot { return assembly.Convert[pipeline.Snapshot](c.Snapshot()) },
			Paused:   c.Paused, Halted: c.Halted(),
		}
		background.Go(func() { view.Progress(beside, term, log, shown, every) })
	}
	err := run(ctx)
	stop()
	background.Wait()
	if errors.Is(context.Cause(ctx), ErrForced) {
		return ErrForced
	}
	return Advise(err, c)
}
