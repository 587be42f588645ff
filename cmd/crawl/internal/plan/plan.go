// Package plan is `crawl plan`: a dry run of the first minute of a crawl, and what follows from it for the whole crawl.
//
// The dry run is a crawl by the package crawl with the same settings. It makes at most [MostRequests] requests,
// including those for robots.txt and redirects: a hook sees each request before it is sent, counts it, stops the crawl
// at the last one, and refuses any after that. The crawl follows no links by itself (HandlersFollow). It requests, by
// priority: robots.txt of each host once more, to read it; the first seed of each host; some of the sitemaps that
// robots.txt names, and of an index some of its sitemaps, spread over it; the other seeds; and links in scope, at first
// those whose path begins like few chosen so far. Only the seeds make the scope, as in the crawl. Package estimate
// computes what follows.
package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/cmd/crawl/internal/job"
	"github.com/treadlight/crawl/cmd/crawl/internal/plan/estimate"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/ratelimit/header"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/scripts"
	"github.com/treadlight/crawl/record"
)

// MostRequests bounds the requests of a plan.
const MostRequests = 20

const (
	maxSitemaps  = 5 // sitemaps that are read
	firstRoots   = 2 // over all hosts, before it is known whether they are indexes
	someChildren = 3 // sitemaps requested of an index
	maxExamples  = 3
	maxMoved     = 5   // redirects in a row of a robots.txt or sitemap
	maxShown     = 160 // bytes of foreign text

	maxHosts = 4                // hosts of a plan: each takes two requests for robots.txt
	mostRPS  = 10               // per host, so that a response is read before the next request is chosen
	grace    = 10 * time.Second // for requests in flight when the last one is sent

	// Points of requests, from the first to the last: links lose some for those like them that were chosen before.
	pointsRobots, pointsFirstSeed, pointsSitemap, pointsSeed, pointsLink, pointsListed = 1000, 995, 990, 980, 900, 700

	labelRobots, labelSitemap               = "plan-robots", "plan-sitemap"
	metaHost, metaAsked, metaHop, metaMoved = "host", "asked", "level", "moved"
)

// Config says what to plan.
type Config struct {
	Seeds   []string
	Args    []string           // those of Seeds from the command line, for the proposed command
	Given   []config.FlagValue // flags to repeat in the proposed command
	Options crawl.Options
	Within  time.Duration // bounds the time of the dry run
	Scripts string        // advice for pages made by scripts; empty means none
	Term    *cli.Terminal
}

// gatherer collects what the dry run finds. One goroutine loops over the pages; others call the hooks.
type gatherer struct {
	cfg    *Config
	crawl  *crawl.Crawler
	byHost map[string]*estimate.Host   // at most 2 * maxHosts: a host that redirects to another is in it by both names
	links  map[string]bool             // at most 10,000 of each of MostRequests pages: whether they are in scope
	listed map[string]bool             // URLs in at most maxSitemaps sitemaps
	shapes map[string]int              // URLs chosen so far, by the beginnings of their paths
	maps   int                         // sitemaps requested
	roots  map[*estimate.Host][]string // at most maxSitemaps from robots.txt that are not requested yet

	mu     sync.Mutex // guards report, which hooks write to
	report *estimate.Report
}

// Run makes a plan. If it returns an error, the report, unless it is nil, has what was found before.
func Run(ctx context.Context, cfg Config) (*estimate.Report, error) {
	g := &gatherer{
		cfg: &cfg, report: &estimate.Report{Seeds: cfg.Seeds, Limit: MostRequests, Pages: []estimate.Page{}}, byHost: make(map[string]*estimate.Host),
		links: make(map[string]bool), listed: make(map[string]bool), shapes: make(map[string]int),
		roots: make(map[*estimate.Host][]string),
	}
	if err := g.hosts(); err != nil {
		return nil, err
	}
	o := cfg.Options
	o.StateDir, o.Fleet, o.Traces, o.Output, o.Politeness.Remember = "", crawl.FleetOptions{}, crawl.TracesOptions{}, crawl.OutputOptions{}, ""
	o.Extract.Fields, o.Sinks, o.HandlersFollow, o.Render = nil, []record.Sink{}, true, crawl.RenderOptions{}
	o.Fetch.AcceptTypes, o.Fetch.SkipLarger, o.Scope.IgnoreSitemaps, o.Scope.IgnoreFeeds = nil, 0, true, true
	o.MaxPages, o.MaxPagesPerHost, o.MaxTime, o.Grace = 0, 0, cfg.Within, grace
	p := &o.Politeness
	p.InitialRPS, p.MaxRPS = min(cmp.Or(p.InitialRPS, 1), mostRPS), min(cmp.Or(p.MaxRPS, mostRPS), mostRPS)
	if p.Strategy == "off" {
		p.Strategy, p.InitialRPS = "fixed", mostRPS
	}
	o.OnRequest, o.OnResponse, o.OnError = g.request, g.response, g.failed
	var err error
	if g.crawl, err = crawl.New(o); err != nil {
		return nil, cli.Usage(err)
	}
	for _, h := range g.report.Hosts {
		g.ask(h)
	}
	began := time.Now()
	err = job.Supervise(ctx, cfg.Term, slog.New(slog.DiscardHandler), cli.StatusEvery, g.crawl, func(ctx context.Context) error {
		for p, err := range g.crawl.Crawl(ctx) {
			if err != nil {
				return err
			}
			g.take(p)
		}
		return nil
	})
	return g.finish(time.Since(began), err)
}

// hosts adds the hosts of the seeds to the report, with their seeds.
func (g *gatherer) hosts() error {
	for _, seed := range g.cfg.Seeds {
		u, err := canonical.ParseTyped(seed)
		if err != nil {
			return cli.Usage(fmt.Errorf("%s: %w", seed, err))
		}
		h := g.byHost[u.Host()]
		if h == nil && len(g.report.Hosts) == maxHosts {
			g.report.SeedsLeft++
			continue
		}
		if h == nil {
			h = &estimate.Host{Host: u.Host(), Origin: u.Origin()}
			g.byHost[u.Host()], g.report.Hosts = h, append(g.report.Hosts, h)
		}
		h.Seeds = append(h.Seeds, u)
	}
	return nil
}

// ask requests robots.txt of a host and its seeds. The errors are nil: the URLs are valid.
func (g *gatherer) ask(h *estimate.Host) {
	at, options := g.robotsOf(h)
	_ = g.crawl.AddSeed(at, options...)
	points := pointsFirstSeed
	for _, u := range h.Seeds {
		_ = g.crawl.AddSeed(u.String(), crawl.WithPriority(points))
		points = pointsSeed
	}
}

// robotsOf returns how robots.txt of a host is requested once more, because the crawl does not pass on the one it reads
// itself. If the settings ignore robots.txt, that is the sitemap at the usual place.
func (g *gatherer) robotsOf(h *estimate.Host) (at string, options []crawl.FollowOption) {
	at, label := h.Origin+"/robots.txt", labelRobots
	if g.cfg.Options.Politeness.IgnoreRobots {
		h.Robots.State, h.Robots.Reason = "unasked", "the settings say so"
		at, label = h.Origin+"/sitemap.xml", labelSitemap
		h.Sitemaps = append(h.Sitemaps, &estimate.Sitemap{URL: at, Guessed: true})
	}
	return at, append(asFor(label, h.Host, at), crawl.WithPriority(pointsRobots))
}

// asFor returns the options of a request for a robots.txt or a sitemap of a host. They are requested whatever the scope.
func asFor(label, host, asked string) []crawl.FollowOption {
	return []crawl.FollowOption{crawl.WithLabel(label), crawl.WithMeta(metaHost, host), crawl.WithMeta(metaAsked, asked), crawl.WithoutScope(), crawl.WithPriority(pointsSitemap)}
}

// request counts a request that is about to be sent, and refuses it if there were enough.
func (g *gatherer) request(*http.Request) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.report.Requests == MostRequests {
		return errors.New("the requests of the plan are used up")
	}
	if g.report.Requests++; g.report.Requests == MostRequests {
		g.crawl.Stop()
	}
	return nil
}

// finish completes the report, and returns it with the error of the plan.
func (g *gatherer) finish(took time.Duration, err error) (*estimate.Report, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.report
	snap := g.crawl.Snapshot()
	switch r.Seconds = took.Seconds(); {
	case r.Requests == MostRequests:
		r.Ended = "requests"
	case took >= g.cfg.Within:
		r.Ended = "time"
	case snap.State == "interrupted":
		r.Ended = "interrupted"
	default:
		r.Ended = "done"
	}
	slices.SortFunc(r.Scope.Out, func(a, b *estimate.Out) int {
		return cmp.Or(b.Links-a.Links, strings.Compare(a.Reason, b.Reason))
	})
	if h := r.Hosts[0]; errors.Is(err, crawl.ErrUnreachable) && len(r.Hosts) == 1 && h.Trouble == "" {
		h.Trouble = err.Error()
	}
	r.Estimate(estimate.Facts{
		Options: &g.cfg.Options, Links: g.links, Listed: g.listed, Limiter: snap.Limiter.Top,
		Scripts: g.cfg.Scripts, Given: g.cfg.Given, Args: g.cfg.Args,
	})
	troubled := slices.IndexFunc(r.Hosts, func(h *estimate.Host) bool { return h.Trouble != "" })
	switch obtained := slices.ContainsFunc(r.Hosts, func(h *estimate.Host) bool { return h.Obtained }); {
	case r.Ended == "interrupted":
		err = &cli.Error{Code: cli.CodeInterrupted}
	case obtained && (errors.Is(err, crawl.ErrBlocked) || errors.Is(err, crawl.ErrUnreachable)):
		err = nil
	case err == nil && !obtained && troubled >= 0:
		err = fmt.Errorf("%w; %s: %s", cli.ErrNothing, r.Hosts[troubled].Host, r.Hosts[troubled].Trouble)
	case err == nil && !obtained:
		err = cli.ErrNothing
	}
	return r, err
}

// response records what the header of a response says about the pace.
func (g *gatherer) response(r *http.Response) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	h := g.byHost[r.Request.URL.Host]
	if h == nil {
		return nil
	}
	now := time.Now()
	if q, ok := header.Parse(r.Header, now); ok && q.Window > 0 && q.Limit > 0 {
		h.Pace.Quota, h.QuotaRPS = fmt.Sprintf("%d requests in %v", q.Limit, q.Window), float64(q.Limit)/q.Window.Seconds()
	}
	switch r.StatusCode {
	case 420, http.StatusTooManyRequests, http.StatusServiceUnavailable:
		d, _ := header.RetryAfterOf(r.Header, now, 24*time.Hour) // zero if there is none
		h.Pace.Refused, h.Pace.RetryAfterSeconds = h.Pace.Refused+1, max(h.Pace.RetryAfterSeconds, d.Seconds())
	}
	if r.StatusCode >= 400 && (h.Trouble == "" || r.StatusCode >= 500) {
		h.Trouble = fmt.Sprintf("%s has status %d", clip(r.Request.URL.Path), r.StatusCode)
	}
	return nil
}

// failed records a request without a response.
func (g *gatherer) failed(f crawl.Failure) {
	u, err := canonical.Parse(f.URL)
	g.mu.Lock()
	defer g.mu.Unlock()
	if h := g.byHost[u.Host()]; err == nil && h != nil && f.Attempt > 0 {
		h.Trouble = f.Err.Error()
	}
}

// take reads a page, robots.txt or sitemap of the dry run.
func (g *gatherer) take(p *crawl.Page) {
	g.mu.Lock()
	defer g.mu.Unlock()
	h := g.byHost[p.Meta(metaHost)]
	switch label := p.Label(); {
	case p.Attempt == 0: // it was not requested
	case (label == labelRobots || label == labelSitemap) && h != nil && p.RedirectTo != "" && len(p.Meta(metaMoved)) < maxMoved:
		if label == labelRobots {
			g.robots(p, h)
		}
		p.Follow(p.RedirectTo, append(asFor(label, h.Host, p.Meta(metaAsked)), crawl.WithMeta(metaHop, p.Meta(metaHop)),
			crawl.WithMeta(metaMoved, p.Meta(metaMoved)+"."), crawl.WithPriority(pointsRobots))...)
	case label == labelRobots && h != nil:
		g.robots(p, h)
	case label == labelSitemap && h != nil:
		if m := h.Sitemap(p.Meta(metaAsked)); m != nil && p.RedirectTo == "" {
			g.sitemap(p, h, m)
		}
	default:
		g.page(p)
	}
}

// judge returns why a link is not followed. If it returns "", it has queued the link, with a higher priority if few
// chosen links have a path that begins like this one's.
func (g *gatherer) judge(p *crawl.Page, link string, points int) (reason, detail string) {
	_, path, _ := strings.Cut(link, "://")
	path, _, query := strings.Cut(path, "?")
	parts := strings.SplitN(path, "/", 3)
	shape := fmt.Sprint(parts[:min(len(parts), 2)], len(parts), query)
	f := p.Follow(link, crawl.WithPriority(points-50*g.shapes[shape]))
	if reason, detail = f.Reason, f.Detail; reason != "" {
		return reason, detail
	}
	u := canonical.Restore(f.URL)
	if h := g.byHost[u.Host()]; h != nil {
		if d := h.Rules.Check(u.Path()); !d.Allowed {
			return "robots", d.Reason
		}
	}
	g.shapes[shape]++
	return "", ""
}

// page records a page and its links.
func (g *gatherer) page(p *crawl.Page) {
	r := estimate.Page{URL: p.URL.String(), Status: p.Status, To: p.RedirectTo, Bytes: p.WireBytes, Milliseconds: p.Timings.Total.Milliseconds()}
	if p.Err != nil {
		r.Error = clip(p.Err.Error())
	}
	if h := g.byHost[p.URL.Host]; h != nil {
		h.Obtained = h.Obtained || p.OK()
		if p.RedirectTo != "" {
			h.Trouble = clip(p.URL.Path + " leads to " + p.RedirectTo)
		}
		if p.RedirectTo != "" && p.Depth == 0 {
			g.moved(p, h, canonical.Restore(p.RedirectTo))
		}
	}
	if p.OK() {
		r.Notes = Notes(p)
	}
	g.report.Pages = append(g.report.Pages, r)
	scope := &g.report.Scope
	for _, link := range p.Links() {
		if _, seen := g.links[link]; seen {
			continue
		}
		reason, detail := g.judge(p, link, pointsLink)
		g.links[link] = reason == ""
		if scope.Links++; reason == "" {
			scope.In++
			continue
		}
		i := slices.IndexFunc(scope.Out, func(o *estimate.Out) bool { return o.Reason == reason })
		if i < 0 {
			i, scope.Out = len(scope.Out), append(scope.Out, &estimate.Out{Reason: reason})
		}
		o := scope.Out[i]
		if o.Links++; len(o.Examples) < maxExamples {
			o.Examples = append(o.Examples, estimate.Example{URL: clip(link), Reason: clip(detail)})
		}
	}
}

// moved records that a seed redirects to another host, which the crawl follows.
func (g *gatherer) moved(p *crawl.Page, h *estimate.Host, to canonical.URL) {
	if g.byHost[to.Host()] != nil || len(g.byHost) >= 2*maxHosts {
		return
	}
	h.From, h.Host, h.Origin, h.Seeds = h.Host, to.Host(), to.Origin(), append(h.Seeds, to)
	g.byHost[to.Host()] = h
	at, options := g.robotsOf(h)
	p.Follow(at, options...)
}

// The notes that a page has a form with a password, and that it seems empty without its scripts.
const (
	NoteLogin   = "login"
	NoteScripts = "scripts"
)

// Notes returns what matters about a page for a crawl: NoteScripts, NoteLogin, noindex, noai.
func Notes(p *crawl.Page) (all []string) {
	directives := []string{p.Header.Get("X-Robots-Tag")}
	for e := range p.Find(`meta[name="robots" i]`) {
		directives = append(directives, e.Attr("content"))
	}
	said := strings.ToLower(strings.Join(directives, ","))
	for _, note := range []struct {
		name string
		is   bool
	}{
		{NoteScripts, strings.HasPrefix(p.ContentType, "text/html") && scripts.Look(p.Body, false).Sign != ""},
		{NoteLogin, p.First(`input[type="password"]`).OK()},
		{"noindex", strings.Contains(said, "noindex") || strings.Contains(said, "none")},
		{"noai", strings.Contains(said, "noai") || strings.Contains(said, "noimageai")},
	} {
		if note.is {
			all = append(all, note.name)
		}
	}
	return all
}

func clip(s string) string {
	if len(s) <= maxShown {
		return s
	}
	return strings.ToValidUTF8(s[:maxShown], "") + "…"
}
