package crawl

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"strings"
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
	// Depth: links that a page may be away from a seed; negative = the seeds alone, zero = no limit. Range: 1 to
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
	// Grace: when MaxTime is over or the crawl is asked to stop, go on that long with what is under way; negative =
	// as long as it takes. Range: 1s to 24h. Zero: 2s.
	Grace time.Duration `set:"grace"`
	// MaxBlocked: go on waiting that long when only blocked hosts remain; negative = stop at once. Range: 1s to 168h.
	// Zero: 5m.
	MaxBlocked time.Duration `set:"max_blocked"`
	// StateDir: directory in which the crawl is kept, so that it can be resumed, see [OpenState]. For example
	// "crawl.state".
	StateDir string `set:"state.dir"`
	// MaxURLs: URLs known at most; without a state 11 to 21 bytes each, and for those queued 150 and their length at
	// most. Range: 1 to 1000000000. Zero: 10000000.
	MaxURLs int `set:"frontier.max_urls"`
	// Order: which of a host's URLs go first: as they were found, those nearest to a seed, those farthest. One of
	// found, breadth, depth. Empty: found.
	Order string `set:"frontier.order"`

	// end of settings

	Scope      ScopeOptions      // which URLs belong to the crawl
	Politeness PolitenessOptions // how fast hosts are asked, and what of their wishes is obeyed
	Fetch      FetchOptions      // how a page is asked for
	Access     AccessOptions     // who the crawl is to sites, and which way it takes to them
	Render     RenderOptions     // which pages a browser is given before they are read
	Extract    ExtractOptions    // what is read out of pages
	Output     OutputOptions     // what records have in them
	Archive    ArchiveOptions    // how archives are written
	Fleet      FleetOptions      // a crawl of several processes; zero: this one alone
	Traces     TracesOptions     // where a trace of each URL is sent; zero: nowhere
	// Resilience are policies around requests, read by [binder.Load]. Nil: none.
	Resilience *binder.Model `set:"resilience"`

	// Router, if set, gives each page that is [Page.OK] to the handler of its route.
	Router *Router
	// HandlersFollow leaves the links of pages to [Page.Follow]: they are followed only if a handler or a loop does so;
	// redirects are followed in any case. False: all that are in scope are.
	HandlersFollow bool
	// OnPage, if set, handles every visited URL, redirects, sitemaps and failures included, before the Router does. See
	// [HandlerFunc].
	OnPage HandlerFunc

	// The hooks below see one URL in this order: OnRequest, OnResponse, OnError; then OnPage, the Router and a loop, and
	// OnError if one of these fails; the sinks; and OnSkip for its links. Hooks of different URLs run at the same time, but
	// for OnSkip. They may call the Crawler's methods, but for Checkpoint and, by OnEvent, those that its documentation
	// excepts; a hook that blocks holds up what it is called by.

	// OnRequest, if set, is called with each request right before it is sent, those for robots.txt, sitemaps and another try
	// included, by the goroutine that sends it. It may set fields of the Header and change path and query of the URL, as to
	// sign it; host, method and body are not its to change, and GetBody has the body to read. With an error, which a panic is
	// too, nothing is sent, and the URL is done: its record has the error, of class "handler", and no Attempt. A host whose
	// robots.txt is not asked for is not asked for anything.
	OnRequest func(*http.Request) error
	// OnResponse, if set, is called with the header of each response, whatever its status, those that are followed by another
	// try included; after the host's pace has heard of it, and before its body is read: Body is empty. The Response is the
	// hook's own. With an error, which a panic is too, the body is not read, and the URL is done: its record has the status
	// and the error, of class "handler".
	OnResponse func(*http.Response) error
	// OnError, if set, is called with each [Failure]: by the goroutine that fetches if the URL is asked for again, else by the
	// one that handles pages, before the record is written. A status is no failure. Nor is what OnSkip is told of, or what the
	// end of the crawl cuts off. A panic is logged.
	OnError func(Failure)
	// OnSkip, if set, is called with each URL that is not asked for, and why, one call at a time, by the goroutine that writes
	// records, after that of the page which has the link: it is as good a place to write as a sink, and holds the crawl up as
	// one. Links that pages have are not told of for having been seen, and those beyond 10,000 of a page only counted. In a
	// fleet a process tells as seen the last million URLs that it has itself given to the job: what only others have given is
	// left out in silence. A panic is logged.
	OnSkip func(Skipped)
	// OnEvent, if set, is called with what changes the pace of a host, in order for each
	// host, by the goroutines that fetch. It must not block: they wait for it. Nil means
	// that nobody wants to know; the last events are in the [Snapshot] in any case. A panic is logged.
	OnEvent func(Event)
	// Panics has the panic of a handler, a hook or a Fetcher end the program. False has it logged with its stack; where the
	// field does not say otherwise, it is the error of its page.
	Panics bool

	// Named, if set, reports whether the user named the host of a seed, given as "example.com:8080": only named hosts may have
	// private addresses and get credentials. Nil: the hosts of all seeds are named. It may be called by several goroutines.
	Named func(host string) bool

	// Transport, if set, sends all requests in place of the crawl's own HTTP client: with its own connections, proxies and
	// names, and no check of addresses: private ones are its to refuse. See [Fetcher] for what it gets. It stays its owner's
	// to close. Fetch's bounds of time end a request's context.
	Transport http.RoundTripper
	// Fetcher, if set, answers all requests; see [Fetcher]. It excludes Transport.
	Fetcher Fetcher
	// CookieJar, if set, keeps the cookies in place of one of the crawl's own; it may be shared. It excludes Access.Cookies.
	CookieJar http.CookieJar
	// Bodies take the bodies of pages as they come, by their media type: "application/pdf", all of a kind as "video/*", or
	// "*/*"; the more specific counts. Such a page is not read further: it has no Body, links or text, but a Digest; OnPage,
	// the Router and the sinks get it as any other. Fetch.AcceptTypes and SkipLarger do not hold for them, nor do archives get
	// more of them than Fetch.MaxBody. Nil: none.
	Bodies map[string]BodyHandler
	// Extractors read pages by their media type, as "text/gemini", in place of what is built in: title, text and links are
	// theirs to find. Sitemaps are not theirs; the tree for [Page.Find] is that of HTML in any case. Nil: none.
	Extractors map[string]Extractor

	// Shared, if set, has the pace of hosts, with others that share it: of Politeness only the fields may be set then
	// that are about the requests of a crawl: IgnoreRobots, MaxCrawlDelay, Retries, RetryBaseDelay, RetryMaxDelay,
	// MaxRetryAfter, and of Hosts the headers, credentials and proxies. It excludes a Fleet and stays its owner's to
	// close. The Limiter of a [Snapshot], the events and the ceilings that a console sets are of all that share it. A
	// Crawler of which Run is not called must be closed. Nil: the crawl paces its hosts by itself.
	Shared *Politeness
	// Sinks receive every record. They are flushed as the crawl goes, and not closed. Those of a crawl with a state
	// should be [record.Durable]; all of one that is resumed have been cut back to their [State.Position]. Nil: records go
	// nowhere, and what [Page.Emit] gives to standard output, in lines of JSON. Empty: items go nowhere either, and Emit fails.
	Sinks []record.Sink
	// Archives receive every record before Sinks do, with its Exchange if there was an answer, and that of each
	// robots.txt; see [OpenArchive]. For the rest they are as Sinks are. Nil has the bytes of exchanges forgotten.
	Archives []record.Sink
	// State is that of a crawl to be resumed, see [State.Options]. The Crawler takes it over if New does not fail. Nil: New
	// makes a state in StateDir, and without that the crawl ends with the process.
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

// Load reads the settings file of the command: YAML or JSON, at most 1 MiB. Variables of the environment that begin with
// CRAWL_ are stronger than the file, and what neither has is left at its zero. An empty path is no file. What the command
// alone does is left out: seeds.file, output.path, output.format, output.events, warc.dir, stats, listen and log.
//
// The error lists everything that is wrong, by the path of the setting and the line of the file; it is [fs.ErrNotExist]
// if there is no such file.
func Load(path string) (Options, error) {
	loaded, err := config.Load(config.Sources{File: path, Env: os.Environ()})
	if err != nil {
		return Options{}, err
	}
	var o Options
	config.ToProgram(&loaded.Config, &o)
	return o, nil
}

// settings are those of a crawl. The error names the fields that are wrong.
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
		Settings: settings, OnPage: o.handler(), HandlersFollow: o.HandlersFollow, Sinks: o.Sinks, Archives: o.Archives,
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
	cfg.Embedded = true
	return cfg, o.hooks(&cfg)
}

// handler is what the program does with pages; nil if that is nothing.
func (o *Options) handler() func(context.Context, *pipeline.Page) error {
	onPage, router := o.OnPage, o.Router
	if onPage == nil && router == nil {
		return nil
	}
	return func(ctx context.Context, inner *pipeline.Page) error {
		page := newPage(inner)
		defer func() { page.Body = nil }()
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

// programError is an error whose text names fields of [Options] where the command has settings and flags.
type programError struct {
	error
	text string
}

func (e *programError) Error() string { return e.text }
func (e *programError) Unwrap() error { return e.error }

// inProgram is err in terms of this package. What is the program's own, such as names of files, stays as it is.
func inProgram(err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*assembly.StateError](err); ok {
		return &StateError{Dir: e.Dir, Err: err, text: textInProgram(err, e.Dir)}
	}
	if e, ok := errors.AsType[*assembly.FleetError](err); ok {
		return &FleetError{Job: e.Job, Err: err, text: textInProgram(err, e.Job)}
	}
	text := settingFirst.ReplaceAllStringFunc(err.Error(), func(path string) string { return config.InProgram("Options", path) })
	if text != err.Error() {
		return &programError{err, text}
	}
	return err
}

// textInProgram is the text of an error, which has name in it as it is.
func textInProgram(err error, name string) string {
	const mask = "\x00"
	text := err.Error()
	if name != "" {
		text = strings.ReplaceAll(text, name, mask)
	}
	text = config.InProgram("Options", ofVerbs.Replace(verbs.ReplaceAllString(text, "$1")))
	return strings.ReplaceAll(text, mask, name)
}

var (
	// settingFirst is a setting at the beginning of a line.
	settingFirst = regexp.MustCompile(`(?m)^[a-z]+\.[a-z_]+\b`)
	// verbs are those of the command, of which errors tell what to do; ofVerbs is what a program does.
	verbs   = regexp.MustCompile(`('crawl (?:resume|again)) [^']*'`)
	ofVerbs = strings.NewReplacer("by 'crawl resume", "by OpenState", "by 'crawl again", "by OpenAgain",
		"that --state or --output was given", "of Options.StateDir", "--unfinished", "Again.Unfinished")
)
