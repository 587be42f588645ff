// Package job runs one crawl from the command line. It opens the inputs before the outputs, runs the crawl and next to
// it the goroutines for signals, progress, snapshots and events, closes the files, prints the report, and turns the end
// of the crawl into an exit code. All these goroutines have ended when Run returns. One other goroutine may outlive
// Run: it waits in a read of standard input, which nothing can interrupt.
//
// A crawl can be resumed if its output is a directory or if it has --state; state.go decides where its files are. The
// state is opened before the records, because its lock keeps other processes away from both.
package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
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
	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/records/sink"
	"github.com/treadlight/crawl/record"
)

// Options says what a job does.
type Options struct {
	cli.Streams
	Settings *config.Config
	Warnings []string
	Seeds    []string
	Names    func() map[string]string       // display names of hosts by their names, for the report; nil means none
	Over     string                         // how the report calls an end by max_time; empty means a limit
	Reread   func() (*config.Loaded, error) // loads the configuration again; nil means that it has no file
	Join     bool                           // the process joins a job of a fleet and has no seeds of its own
	Fleeting bool                           // no state is kept, whatever the settings say
	Resumed  bool                           // a crawl that was kept is resumed
	Again    bool                           // a new round of it begins; Resumed is set too
}

// Job is one crawl from the command line. It runs once and is not reused.
type Job struct {
	Options

	dir       string          // of the state to resume
	own       bool            // in a fleet: the records go to a file named after this process
	state     *assembly.State // nil means that no state is kept
	moreSeeds bool            // of a resumed crawl: seed files are given that no earlier run had
	// keptListen is whether an earlier run was given the address of the console, and not this command: then nobody waits
	// at the console, and a crawl of which only blocked hosts are left ends at once.
	keptListen bool

	read *assembly.Read // what the files of the section access say

	began   time.Time
	late    *time.Timer // ends the process if the start takes too long
	started func()      // ends the watch over the start; set by begin

	term    *cli.Terminal
	log     *slog.Logger
	level   slog.LevelVar // the level of log
	in      *seedSource   // the seeds of --input-file; without the flag it is empty
	stats   *statsWriter
	events  *eventsWriter
	skipped *skippedFile
	lines   []*lineFile    // of events and skipped, as far as they are open
	out     *destination   // the records of --output
	items   []*destination // item files next to the records of pages, one per kind
	archive *destination   // the archive of --warc; nil means no archive besides the output
	console *watch.Console // of --listen; nil means no console
	tty     *os.File       // the keyboard, where standard input is something else

	deadline *shutdownDeadline // set once the crawl runs
	cut      atomic.Bool       // the shutdown deadline ends the process before the crawl has ended
	nothing  bool              // the crawl has ended, and no URL was answered with a page
}

// ErrNoSeeds is the error of a command line that has flags and names nothing to crawl.
var ErrNoSeeds = errors.New("no seeds: name at least one URL, or a file of them with --input-file (- is standard input)")

// Run crawls and reports. The error carries the exit code, also that of a crawl ended by a limit or a signal.
func (j *Job) Run(ctx context.Context) error {
	if err := assembly.Check(j.Seeds...); err != nil {
		return cli.Usage(err)
	}
	// A closed pipe is then a write error, reported like any other. By default SIGPIPE ends the process without a
	// message.
	signal.Ignore(syscall.SIGPIPE)
	defer signal.Reset(syscall.SIGPIPE)
	j.openLog()
	err := j.await(ctx)
	if err == nil {
		if j.started == nil { // GoOnIn, which opens a state, has called begin already
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

// told returns err as the command is to print it. With log.format json it logs the error instead and returns one that
// has the exit code only.
func (j *Job) told(err error) error {
	if err == nil || j.Settings.Log.Format != "json" {
		return err
	}
	if e, ok := errors.AsType[*cli.Error](err); !ok || e.Err != nil {
		j.log.Error("the crawl failed", slog.String("error", cli.Message(err)), slog.Int("exit_code", cli.CodeOf(err)))
	}
	return &cli.Error{Code: cli.CodeOf(err)}
}

// open opens inputs before outputs: a mistyped --input-file must not cost the file that --overwrite replaces. It opens
// the state before the records, because the lock of the state covers both.
func (j *Job) open() (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, j.abandon())
		}
	}()
	if !j.Resumed { // the settings of a resumed crawl name its files already
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
	for flag, path := range map[string]string{"--output": j.Settings.Output.Path, "--stats": j.Settings.Stats.Path, "output.events": j.Settings.Output.Events, "output.skipped": j.Settings.Output.Skipped} {
		if slices.ContainsFunc(seeds, func(file string) bool { return cli.SameFile(file, path) }) {
			return cli.Usagef("%s and --input-file are the same file, %s: change one of them", flag, path)
		}
	}
	if j.in, err = openSeeds(seeds, j.Streams.In, j.log); err != nil {
		return err
	}
	if err := assembly.CheckMemory(j.Settings); err != nil {
		return cli.IO(err)
	}
	if j.read, err = assembly.ReadAccess(j.Settings); err != nil {
		return flags.Wrong(err)
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
	j.lines = append(j.lines, j.events.lineFile)
	if j.skipped, err = openSkipped(j.Settings.Output.Skipped, j.term, j.log); err != nil {
		return err
	}
	j.lines = append(j.lines, j.skipped.lineFile)
	if listen := j.Settings.Listen; listen.Addr != "" { // before the outputs: an address in use must not cost a file
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

func (j *Job) abandon() error {
	errs := []error{j.closeSinks()}
	if j.state != nil {
		errs = append(errs, j.state.Close())
	}
	if j.console != nil {
		errs = append(errs, j.console.Close())
	}
	j.closeLines()
	return errors.Join(append(errs, j.stats.close(), j.in.close())...)
}

func (j *Job) closeLines() {
	for _, f := range j.lines {
		f.close()
	}
}

// onEvent returns a function that passes events to output.events and to the console, or nil if there is neither; see
// [eventsWriter.hook].
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

// crawl runs the crawl on the opened inputs and outputs, closes them, and prints the report.
func (j *Job) crawl(ctx context.Context) error {
	cfg := assembly.Config{
		Settings: *j.Settings, OnEvent: j.onEvent(), Version: cli.Version(), Log: j.log, Read: j.read, Kept: j.state, Join: j.Join, Began: j.began,
		Unattended: (j.console == nil || j.keptListen) && !j.Settings.Fleet.Shared(), // in a fleet, another process may have a console
	}
	cfg.OnSkip = j.skipped.hook()
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
	if e := j.closeSinks(); err == nil { // the first error is the cause
		err = e
	}
	cause := err
	j.nothing = cli.CodeOf(cmp.Or(cause, j.ended(&final))) == cli.CodeNothing
	err = errors.Join(j.explain(err, &final), j.stats.write(), j.stats.close(), j.in.close())
	j.closeLines()
	// After a broken pipe nobody reads a report any more. After an error before the first request there is nothing to
	// report.
	if !errors.Is(err, syscall.EPIPE) && (err == nil || final.Requests > 0) {
		if j.Settings.Log.Format != "json" {
			cli.Say(j.term, "%s", onFullDisk(cause, j.goOn(pipeline.EndFailed, "")))
		}
		err = errors.Join(err, j.tell(&final))
	}
	if err == nil {
		err = j.ended(&final)
	}
	return err
}

// supervise runs the crawl, and concurrently the handlers of signals, progress, snapshots, events and the console.
func (j *Job) supervise(ctx context.Context, c *assembly.Crawler) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// These goroutines run until the crawl has returned: while it gives up what is in flight, a third interrupt must
	// still count.
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
			if err := j.console.Serve(beside, c); err != nil { // the crawl can do without a console
				j.log.Error("the console has failed; the crawl goes on without it", slog.Any("error", err))
			}
		})
	}
	j.in.resumable = j.state != nil
	err := j.in.crawl(ctx, c, j.Seeds)
	// The cause of the cancellation, not context.Canceled. A crawl that is forced while it shuts down in order may
	// return nil: the second interrupt counts nevertheless.
	if cause := context.Cause(ctx); cause != nil && (err == nil || errors.Is(err, context.Canceled)) {
		err = cause
	}
	stop()
	w.end()
	background.Wait()
	return err
}

// reloader returns what SIGHUP does: it reads the configuration again and applies the settings that may change. It
// returns nil if the configuration has no file. Flags and variables still take precedence over the file. If anything is
// wrong with the file, the crawl goes on with its old settings.
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

// explain adds to the error of a crawl what a person can do about it.
func (j *Job) explain(err error, final *pipeline.Snapshot) error {
	if cli.Has[*assembly.StateError](err) {
		return fmt.Errorf("%w: when that is mended, go on with '%s'", err, j.goOn(pipeline.EndFailed, ""))
	}
	if e, ok := errors.AsType[*sink.WriteError](err); ok && !errors.Is(e, syscall.EPIPE) {
		return cli.IOf("%s; %s", cli.Message(e), j.afterMending(e))
	}
	if errors.Is(err, assembly.ErrLogin) && j.Settings.Output.Path != sink.Stdout {
		return fmt.Errorf("%w; %s", err, j.afterMending(err))
	}
	switch unreachable := errors.Is(err, assembly.ErrUnreachable); {
	case j.in.failed != nil && (err == nil || unreachable || errors.Is(err, assembly.ErrSeed)):
		return cli.IO(j.in.failed)
	case !unreachable && errors.Is(err, assembly.ErrSeed) && len(j.Seeds)+j.in.good == 0:
		return cli.Usagef("no usable seed in %s: write one URL per line", j.in.name())
	case unreachable:
		if len(j.out.seen) > 0 { // the failures appended below name the causes
			err = assembly.ErrUnreachable
		}
		if j.out.via > 0 && j.out.via == len(j.out.seen) {
			err = fmt.Errorf("%w: the proxy failed, and the site was not asked", err)
		}
		return fmt.Errorf("%w%s", err, j.out.failures())
	case final.State == pipeline.EndUnruled:
		return fmt.Errorf("%w; its pages are not asked for without it: try again later, or give --no-robots for a site of your own", err)
	case errors.Is(err, assembly.ErrBlocked) && j.state != nil && allBlocked(final.Reason):
		return fmt.Errorf("%w; to visit them: %s, and unblock them on the dashboard", err, j.goOn(final.State, final.Reason))
	case errors.Is(err, assembly.ErrBlocked) && strings.HasPrefix(final.Reason, pipeline.ProxyFails):
		if next := j.goOn(final.State, final.Reason); next != "" {
			return fmt.Errorf("%w; go on with '%s' when it works again, or add --proxy URL for another one, --proxy direct for none", err, next)
		}
		return fmt.Errorf("%w; %s", err, MendProxy)
	case errors.Is(err, assembly.ErrBlocked):
		return fmt.Errorf("%w; max_blocked says how long to wait for them", err)
	}
	return err
}

// onFullDisk says what is to be said in front of the report if err is that of a full disk; the error behind it has the
// details. next is the command that goes on.
func onFullDisk(err error, next string) string {
	if !cli.DiskFull(err) {
		return ""
	}
	dir := "the output"
	if e, ok := errors.AsType[*assembly.StateError](err); ok {
		dir = e.Dir
	} else if e, ok := errors.AsType[*sink.WriteError](err); ok && e.Path != "" && e.Path != sink.Stdout {
		dir = filepath.Dir(e.Path)
	}
	return cli.Clean(fmt.Sprintf("The disk of %s is full: make room, then %s\n", dir, cmp.Or(next, "begin anew with --overwrite")))
}

// afterMending says how to go on once the cause of err is mended.
func (j *Job) afterMending(err error) string {
	mend := "when that is mended"
	if cli.DiskFull(err) {
		mend = "free some room there, then"
	}
	if goOn := j.goOn(pipeline.EndFailed, ""); goOn != "" {
		return fmt.Sprintf("%s go on with '%s'", mend, goOn)
	}
	again := "begin anew with --overwrite"
	if j.own { // a process with a file of its own appends to it
		again = "start this process again"
	}
	return fmt.Sprintf("%s %s (a crawl with --state DIR goes on where it was)", mend, again)
}

// ended returns the error that carries the exit code of a crawl that ended without an error; nil if it obtained
// something. It did if this run or an earlier one obtained a page, or if the settings kept a page out. A process of a
// fleet needs no page, and neither does a round in which no URL was due.
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

// freePort is the port that messages suggest for --listen.
const freePort = "8091"

// allBlocked reports whether a crawl ended because the operator has blocked all hosts that are left.
func allBlocked(reason string) bool { return strings.HasPrefix(reason, frontier.AllExcluded) }

// enoughPages reports whether max_pages ended the crawl.
func enoughPages(end pipeline.End, reason string) bool {
	return end == pipeline.EndLimit && strings.HasPrefix(reason, "max_pages ")
}
