package job

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/cmd/crawl/internal/view"
	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/assembly/fleet"
	"github.com/treadlight/crawl/internal/pipeline"
)

// ErrForced is the error of a crawl that was interrupted twice.
var ErrForced = &cli.Error{Code: cli.CodeForced, Err: errors.New("interrupted twice: what was under way was given up")}

const (
	// echoTime is how long after the first interrupt another one counts as the same: timeout(1) and others that end a
	// group of processes signal both the process and its group.
	echoTime = 50 * time.Millisecond
	// forcedWithin is how long a crawl that was interrupted twice may still write what it has.
	forcedWithin = 2 * time.Second
	// lastWords is how long a process that is cut off may take to report that. The output it reports to may be what
	// blocks, and on a busy machine the report takes its time.
	lastWords = 2 * time.Second
)

// signalActions is what the signals do.
type signalActions struct {
	stop   func()       // finish what is in flight and end
	force  func()       // give up what is in flight
	giveUp func()       // end the process at once
	tell   func() error // report how the crawl goes
	reload func()       // read the configuration again; nil means that it has no file
}

// signalWatch catches signals and acts on them until end, which waits for the actions under way.
type signalWatch struct {
	signals chan os.Signal
	end     func()
}

func (w *signalWatch) interrupt() {
	select {
	case w.signals <- os.Interrupt:
	default: // the queue is as long as a person can need
	}
}

// interrupts are the signals that ask a process to end. SIGHUP says so at the end of the terminal, unless nohup has the
// process ignore it.
func interrupts() []os.Signal {
	if signal.Ignored(syscall.SIGHUP) {
		return []os.Signal{os.Interrupt, syscall.SIGTERM}
	}
	return []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}
}

// UntilInterrupt returns a context that ends when such a signal comes.
func UntilInterrupt(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, interrupts()...)
}

// watch begins to catch signals, which heed acts on.
func (j *Job) watch(o signalActions) *signalWatch {
	w := &signalWatch{signals: make(chan os.Signal, 8)} // more than a person sends during one action
	// Without a terminal, or while the terminal is there, SIGHUP requests that --config is read again.
	signal.Notify(w.signals, append(interrupts(), tellSignal)...)
	ctx, cancel := context.WithCancel(context.Background())
	ended, log := make(chan struct{}), j.log // GoOnIn and Run replace j.log
	go func() {
		defer close(ended)
		heed(ctx, w.signals, log, o)
	}()
	w.end = sync.OnceFunc(func() { cancel(); <-ended; signal.Stop(w.signals) })
	return w
}

// heed acts on signals until ctx ends. The first interrupt stops in order, the second gives up what is in flight, a
// third ends the process. SIGUSR1 reports how the crawl goes. SIGHUP reloads if there is a file to reload and the
// terminal is not gone. Reports and reloads may block on their output, so another goroutine runs them: interrupts count
// all the same, even after ctx has ended, until the last report or reload has returned.
func heed(ctx context.Context, signals <-chan os.Signal, log *slog.Logger, o signalActions) {
	say, quiet := sayBeside()
	defer quiet()
	do, done := runBeside()
	over, idle := ctx.Done(), (<-chan struct{})(nil)
	attached := terminalThere()
	var settled <-chan time.Time // fires echoTime after the first interrupt
	for interrupts := 0; ; {
		select {
		case <-over:
			over, idle = nil, done()
			do = func(func()) {} // nothing new begins any more
		case <-idle:
			return
		case <-settled:
			settled = nil
			say(func() { log.Info("stopping: finishing what is under way; interrupt again to give it up") })
		case sig := <-signals:
			switch {
			case sig == tellSignal:
				do(func() {
					if err := o.tell(); err != nil {
						log.Error("SIGUSR1: the state of the crawl could not be written", slog.Any("error", err))
					}
				})
				continue
			case sig == syscall.SIGHUP && o.reload != nil && terminalThere() == attached:
				do(o.reload)
				continue
			case settled != nil: // an echo of the first interrupt
				continue
			}
			switch interrupts++; interrupts {
			case 1:
				settled = time.After(echoTime)
				o.stop()
			case 2:
				say(func() { log.Info("giving up what is under way; interrupt again to end at once") })
				o.force()
			default:
				o.giveUp()
			}
		}
	}
}

// sayBeside returns a function that logs without blocking the handling of signals, since the log may go to a pipe that
// nobody reads. The function quiet waits a moment for messages not yet logged.
func sayBeside() (say func(func()), quiet func()) {
	say, done := runBeside()
	return say, func() {
		select {
		case <-done():
		case <-time.After(echoTime):
		}
	}
}

// runBeside returns do, which runs functions one after another on another goroutine. If eight are waiting, do drops the
// function, since the one that runs must hang. After done nothing may be passed to do; the channel that done returns is
// closed when all functions have returned.
func runBeside() (do func(func()), done func() <-chan struct{}) {
	things, ended := make(chan func(), 8), make(chan struct{})
	go func() {
		defer close(ended)
		for thing := range things {
			thing()
		}
	}()
	do = func(thing func()) {
		select {
		case things <- thing:
		default:
		}
	}
	return do, func() <-chan struct{} { close(things); return ended }
}

// terminalThere reports whether the process has a terminal that can still be opened.
func terminalThere() bool {
	f, err := os.OpenFile("/dev/tty", os.O_WRONLY, 0)
	return err == nil && f.Close() == nil
}

// begin watches over the start of a crawl until started is called: it ends the process at an interrupt or when max_time
// is over. That is needed because a start may wait for what cannot be canceled: a large state on a slow disk, a Redis
// that does not answer. Nothing has been fetched by then, and the state is left as a kill would leave it.
func (j *Job) begin() {
	j.began = time.Now()
	giveUp := func(code int, why string) func() {
		return func() {
			log := j.log
			if j.Resumed {
				log = log.With(slog.String("go_on", "crawl resume "+cli.ShellWord(j.dir)))
			}
			say, quiet := sayBeside()
			say(func() { log.Warn(why + " before the crawl has begun") }) //nolint:sloglint // one of two constants
			quiet()
			os.Exit(code)
		}
	}
	j.late = time.AfterFunc(time.Hour, giveUp(cli.CodeLimit, "--max-time is over"))
	j.bound(j.Settings.MaxTime)
	w := j.watch(signalActions{stop: giveUp(cli.CodeInterrupted, "interrupted"), tell: func() error { return nil }})
	j.started = func() { j.late.Stop(); w.end() }
}

// bound ends the start after maxTime since it began; zero means no limit.
func (j *Job) bound(maxTime time.Duration) {
	if j.late.Stop(); maxTime > 0 && !j.Settings.Fleet.Shared() { // the time of a fleet began with its job
		j.late.Reset(maxTime - time.Since(j.began))
	}
}

// await waits until the job of the fleet has something to do, if this process was given no URLs. A job that is complete
// has nothing to do, which is not a failure: the exit code says done.
func (j *Job) await(ctx context.Context) error {
	if !j.Join {
		return nil
	}
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	limit := &shutdownDeadline{grace: j.Settings.Grace, end: func(forced bool) { os.Exit(cutCode(pipeline.EndInterrupted, forced)) }}
	defer limit.stop()
	w := j.watch(signalActions{
		stop: func() { limit.begin(); stop() }, force: limit.force, giveUp: func() { os.Exit(cli.CodeForced) },
		tell: func() error { j.log.Info("still waiting", slog.String("job", j.Settings.Fleet.Job)); return nil },
	})
	defer w.end()
	err := fleet.Await(waiting, j.Settings, j.log)
	switch {
	case errors.Is(err, assembly.ErrJobComplete):
		j.log.Info("the job is complete: there is nothing left to do. Give URLs that are new to it to go on, or have 'crawl fleet purge' forget it", slog.String("job", j.Settings.Fleet.Job))
		return &cli.Error{Code: cli.CodeDone}
	case waiting.Err() != nil:
		return &cli.Error{Code: cli.CodeInterrupted}
	case err != nil:
		return cli.IO(err)
	}
	return nil
}

// shutdownDeadline ends the process when a crawl that is to end has not ended within grace, whatever blocks it: a pipe
// that nobody reads, a disk that does not answer, a page that takes long. URLs whose records are not committed by then
// are visited again by the resume. Its methods are safe for concurrent use.
type shutdownDeadline struct {
	grace time.Duration // zero means no deadline
	end   func(forced bool)

	forced atomic.Bool

	mu    sync.Mutex // guards what follows
	timer *time.Timer
}

// begin starts the timer, once, however often the crawl is told to end.
func (o *shutdownDeadline) begin() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.timer == nil && o.grace > 0 {
		o.timer = time.AfterFunc(o.grace, o.over)
	}
}

// force shortens the time to forcedWithin, and has the exit code be that of a second interrupt.
func (o *shutdownDeadline) force() {
	o.forced.Store(true)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.timer == nil || o.timer.Stop() {
		o.timer = time.AfterFunc(forcedWithin, o.over)
	}
}

// stop stops the timer: the command has come to its end.
func (o *shutdownDeadline) stop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.timer != nil {
		o.timer.Stop()
	}
}

func (o *shutdownDeadline) over() { o.end(o.forced.Load()) }

// cutCode returns the exit code of a crawl that is cut off in this state.
func cutCode(end pipeline.End, forced bool) int {
	switch {
	case forced:
		return cli.CodeForced
	case end == pipeline.EndLimit:
		return cli.CodeLimit
	}
	return cli.CodeInterrupted
}

// cutOff ends the process, and reports that first if lastWords is long enough.
func (j *Job) cutOff(c *assembly.Crawler, live *view.Live, forced bool) {
	live.Abort()
	code := make(chan int, 1)
	told := make(chan struct{})
	go func() { // the snapshot and the report may both wait for what blocks
		defer close(told)
		final := c.Snapshot()
		if final.State == pipeline.EndDone { // done, but its output is not written
			final.State, final.Reason = pipeline.EndInterrupted, "its output was not written to the end"
		}
		code <- cutCode(final.State, forced)
		j.log.Warn("shutdown deadline passed: ending now; requests in flight are not recorded", slog.Duration("grace", j.Settings.Grace))
		j.cut.Store(true)
		_ = j.tell(&final) // a failure could be reported to nobody
	}()
	select {
	case <-told:
	case <-time.After(lastWords):
	}
	select {
	case n := <-code:
		os.Exit(n)
	default:
		os.Exit(cutCode(0, forced))
	}
}
