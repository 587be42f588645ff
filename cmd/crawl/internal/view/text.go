package view

import (
	"cmp"
	_ "embed" // text.txt
	"fmt"
	"strings"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/records/summary"
)

// Text is a summary for people. It lists what is wrong before what is only large or slow. Its other methods are for its
// template.
type Text struct {
	Sum     *summary.Summary
	Columns int
}

//go:embed text.txt
var textTemplate string

var textPage = cli.NewPage(textTemplate, 0, "  ", map[string]any{
	"few":  func(list []string) []string { return list[:min(len(list), fewNames)] },
	"list": func(title string, of summary.List) titled { return titled{title, of} },
})

type titled struct {
	Title string
	List  summary.List
}

const (
	fewNames   = 3   // referrers of a broken page, or pages of a group, that the text lists
	leastSpent = 0.1 // seconds; shorter times are left out
)

// String returns the whole text. It is not safe for a terminal until the caller cleans it.
func (t *Text) String() string { return textPage.Text(t, t.Columns) }

// Table returns a table under a title; "" if it has no rows.
func (t *Text) Table(title string, g cli.Rows) string {
	if g == nil || len(g[0].Cells) == 0 {
		return ""
	}
	var b strings.Builder
	cli.Layout(&b, g, t.Columns)
	return ".\n" + cli.AsIs(title+"\n"+b.String())
}

func (t *Text) percent(n int64) string {
	return fmt.Sprintf("%.0f%%", 100*float64(n)/float64(max(t.Sum.URLs, 1)))
}

// name returns the first cell of a row, cut to the length of host names.
func (t *Text) name(s string) string { return "  " + cli.Cut(s, longestHost(t.Columns)) }

// Spent returns what took the time of all requests.
func (t *Text) Spent() (spent []string) {
	for _, x := range t.Sum.Spent {
		if x.Seconds >= leastSpent {
			spent = append(spent, x.On+" "+cli.Seconds(x.Seconds))
		}
	}
	return spent
}

// Statuses returns the URLs by status.
func (t *Text) Statuses() cli.Rows {
	g := cli.Columns("<  status", "URLs", "", "<meaning")
	for _, c := range t.Sum.Statuses {
		g.Row("  "+c.Name, cli.Count(c.N), t.percent(c.N), cmp.Or(summary.Meaning(c.Name), " "))
	}
	return g
}

// Errors returns the URLs by the class of their error.
func (t *Text) Errors() cli.Rows {
	g := cli.Columns("<  error", "URLs", "")
	for _, c := range t.Sum.Errors {
		g.Row(t.name(c.Name), cli.Count(c.N), t.percent(c.N))
	}
	return g
}

// HostsTitle returns the title of Hosts.
func (t *Text) HostsTitle() string {
	for _, h := range t.Sum.Hosts.Listed {
		if cli.Seconds(h.Waited) != "0.0s" {
			return "Hosts, the slowest first; 'waited' is for the rate limiter"
		}
	}
	return "Hosts, the slowest first"
}

// Hosts returns the hosts with their latencies. Only --stats has what limited them.
func (t *Text) Hosts() cli.Rows {
	g := cli.Columns("<  host", "URLs", "errors=0", "size~1", "p50 ms=0~2", "p95 ms=0", "p99 ms=0~2", "waited=0.0s", "<limited by=-")
	ms := func(v float64) string { return cli.Count(int64(v)) }
	for _, h := range t.Sum.Hosts.Listed {
		g.Row(t.name(h.Host), cli.Count(h.URLs), cli.Count(h.Failed), cli.Size(h.Bytes),
			ms(h.Latency.P50), ms(h.Latency.P95), ms(h.Latency.P99), cli.Seconds(h.Waited), cmp.Or(h.Reason, cli.Unknown))
	}
	return g
}

// Rates returns the rates that the crawl has learned; nil without a state.
func (t *Text) Rates() cli.Rows {
	if t.Sum.Crawl == nil {
		return nil
	}
	g := cli.Columns("<  host", "rate/s", "refused for=-")
	for _, r := range t.Sum.Crawl.Rates {
		g.Row(t.name(r.Host), fmt.Sprintf("%.2f", r.PerSecond), cli.OrUnknown(r.Pause > 0, cli.Seconds(r.Pause)))
	}
	return g
}

// Types returns the media types with most pages.
func (t *Text) Types() cli.Rows {
	g := cli.Columns("<  type", "URLs", "", "size")
	for _, x := range t.Sum.Types[:min(len(t.Sum.Types), 2*fewNames)] { // further types have few pages
		g.Row(t.name(x.Name), cli.Count(x.Pages), t.percent(x.Pages), cli.Size(x.Bytes))
	}
	return g
}

// Pages returns pages and their figure, in milliseconds (ms) or bytes, under a title.
func (t *Text) Pages(title string, list []summary.Page, unit string) string {
	values, width := make([]string, len(list)), 0
	for i, p := range list {
		if values[i] = cli.Size(int64(p.Value)); unit == "ms" {
			values[i] = cli.Count(int64(p.Value)) + " ms"
		}
		width = max(width, cli.Cells(values[i]))
	}
	var b strings.Builder
	for i, p := range list {
		fmt.Fprintf(&b, "|  %*s  %s\n", width, values[i], cli.OneLine(p.URL))
	}
	if b.Len() == 0 {
		return ""
	}
	return ".\n|" + title + "\n" + b.String()
}
