// Package estimate has what a dry run of a crawl has found, and what follows from it: how many pages there are, how
// fast hosts may be requested and why, how long the crawl takes, what to set before, and the command. [Report.Estimate]
// computes that from the [Facts]; [Report.Write] writes it for people.
package estimate

import (
	"cmp"
	_ "embed" // report.txt
	"fmt"
	"io"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/fetch/reach"
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
		SeenSeconds  float64 `json:"seen_seconds,omitempty"` // with Unknown: for the URLs seen, in the time of LeastSeconds
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
var template string

var page = cli.NewPage(template, 14, "", map[string]any{"rate": rate, "span": span})

// Write writes the report for people, wrapped to columns.
func (r *Report) Write(w io.Writer, columns int) error {
	_, err := io.WriteString(w, page.Text(r, columns))
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

// growth is the factor by which the search of the strategy steer raises a rate per second:
// docs/explanation/politeness.md.
const growth = 5.0 / 3

const (
	unpaced = 10_000 // requests per second that no host receives
	dryRPS  = 9.9    // just below the highest ceiling that a dry run has
)

// Facts are what an estimate is computed from.
type Facts struct {
	Options *crawl.Options
	Links   map[string]bool      // links of the pages that were read: whether they are in scope
	Listed  map[string]bool      // URLs in the sitemaps that were read
	Limiter []crawl.HostSnapshot // at the end of the dry run
	Scripts string               // advice for pages made by scripts; empty means none
	Given   []config.FlagValue   // flags of the proposed command
	Args    []string             // arguments of the proposed command
}

// Estimate adds size, pace and duration of each host to the report, and the advice and the command.
func (r *Report) Estimate(f Facts) {
	g, o := &estimator{f, r}, f.Options
	obtained := false
	for _, h := range r.Hosts {
		g.size(h)
		g.pace(h)
		d := &h.Duration
		d.Pages, d.PagesMost = h.Size.URLs, h.Size.Most
		if d.Unknown = h.Size.Most == 0; d.Unknown {
			d.Pages, d.PagesMost, d.SeenSeconds = 1000, 1000, after(float64(h.Size.URLs), h.Pace.StartRPS, h.Pace.MostRPS)
		}
		if most := cmp.Or(min(o.MaxPages, cmp.Or(o.MaxPagesPerHost, o.MaxPages)), o.MaxPages, o.MaxPagesPerHost); most > 0 {
			d.Pages, d.PagesMost = min(d.Pages, most), min(d.PagesMost, most)
			if d.Unknown {
				d.PagesMost = most
			}
			d.Unknown, d.SeenSeconds = false, 0
		}
		d.LeastSeconds, d.MostSeconds = after(float64(d.Pages), h.Pace.StartRPS, h.Pace.MostRPS), float64(d.PagesMost)/h.Pace.LeastRPS
		if most := o.MaxTime.Seconds(); most > 0 {
			d.LeastSeconds, d.MostSeconds = min(d.LeastSeconds, most), min(d.MostSeconds, most)
		}
		obtained = obtained || h.Obtained
	}
	g.advise()
	if obtained {
		r.Command = g.command()
	}
}

// estimator computes the estimates of a report from facts.
type estimator struct {
	Facts
	report *Report
}

// size estimates how many pages a host has: what its sitemaps list, and more if many of the links seen are in none of
// them.
func (g *estimator) size(h *Host) {
	s := &h.Size
	roots, sum, exact, read, indexes := 0, 0.0, true, 0, 0
	for _, m := range h.Sitemaps {
		if m.Parent == nil && m.Read {
			if n, whole, known := h.expected(m); known {
				sum, exact, roots = sum+n, exact && whole, roots+1
			}
		}
		switch {
		case m.Read && m.Children == 0:
			read++
		case m.Read:
			indexes++
		}
	}
	for link, in := range g.Links {
		if at := canonical.Restore(link).Host(); in && (at == h.Host || at == h.From) {
			s.Links++
			if g.Listed[link] {
				s.LinksListed++
			}
		}
	}
	if roots == 0 {
		s.URLs, s.Of = int64(max(s.Links, len(h.Seeds))), "distinct URLs were seen; without a sitemap nobody knows how many more there are"
		switch {
		case indexes > 0:
			s.Of = "distinct URLs were seen; none of the sitemaps of the index was read, so nobody knows how many more there are"
		case g.report.Ended == "done":
			s.Most, s.Of = s.URLs, "distinct URLs were seen, and there are no more"
		}
		return
	}
	if roots < h.Robots.Sitemaps {
		sum, exact = sum/float64(roots)*float64(h.Robots.Sitemaps), false
	}
	s.URLs, s.Estimated, s.Of = int64(math.Round(sum)), !exact, "URLs in scope are in the sitemaps"
	if s.Most = s.URLs; !exact {
		s.Of += fmt.Sprintf(": an estimate by what was read (%s)", cli.Plural(int64(read), "sitemap"))
	} else if s.LinksListed > 0 && s.Links >= 20 {
		s.Most = int64(math.Round(sum * float64(s.Links) / float64(s.LinksListed)))
	}
}

// expected returns how many URLs in scope a sitemap leads to, and whether that number is exact. known is false for an
// index of which no sitemap was read.
func (h *Host) expected(m *Sitemap) (n float64, exact, known bool) {
	if m.Children == 0 {
		return float64(m.InScope), !m.Cut && !m.Sampled, true
	}
	exact = true
	of := 0
	for _, c := range h.Sitemaps {
		if c.Parent != m || !c.Read {
			continue
		}
		m.ChildrenRead++
		if its, whole, known := h.expected(c); known {
			n, exact, of = n+its, exact && whole, of+1
		}
	}
	return n / float64(max(of, 1)) * float64(m.Children), exact && of == m.Children && !m.Cut, of > 0
}

// pace estimates between which rates the host may be requested, and says why.
func (g *estimator) pace(h *Host) {
	p, o := &h.Pace, &g.Options.Politeness
	p.Strategy, p.StartRPS, p.MostRPS = cmp.Or(o.Strategy, "steer"), cmp.Or(o.InitialRPS, 1), cmp.Or(o.MaxRPS, 10)
	p.Why = fmt.Sprintf("the maximum rate (--max-rate %g)", p.MostRPS)
	lower := func(rps float64, format string, args ...any) {
		if rps > 0 && rps < p.MostRPS*0.999 {
			p.MostRPS, p.Why = rps, fmt.Sprintf(format, args...)
		}
	}
	known := p.Strategy == "fixed" || p.Strategy == "off" // these strategies learn nothing
	switch p.Strategy {
	case "fixed":
		lower(p.StartRPS, "the strategy fixed (--rate %g)", p.StartRPS)
	case "off":
		p.StartRPS, p.MostRPS, p.Why = unpaced, unpaced, "nothing paces the crawl"
	}
	if d := g.obeyed(h); d > 0 {
		lower(1/d.Seconds(), "robots.txt asks for %v between two requests", d)
		known = known || p.MostRPS < 1.01/d.Seconds()
	}
	lower(o.GlobalRPS, "all hosts together have --global-rate %g", o.GlobalRPS)
	lower(h.QuotaRPS, "the host announces %s", p.Quota)
	for _, now := range g.Limiter {
		if now.Host != h.Host {
			continue
		}
		p.ReachedRPS, p.Reason = now.FillRate, now.Reason
		if now.CeilingRPS < dryRPS {
			lower(now.CeilingRPS, "a setting for the host (--min-delay, hosts)")
		}
		if p.Refused > 0 {
			lower(now.FillRate, "the host refused more")
		}
	}
	var took, pages int64
	for i := range g.report.Pages {
		if page := &g.report.Pages[i]; canonical.Restore(page.URL).Host() == h.Host && page.Milliseconds > 0 {
			took, pages = took+page.Milliseconds, pages+1
		}
	}
	if p.LatencyMS = took / max(pages, 1); p.LatencyMS > 0 {
		atOnce := cmp.Or(int64(g.Options.PerHostMax), 8)
		lower(float64(atOnce*1000)/float64(p.LatencyMS), "an answer takes %dms, and %d are under way at a time", p.LatencyMS, atOnce)
	}
	p.StartRPS = min(p.StartRPS, p.MostRPS)
	if p.LeastRPS = p.StartRPS; known {
		p.LeastRPS = p.MostRPS
	}
}

// obeyed returns the Crawl-delay as far as the settings obey it.
func (g *estimator) obeyed(h *Host) time.Duration {
	o := &g.Options.Politeness
	if o.IgnoreRobots || o.Strategy == "off" {
		return 0
	}
	return max(0, min(h.Rules.Pause(), cmp.Or(o.MaxCrawlDelay, time.Minute)))
}

// after returns how many seconds n requests take if the rate grows from start to most and then stays.
func after(n, start, most float64) float64 {
	grown := (most - start) / math.Log(growth) // requests until the rate is most
	if n < grown {
		return math.Log1p(n*math.Log(growth)/start) / math.Log(growth)
	}
	return math.Log(most/start)/math.Log(growth) + (n-grown)/most
}

// advise adds what to know or to set before the crawl.
func (g *estimator) advise() {
	r, o := g.report, g.Options
	say := func(name, format string, args ...any) {
		r.Advice = append(r.Advice, Advice{name, fmt.Sprintf(format, args...)})
	}
	n, denied := make(map[string]int), 0
	for _, p := range r.Pages {
		for _, note := range p.Notes {
			n[note]++
		}
		if p.Status == 401 || p.Status == 403 {
			denied++
		}
	}
	others := func(h *Host) bool { return !reach.Own((&url.URL{Host: h.Host}).Hostname()) }
	if o.Fetch.Contact == "" && o.Fetch.UserAgent == "" && slices.ContainsFunc(r.Hosts, others) {
		say("contact", "give --contact with a URL or mail address, so that operators can reach you")
	}
	if n["scripts"] > 0 {
		say("scripts", "pages that seem empty without their scripts: %d%s", n["scripts"], g.Scripts)
	}
	if n["login"]+denied > 0 {
		say("login", "pages that ask for a password: %d; refused by 401 or 403: %d; --login, --auth and --cookies give access", n["login"], denied)
	}
	if n["noindex"] > 0 {
		say("noindex", "pages that ask not to be indexed: %d; they are recorded, unless output.skip_noindex is set", n["noindex"])
	}
	if n["noai"] > 0 {
		say("use", "pages that say noai: %d; the crawl does not act on that, whoever uses them has to", n["noai"])
	}
	for _, h := range r.Hosts {
		for _, s := range h.Robots.Signals {
			say("use", "%s: the crawl does not act on this line of robots.txt, whoever uses the pages has to", s)
		}
		if asked := h.Rules.Pause(); asked > g.obeyed(h) {
			say("delay", "%s asks for %v between two requests, and %v are kept (robots.max_crawl_delay)", h.Host, asked, g.obeyed(h))
		}
		if h.From != "" {
			say("seed", "%s leads to %s: begin there", h.From, h.Host)
		}
	}
	if i := slices.IndexFunc(r.Scope.Out, func(o *Out) bool { return o.Reason == "other_host" }); i >= 0 && 2*r.Scope.Out[i].Links > r.Scope.Links {
		say("scope", "most links lead to other hosts: --scope domain follows those of the same domain")
	}
}

// command returns the command of the crawl: with the flags that the plan was given and, if none of them says where to
// write, with a directory, so that the crawl can be resumed. It leaves out flags that may hold a secret.
func (g *estimator) command() string {
	words, into := []string{"crawl"}, ""
	if len(g.report.Hosts) > 0 {
		name := strings.NewReplacer("[", "", "]", "", ":", "_").Replace(g.report.Hosts[0].Host)
		into = " --output " + cli.ShellWord(name+"/")
	}
	for _, f := range g.Given {
		switch word := "--" + f.Name; {
		case f.Secret():
			g.report.Advice = append(g.report.Advice, Advice{"secrets", "the command below leaves out " + word + ": give it again"})
		case slices.ContainsFunc(config.Flags(), func(known config.Flag) bool { return known.Switch && known.Name == f.Name }):
			if f.Value != "true" {
				word += "=" + cli.ShellWord(f.Value) // after a blank it would be taken for a URL
			}
			words = append(words, word)
		default:
			words = append(words, word, cli.ShellWord(f.Value))
		}
		if f.Name == "output" || f.Name == "state" {
			into = ""
		}
	}
	words[len(words)-1] += into
	for _, seed := range g.Args {
		words = append(words, cli.ShellWord(seed))
	}
	return strings.Join(words, " ")
}
