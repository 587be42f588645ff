package crawl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/fetch/robots"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/pipeline/canonical"
	"github.com/treadlight/crawl/internal/pipeline/extract"
	"github.com/treadlight/crawl/internal/pipeline/scope"
	"github.com/treadlight/crawl/internal/pipeline/sink"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/backoff"
)

// Settings is everything a configuration file can set; `crawl config --reference`
// describes each field. Output, Stats and Log are the command's: a program that embeds
// the package gives [Config.Sinks] and [Config.Log] instead.
type Settings = config.Config

// Page is a visited URL: its record, the answer's header and the decoded body.
type Page = pipeline.Page

// Record is what is written of a visited URL.
type Record = sink.Record

// Sink takes records, one at a time.
type Sink = sink.Sink

// Snapshot is the state of a crawl at one instant.
type Snapshot = pipeline.Snapshot

// Event is something that changed how fast a host is asked, or whether it is, with the
// cause and the figures.
type Event = ratelimit.Event

// The ends of a crawl that a caller may want to tell apart. All others are nil, the
// context's error, or the error of a sink or handler.
var (
	// ErrSeed means that a seed is no URL to begin from.
	ErrSeed = errors.New("not a usable seed")
	// ErrUnreachable means that no seed answered, not even with an error status.
	ErrUnreachable = errors.New("no seed could be reached")
	// ErrBlocked means that URLs are left, all on hosts that refuse to be asked, or that
	// nothing could be asked for because no host gave its robots.txt.
	ErrBlocked = errors.New("only blocked hosts remain")
)

// Config is what a [Crawler] is built from. Start from [DefaultConfig].
type Config struct {
	Settings

	// OnPage, if set, is called with every visited page, by several goroutines at a
	// time. Page.Body is valid only until it returns. An error ends the crawl, and so
	// does runtime.Goexit; a panic ends the program, as in any goroutine.
	OnPage func(ctx context.Context, page *Page) error
	// OnEvent, if set, is called with what changes the pace of a host, in order for each
	// host, by the goroutines that fetch. It must not block: they wait for it. Nil means
	// that nobody wants to know; the last events are in the [Snapshot] in any case.
	OnEvent func(Event)
	// Sinks receive every record. They are flushed as the crawl goes, and not closed.
	Sinks []Sink
	// Version is what the User-Agent says after "Treadlight/". Empty leaves it out.
	Version string
	// Log receives what a person may want to know. Nil means nobody does.
	Log *slog.Logger
}

// DefaultConfig is a polite crawl of the seeds' hosts: robots.txt obeyed, one request
// per second and host to begin with and ten at most, no limit of depth or pages.
func DefaultConfig() Config { return Config{Settings: config.Default()} }

// Crawler is one crawl. Its methods are safe for concurrent use.
type Crawler struct {
	cfg     Config
	clk     clock.Clock
	scope   *scope.Scope
	limiter *ratelimit.AdaptiveRateLimiter
	client  *fetch.Client
	chain   *chain
	pipe    *pipeline.Pipeline
	began   atomic.Bool
	pages   chan *Page // for Pages; nil otherwise; set before anything is started

	mu    sync.Mutex // guards what follows
	named map[string]bool

	reloading sync.Mutex // guards what follows
	inForce   Settings   // cfg.Settings, with what Reload changed
}

// Homepage is where operators can read what Treadlight is.
const Homepage = "https://github.com/treadlight/crawl"

// New builds a crawl and starts nothing. The error lists every setting that is wrong,
// by its path, with the fix.
func New(cfg Config) (*Crawler, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	c := &Crawler{cfg: cfg, clk: clock.System(), named: make(map[string]bool), inForce: cfg.Settings}
	var err error
	lc := limiterConfig(&cfg.Settings)
	lc.OnEvent = cfg.OnEvent
	if c.limiter, err = ratelimit.New(lc); err != nil {
		return nil, err
	}
	if c.chain, err = newChain(&cfg); err != nil {
		return nil, err
	}
	if c.client, err = fetch.New(c.fetchConfig()); err != nil {
		return nil, err
	}
	sc, err := scopeConfig(&cfg.Settings)
	if err != nil {
		return nil, err
	}
	if c.scope, err = scope.New(sc); err != nil {
		return nil, err
	}
	pc := c.pipelineConfig()
	if cfg.Robots.Enabled {
		if pc.Robots, err = robots.New(robotsConfig(&cfg.Settings)); err != nil {
			return nil, err
		}
	}
	c.pipe, err = pipeline.New(pc)
	return c, err
}

func scopeConfig(s *Settings) (scope.Config, error) {
	sc := scope.Config{
		Include: s.Scope.Include, Exclude: s.Scope.Exclude,
		MaxDepth: s.Depth, MaxRedirects: s.Fetch.MaxRedirects, Resources: s.Scope.Resources,
	}
	return sc, sc.Mode.UnmarshalText([]byte(s.Scope.Mode))
}

func (c *Crawler) fetchConfig() fetch.Config {
	f := &c.cfg.Fetch
	fc := fetch.Config{
		UserAgent: f.Agent(c.cfg.Version), Header: make(http.Header),
		ConnectTimeout: f.ConnectTimeout, HeaderTimeout: f.HeaderTimeout, BodyTimeout: f.BodyTimeout,
		Timeout: f.Timeout, MaxBody: f.MaxBody, HTTP2: f.HTTP2, Insecure: f.Insecure,
		MaxConnsPerHost: c.cfg.PerHostMax, AllowPrivate: f.AllowPrivate, Allow: c.isNamed,
		Chain: c.chain.page, Repeating: c.chain.robots,
	}
	for _, line := range f.Headers {
		name, value, _ := strings.Cut(line, ":") // config has checked the form
		fc.Header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	return fc
}

func (c *Crawler) pipelineConfig() pipeline.Config {
	s := &c.cfg.Settings
	pc := pipeline.Config{
		Limiter: c.limiter, Fetcher: c.client, Scope: c.scope, Sinks: c.cfg.Sinks,
		Extract:     extract.Options{Text: s.Output.Text, Resources: s.Scope.Resources},
		Concurrency: s.Concurrency, PerHost: s.PerHostMax,
		MaxPages: int(s.MaxPages), MaxPagesPerHost: int(s.MaxPagesPerHost),
		MaxTime: s.MaxTime, MaxBlocked: s.MaxBlocked,
		MaxURLs: s.Frontier.MaxURLs, MaxHosts: s.Frontier.MaxHosts,
		Retries: s.RateLimit.RetryMaxAttempts,
		Backoff: backoff.Policy{Base: s.RateLimit.RetryBaseDelay, Max: s.RateLimit.RetryMaxDelay},
		Key:     rand.Uint64(), Clock: c.clk, Log: c.cfg.Log, Handle: c.handle,
		OmitLinks: !s.Output.Links, IgnoreCrawlDelay: s.Robots.MaxCrawlDelay == 0,
	}
	c.chain.shape(&pc)
	return pc
}

// robotsConfig has room for the rules of every host the frontier may know, under both
// schemes: a cache that forgets while hosts take turns would ask for robots.txt at each
// turn and for little else.
func robotsConfig(s *Settings) robots.Config {
	const perHost = 1 << 10 // bytes; most files come to less
	return robots.Config{
		Agent: config.Product, MaxOrigins: 2 * s.Frontier.MaxHosts, MaxBytes: max(64<<20, perHost*s.Frontier.MaxHosts),
	}
}

// isNamed reports whether a seed named the host, so that it may live at a private address.
func (c *Crawler) isNamed(host string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.named[host]
}

// parseSeed reads a URL as a person types it: a missing scheme means https.
func parseSeed(s string) (canonical.URL, error) {
	s = strings.TrimSpace(s)
	if !strings.Contains(s, "://") && s != "" {
		s = "https://" + s
	}
	u, err := canonical.Parse(s)
	if err != nil {
		return u, fmt.Errorf("%w: %w", ErrSeed, err)
	}
	return u, nil
}

// name notes that the user named the host of u.
func (c *Crawler) name(u canonical.URL) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.named[u.Hostname()] = true
}

// Check reports whether every seed is a URL to begin from. The error joins one
// [ErrSeed] for each that is not.
func Check(seeds ...string) error {
	_, err := parseSeeds(seeds)
	return err
}

func parseSeeds(seeds []string) ([]canonical.URL, error) {
	urls := make([]canonical.URL, len(seeds))
	errs := make([]error, len(seeds))
	for i, s := range seeds {
		urls[i], errs[i] = parseSeed(s)
	}
	return urls, errors.Join(errs...)
}

// Run crawls from the seeds until everything in scope is visited, a limit of the
// settings is reached, or [Crawler.Stop] is called, and then returns nil. A seed that
// is no URL is an error before anything is fetched. When ctx ends, Run gives up what is
// under way and returns its error. See [ErrUnreachable] and [ErrBlocked] for the rest.
// A Crawler runs once.
func (c *Crawler) Run(ctx context.Context, seeds ...string) error {
	return c.runAll(ctx, nil, seeds)
}

func (c *Crawler) runAll(ctx context.Context, pages chan *Page, seeds []string) error {
	urls, err := parseSeeds(seeds)
	if err != nil {
		return err
	}
	if err := c.begin(pages); err != nil {
		return err
	}
	for _, u := range urls {
		c.name(u)
		c.scope.AddSeed(u) // all of them before the first page is judged by them
	}
	return c.run(ctx, slices.Values(urls))
}

// begin lets one run have the crawler. Another one must not get as far as run, which
// at its end closes the client of both.
func (c *Crawler) begin(pages chan *Page) error {
	if c.began.Swap(true) {
		return errors.New("Run was called before: build a new Crawler for another crawl")
	}
	c.pages = pages
	return nil
}

// RunSeq is Run with seeds that come as the crawl goes, a million of them or from a
// pipe. One that is no URL is logged and left out. A sequence that may have to wait for
// the next seed must end when ctx does, or when [Crawler.Halted] is closed: Run waits for it.
func (c *Crawler) RunSeq(ctx context.Context, seeds iter.Seq[string]) error {
	if err := c.begin(nil); err != nil {
		return err
	}
	log := c.cfg.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return c.run(ctx, func(yield func(canonical.URL) bool) {
		for s := range seeds {
			u, err := parseSeed(s)
			if err != nil {
				log.Warn("a seed is left out", slog.Any("error", err))
				continue
			}
			c.name(u)
			if !yield(u) {
				return
			}
		}
	})
}

func (c *Crawler) run(ctx context.Context, seeds iter.Seq[canonical.URL]) error {
	c.chain.listen(c.cfg.Log)
	defer c.chain.close()
	defer c.client.Close()
	leave, err := c.attend(ctx)
	if err != nil {
		return err
	}
	err = c.pipe.Run(ctx, seeds)
	leave()
	if err != nil {
		return err
	}
	end, reason := c.pipe.End()
	switch {
	case end == pipeline.EndBlocked:
		return fmt.Errorf("%w: %s", ErrBlocked, reason)
	case end == pipeline.EndUnruled:
		return fmt.Errorf("%w: %s", ErrBlocked, reason)
	case end == pipeline.EndDone && c.pipe.Answered() == 0:
		return ErrUnreachable
	}
	return nil
}

// Stop ends a crawl in order: nothing new is begun, what is under way is finished and
// recorded, and Run returns. It may be called at any time and more than once.
func (c *Crawler) Stop() { c.pipe.Stop() }

// Halted is closed when no more seeds are wanted: a limit of the settings was reached,
// Stop was called, or the crawl is over.
func (c *Crawler) Halted() <-chan struct{} { return c.pipe.Halted() }

// Snapshot tells the state of the crawl, at any time before, during and after it.
func (c *Crawler) Snapshot() Snapshot { return c.pipe.Snapshot() }

// Pages crawls like [Crawler.Run] and yields each page as it is visited. The page and
// its body belong to the caller. The crawl goes no faster than the loop takes pages,
// and leaving the loop ends it. An error is yielded once, last, with a nil page.
func (c *Crawler) Pages(ctx context.Context, seeds ...string) iter.Seq2[*Page, error] {
	return func(yield func(*Page, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		pages := make(chan *Page)
		var err error // of the run, once pages is closed
		var running sync.WaitGroup
		running.Go(func() {
			defer close(pages)
			err = c.runAll(ctx, pages, seeds)
		})
		// However the loop is left, a panic in it included, nothing is left running.
		defer running.Wait()
		defer cancel()
		for page := range pages {
			if !yield(page, nil) {
				return
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

// handle passes a page to whoever asked for pages.
func (c *Crawler) handle(ctx context.Context, page *Page) error {
	if c.pages != nil {
		own := *page
		own.Body = bytes.Clone(page.Body)
		own.Links, own.Resources = slices.Clone(page.Links), slices.Clone(page.Resources)
		select {
		case c.pages <- &own:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if c.cfg.OnPage != nil {
		return c.cfg.OnPage(ctx, page)
	}
	return nil
}
