package live

import (
	tea "charm.land/bubbletea/v2"

	"github.com/treadlight/crawl"
)

// wish is what a key asks for that is not the view's own affair.
type wish uint8

const (
	wishStop    wish = iota // as Ctrl-C does
	wishPause               // or to have the crawl go on
	wishSuspend             // as Ctrl-Z does
	wishDump                // as Ctrl-\ does
)

// look is what is new about the crawl.
type look struct {
	snap     *crawl.Snapshot // nil: that of before is still good
	history  *history        // of snap
	paused   bool
	stopping bool
	messages []string
}

// model is the live view as bubbletea has it: a picture, the size of the screen, and what
// keys do. Wishes that find no room are lost, as keys are that nobody reads.
type model struct {
	view          picture
	columns, rows int
	wishes        chan<- wish
}

// Init has nothing to begin with.
func (m *model) Init() tea.Cmd { return nil }

// Update takes news and keys.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.columns, m.rows = msg.Width, msg.Height
	case look:
		if msg.snap != nil {
			m.view.snap, m.view.history = msg.snap, msg.history
		}
		m.view.paused, m.view.stopping, m.view.messages = msg.paused, msg.stopping, msg.messages
	case tea.KeyPressMsg:
		return m, m.press(msg.String())
	}
	return m, nil
}

// press does what a key says.
func (m *model) press(key string) tea.Cmd {
	v := &m.view
	switch key {
	case "q", "Q", "ctrl+c":
		m.want(wishStop)
	case "p", "P", "space":
		m.want(wishPause)
	case "ctrl+z":
		m.want(wishSuspend)
	case `ctrl+\`:
		m.want(wishDump)
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

func (m *model) want(w wish) {
	select {
	case m.wishes <- w:
	default:
	}
}

// View draws the picture on a screen of its own.
func (m *model) View() tea.View {
	v := tea.NewView("")
	if m.columns > 0 {
		v.Content = m.view.draw(m.columns, m.rows)
	}
	v.AltScreen = true
	return v
}
