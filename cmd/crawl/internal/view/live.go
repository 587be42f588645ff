package view

import (
	"context"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/pipeline"
)

const (
	repaints  = 4                      // of the screen per second, at most
	repeated  = 700 * time.Millisecond // longest time after which a terminal repeats a key that is held down
	keptShown = 200                    // messages that a screen may show
	// snapshotShare is how many times as long as a snapshot takes the view waits before the next. A snapshot looks at
	// every host, and the crawl waits meanwhile: with a million hosts it must not cost more than a twentieth of the
	// time.
	snapshotShare = 20
)

// Crawl is how the live view reads and controls a crawl.
type Crawl struct {
	Snapshot      func() pipeline.Snapshot
	Paused        func() bool
	Pause, Resume func() error
	Halted        <-chan struct{} // closed once the crawl stops
	Interrupt     func()          // does what Ctrl-C does
}

// stopping reports whether the crawl starts nothing new.
func (c *Crawl) stopping() bool {
	select {
	case <-c.Halted:
		return true
	default:
		return false
	}
}

// Live shows a crawl on the alternate screen of a terminal, which leaves no trace of it. Messages logged meanwhile are
// printed when the view goes: when the crawl ends, when the process is suspended, or when another job takes the
// terminal. A crawl in the background is not shown until it is in the foreground again.
type Live struct {
	Term  *cli.Terminal
	Log   *slog.Logger
	Crawl Crawl
	Env   []string
	In    io.Reader // the keyboard; nil means none
	Out   *os.File  // the terminal
	Names func() map[string]string
	Title string

	history history                     // used by the model
	program atomic.Pointer[tea.Program] // that uses the terminal; nil means none
}

// Run shows the crawl until ctx ends. It reports whether that worked; if it returns false, the terminal is free again,
// and the caller may show progress in another way.
func (l *Live) Run(ctx context.Context) bool {
	// A crawl that is over at once gets no screen, which would only flicker.
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

// session shows the crawl until ctx ends or the view must leave the terminal. It reports whether the user wants to
// suspend the process.
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
	// The library knows only some values of NO_COLOR and runs other programs to learn more.
	profile := colorprofile.ANSI
	if !m.view.colours {
		profile = colorprofile.ASCII
	}
	p := tea.NewProgram(m, tea.WithInput(l.In), tea.WithOutput(l.Out), tea.WithEnvironment(l.Env),
		tea.WithFPS(repaints), tea.WithColorProfile(profile), tea.WithoutSignalHandler())
	l.program.Store(p)
	defer l.program.Store(nil)
	var waiting sync.WaitGroup
	waiting.Go(func() {
		select {
		case <-ctx.Done():
		case <-signals: // the view leaves until Run sees who has the terminal
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

// Abort gives the terminal back at once, for a process that is about to end. It waits at most a second for a terminal
// that does not accept output. Abort on a nil Live does nothing.
func (l *Live) Abort() {
	if l == nil {
		return
	}
	p := l.program.Load()
	if p == nil {
		return
	}
	done := make(chan struct{})
	go func() { // the process ends before it could leak
		defer close(done)
		p.Kill()
		l.Term.Back()
	}()
	select {
	case <-done:
	case <-time.After(time.Second):
	}
}

// pause pauses or resumes the crawl, as the API of the console does, and logs it in the same words.
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

// colourful reports whether the terminal has colors and the user wants them; see no-color.org and
// bixense.com/clicolors.
func colourful(env []string) bool {
	if cli.LookupEnv(env, "NO_COLOR") != "" || cli.LookupEnv(env, "CLICOLOR") == "0" {
		return false
	}
	return colorprofile.Env(env) >= colorprofile.ANSI
}

// model is the live view for bubbletea: a picture, the size of the screen, and the state of the keys.
type model struct {
	live          *Live
	view          picture
	columns, rows int
	stopped       time.Time // when a key last requested a stop
	suspended     bool      // the user wants to suspend the process
}

type look struct {
	snap *pipeline.Snapshot // nil means that the last snapshot is still valid
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

// press acts on a key. What may take time runs as a command, outside the model.
func (m *model) press(key string) tea.Cmd {
	v := &m.view
	switch key {
	case "q", "Q", "ctrl+c":
		now := clock.System().Now()
		if now.Sub(m.stopped) >= repeated { // a key that is held down counts once
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
