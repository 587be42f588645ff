package view

import (
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/cli"

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
	synctest.Test(t, func(t *testing.T) {
		term, _ := screen()
		var asked []string
		order := func(what string) func() error { return func() error { asked = append(asked, what); return nil } }
		paused := false
		m := &model{live: &Live{Term: term, Log: slog.New(slog.DiscardHandler), Crawl: Crawl{
			Paused: func() bool { paused = !paused; return !paused }, Pause: order("pause"), Resume: order("resume"),
			Interrupt: func() { asked = append(asked, "stop") },
		}}, view: picture{history: &history{}}}
		for _, c := range []struct {
			keys  string
			page  page
			order hostOrder
			help  bool
			asks  []string
		}{
			{keys: "tab", page: pageTrouble},
			{keys: "tab tab", page: pageHosts},
			{keys: "shift+tab", page: pageMessages},
			{keys: "s s", page: pageMessages, order: byRate},
			{keys: "s s s", page: pageMessages, order: byQueue},
			{keys: "?", page: pageMessages, order: byQueue, help: true},
			{keys: "esc", page: pageMessages, order: byQueue},
			{keys: "? tab", page: pageHosts, order: byQueue},
			{keys: "p space P", order: byQueue, asks: []string{"pause", "resume", "pause"}},
			{keys: "q ctrl+c q", order: byQueue, asks: []string{"stop"}}, // a key that is held down is one wish
			{keys: "x y z 1", order: byQueue},
		} {
			asked = nil
			time.Sleep(2 * repeated)
			for key := range strings.FieldsSeq(c.keys) {
				if _, cmd := m.Update(pressed(key)); cmd != nil {
					require.Equal(t, look{}, cmd(), key)
				}
			}
			require.Equal(t, c.asks, asked, c.keys)
			require.Equal(t, []any{c.page, c.order, c.help}, []any{m.view.page, m.view.order, m.view.help}, c.keys)
		}
		_, cmd := m.Update(pressed("ctrl+l"))
		require.NotNil(t, cmd)
		_, cmd = m.Update(pressed("ctrl+z"))
		require.IsType(t, tea.QuitMsg{}, cmd())
		require.True(t, m.suspended)
	})
}

// News changes what is shown, and news of a key leaves the snapshot as it was.
func TestNews(t *testing.T) {
	p, paused := busyPicture(), false
	term, _ := screen()
	live := &Live{Term: term, Crawl: Crawl{Snapshot: func() crawl.Snapshot { return *p.snap }, Paused: func() bool { return paused }}}
	m := &model{live: live, view: picture{history: &live.history, title: "crawl x"}}
	require.Empty(t, m.View().Content, "before the size of the screen is known")
	m.Update(tea.WindowSizeMsg{Width: 60, Height: 12})
	require.Contains(t, m.View().Content, "starting")
	_, next := m.Update(m.Init()())
	require.NotNil(t, next, "another look follows")
	require.Contains(t, m.View().Content, "1,547")
	paused = true
	_, next = m.Update(look{})
	require.Nil(t, next)
	require.Contains(t, m.View().Content, "paused")
	require.Contains(t, m.View().Content, "1,547")
	require.True(t, m.View().AltScreen)
}

// While the view has the screen nothing else is written to it; afterwards the messages are
// there, the last of very many with how many are missing.
func TestMessagesBehindTheView(t *testing.T) {
	term, b := screen()
	term.Show("1s")
	b.Reset()
	term.Back() // of what was not lent
	term.Lend()
	require.Equal(t, cli.ClearLine, b.String())
	b.Reset()
	cli.Say(term, "one\ntwo \x1b[2J\n")
	require.Empty(t, b.String())
	require.Equal(t, []string{"one", "two �[2J"}, term.Kept(10))
	require.Equal(t, []string{"two �[2J"}, term.Kept(1))
	term.Back()
	require.Equal(t, "one\ntwo �[2J\n", b.String())
	require.Empty(t, term.Kept(10))
	b.Reset()
	cli.Say(term, "three\n")
	require.Equal(t, "three\n", b.String())
	term.Lend()
	for range cli.MaxKept {
		_, _ = io.WriteString(term, "old\n")
	}
	_, _ = io.WriteString(term, "newer\n")
	_, _ = io.WriteString(term, "newest\n")
	require.Equal(t, []string{"old", "newer", "newest"}, term.Kept(3))
	b.Reset()
	term.Back()
	require.True(t, strings.HasPrefix(b.String(), "(2 messages from before are not shown; "), b.String()[:80])
	require.True(t, strings.HasSuffix(b.String(), "old\nnewer\nnewest\n"))
	require.Equal(t, cli.MaxKept+1, strings.Count(b.String(), "\n"))
}
