// Package estimate has what a dry run of a crawl has found, and what follows from it: how many pages there are, how
// fast hosts may be requested and why, how long the crawl takes, what to set before, and the command. [Report.Estimate]
// computes that from the [Facts]; [Report.Write] writes it for people.
package estimate

import (
	_ "embed" // report.txt
	"fmt"
	"io"
	"math"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"text/template"
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

//go:embed report.txt
var text string

var page = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(map[string]any{
		"one": func(s string) string { return cli.OneLine(cli.Clean(s)) }, "seconds": cli.Seconds, "rate": rate, "span": span,
		"count": func(n any) string { return cli.Count(integer(n)) }, "size": func(n int) string { return cli.Size(int64(n)) },
		"plural": func(n any, noun string) string { return cli.Plural(integer(n), noun) },
	}).Parse(text))
})

func integer(n any) int64 { return reflect.ValueOf(n).Int() }

// Write writes the report for people, wrapped to columns. A line of the template with a tab has a name before it and a
// text behind it.
func (r *Report) Write(w io.Writer, columns int) error {
	var raw, b strings.Builder
	if err := page().Execute(&raw, r); err != nil {
		return err
	}
	for line := range strings.Lines(raw.String()) {
		if name, text, row := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); row {
			cli.Hanging(&b, "  "+name, text, 14, columns)
		} else {
			b.WriteString(line)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
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
