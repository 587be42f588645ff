package crawl

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/record"
	"github.com/treadlight/crawl/resilience/binder"
)

// Options configure a [Crawler]. The zero Options crawl politely and stay on the hosts of the seeds: robots.txt is
// obeyed, a host gets one request per second at first and ten at most, and there is no limit on depth or pages.
//
// In every group, the zero value of a field means the default that its comment names; where zero itself must be set,
// the comment says what a negative number means. An empty string and a nil list mean the default too. A field that is
// not set adapts to one that is: if only MaxRPS is set, to 0.5, InitialRPS is 0.5 too. The tag of a field names the
// setting of a file and of the command; a field such as IgnoreRobots is the opposite of its setting.
type Options struct {
	// settings: generated, see `make docs`

	// Concurrency: requests in flight over all hosts; those that wait longer than a second for an answer do not
	// count, up to four times the number in all. Range: 1 to 10000. Zero: 64.
	Concurrency int `set:"concurrency"`
	// PerHostMax: requests in flight at one host. Range: 1 to 1000. Zero: 8.
	PerHostMax int `set:"per_host_max"`
	// Depth: most links between a seed and a page; negative = the seeds alone, zero = no limit. Range: 1 to 1000000.
	// For example 3.
	Depth int `set:"depth"`
	// MaxPages: end the crawl after so many pages, counting earlier runs and all processes of a fleet; 0 = no limit.
	// Range: 1 to 1000000000000. For example 10000.
	MaxPages int64 `set:"max_pages"`
	// MaxPagesPerHost: most pages of one host; 0 = no limit. Range: 1 to 1000000000. For example 500.
	MaxPagesPerHost int64 `set:"max_pages_per_host"`
	// MaxTime: end this run of the crawl after so long; of a fleet, so long after its job was created; 0 = no limit.
	// Range: 1s to 8760h. For example 2h.
	MaxTime time.Duration `set:"max_time"`
	// Grace: how long requests under way may go on when MaxTime is over or the crawl is asked to stop; negative = as
	// long as they take. Range: 1s to 24h. Zero: 2s.
	Grace time.Duration `set:"grace"`
	// MaxBlocked: how long to wait when only blocked hosts are left; negative = stop at once. Range: 1s to 168h.
	// Zero: 5m.
	MaxBlocked time.Duration `set:"max_blocked"`
	// StateDir: directory for the state of the crawl, so that it can be resumed with [OpenState]. For example
	// "crawl.state".
	StateDir string `set:"state.dir"`
	// MaxURLs: most URLs the crawl knows; without a state each takes 11 to 21 bytes of memory, a queued one up to 150
	// more and its length. Range: 1 to 1000000000. Zero: 10000000.
	MaxURLs int `set:"frontier.max_urls"`
	// Order: which of a host's URLs go first: in the order in which they were found, nearest to a seed, farthest from
	// it. One of found, breadth, depth. Empty: found.
	Order string `set:"frontier.order"`

	// end of settings

	Scope      ScopeOptions      // which URLs belong to the crawl
	Politeness PolitenessOptions // how fast requests are sent to a host, and which of its rules are obeyed
	Fetch      FetchOptions      // how a page is requested
	Access     AccessOptions     // credentials, cookies, proxies and name servers
	Render     RenderOptions     // which pages are rendered by a browser
	Extract    ExtractOptions    // what is extracted from pages
	Output     OutputOptions     // what records contain
	Archive    ArchiveOptions    // how archives are written
	Fleet      FleetOptions      // a crawl of several processes; zero for one process
	Traces     TracesOptions     // where a trace of each URL is sent; zero for nowhere
	// Resilience has policies around requests, as [binder.Load] reads them. Nil means none.
	Resilience *binder.Model `set:"resilience"`

	// Router, if set, gives each page that is [Page.OK] to the handler of its route.
	Router *Router
	// HandlersFollow turns off following the links of pages: URLs come from [Page.Follow], from redirects, and from
	// sitemaps and feeds unless Scope.IgnoreSitemaps and IgnoreFeeds are set. A state does not keep it: set it in every
	// run. False means that all links in scope are followed.
	HandlersFollow bool
	// OnPage, if set, is called with every visited URL, also redirects, sitemaps and failures, before the Router. See
	// [HandlerFunc].
	OnPage HandlerFunc

	// For one URL the hooks are called in this order: OnRequest, OnResponse, OnError; then OnPage, the Router and the loop,
	// and OnError if one of these fails; then the sinks, and OnSkip for its links. Hooks of different URLs run at the same
	// time, except OnSkip. A hook may call methods of the Crawler except Checkpoint, and OnEvent except those whose comment
	// forbids hooks. While a hook blocks, what calls it waits.

	// OnRequest, if set, is called with each request right before it is sent, also requests for robots.txt and sitemaps
	// and retries, on the goroutine that sends it. It may set headers and change the path and query of the URL, for
	// example to sign the request; it must not change host, method or body, and reads the body through GetBody. If it
	// returns an error or panics, nothing is sent and the URL is done: its record has the error, with the class
	// "handler" and no Attempt. If it fails for a host's robots.txt, nothing is requested from that host.
	OnRequest func(*http.Request) error
	// OnResponse, if set, is called with the header of each response, whatever its status, also if the request is
	// retried. It runs after the response was counted for the host's rate and before the body is read: Body is empty.
	// The Response belongs to the hook. If it returns an error or panics, the body is not read and the URL is done: its
	// record has the status and the error, with the class "handler".
	OnResponse func(*http.Response) error
	// OnError, if set, is called with each [Failure], before the record is written: on the goroutine that fetches if
	// the URL is requested again, otherwise on the one that handles pages. A status is no failure, nor is a URL that
	// OnSkip gets, nor a request that the end of the crawl cancels. A panic is logged.
	OnError func(Failure)
	// OnSkip, if set, is called with each URL that is not requested, and the reason. Calls come one at a time, on the
	// goroutine that writes records, after the record of the page that has the link. So it may write like a sink, and
	// if it blocks the crawl waits. Left out are links of a page that were seen before, references that are no http or
	// https URL, links beyond 10,000 of one page, which are only counted, and URLs that are still queued when the crawl
	// ends. In a fleet a process reports as seen only URLs among the last million that it gave to the job itself. A
	// panic is logged.
	OnSkip func(Skipped)
	// OnEvent, if set, is called with each change of a host's rate, in order for each host, on the goroutines that
	// fetch. They wait for it, so it must not block. Nil means that only the [Snapshot] has the last events. A panic is
	// logged.
	OnEvent func(Event)
	// Panics lets a panic of a handler, a hook or a Fetcher end the program. False logs it with its stack; unless the
	// field says otherwise, the panic becomes the error of its page.
	Panics bool

	// Named, if set, reports whether the user named the host of a seed, given as "example.com:8080". Only hosts that
	// were named may have private addresses and get credentials. Nil means that all hosts of seeds were named. It may
	// be called by several goroutines.
	Named func(host string) bool

	// Transport, if set, sends all requests in place of the crawl's own HTTP client, with its own connections, proxies
	// and name resolution. The crawl then does not check addresses: refusing private ones is up to the Transport.
	// [Fetcher] says what a request contains. The caller closes the Transport. The timeouts of Fetch end a request's
	// context.
	Transport http.RoundTripper
	// Fetcher, if set, answers all requests; see [Fetcher]. It cannot be combined with Transport.
	Fetcher Fetcher
	// CookieJar, if set, keeps the cookies in place of the crawl's own jar; it may be shared. It cannot be combined
	// with Access.Cookies.
	CookieJar http.CookieJar
	// Bodies are handlers that read bodies as a stream, by media type: "application/pdf", "video/*" or "*/*"; the most
	// specific counts. They do not get sitemaps and robots.txt. Such a page is not read further: it has a Digest but no
	// Body, links or text. OnPage, the Router and the sinks get it as any other page. Fetch.AcceptTypes and SkipLarger
	// do not apply to these types, and archives get at most Fetch.MaxBody of a body. Nil means none.
	Bodies map[string]BodyHandler
	// Extractors read pages by media type, such as "text/gemini", in place of the built-in reader: they find title,
	// text and links. They do not read sitemaps, and [Page.Find] always reads the page as HTML. Nil means none.
	Extractors map[string]Extractor

	// Shared, if set, has the rates of hosts and is shared with other crawls and clients. Then only those fields of
	// Politeness may be set that concern the requests of one crawl: IgnoreRobots, MaxCrawlDelay, Retries,
	// RetryBaseDelay, RetryMaxDelay, MaxRetryAfter, and of Hosts the headers, credentials and proxies. It cannot be
	// combined with Fleet, and the caller closes it. The Limiter of a [Snapshot], events, and ceilings set by a console
	// are of all that share it. If Run is not called, the Crawler must be closed. Nil means that the crawl has its own.
	Shared *Politeness
	// Sinks receive every record. The crawl flushes them as it runs and does not close them. The sinks of a crawl with
	// a state should be [record.Durable]; for a crawl that is resumed, each must have been cut back to its
	// [State.Position]. Nil means that records are not written, and items of [Page.Emit] go to standard output as lines
	// of JSON. An empty list means that items are not written either, and Emit fails.
	Sinks []record.Sink
	// Archives receive every record before Sinks do, with its Exchange if there was a response, and the exchange of
	// each robots.txt; see [OpenArchive]. Otherwise they are like Sinks. Nil means that the bytes of exchanges are not
	// kept.
	Archives []record.Sink
	// State resumes a crawl; see [State.Options]. If New succeeds, the Crawler owns it. Nil means that New creates a
	// state in StateDir, or none if StateDir is empty.
	State *State
	// Join makes [New] fail with [ErrNoJob] unless the job of Fleet exists: for a process that has no seeds. False
	// creates the job if it does not exist.
	Join bool
	// Began is when the run began, if that was before [Crawler.Run], for example because a large state had to be
	// opened: MaxTime counts from it. Zero means when Run is called.
	Began time.Time
	// Version is what the User-Agent says after "Treadlight/". Empty leaves it out.
	Version string
	// Log receives messages for people. Nil means none.
	Log *slog.Logger
}

// Load reads the settings file of the command: YAML or JSON, at most 1 MiB. Environment variables that begin with
// CRAWL_ override the file; what neither sets stays zero. With an empty path only the environment counts. Settings that
// concern the command alone are ignored: seeds.file, output.path, output.format, output.events, output.skipped, warc.dir,
// stats, listen and log.
//
// The error lists everything that is wrong, each with the path of the setting and the line of the file. It wraps
// [fs.ErrNotExist] if the file does not exist.
func Load(path string) (Options, error) {
	loaded, err := config.Load(config.Sources{File: path, Env: os.Environ()})
	if err != nil {
		return Options{}, err
	}
	var o Options
	config.ToProgram(&loaded.Config, &o)
	return o, nil
}

// settings returns the settings of a crawl with these options. The error names the fields that are wrong.
func (o *Options) settings() (config.Config, error) {
	settings, _, err := config.FromProgram("Options", o)
	return settings, err
}

func (o *Options) inner() (assembly.Config, error) {
	settings, warnings, err := config.FromProgram("Options", o)
	if err != nil {
		return assembly.Config{}, err
	}
	for _, warning := range warnings {
		if o.Log != nil {
			o.Log.Warn(warning) //nolint:sloglint // each says something else
		}
	}
	cfg := assembly.Config{
		Settings: settings, Hooks: pipeline.Hooks{Handle: o.handler(), HandlersFollow: o.HandlersFollow},
		Sinks: o.Sinks, Archives: o.Archives,
		Kept: o.State.unwrap(), Join: o.Join, Began: o.Began, Version: o.Version, Log: o.Log,
	}
	if o.Shared != nil {
		if err := o.Politeness.besideShared("Options"); err != nil {
			return cfg, err
		}
		if o.Fleet != (FleetOptions{}) {
			return cfg, errors.New("Options.Fleet is set beside Shared, and the processes of a fleet share their pace by it: remove one of them")
		}
		cfg.Shared = o.Shared.inner
	}
	return cfg, o.hooks(&cfg)
}

// handler returns what OnPage and the Router do with a page; nil if neither is set.
func (o *Options) handler() pipeline.Handler {
	onPage, router := o.OnPage, o.Router
	if onPage == nil && router == nil {
		return nil
	}
	return func(ctx context.Context, inner *pipeline.Page) error {
		handle, route := router.find(inner)
		if onPage == nil && handle == nil {
			return nil
		}
		page := newPage(inner)
		defer func() { page.Body = nil }()
		if onPage != nil {
			if err := onPage(ctx, page); err != nil {
				return err
			}
		}
		if handle == nil {
			return nil
		}
		page.route = route
		return handle(ctx, page)
	}
}

// inProgram rewrites err in the terms of this package: settings become fields.
func inProgram(err error) error {
	if e, ok := errors.AsType[*assembly.StateError](err); ok {
		return &StateError{Dir: e.Dir, Err: err}
	}
	if e, ok := errors.AsType[*assembly.FleetError](err); ok {
		return &FleetError{Job: e.Job, Err: err}
	}
	return assembly.InProgram(err)
}
