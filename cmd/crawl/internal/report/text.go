package report

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/treadlight/crawl/cmd/crawl/internal/human"
	"github.com/treadlight/crawl/cmd/crawl/internal/terminal"
	"github.com/treadlight/crawl/internal/records/summary"
)

// Text is a summary for people: what is wrong before what is only large.
type Text struct {
	Sum     *summary.Summary
	Columns int

	b strings.Builder
}

// String is the whole text. It is not yet harmless: the caller cleans it.
func (t *Text) String() string {
	t.head()
	t.statuses()
	t.broken()
	t.redirects()
	t.changes()
	t.hosts()
	t.rates()
	t.pages("Slowest pages", t.Sum.Slowest, func(v float64) string { return human.Count(int64(v)) + " ms" })
	t.pages("Largest pages", t.Sum.Largest, func(v float64) string { return human.Size(int64(v)) })
	t.types()
	t.repetitions()
	t.list("Kept back by robots.txt", t.Sum.Refused)
	t.list("Ask not to be indexed", t.Sum.NoIndex)
	t.list("Ask that no link of them be followed", t.Sum.NoFollow)
	t.list("HTML without a title", t.Sum.Untitled)
	t.list("Not read to the end", t.Sum.Truncated)
	t.list("Not read, for their type or size", t.Sum.Filtered)
	t.maps()
	for i, left := range t.Sum.Left {
		if i == 0 {
			t.title("Left out")
		}
		t.line("  %s", left)
	}
	return t.b.String()
}

// line adds one, broken where it is too long.
func (t *Text) line(format string, args ...any) {
	text := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " ")
	indent := text[:len(text)-len(strings.TrimLeft(text, " "))]
	for i, part := range human.Wrap(text, max(t.Columns, terminal.UsualWidth/2)-len(indent)-2) {
		if i == 1 {
			indent += "  "
		}
		t.b.WriteString(indent + part + "\n")
	}
}

// url adds one line with a URL, which stays whole: it is to be copied.
func (t *Text) url(before, u string) {
	t.b.WriteString(before + human.OneLine(u) + "\n")
}

func (t *Text) title(format string, args ...any) {
	t.b.WriteString("\n" + fmt.Sprintf(format, args...) + "\n")
}

// leastSpent is what of the time is worth a word, in seconds.
const leastSpent = 0.1

// head is what was read, and the figures that everybody asks for first.
func (t *Text) head() {
	s := t.Sum
	round := ""
	if s.Crawl != nil && s.Crawl.Round > 1 {
		round = fmt.Sprintf(", round %d", s.Crawl.Round)
	}
	t.line("%s%s: %s of %s, %s%s", s.Source.Path, round, human.Plural(s.Pages, "page"), human.Plural(s.Hosts.Total, "host"), human.Size(s.Bytes), failed(s.Failed))
	if !s.From.IsZero() {
		t.line("  from %s to %s (UTC), %s", s.From.UTC().Format("2006-01-02 15:04:05"), s.To.UTC().Format("2006-01-02 15:04:05"), human.Seconds(s.To.Sub(s.From).Seconds()))
	}
	if s.Crawl != nil && s.Crawl.Queued > 0 {
		t.line("  still queued: %s of %s known", human.Plural(s.Crawl.Queued, "URL"), human.Count(s.Crawl.Known))
	}
	if s.Source.Format == "state" {
		t.line("  there is no file of records: this is from the state alone, which has no links, titles, types and times")
	}
	if s.Source.Cut {
		t.line("  the end of the file is cut off, or still being written: its last line is passed over")
	}
	if s.Source.Damaged > 0 {
		t.line("  %s passed over, the first is line %s", human.Plural(s.Source.Damaged, "damaged line"), human.Count(s.Source.FirstDamaged))
	}
	var spent []string
	for _, x := range s.Spent {
		if x.Seconds < leastSpent {
			continue
		}
		spent = append(spent, fmt.Sprintf("%s %s", x.On, human.Seconds(x.Seconds)))
	}
	if spent != nil {
		t.line("  time of all requests: %s", strings.Join(spent, ", "))
	}
}

// percent is a share of all URLs.
func (t *Text) percent(n int64) string {
	return fmt.Sprintf("%.0f%%", 100*float64(n)/float64(max(t.Sum.URLs, 1)))
}

// table adds a table under a title.
func (t *Text) table(title string, g human.Rows) {
	t.title("%s", title)
	human.Layout(&t.b, g, t.Columns)
}

func (t *Text) statuses() {
	s := t.Sum
	if s.URLs > 0 {
		g := human.Rows{{Title: "  status", Left: true}, {Title: "URLs"}, {Title: ""}, {Title: "meaning", Left: true, Dull: ""}}
		for _, c := range s.Statuses {
			g.Row("  "+c.Name, human.Count(c.N), t.percent(c.N), cmp.Or(summary.Meaning(c.Name), " "))
		}
		t.table("Answers", g)
	}
	if len(s.Errors) > 0 {
		g := human.Rows{{Title: "  error", Left: true}, {Title: "URLs"}, {Title: ""}}
		for _, c := range s.Errors {
			g.Row("  "+human.Cut(c.Name, longestHost(t.Columns)), human.Count(c.N), t.percent(c.N))
		}
		t.table("Errors", g)
	}
}

// fewNames is how many referrers of a broken page the text names.
const fewNames = 3

func (t *Text) broken() {
	x := &t.Sum.Broken
	if x.Total == 0 {
		return
	}
	t.title("%s: what most pages link to comes first", human.Plural(x.Total, "broken page"))
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
			t.line("       and %s", human.Plural(more, "more page"))
		}
	}
	t.more(x.Total - int64(len(x.Listed)))
}

// more says how much a list does not show.
func (t *Text) more(n int64) {
	if n > 0 {
		t.line("  and %s more; --top has longer lists", human.Count(n))
	}
}

func (t *Text) redirects() {
	x := &t.Sum.Redirects
	if x.Total == 0 {
		return
	}
	t.title("%s, %s of them for good: %s of two and more, %s", human.Plural(x.Total, "redirect"), human.Count(x.Permanent), human.Plural(x.Chains, "chain"), human.Plural(x.Loops, "loop"))
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

func (t *Text) changes() {
	x := &t.Sum.Changes
	if len(x.Counts) == 0 {
		return
	}
	var parts []string
	for _, c := range x.Counts {
		parts = append(parts, human.Count(c.N)+" "+c.Name)
	}
	t.title("Against earlier rounds: %s", strings.Join(parts, ", "))
	t.list("Gone", x.Gone)
	t.list("Changed", x.Changed)
	t.list("New", x.New)
}

func (t *Text) hosts() {
	x := &t.Sum.Hosts
	if len(x.Listed) == 0 {
		return
	}
	g := human.Rows{
		{Title: "  host", Left: true},
		{Title: "URLs"},
		{Title: "failed", Dull: "0"},
		{Title: "size", Keep: 1},
		{Title: "p50 ms", Dull: "0", Keep: 2},
		{Title: "p95 ms", Dull: "0"},
		{Title: "p99 ms", Dull: "0", Keep: 2},
		{Title: "waited", Dull: "0.0s"},
	}
	title, limits := "Hosts, the slowest first", false
	for _, h := range x.Listed {
		if human.Seconds(h.Waited) != "0.0s" {
			title = "Hosts, the slowest first; 'waited' is for the rate limiter"
		}
		limits = limits || h.Reason != ""
	}
	if limits { // known from --stats alone
		g = append(g, human.Column{Title: "limited by", Left: true})
	}
	for _, h := range x.Listed {
		cells := []string{
			"  " + human.Cut(h.Host, longestHost(t.Columns)), human.Count(h.URLs), human.Count(h.Failed), human.Size(h.Bytes),
			human.Count(int64(h.Latency.P50)), human.Count(int64(h.Latency.P95)), human.Count(int64(h.Latency.P99)), human.Seconds(h.Waited),
		}
		if limits {
			cells = append(cells, h.Reason)
		}
		g.Row(cells...)
	}
	t.table(title, g)
	t.more(int64(x.Total - len(x.Listed)))
}

func (t *Text) rates() {
	if t.Sum.Crawl == nil || len(t.Sum.Crawl.Rates) == 0 {
		return
	}
	g := human.Rows{{Title: "  host", Left: true}, {Title: "rate/s"}, {Title: "refused for", Dull: human.Unknown}}
	for _, r := range t.Sum.Crawl.Rates {
		g.Row("  "+human.Cut(r.Host, longestHost(t.Columns)), fmt.Sprintf("%.2f", r.PerSecond), human.OrUnknown(r.Pause > 0, human.Seconds(r.Pause)))
	}
	t.table("Rates that were learned, the slowest first", g)
}

func (t *Text) pages(title string, list []summary.Page, value func(float64) string) {
	if len(list) == 0 {
		return
	}
	width := 0
	for _, p := range list {
		width = max(width, human.Cells(value(p.Value)))
	}
	t.title("%s", title)
	for _, p := range list {
		t.url(fmt.Sprintf("  %*s  ", width, value(p.Value)), p.URL)
	}
}

func (t *Text) types() {
	if len(t.Sum.Types) == 0 {
		return
	}
	g := human.Rows{{Title: "  type", Left: true}, {Title: "URLs"}, {Title: ""}, {Title: "size"}}
	for i, x := range t.Sum.Types {
		if i == 2*fewNames {
			break // the rest is a page here and there
		}
		g.Row("  "+human.Cut(x.Name, longestHost(t.Columns)), human.Count(x.Pages), t.percent(x.Pages), human.Size(x.Bytes))
	}
	t.table("Content types", g)
}

func (t *Text) repetitions() {
	x := &t.Sum.Duplicates
	if x.Exact+x.Near == 0 {
		return
	}
	t.title("Repetitions: %s exact, %s near", human.Count(x.Exact), human.Count(x.Near))
	for _, g := range x.Groups {
		t.url(fmt.Sprintf("  %s times more: ", human.Count(g.Total)), g.Of)
		for _, u := range g.URLs[:min(len(g.URLs), fewNames)] {
			t.url("       ", u)
		}
	}
}

// list is a plain list, if there is something in it.
func (t *Text) list(title string, l summary.List) {
	if l.Total == 0 {
		return
	}
	t.title("%s: %s", title, human.Count(l.Total))
	for _, u := range l.URLs {
		t.url("  ", u)
	}
	t.more(l.Total - int64(len(l.URLs)))
}

func (t *Text) maps() {
	x := &t.Sum.Maps
	if x.Total == 0 {
		return
	}
	t.title("Sitemaps and feeds: %s, with %s; %s", human.Count(x.Total), human.Plural(x.URLs, "URL"), human.Plural(x.Problems, "problem"))
	for _, m := range x.Listed {
		t.url("  ", m.URL)
		t.line("       %s", m.Problem)
	}
}
