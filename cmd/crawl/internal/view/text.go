package view

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/records/summary"
)

// Text is a summary for people. It lists what is wrong before what is only large or slow.
type Text struct {
	Sum     *summary.Summary
	Columns int

	b strings.Builder
}

const (
	fewNames   = 3   // referrers of a broken page, or pages of a group, that the text lists
	leastSpent = 0.1 // seconds; shorter times are left out
)

// String returns the whole text; call it once. It is not safe for a terminal until the caller cleans it.
func (t *Text) String() string {
	s := t.Sum
	t.head()
	t.statuses()
	t.broken()
	t.redirects()
	t.changes()
	t.hosts()
	t.rates()
	t.pages("Slowest pages", s.Slowest, func(v float64) string { return cli.Count(int64(v)) + " ms" })
	t.pages("Largest pages", s.Largest, func(v float64) string { return cli.Size(int64(v)) })
	t.types()
	t.repetitions()
	t.list("Kept back by robots.txt", s.Refused)
	t.list("Ask not to be indexed", s.NoIndex)
	t.list("Ask that no link of them be followed", s.NoFollow)
	t.list("HTML without a title", s.Untitled)
	t.list("Not read to the end", s.Truncated)
	t.list("Not read, for their type or size", s.Filtered)
	if x := &s.Maps; x.Total > 0 {
		t.title("Sitemaps and feeds: %s, with %s; %s", cli.Count(x.Total), cli.Plural(x.URLs, "URL"), cli.Plural(x.Problems, "problem"))
		for _, m := range x.Listed {
			t.url("  ", m.URL)
			t.line("       %s", m.Problem)
		}
	}
	for i, left := range s.Left {
		if i == 0 {
			t.title("Left out")
		}
		t.line("  %s", left)
	}
	return t.b.String()
}

func (t *Text) line(format string, args ...any) {
	text := cli.OneLine(fmt.Sprintf(format, args...))
	cli.Indent(&t.b, text, cli.IndentOf(text)+"  ", t.Columns)
}

// url adds a line with a URL, which is not wrapped, so that it can be copied.
func (t *Text) url(before, u string) { t.b.WriteString(before + cli.OneLine(u) + "\n") }

func (t *Text) title(format string, args ...any) { fmt.Fprintf(&t.b, "\n"+format+"\n", args...) }

// table adds a table under a title, if the table has rows.
func (t *Text) table(title string, g cli.Rows) {
	if len(g[0].Cells) == 0 {
		return
	}
	t.title("%s", title)
	cli.Layout(&t.b, g, t.Columns)
}

// more adds how many entries a list leaves out, if any.
func (t *Text) more(n int64) {
	if n > 0 {
		t.line("  and %s more; --top has longer lists", cli.Count(n))
	}
}

// list adds a list of URLs under a title, if the list has any.
func (t *Text) list(title string, l summary.List) {
	if l.Total == 0 {
		return
	}
	t.title("%s: %s", title, cli.Count(l.Total))
	for _, u := range l.URLs {
		t.url("  ", u)
	}
	t.more(l.Total - int64(len(l.URLs)))
}

func (t *Text) percent(n int64) string {
	return fmt.Sprintf("%.0f%%", 100*float64(n)/float64(max(t.Sum.URLs, 1)))
}

// name returns the first cell of a row, cut to the length of host names.
func (t *Text) name(s string) string { return "  " + cli.Cut(s, longestHost(t.Columns)) }

// head adds what was read and the main figures.
func (t *Text) head() {
	s := t.Sum
	round := ""
	if s.Crawl != nil && s.Crawl.Round > 1 {
		round = fmt.Sprintf(", round %d", s.Crawl.Round)
	}
	t.line("%s%s: %s of %s, %s%s", s.Source.Path, round, cli.Plural(s.Pages, "page"), cli.Plural(s.Hosts.Total, "host"), cli.Size(s.Bytes), failed(s.Failed))
	if !s.From.IsZero() {
		t.line("  from %s to %s (UTC), %s", s.From.UTC().Format(time.DateTime), s.To.UTC().Format(time.DateTime), cli.Seconds(s.To.Sub(s.From).Seconds()))
	}
	if s.Crawl != nil && s.Crawl.Queued > 0 {
		t.line("  still queued: %s of %s known", cli.Plural(s.Crawl.Queued, "URL"), cli.Count(s.Crawl.Known))
	}
	if s.Source.Format == "state" {
		t.line("  there is no file of records: this is from the state alone, which has no links, titles, types and times")
	}
	if s.Source.Cut {
		t.line("  the end of the file is cut off, or still being written: its last line is passed over")
	}
	if s.Source.Damaged > 0 {
		t.line("  %s passed over, the first is line %s", cli.Plural(s.Source.Damaged, "damaged line"), cli.Count(s.Source.FirstDamaged))
	}
	var spent []string
	for _, x := range s.Spent {
		if x.Seconds >= leastSpent {
			spent = append(spent, x.On+" "+cli.Seconds(x.Seconds))
		}
	}
	if spent != nil {
		t.line("  time of all requests: %s", strings.Join(spent, ", "))
	}
}

func (t *Text) statuses() {
	s := t.Sum
	g := cli.Columns("<  status", "URLs", "", "<meaning")
	for _, c := range s.Statuses {
		g.Row("  "+c.Name, cli.Count(c.N), t.percent(c.N), cmp.Or(summary.Meaning(c.Name), " "))
	}
	t.table("Answers", g)
	g = cli.Columns("<  error", "URLs", "")
	for _, c := range s.Errors {
		g.Row(t.name(c.Name), cli.Count(c.N), t.percent(c.N))
	}
	t.table("Errors", g)
}

func (t *Text) broken() {
	x := &t.Sum.Broken
	if x.Total == 0 {
		return
	}
	t.title("%s: what most pages link to comes first", cli.Plural(x.Total, "broken page"))
	for _, l := range x.Listed {
		what := l.Class
		if l.Status != 0 {
			what = strconv.Itoa(l.Status)
		}
		t.url("  "+what+"  ", l.URL)
		named := l.Referrers[:min(len(l.Referrers), fewNames)]
		for _, from := range named {
			t.url("       on ", from)
		}
		if more := l.Pages - int64(len(named)); more > 0 {
			t.line("       and %s", cli.Plural(more, "more page"))
		}
	}
	t.more(x.Total - int64(len(x.Listed)))
}

func (t *Text) redirects() {
	x := &t.Sum.Redirects
	if x.Total == 0 {
		return
	}
	t.title("%s, %s of them for good: %s of two and more, %s", cli.Plural(x.Total, "redirect"), cli.Count(x.Permanent), cli.Plural(x.Chains, "chain"), cli.Plural(x.Loops, "loop"))
	for _, c := range x.Listed {
		before := "  "
		for _, u := range c.URLs {
			t.url(before, u)
			before = "    -> "
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

func (t *Text) changes() {
	x := &t.Sum.Changes
	if len(x.Counts) == 0 {
		return
	}
	var parts []string
	for _, c := range x.Counts {
		parts = append(parts, cli.Count(c.N)+" "+c.Name)
	}
	t.title("Against earlier rounds: %s", strings.Join(parts, ", "))
	t.list("Gone", x.Gone)
	t.list("Changed", x.Changed)
	t.list("New", x.New)
}

func (t *Text) hosts() {
	x := &t.Sum.Hosts
	g := cli.Columns("<  host", "URLs", "errors=0", "size~1", "p50 ms=0~2", "p95 ms=0", "p99 ms=0~2", "waited=0.0s")
	title, limits := "Hosts, the slowest first", false
	for _, h := range x.Listed {
		if cli.Seconds(h.Waited) != "0.0s" {
			title = "Hosts, the slowest first; 'waited' is for the rate limiter"
		}
		limits = limits || h.Reason != ""
	}
	if limits { // only --stats has them
		g = append(g, cli.Column{Title: "limited by", Left: true})
	}
	ms := func(v float64) string { return cli.Count(int64(v)) }
	for _, h := range x.Listed {
		cells := []string{
			t.name(h.Host), cli.Count(h.URLs), cli.Count(h.Failed), cli.Size(h.Bytes),
			ms(h.Latency.P50), ms(h.Latency.P95), ms(h.Latency.P99), cli.Seconds(h.Waited), h.Reason,
		}
		g.Row(cells[:len(g)]...)
	}
	t.table(title, g)
	t.more(int64(x.Total - len(x.Listed)))
}

func (t *Text) rates() {
	if t.Sum.Crawl == nil {
		return
	}
	g := cli.Columns("<  host", "rate/s", "refused for=-")
	for _, r := range t.Sum.Crawl.Rates {
		g.Row(t.name(r.Host), fmt.Sprintf("%.2f", r.PerSecond), cli.OrUnknown(r.Pause > 0, cli.Seconds(r.Pause)))
	}
	t.table("Rates that were learned, the slowest first", g)
}

func (t *Text) pages(title string, list []summary.Page, value func(float64) string) {
	if len(list) == 0 {
		return
	}
	width := 0
	for _, p := range list {
		width = max(width, cli.Cells(value(p.Value)))
	}
	t.title("%s", title)
	for _, p := range list {
		t.url(fmt.Sprintf("  %*s  ", width, value(p.Value)), p.URL)
	}
}

func (t *Text) types() {
	types := t.Sum.Types
	g := cli.Columns("<  type", "URLs", "", "size")
	for _, x := range types[:min(len(types), 2*fewNames)] { // further types have few pages
		g.Row(t.name(x.Name), cli.Count(x.Pages), t.percent(x.Pages), cli.Size(x.Bytes))
	}
	t.table("Content types", g)
}

func (t *Text) repetitions() {
	x := &t.Sum.Duplicates
	if x.Exact+x.Near == 0 {
		return
	}
	t.title("Repetitions: %s exact, %s near", cli.Count(x.Exact), cli.Count(x.Near))
	for _, g := range x.Groups {
		t.url("  "+cli.Plural(g.Total, "time")+" more: ", g.Of)
		for _, u := range g.URLs[:min(len(g.URLs), fewNames)] {
			t.url("       ", u)
		}
	}
}
