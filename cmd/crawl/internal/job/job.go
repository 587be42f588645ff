// Package job runs one crawl from the command line: it opens what is read before what is written, lets
// the crawl run beside what goes with it (signals, progress, snapshots, events), closes, reports,
// and turns the end into an exit code. All that runs beside it has ended when Run returns; the one
// goroutine that may outlive it waits in a read of standard input, which nothing can interrupt.
//
// A crawl whose output is a directory, or that has --state, can be resumed: state.go says where its
// files are, and resume.go goes on with it. The state is opened before the records, and the process
// that has it is alone with both.
package job

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/build"
	"github.com/treadlight/crawl/cmd/crawl/internal/exit"
	"github.com/treadlight/crawl/cmd/crawl/internal/flags"
	"github.com/treadlight/crawl/cmd/crawl/internal/report"
	"github.com/treadlight/crawl/cmd/crawl/internal/terminal"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/records/sink"
)

// Options is what a job is to do.
type Options struct {
	terminal.Streams
	Settings *config.Config
	Warnings []string
	Seeds    []string
	Names    func() map[string]string       // what the report calls hosts; nil = by their names
	Over     string                         // what the end of the time is called; empty = a limit
	Reread   func() (*config.Loaded, error) // the configuration again; nil = there is no file of it
	Join     bool                           // a job of several processes, without seeds
	Fleeting bool                           // it has no state, whatever the settings say
	Resumed  bool                           // the state is that of a crawl to go on with
	Again    bool                           // and a new round of it begins
}

// Job is one crawl from the command line. It runs once.
type Job struct {
	Options

	dir       string       // of the state that is opened to go on with it
	starting  *startWatch  // until the crawl runs; nil before
	own       bool         // of several processes, and the records are in a file named after this one
	state     *crawl.State // nil = there is none
	moreSeeds bool         // of a crawl that is resumed: there are seeds that earlier runs were not given

	term   *terminal.Terminal
	log    *slog.Logger
	level  slog.LevelVar   // of log
	in     *seedSource     // of --input-file, or empty
	stats  *statsWriter    // of --stats, or mute
	events *eventsWriter   // of output.events, or mute
	out    *failureSummary // of --output

	archive *failureSummary // of --warc; nil = there is none beside the output

	deadline *shutdownDeadline // of the crawl, once it runs
	cut      atomic.Bool       // the process ends before the crawl has

	console *crawl.Console // of --listen; nil = there is none
	tty     *os.File       // the keyboard, if that is not standard input
}

// ErrNoSeeds is for who gave flags and forgot what to crawl.
var ErrNoSeeds = errors.New("no seeds: name at least one URL, or a file of them with --input-file (- is standard input)")

// Run crawls and reports. The error carries the exit code, of a crawl that was ended by
// a limit or a signal too.
func (j *Job) Run(ctx context.Context) error {
	if err := crawl.Check(j.Seeds...); err != nil {
		return exit.Usage(err)
	}
	// A reader that goes away is an error to tell, like any other end of the output; by
	// default it would end the process without a word.
	signal.Ignore(syscall.SIGPIPE)
	defer signal.Reset(syscall.SIGPIPE)
	j.openLog()
	err := j.await(ctx)
	if err == nil {
		switch {
		case j.starting != nil: // a state was opened
		case j.Settings.Fleet.Shared(): // whose time counts from when the job was made
			j.begin(0)
		default:
			j.begin(j.Settings.MaxTime)
		}
		defer j.starting.end()
		err = j.open()
	}
	if err == nil {
		for _, w := range j.Warnings {
			j.log.Warn(w) //nolint:sloglint // the configuration's warnings are sentences with their fix
		}
		err = j.crawl(ctx)
	}
	return j.told(err)
}

// openLog opens the way to people, as the settings want it.
func (j *Job) openLog() {
	j.term = terminal.New(j.Err, j.Env, j.Settings.Log.Progress)
	j.level.Set(terminal.LevelOf(j.Settings.Log.Level))
	j.log = terminal.NewLoggerAt(j.term, &j.Settings.Log, &j.level)
}

// told is an error as whoever reads it wants it.
func (j *Job) told(err error) error {
	if err != nil && j.Settings.Log.Format == "json" {
		return j.logFailure(err)
	}
	return err
}

// logFailure tells the error where a machine reads the messages.
func (j *Job) logFailure(err error) error {
	if e, ok := errors.AsType[*exit.Error](err); !ok || e.Err != nil {
		j.log.Error("the crawl failed", slog.String("error", exit.Message(err)), slog.Int("exit_code", exit.CodeOf(err)))
	}
	return &exit.Error{Code: exit.CodeOf(err)}
}

// open opens what is read before what is written: a mistyped --input-file must not cost
// the file that --overwrite replaces. The state comes before the records, because whoever
// has it is alone with them.
func (j *Job) open() (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, j.abandon())
		}
	}()
	if !j.Resumed { // or it has been done
		given := j.Settings.Output.Path
		err = layOut(j.Settings)
		j.own = j.Settings.Fleet.Shared() && j.Settings.Output.Path != given
	}
	if err != nil {
		return err
	}
	if j.Fleeting {
		j.Settings.State.Dir = ""
	}
	seeds := j.seedFiles()
	for flag, path := range map[string]string{"--output": j.Settings.Output.Path, "--stats": j.Settings.Stats.Path, "output.events": j.Settings.Output.Events} {
		if slices.ContainsFunc(seeds, func(file string) bool { return sameFile(file, path) }) {
			return exit.Usage(fmt.Errorf("%s and --input-file are the same file, %s: change one of them", flag, path))
		}
	}
	if j.in, err = openSeeds(seeds, j.Streams.In, j.log); err != nil {
		return err
	}
	if err := crawl.CheckMemory(j.Settings); err != nil {
		return exit.IO(err)
	}
	if err := j.openState(); err != nil {
		return err
	}
	if j.stats, err = openStats(j.Settings.Stats.Path, j.term.Beside(j.Streams.Out)); err != nil {
		return err
	}
	if j.events, err = openEvents(j.Settings.Output.Events, j.term); err != nil {
		return err
	}
	if err := j.openConsole(); err != nil {
		return err
	}
	if j.out, err = j.openSink(); err == nil && j.Settings.WARC.Dir != "" {
		j.archive, err = j.openArchive(j.Settings.WARC.Dir)
	}
	return err
}

// sameFile reports whether two paths lead to one file. Standard streams and devices,
// which may well be both, do not count.
func sameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && x.Mode().IsRegular() && os.SameFile(x, y)
}

// crawl crawls between what is open, closes it, and tells a person how it went.
func (j *Job) crawl(ctx context.Context) error {
	sinks, archives := j.destinations()
	c, err := crawl.New(crawl.Config{
		Settings: *j.Settings, OnEvent: j.onEvent(), Sinks: sinks, Archives: archives, Version: build.Version(), Log: j.log, Kept: j.state, Join: j.Join, Began: j.starting.began,
	})
	if _, ok := errors.AsType[*crawl.FleetError](err); ok {
		return errors.Join(exit.IO(err), j.abandon())
	}
	if err != nil {
		return errors.Join(flags.Wrong(err), j.abandon())
	}
	j.tellRound()
	j.stats.snapshot = c.Snapshot
	err = j.supervise(ctx, c)
	defer j.deadline.stop()
	final := c.Snapshot()
	if err == nil {
		err = j.closeSinks()
	} else {
		_ = j.closeSinks() // the first error says what matters
	}
	err = j.explain(err, final.State)
	err = errors.Join(err, j.stats.write(), j.stats.close(), j.in.close())
	j.events.close(j.log)
	// After a broken pipe whoever watched has left; after an error that came before the
	// first request there is nothing to tell.
	if !errors.Is(err, syscall.EPIPE) && (err == nil || final.Requests > 0) {
		err = errors.Join(err, j.tell(&final))
	}
	if err == nil {
		err = j.ended(&final)
	}
	return err
}

// supervise runs the crawl, and beside it signals, progress, and snapshots.
func (j *Job) supervise(ctx context.Context, c *crawl.Crawler) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// What runs beside the crawl stays until the crawl has returned: while it is being given up, a
	// third interrupt must still count.
	beside, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	signals := listen()
	defer signal.Stop(signals)
	j.starting.end()
	view := j.liveView(c, func() {
		select {
		case signals <- os.Interrupt:
		default: // as many are waiting as a person can send
		}
	})
	j.deadline = &shutdownDeadline{grace: j.Settings.Grace, end: func(forced bool) { j.cutOff(c, view, forced) }}
	var background sync.WaitGroup
	background.Go(func() {
		select {
		case <-c.Stopping():
			j.deadline.begin()
		case <-beside.Done():
		}
	})
	background.Go(func() {
		heed(beside, signals, j.log, signalActions{
			stop:   func() { j.deadline.begin(); c.Stop(); j.in.stop() },
			force:  func() { j.deadline.force(); cancel(ErrForced) },
			tell:   func() error { return j.tellNow(c) },
			giveUp: func() { view.Abort(); os.Exit(exit.CodeForced) },
			reload: j.reloader(c),
		})
	})
	if j.Settings.Log.Progress != "none" && !j.Settings.Log.Quiet() {
		background.Go(func() { j.progress(beside, c, view) })
	}
	background.Go(func() {
		if err := j.stats.run(beside, j.Settings.Stats.Interval); err != nil {
			cancel(err)
		}
	})
	background.Go(func() { j.events.run(beside, j.log) })
	background.Go(func() { j.serve(beside, c) })
	j.in.resumable = j.state != nil
	err := j.in.crawl(ctx, c, j.Seeds)
	// What ended it, not that it ended. A crawl that is given up while it stops in order
	// may return nil: the second interrupt counts nevertheless.
	if cause := context.Cause(ctx); cause != nil && (err == nil || errors.Is(err, context.Canceled)) {
		err = cause
	}
	stop()
	background.Wait()
	return err
}

// explain adds to the end of a crawl what a person needs to mend it.
func (j *Job) explain(err error, end pipeline.End) error {
	if _, ok := errors.AsType[*crawl.StateError](err); ok {
		return fmt.Errorf("%w: when that is mended, go on with '%s'", err, j.goOn(pipeline.EndFailed, ""))
	}
	if e, ok := errors.AsType[*sink.WriteError](err); ok && !errors.Is(e, syscall.EPIPE) {
		return &exit.Unwritten{WriteError: e, Fix: j.afterWriteError(e)}
	}
	switch {
	case j.in.failed != nil && (err == nil || errors.Is(err, crawl.ErrUnreachable)):
		return exit.IO(j.in.failed)
	case errors.Is(err, crawl.ErrUnreachable) && len(j.Seeds)+j.in.good == 0:
		return exit.Usage(fmt.Errorf("no usable seed in %s: write one URL per line", j.in.name()))
	case errors.Is(err, crawl.ErrUnreachable):
		if j.out.via > 0 && j.out.via == len(j.out.seen) {
			err = fmt.Errorf("%w: the proxy failed, and the site was not asked; look at --proxy and the variables HTTP_PROXY and HTTPS_PROXY", err)
		}
		return fmt.Errorf("%w%s", err, j.out.failures())
	case end == pipeline.EndUnruled:
		return fmt.Errorf("%w; its pages are not asked for without it: try again later, or give --no-robots for a site of your own", err)
	case errors.Is(err, crawl.ErrBlocked):
		return fmt.Errorf("%w; max_blocked says how long to wait for them", err)
	}
	return err
}

// afterWriteError is what to do when records could not be written.
func (j *Job) afterWriteError(e *sink.WriteError) string {
	mend := "when that is mended"
	if exit.DiskFull(e) {
		mend = "free some room there, then"
	}
	if goOn := j.goOn(pipeline.EndFailed, ""); goOn != "" {
		return fmt.Sprintf("%s go on with '%s'", mend, goOn)
	}
	again := "begin anew with --overwrite"
	if j.own { // it goes on in its file
		again = "start this process again"
	}
	return fmt.Sprintf("%s %s (a crawl with --state DIR goes on where it was)", mend, again)
}

// tell reports the end of the crawl.
func (j *Job) tell(final *crawl.Snapshot) error {
	switch {
	case j.Settings.Log.Quiet():
		return nil
	case j.Settings.Log.Format == "json":
		log := j.log
		if events := j.events.summary(); events != "" {
			log = log.With(slog.String("events", events))
		}
		logRound(log, final).Info("the crawl ended",
			slog.String("state", final.State.String()), slog.String("reason", final.Reason),
			slog.Float64("elapsed_seconds", final.ElapsedSeconds), slog.Int64("pages", final.Pages),
			slog.Int64("records", final.Records), slog.Int64("errors", final.Errors),
			slog.Int64("requests", final.Requests), slog.Int64("retries", final.Retries),
			slog.Int64("bytes", final.Bytes), slog.Int64("queued", final.Frontier.Queued), slog.String("go_on", j.goOn(final.State, final.Reason)))
		return nil
	}
	return j.report(final, j.events.summary())
}

// tellNow is what SIGUSR1 asks for: a line in the file of --stats, or else a report.
func (j *Job) tellNow(c *crawl.Crawler) error {
	if j.Settings.Stats.Path != "" {
		if err := j.stats.write(); err != nil {
			return err
		}
		j.log.Info("the state was written", slog.String("file", j.stats.name))
		return j.checkpoint(c)
	}
	snap := c.Snapshot()
	// Events are still being written.
	return errors.Join(j.report(&snap, ""), j.checkpoint(c))
}

// report prints what a person wants to know, at the end or when asked. Where the records
// are is said only of files: on the screen they have just gone by, and what a failed
// crawl wrote is in the error.
func (j *Job) report(snap *crawl.Snapshot, events string) error {
	r := report.Report{Snap: snap, Columns: j.term.Columns(), Events: events, GoOn: j.goOn(snap.State, snap.Reason)}
	if j.Resumed {
		_, r.Before = j.state.Left()
		if snap.State != pipeline.EndNone && !j.cut.Load() { // nobody writes any more
			r.InAll = j.out.Mark().Records
		}
	}
	if snap.State == pipeline.EndLimit && strings.HasPrefix(snap.Reason, "max_time ") {
		r.Over = j.Over
	}
	if path := j.Settings.Output.Path; path != sink.Stdout && path != os.DevNull && snap.State != pipeline.EndFailed {
		r.Records = path
	}
	if r.Archive = j.archiveDir(); r.Archive == r.Records {
		r.Records = ""
	}
	if snap.State == pipeline.EndFailed {
		r.Archive = ""
	}
	r.Closer, r.Kept = j.closer(&r), ""
	if j.state != nil && r.GoOn == "" && snap.State != pipeline.EndNone {
		r.Kept = j.state.Dir()
	}
	if j.Names != nil {
		r.Names = j.Names()
	}
	if err := r.Write(j.term); err != nil && !j.term.Gone(err) {
		return exit.IO(fmt.Errorf("write the report: %w", err))
	}
	return nil
}
