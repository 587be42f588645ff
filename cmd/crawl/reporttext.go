package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/treadlight/crawl/internal/records/summary"
)

// reportText is a summary for people: what is wrong before what is only large.
type reportText struct {
	sum     *summary.Summary
	columns int

	b strings.Builder
}

// String is the whole text. It is not yet harmless: the caller cleans it.
func (t *reportText) String() string {
	t.head()
	t.statuses()
	t.broken()
	t.redirects()
	t.changes()
	t.hosts()
	t.rates()
	t.pages("Slowest pages", t.sum.Slowest, func(v float64) string { return count(int64(v)) + " ms" })
	t.pages("Largest pages", t.sum.Largest, func(v float64) string { return size(int64(v)) })
	t.types()
	t.repetitions()
	t.list("Kept back by robots.txt", t.sum.Refused)
	t.list("Ask not to be indexed", t.sum.NoIndex)
	t.list("Ask that no link of them be followed", t.sum.NoFollow)
	t.list("HTML without a title", t.sum.Untitled)
	t.list("Not read to the end", t.sum.Truncated)
	t.list("Not read, for their type or size", t.sum.Filtered)
	t.maps()
	for i, left := range t.sum.Left {
		if i == 0 {
			t.title("Left out")
		}
		t.line("  %s", left)
	}
	return t.b.String()
}

// line adds one, broken where it is too long.
func (t *reportText) line(format string, args ...any) {
	text := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " ")
	indent := text[:len(text)-len(strings.TrimLeft(text, " "))]
	for i, part := range wrap(text, max(t.columns, usualWidth/2)-len(indent)-2) {
		if i == 1 {
			indent += "  "
		}
		t.b.WriteString(indent + part + "\n")
	}
}

// url adds one line with a URL, which stays whole: it is to be copied.
func (t *reportText) url(before, u string) {
	t.b.WriteString(before + oneLine(u) + "\n")
}

// oneLine is s with its line ends as spaces.
func oneLine(s string) string { return strings.ReplaceAll(s, "\n", " ") }

func (t *reportText) title(format string, args ...any) {
	t.b.WriteString("\n" + fmt.Sprintf(format, args...) + "\n")
}

// leastSpent is what of the time is worth a word, in seconds.
const leastSpent = 0.1

// head is what was read, and the figures that everybody asks for first.
func (t *reportText) head() {
	s := t.sum
	round := ""
	if s.Crawl != nil && s.Crawl.Round > 1 {
		round = fmt.Sprintf(", round %d", s.Crawl.Round)
	}
	t.line("%s%s: %s of %s, %s%s", s.Source.Path, round, plural(s.Pages, "page"), plural(s.Hosts.Total, "host"), size(s.Bytes), failed(s.Failed))
	if !s.From.IsZero() {
		t.line("  from %s to %s (UTC), %s", s.From.UTC().Format("2006-01-02 15:04:05"), s.To.UTC().Format("2006-01-02 15:04:05"), seconds(s.To.Sub(s.From).Seconds()))
	}
	if s.Crawl != nil && s.Crawl.Queued > 0 {
		t.line("  still queued: %s of %s known", plural(s.Crawl.Queued, "URL"), count(s.Crawl.Known))
	}
	if s.Source.Format == "state" {
		t.line("  there is no file of records: this is from the state alone, which has no links, titles, types and times")
	}
	if s.Source.Cut {
		t.line("  the end of the file is cut off, or still being written: its last line is passed over")
	}
	if s.Source.Damaged > 0 {
		t.line("  %s passed over, the first is line %s", plural(s.Source.Damaged, "damaged line"), count(s.Source.FirstDamaged))
	}
	var spent []string
	for _, x := range s.Spent {
		if x.Seconds < leastSpent {
			continue
		}
		spent = append(spent, fmt.Sprintf("%s %s", x.On, seconds(x.Seconds)))
	}
	if spent != nil {
		t.line("  time of all requests: %s", strings.Join(spent, ", "))
	}
}

// percent is a share of all URLs.
func (t *reportText) percent(n int64) string {
	return fmt.Sprintf("%.0f%%", 100*float64(n)/float64(max(t.sum.URLs, 1)))
}

// grid is a table that is filled row by row.
type grid []column

// row adds a row of one line: names in a file that was damaged may hold others.
func (g grid) row(cells ...string) {
	for i, cell := range cells {
		g[i].cells = append(g[i].cells, oneLine(cell))
	}
}

// table adds a table under a title.
func (t *reportText) table(title string, g grid) {
	t.title("%s", title)
	layout(&t.b, g, t.columns)
}

func (t *reportText) statuses() {
	s := t.sum
	if s.URLs > 0 {
		g := grid{{title: "  status", left: true}, {title: "URLs"}, {title: ""}, {title: "meaning", left: true, dull: ""}}
		for _, c := range s.Statuses {
			g.row("  "+c.Name, count(c.N), t.percent(c.N), cmp.Or(summary.Meaning(c.Name), " "))
		}
		t.table("Answers", g)
	}
	if len(s.Errors) > 0 {
		g := grid{{title: "  error", left: true}, {title: "URLs"}, {title: ""}}
		for _, c := range s.Errors {
			g.row("  "+cut(c.Name, longestHost(t.columns)), count(c.N), t.percent(c.N))
		}
		t.table("Errors", g)
	}
}

// fewNames is how many referrers of a broken page the text names.
const fewNames = 3

func (t *reportText) broken() {
	x := &t.sum.Broken
	if x.Total == 0 {
		return
	}
	t.title("%s: what most pages link to comes first", plural(x.Total, "broken page"))
	for _, l := range x.Listed {
		what := l.Class
		if l.Status != 0 {
			what = strconv.Itoa(l.Status)
		}
		t.url(fmt.Sprintf("  %s  ", what), l.URL)
		for _, from := range l.Referrers[:min(len(l.Referrers), fewNames)] {
			t.url("       on ", from)
		}
		if more := l.Pages - int64(min(len(l.Referrers), fewNames)); more > 0 {
			t.line("       and %s", plural(more, "more page"))
		}
	}
	t.more(x.Total - int64(len(x.Listed)))
}

// more says how much a list does not show.
func (t *reportText) more(n int64) {
	if n > 0 {
		t.line("  and %s more; --top has longer lists", count(n))
	}
}

func (t *reportText) redirects() {
	x := &t.sum.Redirects
	if x.Total == 0 {
		return
	}
	t.title("%s, %s of them for good: %s of two and more, %s", plural(x.Total, "redirect"), count(x.Permanent), plural(x.Chains, "chain"), plural(x.Loops, "loop"))
	for _, c := range x.Listed {
		for i, u := range c.URLs {
			before := "    -> "
			if i == 0 {
				before = "  "
			}
			t.url(before, u)
		}
		switch {
		case c.Loop:
			t.line("       a loop: it has been there")
		case c.Status != 0:
			t.line("       which is broken: %d", c.Status)
		case c.Class != "":
			t.line("       which is broken: %s", c.Class)
		}
	}
}

func (t *reportText) changes() {
	x := &t.sum.Changes
	if len(x.Counts) == 0 {
		return
	}
	var parts []string
	for _, c := range x.Counts {
		parts = append(parts, count(c.N)+" "+c.Name)
	}
	t.title("Against earlier rounds: %s", strings.Join(parts, ", "))
	t.list("Gone", x.Gone)
	t.list("Changed", x.Changed)
	t.list("New", x.New)
}

func (t *reportText) hosts() {
	x := &t.sum.Hosts
	if len(x.Listed) == 0 {
		return
	}
	g := grid{
		{title: "  host", left: true},
		{title: "URLs"},
		{title: "failed", dull: "0"},
		{title: "size", keep: 1},
		{title: "p50 ms", dull: "0", keep: 2},
		{title: "p95 ms", dull: "0"},
		{title: "p99 ms", dull: "0", keep: 2},
		{title: "waited", dull: "0.0s"},
	}
	title, limits := "Hosts, the slowest first", false
	for _, h := range x.Listed {
		if seconds(h.Waited) != "0.0s" {
			title = "Hosts, the slowest first; 'waited' is for the rate limiter"
		}
		limits = limits || h.Reason != ""
	}
	if limits { // known from --stats alone
		g = append(g, column{title: "limited by", left: true})
	}
	for _, h := range x.Listed {
		cells := []string{
			"  " + cut(h.Host, longestHost(t.columns)), count(h.URLs), count(h.Failed), size(h.Bytes),
			count(int64(h.Latency.P50)), count(int64(h.Latency.P95)), count(int64(h.Latency.P99)), seconds(h.Waited),
		}
		if limits {
			cells = append(cells, h.Reason)
		}
		g.row(cells...)
	}
	t.table(title, g)
	t.more(int64(x.Total - len(x.Listed)))
}

func (t *reportText) rates() {
	if t.sum.Crawl == nil || len(t.sum.Crawl.Rates) == 0 {
		return
	}
	g := grid{{title: "  host", left: true}, {title: "rate/s"}, {title: "refused for", dull: unknown}}
	for _, r := range t.sum.Crawl.Rates {
		g.row("  "+cut(r.Host, longestHost(t.columns)), fmt.Sprintf("%.2f", r.PerSecond), orUnknown(r.Pause > 0, seconds(r.Pause)))
	}
	t.table("Rates that were learned, the slowest first", g)
}

func (t *reportText) pages(title string, list []summary.Page, value func(float64) string) {
	if len(list) == 0 {
		return
	}
	width := 0
	for _, p := range list {
		width = max(width, cells(value(p.Value)))
	}
	t.title("%s", title)
	for _, p := range list {
		t.url(fmt.Sprintf("  %*s  ", width, value(p.Value)), p.URL)
	}
}

func (t *reportText) types() {
	if len(t.sum.Types) == 0 {
		return
	}
	g := grid{{title: "  type", left: true}, {title: "URLs"}, {title: ""}, {title: "size"}}
	for i, x := range t.sum.Types {
		if i == 2*fewNames {
			break // the rest is a page here and there
		}
		g.row("  "+cut(x.Name, longestHost(t.columns)), count(x.Pages), t.percent(x.Pages), size(x.Bytes))
	}
	t.table("Content types", g)
}

func (t *reportText) repetitions() {
	x := &t.sum.Duplicates
	if x.Exact+x.Near == 0 {
		return
	}
	t.title("Repetitions: %s exact, %s near", count(x.Exact), count(x.Near))
	for _, g := range x.Groups {
		t.url(fmt.Sprintf("  %s times more: ", count(g.Total)), g.Of)
		for _, u := range g.URLs[:min(len(g.URLs), fewNames)] {
			t.url("       ", u)
		}
	}
}

// list is a plain list, if there is something in it.
func (t *reportText) list(title string, l summary.List) {
	if l.Total == 0 {
		return
	}
	t.title("%s: %s", title, count(l.Total))
	for _, u := range l.URLs {
		t.url("  ", u)
	}
	t.more(l.Total - int64(len(l.URLs)))
}

func (t *reportText) maps() {
	x := &t.sum.Maps
	if x.Total == 0 {
		return
	}
	t.title("Sitemaps and feeds: %s, with %s; %s", count(x.Total), plural(x.URLs, "URL"), plural(x.Problems, "problem"))
	for _, m := range x.Listed {
		t.url("  ", m.URL)
		t.line("       %s", m.Problem)
	}
}
