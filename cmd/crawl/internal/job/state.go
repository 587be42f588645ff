package job

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/build"
	"github.com/treadlight/crawl/cmd/crawl/internal/exit"
	"github.com/treadlight/crawl/cmd/crawl/internal/report"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/records/sink"
)

// How a crawl is kept: where its files are, and what is said about going on with it.

// layOut puts the records of a crawl whose output is a directory into a file there, and its
// state beside them unless that has another place.
func layOut(cfg *config.Config) error {
	settleWorker(cfg)
	dir := cfg.Output.Path
	info, err := os.Stat(dir)
	isDir := os.IsPathSeparator(dir[len(dir)-1]) || err == nil && info.IsDir() || cfg.Output.Format == string(sink.WARC) && !cfg.Output.OneArchive()
	if dir == sink.Stdout || !isDir {
		return nil
	}
	if cfg.Fleet.Shared() {
		return layOutShared(cfg, dir)
	}
	if err := os.MkdirAll(dir, 0o777); err != nil { // less what the user's mask forbids
		return exit.Open("--output", err)
	}
	spec := sink.Format(cfg.Output.Format).Spec()
	cfg.Output.Path = filepath.Join(dir, "records"+spec.Ending())
	if cfg.Output.Format == string(sink.WARC) {
		cfg.Output.Path = filepath.Join(dir, "archive")
	}
	if cfg.State.Dir == "" {
		cfg.State.Dir = filepath.Clean(dir)
	}
	if err := cfg.Validate(); err != nil { // two things in one file
		return exit.Usage(err)
	}
	return nil
}

// openState makes the state of a crawl that is to be kept, if it is not there already to
// be resumed.
func (j *Job) openState() (err error) {
	if j.state == nil && j.Settings.State.Dir != "" {
		j.state, err = crawl.NewState(crawl.StateConfig{
			Dir: j.Settings.State.Dir, Overwrite: j.Settings.Output.Overwrite, Version: build.Version(), Log: j.log,
		})
	}
	if j.state == nil {
		return err
	}
	path := j.Settings.Output.Path
	if j.Settings.Output.Format == string(sink.WARC) {
		return err
	}
	if info, errStat := os.Stat(path); path == sink.Stdout {
		j.log.Warn("the records go to standard output and cannot be taken back: after a crash some of them may come twice; " +
			"give --output with a file or a directory")
	} else if path != os.DevNull && errStat == nil && !info.Mode().IsRegular() {
		j.log.Warn("the records go to a pipe or a device and cannot be taken back: after a crash some of them may come twice; "+
			"give --output with a file or a directory", slog.String("output", path))
	}
	return err
}

// openSink opens what records are written to: where the state has it, of a crawl that is
// resumed.
func (j *Job) openSink() (*failureSummary, error) {
	o := &j.Settings.Output
	if o.Format == string(sink.WARC) {
		return j.openArchive(o.Path)
	}
	w := &failureSummary{name: recordsName(j.state, o.Path)}
	cfg := sink.Config{Format: sink.Format(o.Format), Fields: j.Settings.Extract.Names(), Gzip: o.Compressed()}
	if cfg.Gzip && j.Settings.Fleet.Shared() {
		return nil, exit.Usage(fmt.Errorf("--output %s: several processes of a job write no compressed files; give a name without .gz", o.Path))
	}
	var behind int64
	var err error
	if j.own {
		if w.lock, err = lockOwn(o.Path, j.Settings.Fleet.Worker); err != nil {
			return nil, exit.Open("--output", err)
		}
		defer func() {
			if w.Durable == nil {
				_ = w.Close() // nothing was written
			}
		}()
		var own sink.Config
		if own, behind, err = goingOn(o.Path); own.Existing == sink.Resume {
			cfg.Existing, cfg.Position = own.Existing, own.Position
		}
	}
	if o.Overwrite {
		cfg.Existing, cfg.Position, behind, err = sink.Overwrite, 0, 0, nil
	}
	if j.Resumed && !j.Again { // another round has a file of its own
		cfg.Existing = sink.Resume
		cfg.Position, cfg.Records, behind, err = j.committed(w.name)
	}
	switch {
	case err != nil:
	case o.Path == sink.Stdout:
		w.Durable, err = sink.New(j.term.Beside(j.Streams.Out), cfg)
	default:
		var file *sink.Writer
		if file, err = sink.Open(o.Path, cfg); err == nil { // a nil Writer would be a Durable that is not nil
			w.Durable = file
		} else if j.Settings.Fleet.Shared() && !j.own {
			err = fmt.Errorf("%w; with {worker} in its name a process goes on in the file of its own", err)
		}
	}
	if err != nil {
		return nil, exit.Open("--output", err)
	}
	if behind > 0 {
		j.log.Info("removed data after the last committed record", slog.String("file", o.Path), slog.Int64("bytes", behind))
	}
	return w, nil
}

// committed is how far the state has the records that it may call by that name, and how many
// bytes of their file stand behind that. Where the directory has been moved to since, or is
// reached by another way, the name of a file that was beside it is another. To take a file
// that is not known for one of which nothing is certain would empty it.
func (j *Job) committed(name string) (bytes, records, behind int64, err error) {
	path := j.Settings.Output.Path
	p := j.position(name, path)
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() { // the rest has nothing to lose
		behind = info.Size() - p.Bytes
	}
	if _, pages := j.state.Left(); p.Format == "" && pages > 0 && behind > 0 {
		err = fmt.Errorf("%s has %d bytes, and the crawl to resume does not know the file: move %s to where it was, or the file away",
			path, behind, j.state.Dir())
	}
	return p.Bytes, p.Records, behind, err
}

// position is how far the state has what it calls by that name, or by the one that a path has
// everywhere.
func (j *Job) position(name, path string) crawl.Position {
	p := j.state.Position(name)
	if absolute, err := filepath.Abs(path); p.Format == "" && err == nil && path != sink.Stdout {
		p = j.state.Position(absolute)
	}
	return p
}

// recordsName is what a state calls the file of the records, whatever the working directory
// of a run is and wherever the state has been moved with the file in it.
func recordsName(state *crawl.State, path string) string {
	if state == nil || path == sink.Stdout {
		return path
	}
	file, errFile := filepath.Abs(path)
	dir, errDir := filepath.Abs(state.Dir())
	if errFile != nil || errDir != nil {
		return path // there is no working directory, and nothing better
	}
	if rel, err := filepath.Rel(dir, file); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return file
}

// seedFiles are the files whose seeds this run is to read: of a crawl that is resumed, those
// that were given now, or those that an earlier run has not read to their end.
func (j *Job) seedFiles() []string {
	files := j.Settings.Seeds.Files
	switch {
	case !j.Resumed || j.moreSeeds:
		return files
	case j.state.Seeded():
		return nil
	case slices.Contains(files, sink.Stdout):
		j.log.Warn("standard input was not read to its end, and what was left of it is gone; give the rest of the seeds with --input-file")
		return slices.DeleteFunc(slices.Clone(files), func(file string) bool { return file == sink.Stdout })
	}
	return files
}

// goOn is the command that goes on with a crawl; empty if it is not kept or is over. What
// a number of pages has ended needs another number.
func (j *Job) goOn(end pipeline.End, reason string) string {
	if j.state == nil || end == pipeline.EndNone || end == pipeline.EndDone {
		return ""
	}
	command := "crawl resume " + shellWord(j.state.Dir())
	if enoughPages(end, reason) {
		command += " --max-pages N"
	}
	return command
}

// closer is the command that tells more of a crawl than its end does; empty if there is
// nothing that it could read. One that goes on is told of by what asked for it.
func (j *Job) closer(r *report.Report) string {
	spec := sink.Format(j.Settings.Output.Format).Spec()
	switch {
	case r.Snap.State == pipeline.EndNone || r.Snap.Pages == 0:
		return ""
	case j.state != nil:
		return "crawl report " + shellWord(j.state.Dir())
	case r.Records != "" && spec.Reportable():
		return "crawl report " + shellWord(r.Records)
	}
	return ""
}

// shellWord is a word as a shell takes it.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+,:@%=", r)
	}
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) && s[0] != '-' {
		return s
	}
	if s != "" && s[0] == '-' {
		s = "./" + s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// checkpointPatience bounds how long somebody who asked for a checkpoint waits for a disk: another
// signal may come, and must be heard.
const checkpointPatience = 10 * time.Second

// checkpoint puts a crawl that is kept on its disk, and says so.
func (j *Job) checkpoint(c *crawl.Crawler) error {
	if j.state == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), checkpointPatience)
	defer cancel()
	err := c.Checkpoint(ctx)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		j.log.Warn("the checkpoint is not complete yet", slog.Duration("after", checkpointPatience))
		return nil
	case err == nil:
		j.log.Info("checkpoint written", slog.String("state", j.state.Dir()))
	}
	return err
}

// abandon closes what was opened for a crawl that does not begin.
func (j *Job) abandon() error {
	closers := []io.Closer{}
	if j.out != nil {
		closers = append(closers, j.out)
	}
	if j.archive != nil {
		closers = append(closers, j.archive)
	}
	if j.state != nil {
		closers = append(closers, j.state)
	}
	if j.console != nil {
		closers = append(closers, j.console)
	}
	var errs []error
	for _, c := range closers {
		errs = append(errs, c.Close())
	}
	if j.events != nil {
		j.events.close(j.log)
	}
	if j.stats != nil {
		errs = append(errs, j.stats.close())
	}
	if j.in != nil {
		errs = append(errs, j.in.close())
	}
	return errors.Join(errs...)
}
