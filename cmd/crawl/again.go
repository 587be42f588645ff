package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/build"
	"github.com/treadlight/crawl/cmd/crawl/internal/exit"
	"github.com/treadlight/crawl/cmd/crawl/internal/flags"
	"github.com/treadlight/crawl/cmd/crawl/internal/terminal"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/records/sink"
)

// againCommand visits anew what a crawl has visited.
func againCommand(s terminal.Streams) *cobra.Command {
	var again crawl.Again
	cmd := &cobra.Command{
		Use:   "again DIR [flags]",
		Short: "Visit the pages of a crawl that is done again: what has changed?",
		Long: `Again begins a new round of a crawl that has a state (--state DIR, or --output
DIR/) and has come to its end. Every URL that it knows is asked for once more,
robots.txt first, and what is found on the way is followed. Servers are asked by
what they call the version that is known (ETag, Last-Modified): a page that has
not changed is answered with 304 and costs a header. 'change' in each record
says whether a page is new, changed, unchanged or gone, also where a server
knows no versions; what failed, or is refused, says nothing.

The records of round 2 go to a file of their own, records-2.jsonl beside
records.jsonl, and so on. A round that is interrupted is gone on with by 'crawl
resume DIR'. --max-pages and --max-time count for each round.

What a limit has left, or hosts that refused to be asked, stays queued: a round
with the same --max-pages is about the same pages, one with more goes on behind
them. After an interrupt, go on with 'crawl resume' first, or begin a round all
the same with --unfinished, which visits what is left as well.

A page that has not changed is not read for links again. What makes a crawl
wider (--depth, --scope, --include) finds all there is to find together with
--set fetch.conditional=false, which asks for every page whole.

It takes every flag of 'crawl' but --output, --format, --state and --overwrite.`,
		Example: `  crawl -o site/ https://example.com/      the first round
  crawl again site                         what has changed since
  crawl again site --max-age 168h          of what was last seen a week ago
  jq -r 'select(.change == "changed").url' site/records-2.jsonl`,
		DisableFlagsInUseLine: true,
		Args:                  flags.OneDir("again"),
		ValidArgsFunction:     flags.CompleteDirs,
	}
	cmd.Flags().DurationVar(&again.MaxAge, "max-age", 0, "ask only for what was answered longer ago than that `time`, or not at all; 0 = for everything")
	cmd.Flags().BoolVar(&again.Unfinished, "unfinished", false, "begin a round though the last one was interrupted")
	settings := flags.Add(cmd, func(config.Flag) bool { return true })
	flags.Hide(cmd) // the help of crawl has them
	settings.AddConfigFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if again.MaxAge < 0 {
			return exit.Usage(fmt.Errorf("--max-age is %v: give a time above zero, such as 24h", again.MaxAge))
		}
		j := &job{Streams: s, resumed: true, again: true}
		return j.goOnIn(cmd.Context(), settings, args[0], func(cfg crawl.StateConfig) (*crawl.State, error) {
			return crawl.OpenAgain(cfg, again)
		})
	}
	return cmd
}

// roundPath is the file of the records of a round, beside that of the round before: the name
// of the first with the number behind it. What is no file, such as a pipe, takes them all.
func roundPath(path string, round int) string {
	if info, err := os.Stat(path); path == sink.Stdout || err == nil && !info.Mode().IsRegular() {
		return path
	}
	dir, name := filepath.Split(path)
	ending := filepath.Ext(name)
	if strings.EqualFold(ending, ".gz") {
		ending = filepath.Ext(strings.TrimSuffix(name, ending)) + ending
	}
	if ending == name {
		ending = "" // a hidden file
	}
	name = strings.TrimSuffix(name, ending)
	if before := fmt.Sprintf("-%d", round-1); round > 2 {
		name = strings.TrimSuffix(name, before)
	}
	return fmt.Sprintf("%s%s-%d%s", dir, name, round, ending)
}

// checkRound reports what stands where the records of a new round are to go.
func (j *job) checkRound() error {
	path := j.cfg.Output.Path
	if info, err := os.Stat(path); j.again && path != sink.Stdout && err == nil && info.Mode().IsRegular() && info.Size() > 0 {
		return exit.IO(fmt.Errorf("open --output: %s is there already, and round %d has its records there: move it away", path, j.state.Round()))
	}
	return nil
}

// tellRound says what a round that has just begun is about.
func (j *job) tellRound() {
	if !j.again {
		return
	}
	queued, _ := j.state.Left()
	j.log.Info("a new round begins", slog.Int("round", j.state.Round()), slog.Int64("due", queued), slog.String("output", j.cfg.Output.Path))
}

// logRound is the same for machines.
func logRound(log *slog.Logger, s *crawl.Snapshot) *slog.Logger {
	if s.Round == 0 {
		return log
	}
	return log.With(slog.Int("round", s.Round), slog.Any("changes", s.Changes))
}

// goOnIn opens a state and runs the crawl in it.
func (j *job) goOnIn(ctx context.Context, settings *flags.Settings, dir string, open func(crawl.StateConfig) (*crawl.State, error)) error {
	// What is wrong with a flag is told before anything is touched, and how messages are to
	// look is needed before the settings of the first run can be had.
	given, err := flags.Load(config.Sources{File: settings.File, Flags: settings.Given})
	if err != nil {
		return err
	}
	j.cfg = &given.Config
	j.openLog()
	j.dir = dir
	j.begin(j.cfg.MaxTime)
	defer j.starting.end()
	j.log.Debug("opening the state", slog.String("state", dir))
	j.state, err = open(crawl.StateConfig{Dir: dir, Version: build.Version(), Log: j.log})
	if err != nil {
		return j.end(err)
	}
	saved := j.state.Config().Settings
	if j.again {
		saved.Output.Path = roundPath(saved.Output.Path, j.state.Round())
	}
	j.reread = func() (*config.Loaded, error) {
		if err := settings.Readable(settings.File); err != nil {
			return nil, err
		}
		return flags.Load(config.Sources{Saved: &saved, SavedIn: dir, File: settings.File, Flags: settings.Given})
	}
	loaded, err := flags.Load(config.Sources{Saved: &saved, SavedIn: dir, File: settings.File, Flags: settings.Given})
	if err != nil {
		return j.end(err)
	}
	if settings.File == "" {
		j.reread = nil
	}
	j.cfg, j.warnings = &loaded.Config, loaded.Warnings
	j.starting.maxTime <- j.cfg.MaxTime
	source := loaded.Origins["seeds.file"].Source
	j.moreSeeds = source == "flag" || source == "file"
	if queued, pages := j.state.Left(); j.state.Done() && !j.moreSeeds {
		j.log.Info("the crawl is done and nothing of it is left to do", slog.String("state", dir), slog.Int64("pages", pages), slog.Int64("queued", queued))
		err := j.settle()
		if pages > 0 && !j.state.Obtained() {
			err = errors.Join(err, exit.ErrNothing)
		}
		return j.end(err)
	}
	if err := errors.Join(j.checkRound(), j.checkPlaces()); err != nil {
		return j.end(err)
	}
	return j.run(ctx)
}
