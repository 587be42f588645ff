// Package plan is `crawl plan`: a dry run of the first minute of a crawl, and what follows from it for the whole crawl.
//
// The dry run is a crawl by the package crawl with the same settings. It makes at most [MostRequests] requests,
// including those for robots.txt and redirects: a hook sees each request before it is sent, counts it, stops the crawl
// at the last one, and refuses any after that. The crawl follows no links by itself (HandlersFollow). It requests, by
// priority: robots.txt of each host once more, to read it (gather.go); some of the sitemaps that robots.txt names, and
// of an index some of its sitemaps, spread over it; the seeds; and links in scope, at first those whose path begins
// like few chosen so far. Package estimate computes what follows.
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
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/record"
)

// MostRequests bounds the requests of a plan.
const MostRequests = 20

const (
	maxHosts = 4                // hosts of a plan: each takes two requests for robots.txt
	mostRPS  = 10               // per host, so that a response is read before the next request is chosen
	grace    = 10 * time.Second // for requests in flight when the last one is sent

	labelRobots, labelSitemap    = "plan-robots", "plan-sitemap"
	metaHost, metaAsked, metaHop = "host", "asked", "level"
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

// hosts adds the hosts of the seeds to the report, and returns the seeds of the hosts that the plan looks at.
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

// askRobots requests robots.txt of a host once more, because the crawl does not pass on the one it reads itself. If the
// settings ignore robots.txt, it requests the sitemap at the usual place.
func (g *gatherer) askRobots(h *estimate.Host) {
	at, label := h.Origin+"/robots.txt", labelRobots
	if g.cfg.Options.Politeness.IgnoreRobots {
		h.Robots.State, h.Robots.Reason = "unasked", "the settings say so"
		at, label = h.Origin+"/sitemap.xml", labelSitemap
		h.Sitemaps = append(h.Sitemaps, &estimate.Sitemap{URL: at, Guessed: true})
	}
	_ = g.crawl.AddSeed(at, crawl.WithLabel(label), crawl.WithMeta(metaHost, h.Host), crawl.WithMeta(metaAsked, at),
		crawl.WithPriority(1000)) // the error is nil: the origin is valid
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
	slices.SortFunc(r.Scope.Out, func(a, b *estimate.Out) int {
		return cmp.Or(b.Links-a.Links, strings.Compare(a.Reason, b.Reason))
	})
	if h := r.Hosts[0]; errors.Is(err, crawl.ErrUnreachable) && len(r.Hosts) == 1 && h.Trouble == "" {
		h.Trouble = err.Error()
	}
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
