// Package estimate has what a dry run of a crawl has found, and what follows from it: how many pages there are, how
// fast hosts may be requested and why, how long the crawl takes, what to set before, and the command. [Report.Estimate]
// computes that from the [Facts]; [Report.Write] writes it for people.
package estimate

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/robots"
)

// Report is what a plan has found. Rates are in requests per second.
type Report struct {
	Seeds     []string `json:"seeds"`
	SeedsLeft int      `json:"seeds_left,omitempty"` // seeds on hosts that the plan did not look at
	Requests  int      `json:"requests"`
	Limit     int      `json:"limit"`
	Seconds   float64  `json:"seconds"`
	Ended     string   `json:"ended"` // why: requests, time, done (nothing was left to request) or interrupted
	Hosts     []*Host  `json:"hosts"`
	Scope     struct {
		Links int    `json:"links"` // distinct links of all pages that were read
		In    int    `json:"in"`
		Out   []*Out `json:"out,omitempty"`
	} `json:"scope"`
	Pages   []Page   `json:"pages"`
	Advice  []Advice `json:"advice,omitempty"`
	Command string   `json:"command"`
}

// Host is a host of the seeds.
type Host struct {
	Host   string `json:"host"`
	From   string `json:"from,omitempty"` // the host of the seed, if it redirected here
	Robots struct {
		State             string    `json:"state,omitempty"` // found, absent, failed or unasked; empty means no response
		Status            int       `json:"status,omitempty"`
		Reason            string    `json:"reason,omitempty"`
		Bytes             int       `json:"bytes,omitempty"`
		Group             string    `json:"group,omitempty"` // the User-agent whose rules apply to the crawl
		Rules             int       `json:"rules"`
		CrawlDelaySeconds float64   `json:"crawl_delay_seconds,omitempty"`
		ForbiddenSeeds    []Example `json:"forbidden_seeds,omitempty"`
		Sitemaps          int       `json:"sitemaps"`          // how many it names
		Signals           []string  `json:"signals,omitempty"` // lines about the use of pages
	} `json:"robots"`
	Sitemaps []*Sitemap `json:"sitemaps,omitempty"` // those that were requested
	Size     struct {
		URLs        int64  `json:"urls"`
		Of          string `json:"of"`
		Estimated   bool   `json:"estimated,omitempty"`
		Most        int64  `json:"most,omitempty"` // with pages in no sitemap; zero means unknown
		Links       int    `json:"links"`          // in scope
		LinksListed int    `json:"links_listed"`   // of Links, in a sitemap that was read
	} `json:"size"`
	Pace struct {
		Strategy          string  `json:"strategy"`
		StartRPS          float64 `json:"start_rps"`
		LeastRPS          float64 `json:"least_rps"`
		MostRPS           float64 `json:"most_rps"`
		Why               string  `json:"why"` // the reason for MostRPS
		ReachedRPS        float64 `json:"reached_rps,omitempty"`
		LatencyMS         int64   `json:"latency_ms"` // of a page, on average
		Quota             string  `json:"quota,omitempty"`
		Refused           int     `json:"refused,omitempty"`
		RetryAfterSeconds float64 `json:"retry_after_seconds,omitempty"`
		Reason            string  `json:"reason,omitempty"` // the limiter's reason at the end
	} `json:"pace"`
	Duration struct {
		Pages        int64   `json:"pages"`
		PagesMost    int64   `json:"pages_most"`
		Unknown      bool    `json:"unknown,omitempty"` // the number of pages is; the time is for 1,000
		LeastSeconds float64 `json:"least_seconds"`
		MostSeconds  float64 `json:"most_seconds"`
	} `json:"duration"`

	Origin   string          `json:"-"`
	Seeds    []canonical.URL `json:"-"`
	Rules    *robots.Rules   `json:"-"`                 // nil if none are known
	QuotaRPS float64         `json:"-"`                 // that the host announces; zero means none
	Trouble  string          `json:"trouble,omitempty"` // the last problem
	Obtained bool            `json:"obtained"`          // at least one page was obtained
}

// Sitemap is a sitemap that was requested.
type Sitemap struct {
	URL          string `json:"url"`
	Guessed      bool   `json:"guessed,omitempty"` // robots.txt does not name it
	Status       int    `json:"status"`
	Format       string `json:"format,omitempty"`
	URLs         int    `json:"urls"`
	InScope      int    `json:"in_scope"`
	Sampled      bool   `json:"sampled,omitempty"`  // InScope is estimated from some of the URLs
	Children     int    `json:"children,omitempty"` // sitemaps of an index
	ChildrenRead int    `json:"children_read,omitempty"`
	Cut          bool   `json:"cut,omitempty"` // it has more than was read
	Problem      string `json:"problem,omitempty"`

	Parent *Sitemap `json:"-"` // the index that lists it; nil means none
	Read   bool     `json:"-"` // it is a sitemap and was read
}

// Sampled is how many URLs of a sitemap are checked against the scope, at most.
const Sampled = 500

// Out is a reason for which links are not followed.
type Out struct {
	Reason   string    `json:"reason"` // as in crawl.Skipped
	Links    int       `json:"links"`
	Examples []Example `json:"examples"`
}

// Example is a URL, and why it is not requested.
type Example struct {
	URL    string `json:"url"`
	Reason string `json:"reason"`
}

// Page is a page that was requested.
type Page struct {
	URL          string   `json:"url"`
	Status       int      `json:"status"`
	To           string   `json:"to,omitempty"`
	Error        string   `json:"error,omitempty"`
	Bytes        int64    `json:"bytes"` // as transferred
	Milliseconds int64    `json:"milliseconds"`
	Notes        []string `json:"notes,omitempty"` // scripts (it seems empty without them), login, noindex, noai
}

// Advice is something to know or to set before the crawl.
type Advice struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Sitemap returns the sitemap that was requested by this URL, or nil.
func (h *Host) Sitemap(url string) *Sitemap {
	for _, m := range h.Sitemaps {
		if m.URL == url {
			return m
		}
	}
	return nil
}

// liner writes a line with a name and a text, which may be wrapped.
type liner func(name, format string, args ...any)

// Write writes the report for people, wrapped to columns.
func (r *Report) Write(w io.Writer, columns int) error {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		cli.Hanging(&b, "  "+name, cli.Clean(fmt.Sprintf(format, args...)), 14, columns)
	}
	fmt.Fprintf(&b, "%d of at most %s in %s\n", r.Requests, cli.Plural(int64(r.Limit), "request"), cli.Seconds(r.Seconds))
	if r.Ended == "time" || r.Ended == "interrupted" {
		b.WriteString("It ended before all were made (" + r.Ended + "): what follows rests on less.\n")
	}
	for _, h := range r.Hosts {
		fmt.Fprintf(&b, "\n%s\n", cli.Clean(h.Host))
		h.writeRobots(line)
		if h.Obtained {
			h.writeSize(line)
			h.writePace(line)
		} else {
			line("pages", "none was obtained: %s", cmp.Or(h.Trouble, "no answer in time"))
		}
	}
	if r.SeedsLeft > 0 {
		fmt.Fprintf(&b, "\n%s: more hosts than a plan looks at; plan them apart\n", cli.Plural(int64(r.SeedsLeft), "other seed"))
	}
	if r.Scope.Links > 0 {
		b.WriteString("\nscope\n")
		line("in", "%s of %s seen", cli.Count(r.Scope.In), cli.Plural(int64(r.Scope.Links), "link"))
	}
	for _, o := range r.Scope.Out {
		line("out", "%s %s, such as %s: %s", cli.Count(o.Links), o.Reason, o.Examples[0].URL, o.Examples[0].Reason)
	}
	if len(r.Advice) > 0 {
		b.WriteString("\nbefore you start\n")
	}
	for _, a := range r.Advice {
		line(a.Name, "%s", a.Text)
	}
	if r.Command != "" {
		fmt.Fprintf(&b, "\nnext\n  %s\n", cli.Clean(r.Command))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (h *Host) writeRobots(line liner) {
	r := &h.Robots
	switch r.State {
	case "found":
		text := "no rules for this crawler"
		if r.Group != "" {
			text = fmt.Sprintf("%s for User-agent: %s", cli.Plural(int64(r.Rules), "rule"), r.Group)
		}
		if r.CrawlDelaySeconds > 0 {
			text += fmt.Sprintf(", Crawl-delay %gs", r.CrawlDelaySeconds)
		}
		line("robots.txt", "found, %s; %s; %s", cli.Size(int64(r.Bytes)), text, cli.Plural(int64(r.Sitemaps), "sitemap"))
	case "":
		line("robots.txt", "not read: %s", cmp.Or(h.Trouble, "no answer in time"))
	default:
		line("robots.txt", "%s: %s", r.State, r.Reason)
	}
	for _, f := range r.ForbiddenSeeds {
		line("", "the seed %s is forbidden: %s", f.URL, f.Reason)
	}
	for _, m := range h.Sitemaps {
		line("sitemap", "%s: %s", m.URL, m.text())
	}
}

// text says what was found in a sitemap.
func (m *Sitemap) text() string {
	least, guess := "", ""
	if m.Cut {
		least = "at least "
	}
	if m.Guessed {
		guess = ", not named by robots.txt"
	}
	switch {
	case m.Status == 0:
		return "not read" + guess
	case !m.Read:
		return "none: " + m.Problem + guess
	case m.Children > 0:
		return fmt.Sprintf("index of %s%s, %d read%s", least, cli.Plural(int64(m.Children), "sitemap"), m.ChildrenRead, guess)
	case m.Sampled:
		return fmt.Sprintf("%s%s, by %d of them some %s in scope%s", least, cli.Plural(int64(m.URLs), "URL"), Sampled, cli.Count(m.InScope), guess)
	}
	return fmt.Sprintf("%s%s, %s in scope%s", least, cli.Plural(int64(m.URLs), "URL"), cli.Count(m.InScope), guess)
}

func (h *Host) writeSize(line liner) {
	s := &h.Size
	about := ""
	if s.Estimated {
		about = "some "
	}
	line("size", "%s%s %s", about, cli.Count(s.URLs), s.Of)
	if s.Most > s.URLs {
		line("", "of %s in scope sitemaps have %s: with the others there may be some %s pages", cli.Plural(int64(s.Links), "link"), cli.Count(s.LinksListed), cli.Count(s.Most))
	}
}

func (h *Host) writePace(line liner) {
	p, d := &h.Pace, &h.Duration
	line("pace", "at most %s: %s", rate(p.MostRPS), p.Why)
	if p.LeastRPS < p.MostRPS {
		line("", "%s begins with %s, goes up while the host bears it, and was at %s at the end", p.Strategy, rate(p.StartRPS), rate(p.ReachedRPS))
	}
	if p.LatencyMS > 0 {
		line("", "a page takes %dms", p.LatencyMS)
	}
	if p.Refused > 0 {
		line("", "refused: %s, with a Retry-After of %gs at most", cli.Plural(int64(p.Refused), "request"), p.RetryAfterSeconds)
	}
	what := cli.Plural(d.Pages, "page")
	if d.PagesMost > d.Pages {
		what = cli.Count(d.Pages) + " to " + cli.Plural(d.PagesMost, "page")
	}
	if d.Unknown {
		what = "each 1,000 pages"
	}
	text := fmt.Sprintf("%s: %s at %s", what, span(d.LeastSeconds), rate(p.MostRPS))
	if p.LeastRPS < p.MostRPS {
		text += fmt.Sprintf(", %s if the host bears no more than %s", span(d.MostSeconds), rate(p.LeastRPS))
	}
	line("duration", "%s", text)
}

// rate returns a rate with three digits, or more before the decimal point, and without an exponent.
func rate(rps float64) string {
	if rps >= 999.5 {
		return cli.Count(int64(math.Round(rps))) + "/s"
	}
	v, _ := strconv.ParseFloat(fmt.Sprintf("%.3g", rps), 64) // the text is a number
	return strconv.FormatFloat(v, 'f', -1, 64) + "/s"
}

// span returns a duration in words; many hours are days.
func span(seconds float64) string {
	if d := time.Duration(seconds) * time.Second; d >= 48*time.Hour {
		return fmt.Sprintf("%.1f days", d.Hours()/24)
	}
	return cli.Seconds(seconds)
}
