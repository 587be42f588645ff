package job

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/treadlight/crawl/cmd/crawl/internal/exit"
)

// ErrForced is the end of a crawl that was interrupted twice.
var ErrForced = &exit.Error{Code: exit.CodeForced, Err: errors.New("interrupted twice: what was under way was given up")}

// echoTime is for how long after the first interrupt another is the same once more: timeout(1)
// and whoever ends a group of processes send a signal to the process and to its group. What
// a second one does is said when that is over, so that nobody who answers it is ignored.
const echoTime = 50 * time.Millisecond

// signalActions are what signals ask of a crawl.
type signalActions struct {
	stop   func()       // finish what is under way and end
	force  func()       // give up what is under way
	giveUp func()       // end the process at once
	tell   func() error // say how it goes
	reload func()       // read the configuration again; nil = there is no file to read
}

// listen begins to catch the signals that heed obeys. The channel holds as many as a
// person can send while one is being obeyed.
func listen() chan os.Signal {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, tellSignal)
	// The end of the terminal is an interrupt like any other, unless nohup said that it
	// is not to matter. Without one, or while it is there, the signal asks a crawl with
	// --config to read that again, as it asks any daemon.
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	return signals
}

// heed obeys signals until ctx ends: the first interrupt stops in order, the second
// gives up what is under way, a third ends the process; SIGUSR1 tells how it goes, and
// SIGHUP reloads if there is what to reload and the terminal is not gone. A second interrupt
// that comes at once is the echo of the first, and nothing. What tells or reloads may hang
// in what it writes to: interrupts are heeded all the same, and until it has ended.
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
			if sig == tellSignal {
				do(func() {
					if err := o.tell(); err != nil {
						log.Error("SIGUSR1: the state of the crawl could not be written", slog.Any("error", err))
					}
				})
				continue
			}
			if sig == syscall.SIGHUP && o.reload != nil && terminalThere() == attached {
				do(o.reload)
				continue
			}
			if settled != nil {
				continue
			}
			interrupts++
			switch interrupts {
			case 1:
				settled = time.After(echoTime)
			case 2:
				say(func() { log.Info("giving up what is under way; interrupt again to end at once") })
			}
			o.interrupt(interrupts)
		}
	}
}

// sayBeside is for what is said while signals are heeded: the log may go to the very pipe that nobody
// reads, and signals are heeded all the same. quiet waits a moment for what was not said yet.
func sayBeside() (say func(func()), quiet func()) {
	say, done := runBeside()
	quiet = func() {
		select {
		case <-done():
		case <-time.After(echoTime):
		}
	}
	return say, quiet
}

// runBeside does one thing after another beside its caller. What comes while eight wait is not done:
// what they wait for hangs. After done nothing may come; what it returns is closed when all has ended.
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

// interrupt obeys the n-th interrupt.
func (o *signalActions) interrupt(n int) {
	switch n {
	case 1:
		o.stop()
	case 2:
		o.force()
	default:
		o.giveUp()
	}
}

// terminalThere reports whether the process has a terminal that can still be opened.
func terminalThere() bool {
	f, err := os.OpenFile("/dev/tty", os.O_WRONLY, 0)
	if err != nil {
		return false
	}
	_ = f.Close() // nothing was written
	return true
}
