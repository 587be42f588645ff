// Package live shows a crawl that runs: on the whole of a terminal, in a status line, or in log
// lines where there is no terminal.
package live

import (
	"context"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/treadlight/crawl/cmd/crawl/internal/terminal"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/internal/clock"
)

// repaints is how often a second the screen changes at most.
const repaints = 4

// Crawl is a crawl as the live view sees and steers it.
type Crawl struct {
	Snapshot      func() crawl.Snapshot
	Paused        func() bool
	Pause, Resume func() error
	Halted        <-chan struct{} // closed once it stops
	Interrupt     func()          // as Ctrl-C does
}

// stopping reports whether nothing new is begun.
func (c *Crawl) stopping() bool {
	select {
	case <-c.Halted:
		return true
	default:
		return false
	}
}

// state is what the crawl does, in the word of the dashboard.
func (c *Crawl) state() string {
	switch {
	case c.stopping():
		return "stopping"
	case c.Paused():
		return "paused"
	}
	return "running"
}

// View shows a crawl on the whole of a terminal. The screen is the alternate one, so that
// nothing is left of the view on the usual screen: what was logged meanwhile is printed
// there when the view goes, as it is when the crawl ends, when the process is suspended, and
// when the terminal is another job's. A crawl in the background is not shown until it is
// back in the foreground.
type View struct {
	Term  *terminal.Terminal
	Log   *slog.Logger
	Crawl Crawl
	Env   []string
	In    io.Reader // the keyboard; nil = there is none
	Out   *os.File  // the terminal
	Names func() map[string]string
	Title string

	history history // of the goroutine that runs it

	mu      sync.Mutex // guards what follows
	program *tea.Program
}

// leave is why a view has gone.
type leave uint8

const (
	leaveEnd     leave = iota // the crawl is over, or the terminal may be another's
	leaveSuspend              // the process is to be suspended
	leaveBroken               // it cannot be shown
)

// Run shows the crawl until ctx ends. It reports whether it could be: if not, there is a
// terminal, and no view on it.
func (l *View) Run(ctx context.Context) bool {
	clk := clock.System()
	// One that is over at once needs no screen, which would only flicker.
	for clock.Sleep(ctx, clk, terminal.StatusEvery) == nil {
		if !foreground(l.Out) {
			continue
		}
		switch l.session(ctx) {
		case leaveBroken:
			return false
		case leaveSuspend:
			suspend(ctx)
		case leaveEnd:
		}
	}
	return true
}

// session shows the crawl until ctx ends or the view is to go.
func (l *View) session(ctx context.Context) leave {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, viewSignals()...)
	defer signal.Stop(signals)
	l.Term.Lend()
	defer l.Term.Back()
	wishes := make(chan wish, 8)
	m := &model{wishes: wishes, view: picture{
		history: &history{}, title: l.Title, keys: l.In != nil, colours: colourful(l.Env),
	}}
	if l.Names != nil {
		m.view.names = l.Names()
	}
	// The library knows NO_COLOR with some values only, and asks other programs for the rest.
	profile := colorprofile.ANSI
	if !m.view.colours {
		profile = colorprofile.ASCII
	}
	p := tea.NewProgram(m, tea.WithInput(l.In), tea.WithOutput(l.Out), tea.WithEnvironment(l.Env),
		tea.WithFPS(repaints), tea.WithColorProfile(profile), tea.WithoutSignalHandler())
	l.hold(p)
	defer l.hold(nil)
	var why leave
	var feeding sync.WaitGroup
	feeding.Go(func() { why = l.feed(ctx, p, wishes, signals) })
	_, err := p.Run()
	broken := err != nil && ctx.Err() == nil
	cancel()
	feeding.Wait()
	if broken {
		l.Log.Warn("the live view has failed; the crawl goes on without it", slog.Any("error", err))
		return leaveBroken
	}
	return why
}

// hold notes the program that has the terminal; nil: none has.
func (l *View) hold(p *tea.Program) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.program = p
}

// Abort gives the terminal back at once, for a process that is about to end. A terminal that
// does not take what is written to it keeps nobody for long.
func (l *View) Abort() {
	if l == nil {
		return
	}
	l.mu.Lock()
	p := l.program
	l.mu.Unlock()
	if p == nil {
		return
	}
	done := make(chan struct{})
	go func() { // the process ends before it might leak
		defer close(done)
		p.Kill()
		l.Term.Back()
	}()
	select {
	case <-done:
	case <-time.After(time.Second):
	}
}

// feed takes snapshots for the view and does what keys ask for, until ctx ends or the view
// is to go, and has it go.
func (l *View) feed(ctx context.Context, p *tea.Program, wishes <-chan wish, signals <-chan os.Signal) leave {
	defer p.Quit()
	clk := clock.System()
	timer := clk.NewTimer(0)
	defer timer.Stop()
	var stop time.Time // when a key last asked for it
	for {
		news := look{}
		select {
		case <-ctx.Done():
			return leaveEnd
		case sig := <-signals:
			if sig == syscall.SIGQUIT {
				l.dump()
			}
			return leaveEnd // for as long as it takes to see whose the terminal is
		case w := <-wishes:
			switch w {
			case wishSuspend:
				return leaveSuspend
			case wishDump:
				l.dump()
			case wishPause:
				l.pause()
			case wishStop:
				// A key that is held down is one wish.
				held := clk.Since(stop) < repeated
				if stop = clk.Now(); !held {
					l.Crawl.Interrupt()
				}
			}
		case <-timer.C():
			began := clk.Now()
			s := l.Crawl.Snapshot()
			timer.Reset(max(terminal.StatusEvery, snapshotShare*clk.Since(began)))
			l.history.note(&s)
			news.snap, news.history = &s, l.history.copy()
		}
		news.paused, news.stopping, news.messages = l.Crawl.Paused(), l.Crawl.stopping(), l.Term.Kept(keptShown)
		p.Send(news)
	}
}

const (
	// repeated is how soon a terminal may send a key again that is held down.
	repeated = 700 * time.Millisecond
	// keptShown is how many of the last messages a screen may show.
	keptShown = 200
)

// pause carries out the order of the API, and is logged as that is.
func (l *View) pause() {
	name, order := "pause", l.Crawl.Pause
	if l.Crawl.Paused() {
		name, order = "resume", l.Crawl.Resume
	}
	if err := order(); err != nil {
		l.Log.Warn("an order could not be carried out", slog.String("order", name), slog.String("who", "keyboard"), slog.Any("error", err))
		return
	}
	l.Log.Info("an order was carried out", slog.String("order", name), slog.String("who", "keyboard"))
}

// dump ends the process as SIGQUIT does, with the stacks of all goroutines on a terminal
// that can show them.
func (l *View) dump() {
	l.Abort()
	raiseQuit()
}

// colourful reports whether the terminal shows colours and whoever sits there wants them:
// see no-color.org, and bixense.com/clicolors.
func colourful(env []string) bool {
	if terminal.LookupEnv(env, "NO_COLOR") != "" || terminal.LookupEnv(env, "CLICOLOR") == "0" {
		return false
	}
	return colorprofile.Env(env) >= colorprofile.ANSI
}
