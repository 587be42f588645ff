package job

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/build"
	"github.com/treadlight/crawl/cmd/crawl/internal/exit"
	"github.com/treadlight/crawl/cmd/crawl/internal/flags"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/records/sink"
)

// GoOnIn opens a state and runs the crawl in it.
func (j *Job) GoOnIn(ctx context.Context, settings *flags.Settings, dir string, open func(crawl.StateConfig) (*crawl.State, error)) error {
	// What is wrong with a flag is told before anything is touched, and how messages are to
	// look is needed before the settings of the first run can be had.
	given, err := flags.Load(config.Sources{File: settings.File, Flags: settings.Given})
	if err != nil {
		return err
	}
	j.Settings = &given.Config
	j.openLog()
	j.dir = dir
	j.begin(j.Settings.MaxTime)
	defer j.starting.end()
	j.log.Debug("opening the state", slog.String("state", dir))
	j.state, err = open(crawl.StateConfig{Dir: dir, Version: build.Version(), Log: j.log})
	if err != nil {
		return j.end(err)
	}
	saved := j.state.Config().Settings
	if j.Again {
		saved.Output.Path = RoundPath(saved.Output.Path, j.state.Round())
	}
	j.Reread = func() (*config.Loaded, error) {
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
		j.Reread = nil
	}
	j.Settings, j.Warnings = &loaded.Config, loaded.Warnings
	j.starting.maxTime <- j.Settings.MaxTime
	source := loaded.Origins["seeds.file"].Source
	j.moreSeeds = source == "flag" || source == "file"
	if queued, pages := j.state.Left(); j.state.Done() && !j.moreSeeds {
		j.log.Info("the crawl is complete: nothing is left to do", slog.String("state", dir), slog.Int64("pages", pages), slog.Int64("queued", queued))
		err := j.settle()
		if pages > 0 && !j.state.Obtained() {
			err = errors.Join(err, exit.ErrNothing)
		}
		return j.end(err)
	}
	if err := errors.Join(j.checkRound(), j.checkPlaces()); err != nil {
		return j.end(err)
	}
	return j.Run(ctx)
}

// checkPlaces reports what has come in the place of a file that the crawl goes on with.
func (j *Job) checkPlaces() error {
	path := j.Settings.Output.Path
	if info, err := os.Stat(path); path != sink.Stdout && err == nil && info.IsDir() && (j.Settings.Output.Format != string(sink.WARC) || j.Settings.Output.OneArchive()) {
		return exit.IO(fmt.Errorf("open --output: %s is a directory, but the crawl to resume has its records in a file there: put the file back", path))
	}
	if j.moreSeeds || j.state.Seeded() {
		return nil
	}
	for _, file := range j.Settings.Seeds.Files {
		if _, err := os.Stat(file); err != nil && file != sink.Stdout {
			return exit.IO(fmt.Errorf("the list of seeds was not read to its end: %w: put it back, or leave the rest of it out with --input-file ''", err))
		}
	}
	return nil
}

// end ends a job that does not come to crawl.
func (j *Job) end(err error) error {
	if e := j.abandon(); err == nil {
		err = e
	}
	return j.told(err)
}
