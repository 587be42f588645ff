package crawl

import (
	"context"
	"log/slog"
	"time"

	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/record"
	"github.com/treadlight/crawl/resilience/binder"
)

// Options say what a [Crawler] does. The zero Options are a polite crawl of the seeds' hosts: robots.txt obeyed, one
// request per second and host to begin with and ten at most, no limit of depth or pages.
//
// In all groups a zero is the default that the field names, and a number below zero says zero where the field says
// what that means. An empty text is the default, a nil list too. A value that is left out moves next to those that
// are not: MaxRPS of 0.5 alone has InitialRPS be 0.5 as well.
type Options struct {
	// settings: generated, see `make docs`
	// Concurrency: fetches in flight over all hosts; one that has waited a second for its answer does not count, up
	// to four times as many in all. Range: 1 to 10000. Zero: 64.
	Concurrency int `set:"concurrency"`
	// PerHostMax: fetches in flight at one host. Range: 1 to 1000. Zero: 8.
	PerHostMax int `set:"per_host_max"`
	// Depth: links that a page may be away from a seed; negative = the seeds alone, zero = no limit. Range: -1 to
	// 1000000. For example 3.
	Depth int `set:"depth"`
	// MaxPages: end the crawl after that many pages, those of earlier runs and of all processes of a fleet included;
	// 0 = no limit. Range: 1 to 1000000000000. For example 10000.
	MaxPages int64 `set:"max_pages"`
	// MaxPagesPerHost: pages taken from one host at most; 0 = no limit. Range: 1 to 1000000000. For example 500.
	MaxPagesPerHost int64 `set:"max_pages_per_host"`
	// MaxTime: end the crawl, or this run of it, after that long; of a fleet, since its job was made; 0 = no limit.
	// Range: 1s to 8760h. For example 2h.
	MaxTime time.Duration `set:"max_time"`
	// Grace: when max_time is over or the crawl is asked to stop, go on that long with what is under way; negative =
	// as long as it takes. Range: 1s to 24h. Zero: 2s.
	Grace time.Duration `set:"grace"`
	// MaxBlocked: go on waiting that long when only blocked hosts remain; negative = stop at once. Range: 1s to 168h.
	// Zero: 5m.
	MaxBlocked time.Duration `set:"max_blocked"`
	// StateDir: directory in which the crawl is kept, so that it can be resumed; empty = that of the output, if it is
	// one. For example crawl.state.
	StateDir string `set:"state.dir"`
	// MaxURLs: URLs known at most; without a state 11 to 21 bytes each, and for those queued 150 and their length at
	// most. Range: 1 to 1000000000. Zero: 10000000.
	MaxURLs int `set:"frontier.max_urls"`
	// Order: which of a host's URLs go first: as they were found, those nearest to a seed, those farthest. One of
	// found, breadth, depth. Empty: found.
	Order string `set:"frontier.order"`
	// end of settings

	Scope      ScopeOptions
	Politeness PolitenessOptions
	Fetch      FetchOptions
	Access     AccessOptions
	Extract    ExtractOptions
	Output     OutputOptions
	Archive    ArchiveOptions
	Fleet      FleetOptions
	Traces     TracesOptions
	// Resilience are policies around requests, read by [binder.Load]. Nil: none.
	Resilience *binder.Model `set:"resilience"`

	// Router, if set, gives each page that is [Page.OK] to the handler of its route.
	Router *Router
	// HandlersFollow leaves the links of pages to [Page.Follow]: they are followed only if a handler or a loop does so. False:
	// all that are in scope are.
	HandlersFollow bool
	// OnPage, if set, handles every visited URL, redirects, sitemaps and failures included, before the Router does. See
	// [HandlerFunc].
	OnPage HandlerFunc
	// OnEvent, if set, is called with what changes the pace of a host, in order for each
	// host, by the goroutines that fetch. It must not block: they wait for it. Nil means
	// that nobody wants to know; the last events are in the [Snapshot] in any case.
	OnEvent func(Event)
	// Sinks receive every record. They are flushed as the crawl goes, and not closed. Those of a crawl with a state
	// should be [record.Durable]; all of one that is resumed have been cut back to their [State.Position].
	Sinks []record.Sink
	// Archives receive every record before Sinks do, with its Exchange if there was an answer, and that of each
	// robots.txt; see [OpenArchive]. For the rest they are as Sinks are. Nil has the bytes of exchanges forgotten.
	Archives []record.Sink
	// State is where the crawl is kept as it goes, new or to be resumed. The Crawler takes it
	// over if New does not fail. Nil: New makes a state in StateDir, and without that the crawl ends with the process.
	State *State
	// Join has [New] fail with [ErrNoJob] unless the job of Fleet is there already: for a process that brings no seeds.
	// False makes one that is not.
	Join bool
	// Began is when the run began, if that was before [Crawler.Run], as when a large state had
	// to be opened first: MaxTime counts from it. Zero means when Run is called.
	Began time.Time
	// Version is what the User-Agent says after "Treadlight/". Empty leaves it out.
	Version string
	// Log receives what a person may want to know. Nil means nobody does.
	Log *slog.Logger
}

// settings are those of a crawl. The error names the fields that are wrong.
func (o *Options) settings() (config.Config, error) { return config.FromProgram("Options", o) }

// inner is what the crawl is built from.
func (o *Options) inner() (assembly.Config, error) {
	settings, err := o.settings()
	if err != nil {
		return assembly.Config{}, err
	}
	return assembly.Config{
		Settings: settings, OnPage: o.handler(), HandlersFollow: o.HandlersFollow, OnEvent: o.OnEvent, Sinks: o.Sinks, Archives: o.Archives,
		Kept: o.State.unwrap(), Join: o.Join, Began: o.Began, Version: o.Version, Log: o.Log,
	}, nil
}

// handler is what the program does with pages; nil if that is nothing.
func (o *Options) handler() func(context.Context, *pipeline.Page) error {
	onPage, router := o.OnPage, o.Router
	if onPage == nil && router == nil {
		return nil
	}
	return func(ctx context.Context, inner *pipeline.Page) error {
		page := newPage(inner)
		if onPage != nil {
			if err := onPage(ctx, page); err != nil {
				return err
			}
		}
		if router != nil {
			return router.handle(ctx, page)
		}
		return nil
	}
}
