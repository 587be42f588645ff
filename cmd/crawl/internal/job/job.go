// Package job runs one crawl from the command line: it opens what is read before what is written, lets the crawl run
// beside what goes with it (signals, progress, snapshots, events), closes, reports, and turns the end into an exit
// code. All that runs beside it has ended when Run returns; the one goroutine that may outlive it waits in a read of
// standard input, which nothing can interrupt.
//
// A crawl whose output is a directory, or that has --state, can be resumed: state.go says where its files are. The
// state is opened before the records, and the process that has it is alone with both.
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
	"time"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/cmd/crawl/internal/flags"
	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/assembly/watch"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/records/sink"
	"github.com/treadlight/crawl/record"
)

// Options is what a job is to do.
type Options struct {
	cli.Streams
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

	dir       string          // of the state that is opened to go on with it
	own       bool            // of several processes, and the records are in a file named after this one
	state     *assembly.State // nil = there is none
	moreSeeds bool            // of a crawl that is resumed: there are seeds that earlier runs were not given

	began   time.Time
	late    *time.Timer // ends a start that takes too long
	started func()      // ends the watch over the start

	term    *cli.Terminal
	log     *slog.Logger
	level   slog.LevelVar // of log
	in      *seedSource   // of --input-file, or empty
	stats   *statsWriter
	events  *eventsWriter
	out     *destination   // of --output
	items   []*destination // of items beside the records of pages
	archive *destination   // of --warc; nil = there is none beside the output
	console *watch.Console // of --listen; nil = there is none
	tty     *os.File       // the keyboard, if that is not standard input

	deadline *shutdownDeadline // of the crawl, once it runs
	cut      atomic.Bool       // the process ends before the crawl has
}

// ErrNoSeeds is for who gave flags and forgot what to crawl.
var ErrNoSeeds = errors.New("no seeds: name at least one URL, or a file of them with --input-file (- is standard input)")

// Run crawls and reports. The error carries the exit code, of a crawl that was ended by a limit or a signal too.
func (j *Job) Run(ctx context.Context) error {
	if err := assembly.Check(j.Seeds...); err != nil {
		return cli.Usage(err)
	}
	// A reader that goes away is an error to tell, like any other end of the output; by default it would end the
	// process without a word.
	signal.Ignore(syscall.SIGPIPE)
	defer signal.Reset(syscall.SIGPIPE)
	j.openLog()
	err := j.await(ctx)
	if err == nil {
		if j.started == nil { // no state was opened
			j.begin()
		}
		defer j.started()
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

func (j *Job) openLog() {
	j.term = cli.NewTerminal(j.Err, j.Env, j.Settings.Log.Progress)
	j.level.Set(cli.LevelOf(j.Settings.Log.Level))
	j.log = cli.NewLogger(j.term, &j.Settings.Log, &j.level)
}

// told is an error for whoever reads it; where a machine does it is in the log.
func (j *Job) told(err error) error {
	if err == nil || j.Settings.Log.Format != "json" {
		return err
	}
	if e, ok := errors.AsType[*cli.Error](err); !ok || e.Err != nil {
		j.log.Error("the crawl failed", slog.String("error", cli.Message(err)), slog.Int("exit_code", cli.CodeOf(err)))
	}
	return &cli.Error{Code: cli.CodeOf(err)}
}

// open opens what is read before what is written: a mistyped --input-file must not cost the file that --overwrite
// replaces. The state comes before the records, because whoever has it is alone with them.
func (j *Job) open() (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, j.abandon())
		}
	}()
	if !j.Resumed { // or it has been done
		given := j.Settings.Output.Path
		if err := layOut(j.Settings); err != nil {
			return err
		}
		j.own = j.Settings.Fleet.Shared() && j.Settings.Output.Path != given
	}
	if j.Fleeting {
		j.Settings.State.Dir = ""
	}
	seeds := j.seedFiles()
	for flag, path := range map[string]string{"--output": j.Settings.Output.Path, "--stats": j.Settings.Stats.Path, "output.events": j.Settings.Output.Events} {
		if slices.ContainsFunc(seeds, func(file string) bool { return sameFile(file, path) }) {
			return cli.Usagef("%s and --input-file are the same file, %s: change one of them", flag, path)
		}
	}
	if j.in, err = openSeeds(seeds, j.Streams.In, j.log); err != nil {
		return err
	}
	if err := assembly.CheckMemory(j.Settings); err != nil {
		return cli.IO(err)
	}
	if err := j.openState(); err != nil {
		return err
	}
	if j.stats, err = openStats(j.Settings.Stats.Path, j.term.Beside(j.Streams.Out)); err != nil {
		return err
	}
	if j.events, err = openEvents(j.Settings.Output.Events, j.term, j.log); err != nil {
		return err
	}
	if listen := j.Settings.Listen; listen.Addr != "" { // one that is taken is to cost nothing
		j.console, err = watch.Listen(assembly.ListenConfig{
			Addr: listen.Addr, Token: listen.Token, Version: cli.Version(), Log: j.log, OnStop: func() { j.in.stop() },
		})
		if err != nil {
			return cli.IOf("open --listen: %w", cli.Cause(err))
		}
	}
	if err = j.openSinks(); err == nil && j.Settings.WARC.Dir != "" {
		j.archive, err = j.openArchive(j.Settings.WARC.Dir)
	}
	return err
}

// sameFile reports whether two paths lead to one file. Standard streams and devices, which may well be both, do not
// count.
func sameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && x.Mode().IsRegular() && os.SameFile(x, y)
}

func (j *Job) abandon() error {
	errs := []error{j.closeSinks()}
	if j.state != nil {
		errs = append(errs, j.state.Close())
	}
	if j.console != nil {
		errs = append(errs, j.console.Close())
	}
	j.events.close()
	return errors.Join(append(errs, j.stats.close(), j.in.close())...)
}

// onEvent is who wants to know of events; nil if nobody does, see [eventsWriter.hook].
func (j *Job) onEvent() func(ratelimit.Event) {
	file := j.events.hook()
	switch {
	case j.console == nil:
		return file
	case file == nil:
		return j.console.Event
	}
	return func(e ratelimit.Event) {
		file(e)
		j.console.Event(e)
	}
}

// crawl crawls between what is open, closes it, and tells a person how it went.
func (j *Job) crawl(ctx context.Context) error {
	cfg := assembly.Config{
		Settings: *j.Settings, OnEvent: j.onEvent(), Version: cli.Version(), Log: j.log, Kept: j.state, Join: j.Join, Began: j.began,
	}
	switch {
	case j.Settings.Output.Format == string(sink.WARC):
		cfg.Archives = []record.Sink{j.out}
	case j.archive != nil:
		cfg.Archives = []record.Sink{j.archive}
		fallthrough
	default:
		cfg.Sinks = []record.Sink{j.out}
		for _, w := range j.items {
			cfg.Sinks = append(cfg.Sinks, w)
		}
	}
	c, err := assembly.New(cfg)
	switch {
	case cli.Has[*assembly.FleetError](err):
		return errors.Join(cli.IO(err), j.abandon())
	case err != nil:
		return errors.Join(flags.Wrong(err), j.abandon())
	}
	if j.Again {
		queued, _ := j.state.Left()
		j.log.Info("a new round begins", slog.Int("round", j.state.Round()), slog.Int64("due", queued), slog.String("output", j.Settings.Output.Path))
	}
	j.stats.snapshot = c.Snapshot
	err = j.supervise(ctx, c)
	defer j.deadline.stop()
	final := c.Snapshot()
	if e := j.closeSinks(); err == nil { // the first error says what matters
		err = e
	}
	err = errors.Join(j.explain(err, final.State), j.stats.write(), j.stats.close(), j.in.close())
	j.events.close()
	// After a broken pipe whoever watched has left; after an error that came before the first request there is
	// nothing to tell.
	if !errors.Is(err, syscall.EPIPE) && (err == nil || final.Requests > 0) {
		err = errors.Join(err, j.tell(&final))
	}
	if err == nil {
		err = j.ended(&final)
	}
	return err
}

// supervise runs the crawl, and beside it signals, progress, and snapshots.
func (j *Job) supervise(ctx context.Context, c *assembly.Crawler) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// What runs beside the crawl stays until the crawl has returned: while it is being given up, a third interrupt
	// must still count.
	beside, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var w *signalWatch
	live := j.liveView(c, func() { w.interrupt() })
	j.deadline = &shutdownDeadline{grace: j.Settings.Grace, end: func(forced bool) { j.cutOff(c, live, forced) }}
	w = j.watch(signalActions{
		stop:   func() { j.deadline.begin(); c.Stop(); j.in.stop() },
		force:  func() { j.deadline.force(); cancel(ErrForced) },
		tell:   func() error { return j.tellNow(c) },
		giveUp: func() { live.Abort(); os.Exit(cli.CodeForced) },
		reload: j.reloader(c),
	})
	j.started()
	var background sync.WaitGroup
	background.Go(func() {
		select {
		case <-c.Stopping():
			j.deadline.begin()
		case <-beside.Done():
		}
	})
	if j.Settings.Log.Progress != "none" && !j.Settings.Log.Quiet() {
		background.Go(func() { j.progress(beside, c, live) })
	}
	background.Go(func() {
		if err := j.stats.run(beside, j.Settings.Stats.Interval); err != nil {
			cancel(err)
		}
	})
	background.Go(func() { j.events.run(beside) })
	if j.console != nil {
		background.Go(func() {
			if err := j.console.Serve(beside, c); err != nil { // it costs the sight of the crawl and not the crawl
				j.log.Error("the console has failed; the crawl goes on without it", slog.Any("error", err))
			}
		})
	}
	j.in.resumable = j.state != nil
	err := j.in.crawl(ctx, c, j.Seeds)
	// What ended it, not that it ended. A crawl that is given up while it stops in order may return nil: the second
	// interrupt counts nevertheless.
	if cause := context.Cause(ctx); cause != nil && (err == nil || errors.Is(err, context.Canceled)) {
		err = cause
	}
	stop()
	w.end()
	background.Wait()
	return err
}

// reloader is what SIGHUP asks for; nil if there is no file to read again. Flags and variables stay stronger than the
// file. Whatever is wrong with the file, the crawl goes on as it was.
func (j *Job) reloader(c *assembly.Crawler) func() {
	if j.Reread == nil {
		return nil
	}
	return func() {
		loaded, err := j.Reread()
		if err == nil {
			err = layOut(&loaded.Config)
		}
		if err != nil {
			j.log.Error("the configuration cannot be read again; the crawl goes on with the old one", slog.Any("error", err))
			return
		}
		applied, refused, err := c.Reload(&loaded.Config)
		if err != nil {
			j.log.Error("the configuration cannot be changed so; the crawl goes on with the old one", slog.Any("error", err))
			return
		}
		for _, change := range applied {
			if change.Path == "log.level" {
				j.level.Set(cli.LevelOf(loaded.Config.Log.Level))
			}
			j.log.Info("a setting has changed", slog.String("setting", change.Path), slog.String("was", change.Was), slog.String("is", change.Is))
		}
		var paths []string
		for _, change := range refused {
			paths = append(paths, change.Path)
		}
		if len(paths) > 0 {
			j.log.Warn("settings that cannot change while a crawl runs stay as they were; start it anew to change them",
				slog.String("settings", strings.Join(paths, ", ")))
		}
		if len(applied)+len(refused) == 0 {
			j.log.Info("the configuration was read again and says the same")
		}
	}
}

// explain adds to the end of a crawl what a person needs to mend it.
func (j *Job) explain(err error, end pipeline.End) error {
	if cli.Has[*assembly.StateError](err) {
		return fmt.Errorf("%w: when that is mended, go on with '%s'", err, j.goOn(pipeline.EndFailed, ""))
	}
	if e, ok := errors.AsType[*sink.WriteError](err); ok && !errors.Is(e, syscall.EPIPE) {
		return cli.IOf("%s; %s", cli.Message(e), j.afterWriteError(e))
	}
	switch unreachable := errors.Is(err, assembly.ErrUnreachable); {
	case j.in.failed != nil && (err == nil || unreachable || errors.Is(err, assembly.ErrSeed)):
		return cli.IO(j.in.failed)
	case errors.Is(err, assembly.ErrSeed) && len(j.Seeds)+j.in.good == 0:
		return cli.Usagef("no usable seed in %s: write one URL per line", j.in.name())
	case unreachable:
		if len(j.out.seen) > 0 { // which have the cause
			err = assembly.ErrUnreachable
		}
		if j.out.via > 0 && j.out.via == len(j.out.seen) {
			err = fmt.Errorf("%w: the proxy failed, and the site was not asked; look at --proxy and the variables HTTP_PROXY and HTTPS_PROXY", err)
		}
		return fmt.Errorf("%w%s", err, j.out.failures())
	case end == pipeline.EndUnruled:
		return fmt.Errorf("%w; its pages are not asked for without it: try again later, or give --no-robots for a site of your own", err)
	case errors.Is(err, assembly.ErrBlocked):
		return fmt.Errorf("%w; max_blocked says how long to wait for them", err)
	}
	return err
}

// afterWriteError is what to do when records could not be written.
func (j *Job) afterWriteError(e *sink.WriteError) string {
	mend := "when that is mended"
	if cli.DiskFull(e) {
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

// ended is the error of a crawl that ended without one: the exit code of its end. It obtained something if it has a
// page, with its earlier runs, or one that the settings kept out. A process of several need not have any, nor need a
// round in which nothing was due.
func (j *Job) ended(final *pipeline.Snapshot) error {
	obtained := final.Pages > 0 || j.out.good || j.Settings.Fleet.Shared()
	if j.Resumed {
		_, before := j.state.Left()
		obtained = obtained || j.state.Obtained() || before == 0 && final.Records == 0
	}
	switch {
	case final.State == pipeline.EndInterrupted:
		return &cli.Error{Code: cli.CodeInterrupted}
	case final.State == pipeline.EndLimit && !enoughPages(final.State, final.Reason):
		return &cli.Error{Code: cli.CodeLimit}
	case obtained:
		return nil
	}
	return fmt.Errorf("%w%s", cli.ErrNothing, j.out.failures())
}

// enoughPages reports whether a crawl ended with as many pages as it was to have.
func enoughPages(end pipeline.End, reason string) bool {
	return end == pipeline.EndLimit && strings.HasPrefix(reason, "max_pages ")
}
