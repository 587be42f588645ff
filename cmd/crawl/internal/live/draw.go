package live

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/human"
	"github.com/treadlight/crawl/cmd/crawl/internal/report"
	"github.com/treadlight/crawl/cmd/crawl/internal/terminal"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// picture is what the live view shows at an instant: the last snapshot, what was before it,
// and what whoever looks has chosen. Drawing it changes nothing.
type picture struct {
	snap     *crawl.Snapshot // nil before the first
	history  *history
	names    map[string]string // what to call hosts; nil = by their names
	title    string            // what is crawled
	paused   bool
	stopping bool
	messages []string // the oldest first
	keys     bool     // there is a keyboard
	colours  bool
	page     page
	order    hostOrder
	help     bool
}

// page is what of the crawl is shown below the totals.
type page uint8

const (
	pageHosts page = iota // the busiest hosts, and below them those in trouble
	pageTrouble
	pageMessages
	numPages
)

// Rows of a screen from which on it has room for more than one table.
const (
	rowsForTrouble  = 30
	rowsForMessages = 14
	shownMessages   = 4 // below the tables
	shownTrouble    = 5
)

// draw lays the picture out for a screen: lines that are no longer than it is wide, and no
// more of them than it has rows.
func (p *picture) draw(columns, rows int) string {
	columns, rows = max(columns, 1), max(rows, 1)
	lines := []string{p.head(columns)}
	foot := p.foot(columns)
	room := rows - 2 // for what stands between head and foot
	switch {
	case room < 1:
		return lines[0]
	case p.help:
		lines = append(lines, p.manual(columns, room)...)
	case p.snap == nil:
		lines = append(lines, "")
	default:
		lines = append(lines, p.body(columns, room)...)
	}
	for len(lines) < rows-1 {
		lines = append(lines, "")
	}
	return strings.Join(append(lines[:rows-1], foot), "\n")
}

// style is how a line is shown where that can be done.
type style uint8

const (
	styleNone style = iota
	styleHead
	styleDim
	styleBad
	styleWarn
	styleGood
)

// show is text in a style. Without colours only what needs none is left of it.
func (p *picture) show(s style, text string) string {
	if text == "" {
		return text
	}
	var st ansi.Style
	switch s {
	case styleHead:
		return st.Bold().Styled(text)
	case styleDim:
		return st.Faint().Styled(text)
	}
	if !p.colours {
		return text
	}
	switch s {
	case styleBad:
		st = st.ForegroundColor(ansi.Red)
	case styleWarn:
		st = st.ForegroundColor(ansi.Yellow)
	case styleGood:
		st = st.ForegroundColor(ansi.Green)
	default:
		return text
	}
	return st.Styled(text)
}

// state is what the crawl does, in the word of the dashboard.
func (p *picture) state() (string, style) {
	switch {
	case p.snap == nil:
		return "starting", styleNone
	case p.stopping: // as long as there is a view, something is under way
		return "stopping", styleWarn
	case p.snap.State != pipeline.EndNone:
		return p.snap.State.String(), styleNone
	case p.paused:
		return "paused", styleWarn
	}
	return "running", styleGood
}

// head says what is crawled, what it does, and for how long it has.
func (p *picture) head(columns int) string {
	word, how := p.state()
	right := word
	if p.snap != nil {
		right += "  " + human.Seconds(p.snap.ElapsedSeconds)
	}
	right = human.Cut(right, columns)
	left := human.Cut(human.Tame(p.title), columns-human.Cells(right)-2)
	gap := strings.Repeat(" ", max(columns-human.Cells(left)-human.Cells(right), 0))
	return p.show(styleHead, left) + gap + p.show(how, right)
}

// body is the totals and the tables.
func (p *picture) body(columns, rows int) []string {
	facts := p.facts(columns)
	// Half of a small screen, so that at least some hosts are seen.
	lines := facts[:min(len(facts), max(rows/2, 1))]
	room := rows - len(lines)
	switch p.page {
	case pageMessages:
		return append(lines, p.lastMessages(columns, room, room-1)...)
	case pageTrouble:
		return append(lines, p.table(columns, room, "hosts in trouble", p.inTrouble(), "no host is in trouble")...)
	}
	var below []string
	if rows+2 >= rowsForMessages && len(p.messages) > 0 {
		below = p.lastMessages(columns, room/3, shownMessages)
	}
	if bad := p.inTrouble(); rows+2 >= rowsForTrouble && len(bad) > 0 {
		below = append(p.table(columns, min(shownTrouble+3, room/2-len(below)/2), "hosts in trouble", bad, ""), below...)
	}
	return append(append(lines, p.table(columns, room-len(below), "busiest hosts, by "+p.order.String(), p.busiest(), "no host yet")...), below...)
}

// facts are the totals, the most telling first.
func (p *picture) facts(columns int) []string {
	s := p.snap
	perSecond, bytes := p.history.pace()
	var lines []string
	// Parts that do not fit are left out: half a number would be another number.
	add := func(how style, name string, parts ...string) {
		const margin = 11
		text := terminal.Fit(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), columns-margin)
		lines = append(lines, p.show(styleDim, human.Cut(fmt.Sprintf("%-*s", margin, name), columns))+p.show(how, text))
	}
	trend := sparkline(p.history.throughput(sparkRoom(columns)), sparkRoom(columns))
	add(styleNone, "pages", human.Count(s.Pages), fmt.Sprintf("%.1f/s", perSecond), trend)
	queue := []string{human.Count(s.Frontier.Queued) + " queued", fmt.Sprintf("%d in flight", s.Frontier.Leased)}
	if left, ok := p.history.remaining(s, p.paused || p.stopping); ok {
		queue = append(queue, "about "+human.Seconds(left.Seconds())+" left")
	}
	add(styleNone, "queue", append(queue, human.Count(s.Frontier.Known)+" known")...)
	if bad := failedAs(s); len(bad) > 0 || s.Errors > 0 {
		add(styleBad, "errors", append([]string{human.Plural(s.Errors, "URL")}, inWords(bad)...)...)
	}
	if no := refusedAs(s); len(no) > 0 {
		add(styleWarn, "refused", inWords(no)...)
	}
	add(styleNone, "bytes", human.Size(s.Bytes), human.Size(int64(bytes))+"/s", human.Size(s.WireBytes)+" as received")
	requests := []string{human.Count(s.Requests), fmt.Sprintf("%d workers", s.Workers.Count)}
	if s.Retries > 0 {
		requests = append(requests, report.Retries(s.Retries))
	}
	if s.Refused > 0 {
		requests = append(requests, human.Plural(s.Refused, "URL")+" kept back by robots.txt")
	}
	add(styleNone, "requests", requests...)
	add(styleNone, "hosts", human.Count(s.Frontier.Hosts), strings.Trim(report.Circuits(&s.Limiter), " ()"))
	return lines
}

// sparkRoom is how many columns the trend of the pages has.
func sparkRoom(columns int) int { return min(max(columns-40, 8), 60) }

// tally is how many requests ended in a class.
type tally struct {
	class outcome.Class
	n     int64
}

// failedAs are the requests that went wrong, refusals apart, the most first.
func failedAs(s *crawl.Snapshot) []tally {
	return tallies(s, func(c outcome.Class) bool {
		return !c.Success() && !isRefusal(c) && c != outcome.Filtered && c != outcome.Unknown && c != outcome.Canceled
	})
}

// refusedAs are the requests that a host answered with "not now".
func refusedAs(s *crawl.Snapshot) []tally { return tallies(s, isRefusal) }

func isRefusal(c outcome.Class) bool { return c == outcome.Throttled || c == outcome.Unavailable }

func tallies(s *crawl.Snapshot, wanted func(outcome.Class) bool) []tally {
	var list []tally
	for _, name := range slices.Sorted(maps.Keys(s.Outcomes)) {
		var c outcome.Class
		if c.UnmarshalText([]byte(name)) != nil || !wanted(c) {
			continue
		}
		n := s.Outcomes[name]
		if c == outcome.ClientError {
			n -= s.Helpers[name] // that there is no sitemap, or no robots.txt, is nothing wrong
		}
		if n > 0 {
			list = append(list, tally{c, n})
		}
	}
	slices.SortStableFunc(list, func(x, y tally) int { return cmp.Compare(y.n, x.n) })
	return list
}

// inWords is tallies as the report has them.
func inWords(list []tally) []string {
	words := make([]string, len(list))
	for i, t := range list {
		words[i] = fmt.Sprintf("%s %s", human.Count(t.n), t.class)
	}
	return words
}

// lastMessages are the newest of the log, n at most, under a title.
func (p *picture) lastMessages(columns, rows, n int) []string {
	if rows < 2 {
		return nil
	}
	lines := []string{"", p.show(styleHead, human.Cut("messages", columns))}
	n = max(min(n, rows-len(lines)), 0)
	last := p.messages[max(len(p.messages)-n, 0):]
	if len(p.messages) == 0 {
		last = []string{"none so far"}
	}
	for _, m := range last {
		how := styleNone
		switch {
		case strings.Contains(m, " error: "):
			how = styleBad
		case strings.Contains(m, " warn: "):
			how = styleWarn
		}
		lines = append(lines, p.show(how, human.Cut(human.Tame(m), columns)))
	}
	return lines[:min(len(lines), rows)]
}

// foot is the keys.
func (p *picture) foot(columns int) string {
	parts := []string{"q stop", "p pause", "tab next", "? help", "s sort"}
	switch {
	case !p.keys:
		parts = []string{"Ctrl-C stop"}
	case p.help:
		parts = []string{"? back", "q stop"}
	case p.stopping:
		parts = []string{"q give up what is under way", "tab next", "? help", "s sort"}
	case p.paused:
		parts[1] = "p resume"
	}
	return p.show(styleDim, terminal.Fit(parts, columns))
}

// manual is the help.
func (p *picture) manual(columns, rows int) []string {
	text := []string{
		"",
		"p, space   pause the crawl, and have it go on",
		"q, Ctrl-C  stop: finish what is under way and report; once more gives it up",
		"tab        busiest hosts, hosts in trouble, messages",
		"s          sort the busiest hosts by another column",
		"Ctrl-Z     suspend; after bg the crawl goes on without this view",
		"Ctrl-L     draw the screen anew",
		"",
		"pages      answered with 2xx; per second over the last five",
		"queue      URLs to visit. How much time is left is told when the queue has",
		"           become shorter for a while and no host refuses: by that pace, or",
		"           by the host that takes longest at its rate",
		"errors     URLs whose record has an error; requests by class",
		"refused    requests answered with 429 (throttled) or 503 (unavailable)",
		"rate/s     what the host may be asked now, as learned",
		"max/s      what it may be asked at most: settings, operator, Crawl-delay",
		"trend      the rate of the last seconds, one each",
	}
	lines := make([]string, 0, len(text))
	for _, line := range text[:min(len(text), rows)] {
		lines = append(lines, human.Cut(line, columns))
	}
	return lines
}

// hostOrder is by what the busiest hosts are sorted.
type hostOrder uint8

const (
	byAsked hostOrder = iota
	byQueue
	byRate
	byName
	numOrders
)

// String names it in the title of the table.
func (o hostOrder) String() string {
	return [...]string{"URLs of the last seconds", "queue", "rate", "name"}[o]
}
