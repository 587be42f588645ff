package job

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/exit"
	"github.com/treadlight/crawl/cmd/crawl/internal/filekind"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/records/sink"
)

// What is particular to a process of a crawl that several share: what it is called, and where
// it writes, since each writes files of its own.

// settleWorker gives this process a name, and files their names.
func settleWorker(cfg *config.Config) {
	if !cfg.Fleet.Shared() {
		return
	}
	if cfg.Fleet.Worker == "" {
		name, err := os.Hostname()
		if err != nil {
			name = "unknown"
		}
		cfg.Fleet.Worker = fmt.Sprintf("%.50s-%d", fileWord(name), os.Getpid())
	}
	// Archives of two processes in one directory would be one series.
	if cfg.WARC.Dir != "" && !config.HasWorker(cfg.WARC.Dir) && filepath.Base(cfg.WARC.Dir) != cfg.Fleet.Worker {
		cfg.WARC.Dir = filepath.Join(cfg.WARC.Dir, cfg.Fleet.Worker)
	}
	for _, path := range []*string{&cfg.Output.Path, &cfg.Output.Events, &cfg.Stats.Path, &cfg.WARC.Dir, &cfg.RateLimit.Remember} {
		*path = config.OfWorker(*path, cfg.Fleet.Worker)
	}
}

// await waits until there is something to do, for a process that was given no URLs. A job
// that is complete has nothing, which is no failure.
func (j *Job) await(ctx context.Context) error {
	if !j.Join {
		return nil
	}
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	signals := listen()
	defer signal.Stop(signals)
	// Until it has ended, and not until it is to: it may hang in what it says.
	over, end := context.WithCancel(context.WithoutCancel(ctx))
	var beside sync.WaitGroup
	defer beside.Wait()
	defer end()
	limit := &shutdownDeadline{grace: j.Settings.Grace, end: func(forced bool) { os.Exit(cutCode(pipeline.EndInterrupted, forced)) }}
	defer limit.stop()
	beside.Go(func() {
		heed(over, signals, j.log, signalActions{
			stop: func() { limit.begin(); stop() }, force: limit.force, giveUp: func() { os.Exit(exit.CodeForced) },
			tell: func() error { j.log.Info("still waiting", slog.String("job", j.Settings.Fleet.Job)); return nil },
		})
	})
	err := crawl.AwaitJob(waiting, j.Settings, j.log)
	switch {
	case errors.Is(err, crawl.ErrJobComplete):
		j.log.Info("the job is complete: there is nothing left to do. Give URLs that are new to it to go on, or have 'crawl fleet purge' forget it", slog.String("job", j.Settings.Fleet.Job))
		return &exit.Error{Code: exit.CodeDone}
	case waiting.Err() != nil:
		return &exit.Error{Code: exit.CodeInterrupted}
	case err != nil:
		return exit.IO(err)
	}
	return nil
}

// fileWord is a text as a name that jobs and files take.
func fileWord(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '.' {
			return r
		}
		return '-'
	}, s)
}

// layOutShared is layOut for one of several processes: in a directory each has files of its
// own, and there is no state. A path without {worker} in it is taken as it is, so that two
// processes on one file system do not share a file by accident but by name.
func layOutShared(cfg *config.Config, dir string) error {
	if cfg.Output.Format == string(sink.WARC) {
		cfg.Output.Path = filepath.Join(dir, cfg.Fleet.Worker)
		return nil
	}
	if err := os.MkdirAll(dir, 0o777); err != nil { // less what the user's mask forbids
		return exit.Open("--output", err)
	}
	spec := sink.Format(cfg.Output.Format).Spec()
	cfg.Output.Path = filepath.Join(dir, "records-"+cfg.Fleet.Worker+spec.Ending())
	return nil
}

// lockOwn has this process be alone with its file or directory, which it makes if need be,
// until it is closed or the process ends, whatever ends it. Two under one name would cut off
// what the other is about to write. Where there are no locks it does nothing.
func lockOwn(path, worker string) (io.Closer, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		if f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644); err != nil {
			return nil, err
		}
	}
	if err != nil {
		return nil, err
	}
	if !lockFile(f) {
		_ = f.Close() // nothing was written
		return nil, fmt.Errorf("another process called %s is writing %s: give each a fleet.worker name of its own, or wait until that one has ended", worker, path)
	}
	return f, nil
}

// goingOn is how a file of records is opened by a process whose name it has: it goes on behind
// the last whole record, since the process before it may have been killed. What was behind
// that is fetched again by whoever has the host now.
func goingOn(path string) (cfg sink.Config, cut int64, err error) {
	f, err := os.Open(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return sink.Config{}, 0, nil
	case err != nil:
		return sink.Config{}, 0, err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return sink.Config{}, 0, err
	}
	head := make([]byte, min(info.Size(), filekind.PeekBytes))
	if _, err := io.ReadFull(f, head); err != nil {
		return sink.Config{}, 0, err
	}
	whole, err := lastLine(f, info.Size())
	if err != nil {
		return sink.Config{}, 0, err
	}
	first := whole == 0 && bytes.HasPrefix(head, []byte(`{"url":`)) // a record that was cut off
	spec := sink.ByStart(head)
	if !first && (!spec.Lines() || filekind.OfStart(head) != spec.Kind) {
		return sink.Config{}, 0, fmt.Errorf("%s is not the records of a crawl, to go on behind them: choose another fleet.worker or --output", path)
	}
	return sink.Config{Existing: sink.Resume, Position: whole}, info.Size() - whole, nil
}

// lastLine is where the last whole line of a file ends.
func lastLine(f io.ReaderAt, size int64) (int64, error) {
	buf := make([]byte, 64<<10)
	for end := size; end > 0; {
		part := buf[:min(end, int64(len(buf)))]
		start := end - int64(len(part))
		if _, err := f.ReadAt(part, start); err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		if i := bytes.LastIndexByte(part, '\n'); i >= 0 {
			return start + int64(i) + 1, nil
		}
		end = start
	}
	return 0, nil
}
