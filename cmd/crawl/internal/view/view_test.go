package view

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/ratelimit"
)

func busyPicture() *picture {
	var p history
	var s *pipeline.Snapshot
	for i := range 60 {
		s = busy()
		s.Time = noon.Add(time.Duration(i-59) * time.Second)
		s.ElapsedSeconds -= float64(59 - i)
		s.Pages -= int64((59 - i) * (i%7 + 3))
		s.WireBytes = s.Bytes / 3
		s.Bytes -= int64(59-i) * 800_000
		s.Requests, s.Workers.Count = 1571, 64
		for h := range s.Limiter.Top {
			d := &s.Limiter.Top[h]
			d.LimitRPS = 10
			d.FillRate = max(d.FillRate*float64(i%20)/20, 0.1)
		}
		for h := range s.Hosts {
			s.Hosts[h].Pages = max(s.Hosts[h].Pages-(59-i)*(h+1), 0)
		}
		p.note(s)
	}
	return &picture{
		snap: s, history: &p, title: "crawl https://fine.example/ and 3 more", keys: true,
		messages: []string{
			"12:00:00 a message",
			"12:00:01 warn: a circuit has opened  host=down.example error=\"connection refused\"",
			"12:00:02 error: something went wrong, and it takes a long line to say what it was and what to do",
		},
	}
}

// One crawl on screens of all sizes: the first facts stay.
func TestLiveView(t *testing.T) {
	var b strings.Builder
	show := func(name string, p *picture, columns, rows int) {
		screen := ansi.Strip(p.draw(columns, rows))
		fmt.Fprintf(&b, "=== %s, %dx%d\n", name, columns, rows)
		for line := range strings.SplitSeq(screen, "\n") {
			b.WriteString("|" + line + "\n")
		}
	}
	for _, size := range [][2]int{{40, 10}, {80, 24}, {132, 43}, {20, 5}, {80, 2}, {1, 1}} {
		show("running", busyPicture(), size[0], size[1])
	}
	p := busyPicture()
	p.paused, p.page = true, pageTrouble
	show("paused, hosts in trouble", p, 100, 18)
	p.stopping, p.page = true, pageMessages
	show("stopping, messages", p, 60, 16)
	p.help = true
	show("help", p, 80, 24)
	p = &picture{history: &history{}, title: "crawl seeds.txt"}
	show("nothing known, no keyboard", p, 60, 8)
	p.snap = &pipeline.Snapshot{Time: noon, State: pipeline.EndNone}
	show("no host yet", p, 60, 12)
	golden(t, "live.golden", b.String())
}

// On screens of the usual widths a table of hosts loses columns before the reason of a pace becomes useless.
func TestReasonsStay(t *testing.T) {
	for _, reason := range []string{
		"starting at 1/s: nothing learned yet", "the maximum rate: at most 10/s", "at most 0.2/s, set while the crawl runs",
		"robots.txt asks for 2s between requests", "searching upward, nothing refused so far",
	} {
		p := busyPicture()
		p.snap.Hosts[2].Host, p.snap.Limiter.Top[0].Domain = "127.0.0.1:8080", "127.0.0.1:8080"
		p.snap.Limiter.Top[0].Reason = reason
		for columns, whole := range map[int]int{80: 31, 100: 40, 120: 40} {
			require.Contains(t, p.draw(columns, 40), " "+reason[:min(whole, len(reason))], "%d columns", columns)
			var b strings.Builder
			require.NoError(t, (&Report{Snap: p.snap, Columns: columns}).Write(&b))
			require.Contains(t, b.String(), " "+reason[:min(whole, len(reason))], "%d columns", columns)
		}
	}
}

// Every order shows the same hosts, and the title names the order.
func TestLiveOrders(t *testing.T) {
	p := busyPicture()
	firsts := make(map[hostOrder]string)
	for o := range numOrders {
		p.order = o
		rows := p.busiest()
		require.Len(t, rows, 4)
		firsts[o] = rows[0].host.Host
		require.Contains(t, p.draw(100, 40), "busiest hosts, by "+o.String())
	}
	require.Equal(t, map[hostOrder]string{
		byAsked: "fine.example", byQueue: "asked.example", byRate: "fine.example", byName: p.busiest()[0].host.Host,
	}, firsts)
	require.Equal(t, "a-host-with-a-very-long-name.in.a.subdomain.example:8443", firsts[byName])
}

// Hosts with open circuits come before hosts that refuse, and those before hosts that have recovered. Other hosts are
// not in the list.
func TestHostsInTrouble(t *testing.T) {
	var names []string
	for _, r := range busyPicture().inTrouble() {
		names = append(names, r.host.Host)
	}
	require.Equal(t, []string{"a-host-with-a-very-long-name.in.a.subdomain.example:8443", "asked.example", "closed.example"}, names)
	p := busyPicture()
	p.snap.Hosts, p.snap.Limiter.Top = p.snap.Hosts[2:3], p.snap.Limiter.Top[:1]
	require.Empty(t, p.inTrouble())
	p.page = pageTrouble
	require.Contains(t, p.draw(80, 24), "no host is in trouble")
}

// What a color says is also said in words. There are no colors where the user does not want them.
func TestLiveColours(t *testing.T) {
	p := busyPicture()
	plainText := p.draw(100, 40)
	p.colours = true
	coloured := p.draw(100, 40)
	require.NotEqual(t, plainText, coloured)
	require.Equal(t, ansi.Strip(plainText), ansi.Strip(coloured))
	require.NotRegexp(t, "\x1b\\[[0-9;]*3[0-9]", plainText)
	for env, want := range map[string]bool{
		"TERM=xterm-256color": true, "TERM=xterm": true, "TERM=xterm|NO_COLOR=1": false, "TERM=xterm|NO_COLOR=": true,
		"TERM=xterm|NO_COLOR=please": false, "TERM=xterm|CLICOLOR=0": false, "TERM=xterm|CLICOLOR=1": true,
		"TERM=dumb": false, "": false,
	} {
		require.Equal(t, want, colourful(strings.Split(env, "|")), env)
	}
}

// strange has texts that a host, a URL or an error may send to a screen.
var strange = []string{
	"\x1b[2J\x1b]0;owned\a", "a\u202egpj.exe", "\u05d0\u05d1\u05d2.example", "\u0645\u062b\u0627\u0644.example", "世界世界世界世界世界.example",
	"e\u0301\u0301\u0301\u0301\u0301\u0301", "\u200b\u200d\ufeff", "👩‍👩‍👧‍👦👍🏽🇩🇪", "☠\ufe0f☠\ufe0f", "한국\u1112\u1161\u11ab", "tab\there\r\nnew", "\x9b31m", "\xff\xfe\x80",
	"ｆｕｌｌ　ｗｉｄｔｈ", "\u0e01\u0e34\u0e49", "क्षि", strings.Repeat("long", 200), "", "\u0000", "\u2028\u2029\u0085",
}

// Whatever text hosts and errors contain, lines are as long as they should be, by both ways in which terminals count,
// and only our own styles control the screen.
func TestLiveViewOfStrangeTexts(t *testing.T) {
	for _, text := range strange {
		p := busyPicture()
		p.title = text
		p.messages = []string{text, "12:00:00 warn: " + text}
		p.snap.Hosts = append(p.snap.Hosts, frontier.HostState{Host: text, Queued: 7, Reason: text + " robots.txt", Blocked: true, Until: noon.Add(time.Hour)})
		p.snap.Limiter.Top = append(p.snap.Limiter.Top, ratelimit.DomainSnapshot{Domain: text + "x", Reason: text, FillRate: 3})
		for _, size := range [][2]int{{40, 10}, {80, 24}, {120, 50}} {
			for page := range numPages {
				p.page = page
				screen := p.draw(size[0], size[1])
				require.Equal(t, size[1]-1, strings.Count(screen, "\n"), "%q", text)
				for line := range strings.SplitSeq(screen, "\n") {
					require.LessOrEqual(t, ansi.StringWidth(line), size[0], "%q", line)
					require.Equal(t, ansi.StringWidth(line), ansi.StringWidthWc(line), "%q", line)
					require.Equal(t, cli.Cells(ansi.Strip(line)), ansi.StringWidth(line), "%q", line)
					require.Equal(t, cli.Clean(ansi.Strip(line)), ansi.Strip(line), "%q", line)
				}
			}
		}
	}
}

// No size of a screen is too small or too large.
func TestLiveViewFits(t *testing.T) {
	p := busyPicture()
	for columns := -1; columns < 200; columns += 3 {
		for rows := -1; rows < 60; rows += 2 {
			for page := range numPages {
				p.page, p.help = page, rows%3 == 0
				screen := p.draw(columns, rows)
				require.LessOrEqual(t, strings.Count(screen, "\n"), max(rows-1, 0))
				for line := range strings.SplitSeq(screen, "\n") {
					require.LessOrEqual(t, ansi.StringWidth(line), max(columns, 1))
				}
			}
		}
	}
}

func FuzzTame(f *testing.F) {
	for _, text := range strange {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := cli.Tame(text)
		require.Equal(t, got, cli.Tame(got))
		require.Equal(t, cli.Cells(got), ansi.StringWidth(got), "%q", got)
		require.Equal(t, cli.Cells(got), ansi.StringWidthWc(got), "%q", got)
	})
}

// A missing robots.txt or sitemap is not a failure of a page.
func TestFailuresAreThoseOfPages(t *testing.T) {
	absent := pipeline.Snapshot{Outcomes: map[string]int64{"client_error": 2, "network": 1}, Helpers: map[string]int64{"client_error": 2, "network": 1}}
	require.Equal(t, map[string]int64{"network": 1}, failedAs(&absent))
}

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

// A key changes the view itself at once, and sends a request to the crawl for everything else.
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
			{keys: "q ctrl+c q", order: byQueue, asks: []string{"stop"}}, // a key that is held down counts once
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

// A new snapshot changes what is shown; an update after a key keeps the last snapshot.
func TestNews(t *testing.T) {
	p, paused := busyPicture(), false
	term, _ := screen()
	live := &Live{Term: term, Crawl: Crawl{Snapshot: func() pipeline.Snapshot { return *p.snap }, Paused: func() bool { return paused }}}
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

// While the view has the screen, nothing else is written to it. Afterwards the messages are printed: the last ones, and
// how many are missing.
func TestMessagesBehindTheView(t *testing.T) {
	term, b := screen()
	term.Show("1s")
	b.Reset()
	term.Back() // without Lend
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

// ticking returns a crawl of three pages a second that began with the bubble.
func ticking() Crawl {
	began := time.Now()
	return Crawl{
		Snapshot: func() pipeline.Snapshot {
			elapsed := time.Since(began).Seconds()
			return pipeline.Snapshot{Time: time.Now(), ElapsedSeconds: elapsed, Pages: int64(3 * elapsed), Bytes: int64(2048 * elapsed)}
		},
		Paused: func() bool { return false },
	}
}

// On a terminal the line changes twice a second, and is removed in the end.
func TestStatusLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		term, b := screen()
		ctx, cancel := context.WithTimeout(t.Context(), 1700*time.Millisecond)
		defer cancel()
		Progress(ctx, term, slog.New(slog.DiscardHandler), ticking(), time.Second)
		require.Equal(t, cli.ClearLine+"0.5s  1 page  2.0/s  0 queued  0 active  1.0 KiB"+
			cli.ClearLine+"1s  3 pages  3.0/s  0 queued  0 active  2.0 KiB"+
			cli.ClearLine+"1s  4 pages  2.7/s  0 queued  0 active  3.0 KiB"+
			cli.ClearLine, b.String())
	})
}

// A log gets a line every stats.interval. Each line has the same fields in the same order, since scripts read them.
func TestProgressInALog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		term := cli.NewTerminal(&b, []string{"TERM=dumb"}, "auto")
		ctx, cancel := context.WithTimeout(t.Context(), 35*time.Second)
		defer cancel()
		halted, began := make(chan struct{}), time.Now()
		c := Crawl{Paused: func() bool { return time.Since(began) > 15*time.Second }, Halted: halted, Snapshot: func() pipeline.Snapshot {
			s := *busy()
			if s.Time = time.Now(); time.Since(began) > 25*time.Second {
				s.Reason = "the proxy fails: connection refused"
			}
			return s
		}}
		time.AfterFunc(25*time.Second, func() { close(halted) })
		Progress(ctx, term, cli.NewLogger(term, &config.Log{}, slog.LevelInfo), c, 10*time.Second)
		golden(t, "progress.golden", regexp.MustCompile(`(?m)^\S+`).ReplaceAllString(b.String(), "TIME"))
	})
}

// Snapshots that take long are taken less often.
func TestSlowSnapshots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		term, _ := screen()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		taken := 0
		Progress(ctx, term, slog.New(slog.DiscardHandler), Crawl{Snapshot: func() pipeline.Snapshot {
			taken++
			time.Sleep(100 * time.Millisecond)
			return pipeline.Snapshot{}
		}}, time.Second)
		require.Equal(t, 29, taken, "one in 2.1s after the first")
	})
}

func TestStatusParts(t *testing.T) {
	s := busy()
	s.Frontier.Leased = 64
	require.Equal(t, []string{
		"1h02m", "1,547 pages", "9.5/s", "814 queued", "64 active", "13 errors", "117.7 MiB",
		"asked.example: idle for 1m35s: Retry-After",
	}, statusParts(s, 9.5))
	s.Hosts = []frontier.HostState{{Host: "a.test", Queued: 1, Reason: "learned", Until: noon.Add(time.Minute)}}
	require.Len(t, statusParts(s, 0), 7, "a pace is no trouble")
}
