package live

import (
	"io"
	"strings"
	"testing"

	"github.com/treadlight/crawl/cmd/crawl/internal/clitest"
	"github.com/treadlight/crawl/cmd/crawl/internal/terminal"

	tea "charm.land/bubbletea/v2"
	"github.com/stretchr/testify/require"
)

// press is a key as a terminal sends it.
func pressed(key string) tea.KeyPressMsg {
	switch key {
	case "tab":
		return tea.KeyPressMsg{Code: tea.KeyTab}
	case "shift+tab":
		return tea.KeyPressMsg{Code: tea.KeyTab, Mod: tea.ModShift}
	case "esc":
		return tea.KeyPressMsg{Code: tea.KeyEscape}
	case "space":
		return tea.KeyPressMsg{Code: tea.KeySpace, Text: " "}
	}
	if rest, ok := strings.CutPrefix(key, "ctrl+"); ok {
		return tea.KeyPressMsg{Code: rune(rest[0]), Mod: tea.ModCtrl}
	}
	return tea.KeyPressMsg{Code: rune(key[0]), Text: key}
}

// What is the view's own affair a key changes at once; what is the crawl's it asks for.
func TestKeys(t *testing.T) {
	wishes := make(chan wish, 8)
	m := &model{wishes: wishes, view: picture{history: &history{}}}
	for _, c := range []struct {
		keys  string
		page  page
		order hostOrder
		help  bool
		wants []wish
	}{
		{keys: "tab", page: pageTrouble},
		{keys: "tab tab", page: pageHosts},
		{keys: "shift+tab", page: pageMessages},
		{keys: "s s", page: pageMessages, order: byRate},
		{keys: "s s s", page: pageMessages, order: byQueue},
		{keys: "?", page: pageMessages, order: byQueue, help: true},
		{keys: "esc", page: pageMessages, order: byQueue},
		{keys: "? tab", page: pageHosts, order: byQueue},
		{keys: "p space P", order: byQueue, wants: []wish{wishPause, wishPause, wishPause}},
		{keys: "q ctrl+c", order: byQueue, wants: []wish{wishStop, wishStop}},
		{keys: `ctrl+z ctrl+\`, order: byQueue, wants: []wish{wishSuspend, wishDump}},
		{keys: "x y z 1", order: byQueue},
	} {
		for key := range strings.FieldsSeq(c.keys) {
			_, cmd := m.Update(pressed(key))
			require.Nil(t, cmd, key)
		}
		var wants []wish
		for len(wishes) > 0 {
			wants = append(wants, <-wishes)
		}
		require.Equal(t, c.wants, wants, c.keys)
		require.Equal(t, []any{c.page, c.order, c.help}, []any{m.view.page, m.view.order, m.view.help}, c.keys)
	}
	for range 20 { // nobody reads: keys are lost, and nothing waits
		m.Update(pressed("p"))
	}
	require.Len(t, wishes, cap(wishes))
	_, cmd := m.Update(pressed("ctrl+l"))
	require.NotNil(t, cmd)
}

// News changes what is shown, and news of a key leaves the snapshot as it was.
func TestNews(t *testing.T) {
	m := &model{view: picture{history: &history{}, title: "crawl x"}}
	require.Empty(t, m.View().Content, "before the size of the screen is known")
	m.Update(tea.WindowSizeMsg{Width: 60, Height: 12})
	require.Contains(t, m.View().Content, "starting")
	p := busyPicture()
	m.Update(look{snap: p.snap, history: p.history, messages: []string{"a message"}})
	require.Contains(t, m.View().Content, "1,547")
	m.Update(look{paused: true})
	require.Contains(t, m.View().Content, "paused")
	require.Contains(t, m.View().Content, "1,547")
	require.True(t, m.View().AltScreen)
}

// While the view has the screen nothing else is written to it; afterwards the messages are
// there, the last of very many with how many are missing.
func TestMessagesBehindTheView(t *testing.T) {
	term, b := clitest.Screen(80)
	term.Show("1s")
	b.Reset()
	term.Back() // of what was not lent
	term.Lend()
	require.Equal(t, terminal.ClearLine, b.String())
	b.Reset()
	terminal.Say(term, "one\ntwo \x1b[2J\n")
	require.Empty(t, b.String())
	require.Equal(t, []string{"one", "two �[2J"}, term.Kept(10))
	require.Equal(t, []string{"two �[2J"}, term.Kept(1))
	term.Back()
	require.Equal(t, "one\ntwo �[2J\n", b.String())
	require.Empty(t, term.Kept(10))
	b.Reset()
	terminal.Say(term, "three\n")
	require.Equal(t, "three\n", b.String())
	term.Lend()
	for range terminal.MaxBacklog {
		_, _ = io.WriteString(term, "old\n")
	}
	_, _ = io.WriteString(term, "newer\n")
	_, _ = io.WriteString(term, "newest\n")
	require.Equal(t, []string{"old", "newer", "newest"}, term.Kept(3))
	b.Reset()
	term.Back()
	require.True(t, strings.HasPrefix(b.String(), "(2 messages from before are not shown; "), b.String()[:80])
	require.True(t, strings.HasSuffix(b.String(), "old\nnewer\nnewest\n"))
	require.Equal(t, terminal.MaxBacklog+1, strings.Count(b.String(), "\n"))
}
