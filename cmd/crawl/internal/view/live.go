package view

import (
	"context"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/pipeline"
)

const (
	repaints  = 4                      // of the screen in a second, at most
	repeated  = 700 * time.Millisecond // how soon a terminal may send a key again that is held down
	keptShown = 200                    // of the last messages a screen may show
	// snapshotShare: a snapshot looks at every host, and the crawl waits meanwhile. With a million hosts it is taken
	// so much more seldom that it costs a twentieth of the time.
	snapshotShare = 20
)

// Crawl is a crawl as the live view sees and steers it.
type Crawl struct {
	Snapshot      func() pipeline.Snapshot
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

// Live shows a crawl on the alternate screen of a terminal, so that nothing is left of it: what was logged meanwhile
// is printed when it goes, as it does when the crawl ends, when the process is suspended, and when the terminal is
// another job's. A crawl in the background is not shown until it is back in the foreground.
type Live struct {
	Term  *cli.Terminal
	Log   *slog.Logger
	Crawl Crawl
	Env   []string
	In    io.Reader // the keyboard; nil = there is none
	Out   *os.File  // the terminal
	Names func() map[string]string
	Title string

	history history // of the model

	mu      sync.Mutex // guards what follows
	program *tea.Program
}

// Run shows the crawl until ctx ends. It reports whether it could be: if not, there is a terminal, and no view on it.
func (l *Live) Run(ctx context.Context) bool {
	// One that is over at once needs no screen, which would only flicker.
	for clock.Sleep(ctx, clock.System(), cli.StatusEvery) == nil {
		if !foreground(l.Out) {
			continue
		}
		suspended, err := l.session(ctx)
		if err != nil {
			l.Log.Warn("the live view has failed; the crawl goes on without it", slog.Any("error", err))
			return false
		}
		if suspended {
			suspend(ctx)
		}
	}
	return true
}

// session shows the crawl until ctx ends or the view is to go.
func (l *Live) session(ctx context.Context) (suspended bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, viewSignals()...)
	defer signal.Stop(signals)
	l.Term.Lend()
	defer l.Term.Back()
	m := &model{live: l, view: picture{history: &l.history, title: l.Title, keys: l.In != nil, colours: colourful(l.Env)}}
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
	var waiting sync.WaitGroup
	waiting.Go(func() {
		select {
		case <-ctx.Done():
		case <-signals: // then the view is away until it is seen whose the terminal is
		}
		p.Quit()
	})
	if _, err = p.Run(); ctx.Err() != nil {
		err = nil
	}
	cancel()
	waiting.Wait()
	return m.suspended, err
}

// hold notes the program that has the terminal; nil: none has.
func (l *Live) hold(p *tea.Program) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.program = p
}

// Abort gives the terminal back at once, for a process that is about to end. A terminal that does not take what is
// written to it keeps nobody for long.
func (l *Live) Abort() {
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

// pause carries out the order of the API, and is logged as that is.
func (l *Live) pause() {
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

// colourful reports whether the terminal shows colours and whoever sits there wants them: see no-color.org, and
// bixense.com/clicolors.
func colourful(env []string) bool {
	if cli.LookupEnv(env, "NO_COLOR") != "" || cli.LookupEnv(env, "CLICOLOR") == "0" {
		return false
	}
	return colorprofile.Env(env) >= colorprofile.ANSI
}

// model is the live view as bubbletea has it: a picture, the size of the screen, and what keys do.
type model struct {
	live          *Live
	view          picture
	columns, rows int
	stopped       time.Time // when a key last asked for it
	suspended     bool      // the process is to be
}

type look struct {
	snap *pipeline.Snapshot // nil: that of before is still good
	took time.Duration
}

func (m *model) look() tea.Msg {
	clk := clock.System()
	began := clk.Now()
	s := m.live.Crawl.Snapshot()
	return look{&s, clk.Since(began)}
}

func (m *model) Init() tea.Cmd { return m.look }

func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.columns, m.rows = msg.Width, msg.Height
	case tea.KeyPressMsg:
		return m, m.press(msg.String())
	case look:
		l, v := m.live, &m.view
		v.paused, v.stopping, v.messages = l.Crawl.Paused(), l.Crawl.stopping(), l.Term.Kept(keptShown)
		if msg.snap != nil {
			v.snap = msg.snap
			v.history.note(v.snap)
			every := max(cli.StatusEvery, snapshotShare*msg.took)
			return m, tea.Tick(every, func(time.Time) tea.Msg { return m.look() })
		}
	}
	return m, nil
}

// press does what a key says. What may take its time is done beside the model.
func (m *model) press(key string) tea.Cmd {
	v := &m.view
	switch key {
	case "q", "Q", "ctrl+c":
		now := clock.System().Now()
		if now.Sub(m.stopped) >= repeated { // a key that is held down is one wish
			m.live.Crawl.Interrupt()
		}
		m.stopped = now
		return func() tea.Msg { return look{} }
	case "p", "P", "space":
		return func() tea.Msg { m.live.pause(); return look{} }
	case "ctrl+z":
		m.suspended = true
		return tea.Quit
	case "tab":
		v.page, v.help = (v.page+1)%numPages, false
	case "shift+tab":
		v.page, v.help = (v.page+numPages-1)%numPages, false
	case "s", "S":
		v.order = (v.order + 1) % numOrders
	case "?", "h", "f1":
		v.help = !v.help
	case "esc":
		v.help = false
	case "ctrl+l":
		return tea.ClearScreen
	}
	return nil
}

func (m *model) View() tea.View {
	v := tea.NewView("")
	if m.columns > 0 {
		v.Content = m.view.draw(m.columns, m.rows)
	}
	v.AltScreen = true
	return v
}
