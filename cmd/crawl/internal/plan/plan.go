// Package plan is `crawl plan`: a dry run of the first minute of a crawl, and what follows from it for the whole.
//
// It is a crawl by the package crawl with the same settings, of at most [MostRequests] requests, robots.txt and redirects
// included: a hook that sees each request before it is sent counts them, stops the crawl at the last, and lets none pass
// behind it. The crawl follows nothing by itself (HandlersFollow). What is asked for is, by priority: robots.txt of each host
// once more, to read it (gather.go); some of the sitemaps that it names, and of an index some children that are spread over
// it; the seeds; and of the links in scope first those whose path begins like few that were chosen. What follows from it is
// in package estimate.
package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
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
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/record"
)

// MostRequests bounds the requests of a plan.
const MostRequests = 20

const (
	maxHosts = 4                // that are looked at: each takes two requests for robots.txt
	mostRPS  = 10               // to a host: answers are to be read before the next request is chosen
	grace    = 10 * time.Second // for what is under way when the last request was sent

	labelRobots, labelSitemap    = "plan-robots", "plan-sitemap"
	metaHost, metaAsked, metaHop = "host", "asked", "level"
)

// Config is what to plan.
type Config struct {
	Seeds   []string
	Args    []string           // those of Seeds that the command line has, for the command
	Given   []config.FlagValue // the flags that the crawl is to have too
	Options crawl.Options
	Within  time.Duration // bounds the dry run
	Scripts string        // what to do about pages that scripts make; empty: nothing
	Term    *cli.Terminal
}

// gatherer reads what comes. The loop over pages is one goroutine; hooks are called by others.
type gatherer struct {
	cfg    *Config
	crawl  *crawl.Crawler
	byHost map[string]*estimate.Host // at most 2 * maxHosts: where a host led to another it is there by both names
	links  map[string]bool           // of at most MostRequests pages, 10,000 each: whether they are in scope
	listed map[string]bool           // by at most maxSitemaps sitemaps
	shapes map[string]int            // how many URLs were chosen of each beginning of a path
	out    map[string]*estimate.Out
	maps   int                         // sitemaps that were asked for
	roots  map[*estimate.Host][]string // sitemaps that robots.txt names, at most maxSitemaps, that were not

	mu     sync.Mutex // guards report, which hooks write to
	report *estimate.Report
}

// Run makes the plan. With an error there may be a report all the same, of what was seen until then.
func Run(ctx context.Context, cfg Config) (*estimate.Report, error) {
	g := &gatherer{
		cfg: &cfg, report: &estimate.Report{Seeds: cfg.Seeds, Limit: MostRequests, Pages: []estimate.Page{}}, byHost: make(map[string]*estimate.Host),
		links: make(map[string]bool), listed: make(map[string]bool), shapes: make(map[string]int), out: make(map[string]*estimate.Out),
		roots: make(map[*estimate.Host][]string),
	}
	seeds, err := g.hosts()
	if err != nil {
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
	if g.crawl, err = crawl.New(o); err != nil {
		return nil, cli.Usage(err)
	}
	for _, h := range g.report.Hosts {
		g.askRobots(h)
	}
	every := time.Duration(0) // a minute needs no log lines
	if cfg.Term.Live() {
		every = cli.StatusEvery
	}
	began := time.Now()
	err = job.Supervise(ctx, cfg.Term, slog.New(slog.DiscardHandler), every, g.crawl, func(ctx context.Context) error {
		for p, err := range g.crawl.Crawl(ctx, seeds...) {
			if err != nil {
				return err
			}
			g.take(p)
		}
		return nil
	})
	return g.finish(time.Since(began), err)
}

// hosts are those that are looked at, and their seeds.
func (g *gatherer) hosts() (seeds []string, err error) {
	for _, seed := range g.cfg.Seeds {
		u, err := canonical.ParseTyped(seed)
		if err != nil {
			return nil, cli.Usage(fmt.Errorf("%s: %w", seed, err))
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
		h.Seeds, seeds = append(h.Seeds, u), append(seeds, u.String())
	}
	return seeds, nil
}

// askRobots has robots.txt asked for once more, as what the crawl itself makes of it is not told; where it is not obeyed,
// the sitemap at the usual place.
func (g *gatherer) askRobots(h *estimate.Host) {
	at, label := h.Origin+"/robots.txt", labelRobots
	if g.cfg.Options.Politeness.IgnoreRobots {
		h.Robots.State, h.Robots.Reason = "unasked", "the settings say so"
		at, label = h.Origin+"/sitemap.xml", labelSitemap
		h.Sitemaps = append(h.Sitemaps, &estimate.Sitemap{URL: at, Guessed: true})
	}
	_ = g.crawl.AddSeed(at, crawl.WithLabel(label), crawl.WithMeta(metaHost, h.Host), crawl.WithMeta(metaAsked, at),
		crawl.WithPriority(1000)) // no error: the origin is one
}

// request counts what is about to be sent.
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

// finish makes the report of what was gathered.
func (g *gatherer) finish(took time.Duration, err error) (*estimate.Report, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.report
	stopped := false
	select {
	case <-g.crawl.Stopping():
		stopped = true
	default:
	}
	switch r.Seconds = took.Seconds(); {
	case r.Requests == MostRequests:
		r.Ended = "requests"
	case took >= g.cfg.Within:
		r.Ended = "time"
	case stopped:
		r.Ended = "interrupted"
	default:
		r.Ended = "done"
	}
	r.Scope.Out = slices.SortedFunc(maps.Values(g.out), func(a, b *estimate.Out) int {
		return cmp.Or(b.Links-a.Links, strings.Compare(a.Reason, b.Reason))
	})
	r.Estimate(estimate.Facts{
		Options: &g.cfg.Options, Links: g.links, Listed: g.listed, Limiter: g.crawl.Snapshot().Limiter.Top,
		Scripts: g.cfg.Scripts, Given: g.cfg.Given, Args: g.cfg.Args,
	})
	obtained := slices.ContainsFunc(r.Hosts, func(h *estimate.Host) bool { return h.Obtained })
	switch {
	case r.Ended == "interrupted":
		return r, &cli.Error{Code: cli.CodeInterrupted}
	case obtained && (errors.Is(err, crawl.ErrBlocked) || errors.Is(err, crawl.ErrUnreachable)):
		return r, nil
	case err == nil && !obtained:
		for _, h := range r.Hosts {
			if h.Trouble != "" {
				return r, fmt.Errorf("%w; %s: %s", cli.ErrNothing, h.Host, h.Trouble)
			}
		}
		return r, cli.ErrNothing
	}
	return r, err
}
