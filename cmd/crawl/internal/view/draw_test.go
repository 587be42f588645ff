package view

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/ratelimit"
)

// busyPicture is a crawl of a minute over the hosts of busy.
func busyPicture() *picture {
	var p history
	var s *crawl.Snapshot
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
			d.CeilingRPS = 10
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

// One crawl on screens of every size: what is told first stays.
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
	p.snap = &crawl.Snapshot{Time: noon, State: pipeline.EndNone}
	show("no host yet", p, 60, 12)
	golden(t, "live.golden", b.String())
}

// Every way to sort shows the same hosts, and says in its title how.
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

// Hosts that are shut come before those that ask for patience, and those before the ones
// that are well again; the others are not there.
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

// Colour is said in words as well, and is not there where nobody wants it.
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

// strange is what a host, a URL or an error may say to a screen.
var strange = []string{
	"\x1b[2J\x1b]0;owned\a", "a\u202egpj.exe", "\u05d0\u05d1\u05d2.example", "\u0645\u062b\u0627\u0644.example", "世界世界世界世界世界.example",
	"e\u0301\u0301\u0301\u0301\u0301\u0301", "\u200b\u200d\ufeff", "👩‍👩‍👧‍👦👍🏽🇩🇪", "☠\ufe0f☠\ufe0f", "한국\u1112\u1161\u11ab", "tab\there\r\nnew", "\x9b31m", "\xff\xfe\x80",
	"ｆｕｌｌ　ｗｉｄｔｈ", "\u0e01\u0e34\u0e49", "क्षि", strings.Repeat("long", 200), "", "\u0000", "\u2028\u2029\u0085",
}

// Whatever strangers call their hosts and say in errors, lines are as long as they should be,
// by both ways in which terminals count, and nothing but our own styles commands the screen.
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

// What is not there beside the pages, as robots.txt and sitemaps often are not, is no failure of a page.
func TestFailuresAreThoseOfPages(t *testing.T) {
	absent := crawl.Snapshot{Outcomes: map[string]int64{"client_error": 2, "network": 1}, Helpers: map[string]int64{"client_error": 2, "network": 1}}
	require.Equal(t, []string{"1 network"}, inWords(failedAs(&absent)))
}
