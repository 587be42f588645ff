package job

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/cmd/crawl/internal/view"
	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/assembly/fleet"
	"github.com/treadlight/crawl/internal/pipeline"
)

// ErrForced is the end of a crawl that was interrupted twice.
var ErrForced = &cli.Error{Code: cli.CodeForced, Err: errors.New("interrupted twice: what was under way was given up")}

const (
	// echoTime is for how long after the first interrupt another is the same once more: timeout(1) and whoever ends a
	// group of processes send a signal to the process and to its group.
	echoTime = 50 * time.Millisecond
	// forcedWithin is for how long a crawl that was interrupted twice may write what it has.
	forcedWithin = 2 * time.Second
	// lastWords is for how long a process that is cut off may say so: what it says that to may be what blocks, and a
	// machine with much other work takes its time.
	lastWords = 2 * time.Second
)

type signalActions struct {
	stop   func()       // finish what is under way and end
	force  func()       // give up what is under way
	giveUp func()       // end the process at once
	tell   func() error // say how it goes
	reload func()       // read the configuration again; nil = there is no file to read
}

// signalWatch catches signals and obeys them until end, which waits for what they have begun.
type signalWatch struct {
	signals chan os.Signal
	end     func()
}

func (w *signalWatch) interrupt() {
	select {
	case w.signals <- os.Interrupt:
	default: // as many are waiting as a person can send
	}
}

// watch begins to catch the signals that heed obeys.
func (j *Job) watch(o signalActions) *signalWatch {
	w := &signalWatch{signals: make(chan os.Signal, 8)} // as many as a person can send while one is obeyed
	signal.Notify(w.signals, os.Interrupt, syscall.SIGTERM, tellSignal)
	// The end of the terminal is an interrupt like any other, unless nohup said that it is not to matter. Without
	// one, or while it is there, the signal asks to read --config again.
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(w.signals, syscall.SIGHUP)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended, log := make(chan struct{}), j.log // which resuming replaces
	go func() {
		defer close(ended)
		heed(ctx, w.signals, log, o)
	}()
	w.end = sync.OnceFunc(func() { cancel(); <-ended; signal.Stop(w.signals) })
	return w
}

// heed obeys signals until ctx ends: the first interrupt stops in order, the second gives up what is under way, a
// third ends the process; SIGUSR1 tells how it goes, and SIGHUP reloads if there is what to reload and the terminal
// is not gone. What tells or reloads may hang in what it writes to: interrupts are heeded all the same, and until it
// has ended.
func heed(ctx context.Context, signals <-chan os.Signal, log *slog.Logger, o signalActions) {
	say, quiet := sayBeside()
	defer quiet()
	do, done := runBeside()
	over, idle := ctx.Done(), (<-chan struct{})(nil)
	attached := terminalThere()
	var settled <-chan time.Time // from the first interrupt
	for interrupts := 0; ; {
		select {
		case <-over:
			over, idle = nil, done()
			do = func(func()) {} // nothing new is begun any more
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
			case settled != nil: // the echo of the first
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

// sayBeside is for what is said while signals are heeded: the log may go to a pipe that nobody reads. quiet waits a
// moment for what was not said yet.
func sayBeside() (say func(func()), quiet func()) {
	say, done := runBeside()
	return say, func() {
		select {
		case <-done():
		case <-time.After(echoTime):
		}
	}
}

// runBeside does one thing after another beside its caller. What comes while eight wait is not done: what they wait
// for hangs. After done nothing may come; what it returns is closed when all has ended.
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

// begin watches over the start of a crawl until started: it ends the process when it is interrupted, or its time is
// over. What a start waits for cannot be: a large state on a slow disk, a Redis that does not answer. Nothing is
// fetched by then, and a state is left as by a kill.
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

// bound has the start end in time; zero: it has no bound.
func (j *Job) bound(maxTime time.Duration) {
	if j.late.Stop(); maxTime > 0 && !j.Settings.Fleet.Shared() { // whose time counts from when the job was made
		j.late.Reset(maxTime - time.Since(j.began))
	}
}

// await waits until there is something to do, for a process that was given no URLs. A job that is complete has
// nothing, which is no failure.
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

// shutdownDeadline ends the process when a crawl that is to end has not within grace, whatever blocks: a pipe that
// nobody reads, a disk that does not answer, a page that takes long. What is not committed then is visited again by
// the resume. Its methods are safe for concurrent use.
type shutdownDeadline struct {
	grace time.Duration // zero = as long as it takes
	end   func(forced bool)

	mu     sync.Mutex // guards what follows
	timer  *time.Timer
	forced bool
}

// begin has the time run. It runs once, however often the crawl is told to end.
func (o *shutdownDeadline) begin() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.timer == nil && o.grace > 0 {
		o.timer = time.AfterFunc(o.grace, o.over)
	}
}

// force leaves forcedWithin, and the exit code of a second interrupt.
func (o *shutdownDeadline) force() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.forced = true
	if o.timer == nil || o.timer.Stop() {
		o.timer = time.AfterFunc(forcedWithin, o.over)
	}
}

// stop has nothing ended any more: the command has come to its end.
func (o *shutdownDeadline) stop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.timer != nil {
		o.timer.Stop()
	}
}

func (o *shutdownDeadline) over() {
	o.mu.Lock()
	forced := o.forced
	o.mu.Unlock()
	o.end(forced)
}

// cutCode is the exit code of a crawl that is cut off in this state.
func cutCode(end pipeline.End, forced bool) int {
	switch {
	case forced:
		return cli.CodeForced
	case end == pipeline.EndLimit:
		return cli.CodeLimit
	}
	return cli.CodeInterrupted
}

// cutOff ends the process, with a word about it if that can be said.
func (j *Job) cutOff(c *assembly.Crawler, live *view.Live, forced bool) {
	live.Abort()
	code := make(chan int, 1)
	told := make(chan struct{})
	go func() { // either may wait for what blocks
		defer close(told)
		final := c.Snapshot()
		if final.State == pipeline.EndDone { // but not on its disk
			final.State, final.Reason = pipeline.EndInterrupted, "its output was not written to the end"
		}
		code <- cutCode(final.State, forced)
		j.log.Warn("shutdown deadline passed: ending now; requests in flight are not recorded", slog.Duration("grace", j.Settings.Grace))
		j.cut.Store(true)
		_ = j.tell(&final) // there is nobody to tell of its failure
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
