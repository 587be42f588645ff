package job

import (
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/build"
	"github.com/treadlight/crawl/cmd/crawl/internal/exit"
	"github.com/treadlight/crawl/internal/records/sink"
)

// openArchive opens a directory for archives, or the file of one: where the state has them, of
// a crawl that is resumed.
func (j *Job) openArchive(dir string) (*failureSummary, error) {
	w := &failureSummary{name: recordsName(j.state, dir)}
	one := j.Settings.Output.OneArchive()
	cfg := crawl.ArchiveConfig{Dir: dir, File: one, Settings: *j.Settings, Version: build.Version()}
	unknown := false
	if j.Resumed && (!j.Again || !one) { // another round has a file of its own
		p := j.position(w.name, dir)
		// To take archives that are not known for some of which nothing is certain would
		// remove them.
		_, pages := j.state.Left()
		if unknown = p.Format == "" && pages > 0; !unknown {
			cfg.Resume = &p
		}
	}
	var err error
	if j.Settings.Fleet.Shared() { // it is named after this process
		if !one {
			err = os.MkdirAll(dir, 0o777) // less what the user's mask forbids
		}
		if err == nil {
			w.lock, err = lockOwn(dir, j.Settings.Fleet.Worker)
		}
		cfg.GoOn = true
	}
	if err == nil {
		w.Durable, err = crawl.OpenArchive(cfg)
	}
	if err != nil {
		_ = w.Close() // nothing was written
	}
	switch {
	case err != nil && unknown:
		return nil, exit.IO(fmt.Errorf("open the archives: the crawl to resume does not know those in %s: move %s to where it was, or the archives away", dir, j.state.Dir()))
	case err != nil:
		return nil, exit.Open("the archives", err)
	}
	if c, ok := w.Durable.(interface{ Cut() int64 }); ok && c.Cut() > 0 {
		j.log.Info("removed data after the last complete exchange", slog.String("archives", dir), slog.Int64("bytes", c.Cut()))
	}
	return w, nil
}

// archiveDir is where archives go; empty if there are none.
func (j *Job) archiveDir() string {
	if j.Settings.Output.Format == string(sink.WARC) {
		return j.Settings.Output.Path
	}
	return j.Settings.WARC.Dir
}

// destinations is where records go, and where archives.
func (j *Job) destinations() (sinks, archives []crawl.Sink) {
	if j.Settings.Output.Format == string(sink.WARC) {
		return nil, []crawl.Sink{j.out}
	}
	if j.archive != nil {
		archives = []crawl.Sink{j.archive}
	}
	return []crawl.Sink{j.out}, archives
}

// closeSinks closes them.
func (j *Job) closeSinks() error {
	err := j.out.Close()
	if j.archive != nil {
		err = errors.Join(err, j.archive.Close())
	}
	return err
}

// settle completes the archives of a crawl that is done: it may have been killed between its
// end and theirs.
func (j *Job) settle() error {
	if j.archiveDir() == "" {
		return nil
	}
	w, err := j.openArchive(j.archiveDir())
	if err == nil {
		err = w.Close()
	}
	return err
}
