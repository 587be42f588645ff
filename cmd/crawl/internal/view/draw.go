package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/observe/console"
	"github.com/treadlight/crawl/internal/observe/console/dashboard"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// picture is what the live view shows at one time: the last snapshot, the history before it, and what the user has
// chosen to see. Drawing does not change it.
type picture struct {
	snap     *pipeline.Snapshot // nil before the first snapshot
	history  *history
	names    map[string]string // display names of hosts by their names; nil means none
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

// page is the part of the view below the totals.
type page uint8

const (
	pageHosts page = iota // the busiest hosts, and below them the hosts in trouble
	pageTrouble
	pageMessages
	numPages
)

// hostOrder is the order of the busiest hosts.
type hostOrder uint8

const (
	byAsked hostOrder = iota
	byQueue
	byRate
	byName
	numOrders
)

func (o hostOrder) String() string {
	return [...]string{"URLs of the last seconds", "queue", "rate", "name"}[o]
}

const (
	rowsForTrouble  = 30 // rows of a screen that has room for a second table
	rowsForMessages = 14 // rows of a screen that has room for messages
	shownMessages   = 4  // most messages below the tables
	shownTrouble    = 5  // most hosts in trouble below the busiest
	leastName       = 14 // columns that the name of a host has at least
)

// draw draws the picture for a screen: at most rows lines of at most columns columns. Both count as at least one.
func (p *picture) draw(columns, rows int) string {
	columns, rows = max(columns, 1), max(rows, 1)
	lines := []string{p.head(columns)}
	room := rows - 2 // between the head and the foot
	switch {
	case room < 1:
		return lines[0]
	case p.help:
		for _, line := range keysAndFigures[:min(len(keysAndFigures), room)] {
			lines = append(lines, cli.Cut(line, columns))
		}
	case p.snap != nil:
		lines = append(lines, p.body(columns, room)...)
	}
	for len(lines) < rows-1 {
		lines = append(lines, "")
	}
	return strings.Join(append(lines[:rows-1], p.foot(columns)), "\n")
}

// style is how a line looks on a terminal that has styles.
type style uint8

const (
	styleNone style = iota
	styleHead
	styleDim
	styleBad
	styleWarn
	styleGood
)

var styles = [...]ansi.Style{
	styleHead: ansi.Style{}.Bold(), styleDim: ansi.Style{}.Faint(),
	styleBad: ansi.Style{}.ForegroundColor(ansi.Red), styleWarn: ansi.Style{}.ForegroundColor(ansi.Yellow),
	styleGood: ansi.Style{}.ForegroundColor(ansi.Green),
}

// show returns text in a style. Without colors it applies bold and faint only.
func (p *picture) show(s style, text string) string {
	if text == "" || s == styleNone || s >= styleBad && !p.colours {
		return text
	}
	return styles[s].Styled(text)
}

func (p *picture) head(columns int) string {
	word, how := "running", styleGood
	switch {
	case p.snap == nil:
		word, how = "starting", styleNone
	case p.stopping: // as long as there is a view, something is under way
		word, how = "stopping", styleWarn
	case p.snap.State != pipeline.EndNone:
		word, how = p.snap.State.String(), styleNone
	case p.paused:
		word, how = "paused", styleWarn
	}
	if p.snap != nil {
		word += "  " + cli.Seconds(p.snap.ElapsedSeconds)
	}
	right := cli.Cut(word, columns)
	room := columns - cli.Cells(right) - 2
	left := "Treadlight  " + cli.Tame(p.title)
	if cli.Cells(left) > room { // what is crawled says more than the name of the program
		left = cli.Cut(cli.Tame(p.title), room)
	}
	gap := strings.Repeat(" ", max(columns-cli.Cells(left)-cli.Cells(right), 0))
	return p.show(styleHead, left) + gap + p.show(how, right)
}

func (p *picture) body(columns, rows int) []string {
	facts := p.facts(columns)
	// At most half of a small screen, so that some hosts are seen.
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
	hosts := p.table(columns, room-len(below), "busiest hosts, by "+p.order.String(), p.busiest(), "no host yet")
	return append(append(lines, hosts...), below...)
}

// facts returns a line for each total, the most important first.
func (p *picture) facts(columns int) []string {
	s := p.snap
	perSecond, bytes := p.history.pace()
	var lines []string
	// Parts that do not fit are left out: half a number would be another number.
	add := func(how style, name string, parts ...string) {
		const margin = 11
		text := cli.Fit(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), columns-margin)
		lines = append(lines, p.show(styleDim, cli.Cut(fmt.Sprintf("%-*s", margin, name), columns))+p.show(how, text))
	}
	room := min(max(columns-40, 8), 60) // columns of the trend
	add(styleNone, "pages", cli.Count(s.Pages), fmt.Sprintf("%.1f/s", perSecond), sparkline(p.history.throughput(room), room))
	queue := []string{cli.Count(s.Frontier.Queued) + " queued", fmt.Sprintf("%d in flight", s.Frontier.Leased)}
	if left, ok := p.history.remaining(s, p.paused || p.stopping); ok {
		queue = append(queue, "about "+cli.Seconds(left.Seconds())+" left")
	}
	add(styleNone, "queue", append(queue, cli.Count(s.Frontier.Known)+" known")...)
	if _, bad := tallied(failedAs(s)); len(bad) > 0 || s.Errors > 0 {
		add(styleBad, "errors", append([]string{cli.Plural(s.Errors, "URL")}, bad...)...)
	}
	if _, no := tallied(tallies(s, isRefusal)); len(no) > 0 {
		add(styleWarn, "refused", no...)
	}
	add(styleNone, "bytes", cli.Size(s.Bytes), cli.Size(int64(bytes))+"/s", cli.Size(s.WireBytes)+" as received")
	requests := []string{cli.Count(s.Requests), cli.Plural(s.Workers.Count, "worker")}
	if s.Retries > 0 {
		requests = append(requests, Retries(s.Retries))
	}
	if s.Refused > 0 {
		requests = append(requests, cli.Plural(s.Refused, "URL")+" kept back by robots.txt")
	}
	add(styleNone, "requests", requests...)
	add(styleNone, "hosts", cli.Count(s.Frontier.Hosts), strings.Trim(circuits(&s.Limiter), " ()"))
	return lines
}

// failedAs returns the number of failed requests by class, without refusals.
func failedAs(s *pipeline.Snapshot) map[string]int64 {
	return tallies(s, func(c outcome.Class) bool {
		return !c.Success() && !isRefusal(c) && c != outcome.Filtered && c != outcome.Unknown && c != outcome.Canceled
	})
}

func isRefusal(c outcome.Class) bool { return c == outcome.Throttled || c == outcome.Unavailable }

func tallies(s *pipeline.Snapshot, wanted func(outcome.Class) bool) map[string]int64 {
	n := maps.Clone(s.Outcomes)
	if n[outcome.ClientError.String()] > 0 { // a missing sitemap or robots.txt is not an error
		n[outcome.ClientError.String()] -= s.Helpers[outcome.ClientError.String()]
	}
	maps.DeleteFunc(n, func(name string, n int64) bool {
		var c outcome.Class
		return n <= 0 || c.UnmarshalText([]byte(name)) != nil || !wanted(c)
	})
	return n
}

func (p *picture) lastMessages(columns, rows, n int) []string {
	if rows < 2 {
		return nil
	}
	lines := []string{"", p.show(styleHead, cli.Cut("messages", columns))}
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
		lines = append(lines, p.show(how, cli.Cut(cli.Tame(m), columns)))
	}
	return lines[:min(len(lines), rows)]
}

func (p *picture) foot(columns int) string {
	parts := []string{"q stop", "p pause", "tab next", "? help", "s sort"}
	switch {
	case !p.keys:
		parts = []string{"Ctrl-C stop"}
	case p.help:
		parts = []string{"? back", "q stop"}
	case p.stopping: // the view exists as long as something is in flight
		parts = []string{"q give up what is under way", "tab next", "? help", "s sort"}
	case p.paused:
		parts[1] = "p resume"
	}
	return p.show(styleDim, cli.Fit(parts, columns))
}

var keysAndFigures = strings.Split(`
p, space   pause the crawl, and have it go on
q, Ctrl-C  stop: finish what is under way and report; once more gives it up
tab        busiest hosts, hosts in trouble, messages
s          sort the busiest hosts by another column
Ctrl-Z     suspend; after bg the crawl goes on without this view
Ctrl-L     draw the screen anew

pages      answered with 2xx; per second over the last five
queue      URLs to visit. How much time is left is told when the queue has
           become shorter for a while and no host refuses: by that pace, or
           by the host that takes longest at its rate
errors     URLs whose record has an error; requests by class
refused    requests answered with 429 (throttled) or 503 (unavailable)
rate/s     what the host may be asked now, as learned
limit/s    the lowest rate that it refused of late, or the limit that it tells
trend      the rate of the last seconds, one each; none while nothing is sent`, "\n")

// hostRow is what frontier and limiter know about a host.
type hostRow struct {
	name    string // the name to show
	host    frontier.HostState
	limiter *ratelimit.DomainSnapshot // nil if the snapshot of the limiter does not list the host
	rate    float64                   // the limiter's rate, in requests per second; zero if unknown
	state   dashboard.State
	partial bool // the frontier did not list the host: pages and queue are unknown
}

// rows returns the hosts of the snapshot: those with the longest queues, and those used last, whose queues may be
// empty.
func (p *picture) rows() []hostRow {
	s := p.snap
	rows := make([]hostRow, 0, len(s.Hosts)+len(s.Limiter.Top))
	listed := make(map[string]bool, len(s.Hosts))
	add := func(h frontier.HostState, d *ratelimit.DomainSnapshot, partial bool) {
		row := hostRow{name: cmp.Or(p.names[h.Host], h.Host), host: h, limiter: d, partial: partial}
		circuit := breaker.Closed
		if d != nil {
			circuit, row.rate = d.State, d.FillRate
		}
		row.state = console.StateOf(&h, circuit)
		rows = append(rows, row)
	}
	for i := range s.Hosts {
		listed[s.Hosts[i].Host] = true
		add(s.Hosts[i], limitOf(s, s.Hosts[i].Host), false)
	}
	for i := range s.Limiter.Top {
		if d := &s.Limiter.Top[i]; !listed[d.Domain] {
			add(frontier.HostState{Host: d.Domain, InFlight: d.InFlight}, d, len(s.Hosts) < int(s.Frontier.Hosts))
		}
	}
	return rows
}

// busiest returns the hosts in the order that the user has chosen.
func (p *picture) busiest() []hostRow {
	rows := p.rows()
	slices.SortStableFunc(rows, func(x, y hostRow) int {
		order := 0
		switch p.order {
		case byAsked:
			order = cmp.Or(cmp.Compare(p.history.busy(y.host.Host), p.history.busy(x.host.Host)), cmp.Compare(y.host.InFlight, x.host.InFlight))
		case byQueue:
			order = cmp.Compare(y.host.Queued, x.host.Queued)
		case byRate:
			order = cmp.Compare(y.rate, x.rate)
		}
		return cmp.Or(order, cmp.Compare(x.name, y.name))
	})
	return rows
}

// inTrouble returns the hosts that refuse or fail, or did recently, the worst first.
func (p *picture) inTrouble() []hostRow {
	rank := func(r *hostRow) int {
		n := r.host.Failures
		if r.limiter != nil {
			n += incidents(r.limiter)
		}
		worse := map[dashboard.State]int{dashboard.Failing: 3000, dashboard.Refusing: 2000, dashboard.Blocked: 1000}
		return worse[r.state] + min(n, 999)
	}
	rows := slices.DeleteFunc(p.rows(), func(r hostRow) bool { return rank(&r) == 0 })
	slices.SortStableFunc(rows, func(x, y hostRow) int {
		return cmp.Or(cmp.Compare(rank(&y), rank(&x)), cmp.Compare(x.name, y.name))
	})
	return rows
}

// table returns a title, the titles of the columns and a line for each of the first rows, in at most room lines.
// Without rows it returns none, the text for that.
func (p *picture) table(columns, room int, title string, rows []hostRow, none string) []string {
	if room < 2 {
		return nil
	}
	lines := []string{}
	if room > 4 { // a small screen has no lines for a gap and a title
		lines = append(lines, "", p.show(styleHead, cli.Cut(title, columns)))
	}
	if len(rows) == 0 {
		return append(lines, cli.Cut(none, columns))
	}
	shown := rows[:min(len(rows), room-len(lines)-1)]
	var b strings.Builder
	cli.Layout(&b, p.columns(shown, columns), columns)
	for i, line := range strings.Split(strings.TrimRight(b.String(), "\n"), "\n") {
		how := styleDim // for the titles of the columns
		if i > 0 {
			how = map[dashboard.State]style{
				dashboard.Failing: styleBad, dashboard.Refusing: styleWarn, dashboard.Blocked: styleWarn, dashboard.Paused: styleWarn, dashboard.Idle: styleDim,
			}[shown[i-1].state]
		}
		lines = append(lines, p.show(how, cli.Cut(line, columns)))
	}
	return lines
}

// columns returns the columns of a table of hosts. As in the report, the name of a host and what limits it stay when
// columns are dropped for lack of width.
func (p *picture) columns(rows []hostRow, screen int) cli.Rows {
	t := cli.Columns("<host", "<state~6", "URLs~2", "queued~5", "in flight~1", "rate/s~7", "limit/s~4", "<trend~3", "<limited by")
	longest, trendRoom := min(max(screen/5, leastName), 40), min(screen/8, 16)
	for i := range rows {
		r := &rows[i]
		limit, trend := 0.0, ""
		if r.limiter != nil {
			limit = r.limiter.LimitRPS
		}
		if way := p.history.trails[r.host.Host]; way != nil {
			trend = sparkline(way.rates, trendRoom)
		}
		state, pages, queued := string(r.state), cli.Count(r.host.Pages), cli.Count(r.host.Queued)
		if r.partial {
			pages, queued = cli.Unknown, cli.Unknown
			if r.state == dashboard.Idle {
				state = cli.Unknown
			}
		}
		t.Row(cli.Cut(cli.Tame(r.name), longest), state, pages, queued, cli.Count(r.host.InFlight),
			rateCell(r.rate), rateCell(limit), trend, cli.Tame(waiting(p.snap, &r.host, r.limiter)))
	}
	return t
}

// rateCell returns a rate in requests per second with a fitting number of digits; a dash if it is not positive.
func rateCell(rate float64) string {
	switch {
	case rate <= 0:
		return cli.Unknown
	case rate < 0.1:
		return fmt.Sprintf("%.3f", rate)
	case rate < 100:
		return fmt.Sprintf("%.2f", rate)
	}
	return fmt.Sprintf("%.0f", rate)
}
