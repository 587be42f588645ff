package assembly

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl/internal/assembly/polite"
	"github.com/treadlight/crawl/internal/assembly/session"
	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/memory"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/rendering"
	"github.com/treadlight/crawl/internal/web/request"
	"github.com/treadlight/crawl/internal/web/robots"
	"github.com/treadlight/crawl/internal/web/scope"
	"github.com/treadlight/crawl/record"
)

// Homepage is where operators can read what Treadlight is.
const Homepage = "https://github.com/treadlight/crawl"

// Errors of a crawl that a caller may want to distinguish.
var (
	ErrSeed        = errors.New("not a usable seed")
	ErrUnreachable = errors.New("no seed could be reached")
	ErrBlocked     = errors.New("only blocked hosts remain")
)

// Config is what a [Crawler] is built from: the Config of package crawl, which documents the fields, and what tests
// need.
type Config struct {
	Settings

	pipeline.Hooks
	Own

	OnEvent  func(ratelimit.Event)
	Sinks    []record.Sink
	Archives []record.Sink
	Read     *Read          // nil: New reads what the settings name
	Kept     *State         // nil: New makes a state if the settings name a directory
	Shared   *polite.Shared // nil: the crawl has a limiter of its own, according to its settings
	Join     bool

	Unattended bool // nobody can unblock hosts: see [pipeline.Config]

	Began   time.Time
	Version string
	Log     *slog.Logger // nil: nothing is logged

	// Dial, if set, makes connections in place of the network, for tests in memory. The addresses that it connects to
	// are not checked.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Lookup, if set, looks up the addresses of a host before each connection to it, for tests with host names of their
	// own.
	Lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Settings is everything that a configuration file can set.
type Settings = config.Config

// DefaultConfig returns the configuration of a polite crawl.
func DefaultConfig() Config { return Config{Settings: config.Default()} }

// Crawler is one crawl. Its methods are safe for concurrent use.
type Crawler struct {
	cfg      Config
	log      *slog.Logger // never nil
	clk      clock.Clock
	scope    *scope.Scope
	budgets  *scope.Budgets
	limiter  *ratelimit.AdaptiveRateLimiter
	member   *polite.Member // of Config.Shared; nil means that the limiter is the crawl's own
	client   *fetch.Client
	policies *policies
	pipe     *pipeline.Pipeline
	meter    Meter  // nil without a console
	tracer   Tracer // nil means that nothing is traced
	state    *State // nil means that the crawl keeps no state
	fleet    Fleet  // nil means that this process is alone
	id       *identity
	session  *session.Session   // nil means that there is no login
	renderer rendering.Renderer // nil means that pages are not rendered
	named    named
	changes  changes

	pauses  <-chan struct{} // receives when a host has demanded a pause worth saving; nil means that nothing is saved
	early   earlySeeds
	began   atomic.Bool
	stopped context.Context // ends at Stop
	stop    context.CancelFunc
}

// New builds a crawl and fetches nothing. The error lists every setting that is wrong, by its path, with the fix; or it
// is a [*StateError] or a [*FleetError].
func New(cfg Config) (*Crawler, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	c := &Crawler{
		cfg: cfg, log: cmp.Or(cfg.Log, slog.New(slog.DiscardHandler)), clk: clock.System(), state: cfg.Kept,
	}
	c.changes.inForce = cfg.Settings
	c.named.lookups.SetLimit(maxLookups)
	c.named.hosts, c.named.withheld = make(map[string]bool), make(map[string]bool)
	c.named.only = c.cfg.Named
	c.stopped, c.stop = context.WithCancel(context.Background())
	watch, err := Watching.Get()
	switch {
	case err == nil:
		c.meter = watch.Meter()
	case cfg.Listen.Addr != "":
		return nil, err
	}
	if cfg.Listen.Addr != "" {
		c.meter.Start() // before the first request, which may come before the console is opened
	}
	if c.state == nil && cfg.State.Dir != "" { // validation permits no fleet beside a state
		c.state, err = NewState(StateConfig{Dir: cfg.State.Dir, Overwrite: cfg.Output.Overwrite, Version: cfg.Version, Log: cfg.Log})
		if err != nil {
			return nil, err
		}
	}
	if c.state != nil {
		c.named.addresses.OnOpen = c.state.keepAddresses
	}
	err = c.build()
	if err == nil {
		return c, nil
	}
	c.member.Leave()
	if c.state != nil && c.state != cfg.Kept {
		err = errors.Join(err, c.state.Close())
	}
	if c.fleet != nil {
		err = c.fleet.End(err)
	}
	return nil, err
}

// Close gives up the state, or the place in a job, of a Crawler whose Run was not called. Otherwise, and in further
// calls, it does nothing.
func (c *Crawler) Close() error {
	if !c.began.Load() {
		c.member.Leave()
	}
	switch {
	case c.state == nil && c.fleet == nil || c.began.Swap(true):
		return nil
	case c.fleet != nil:
		return c.fleet.End(nil)
	}
	return c.state.Close()
}

func (c *Crawler) build() (err error) {
	if err = c.buildLimiter(); err != nil {
		return err
	}
	if c.policies, err = newPolicies(&c.cfg); err != nil {
		return err
	}
	if c.cfg.Read == nil {
		if c.cfg.Read, err = readAccess(&c.cfg); err != nil {
			return err
		}
	}
	c.id = c.cfg.Read.id
	if c.client, err = fetch.New(fetchConfig(c)); err != nil {
		return err
	}
	c.named.client = c.client
	var avoid []string
	if c.session, avoid, err = openSession(c); err != nil {
		return err
	}
	if c.scope, err = NewScope(&c.cfg.Settings, avoid...); err != nil {
		return err
	}
	if c.fleet != nil {
		if err := c.fleet.Open(); err != nil {
			return err
		}
	}
	pc, err := c.pipelineConfig()
	if err != nil {
		return err
	}
	if c.tracer, err = newTracer(&c.cfg, c.clk); err != nil {
		return err
	}
	if c.tracer != nil {
		pc.Tracer = c.tracer
	}
	if c.cfg.Robots.Enabled {
		if pc.Robots, err = robots.New(robotsConfig(&c.cfg.Settings)); err != nil {
			return err
		}
	}
	if err = c.restoreChanges(&pc); err != nil {
		return err
	}
	c.budgets = pc.Budgets
	c.pipe, err = pipeline.New(pc)
	return err
}

// buildLimiter makes the limiter. In a fleet its budgets are those of the whole job.
func (c *Crawler) buildLimiter() (err error) {
	lc := LimiterConfig(&c.cfg.Settings)
	lc.OnEvent = c.cfg.OnEvent
	if c.cfg.RateLimit.Remember != "" {
		if err := sqlitedb.Linked(); err != nil {
			return fmt.Errorf("ratelimit.remember: %w", err)
		}
	}
	if c.state != nil || c.cfg.RateLimit.Remember != "" {
		pauses := make(chan struct{}, 1)
		c.pauses, lc.OnEvent = pauses, memory.NotePauses(pauses, c.cfg.OnEvent)
	}
	if s := c.cfg.Shared; s != nil {
		c.limiter = s.AdaptiveRateLimiter
		c.member = s.Join(polite.MemberConfig{
			MaxCrawlDelay: c.cfg.Robots.MaxCrawlDelay, InLine: c.cfg.Concurrency / 4, Leaving: c.stopped, OnEvent: lc.OnEvent,
		})
		return nil
	}
	if c.cfg.Fleet.Shared() {
		join, err := Fleets.Get()
		if err == nil {
			c.fleet, err = join(c, &lc)
		}
		if err != nil {
			return err
		}
		c.named.fleet, c.named.log = c.fleet, c.log
		c.named.addresses.OnOpen, c.named.addresses.Ask = c.named.shareLate, c.named.askFleet
	}
	c.limiter, err = ratelimit.New(lc)
	return err
}

// Check reports whether every seed is a URL that a crawl can begin with. The error joins one [ErrSeed] for each that is
// not.
func Check(seeds ...string) error {
	_, err := parseSeeds(seeds)
	return err
}

func parseSeed(s string) (canonical.URL, error) {
	u, err := canonical.ParseTyped(s)
	if err != nil {
		return u, fmt.Errorf("%w: %w", ErrSeed, err)
	}
	return u, nil
}

func parseSeeds(seeds []string) ([]canonical.URL, error) {
	urls := make([]canonical.URL, len(seeds))
	errs := make([]error, len(seeds))
	for i, s := range seeds {
		urls[i], errs[i] = parseSeed(s)
	}
	return urls, errors.Join(errs...)
}

// Run crawls from the seeds until everything in scope is visited, a limit of the settings is reached, or [Crawler.Stop]
// is called. A Crawler runs once.
func (c *Crawler) Run(ctx context.Context, seeds ...string) error {
	return c.start(ctx, nil, seeds, nil)
}

// RunSeq is like Run, with more seeds after the first ones, which are read while the crawl runs. A later seed that is
// no URL is logged and left out.
func (c *Crawler) RunSeq(ctx context.Context, more iter.Seq[string], first ...string) error {
	return c.start(ctx, nil, first, func(yield func(canonical.URL) bool) {
		for s := range more {
			u, err := parseSeed(s)
			if err != nil {
				c.log.Warn("a seed is left out", slog.Any("error", err))
				continue
			}
			c.named.addLate(ctx, u)
			if !yield(u) {
				return
			}
		}
	})
}

// start runs the crawl, and ensures that it runs once: a second run must not get further, as its end would close the
// client of both. A nil later means that there are no more seeds.
func (c *Crawler) start(ctx context.Context, loop pipeline.Handler, first []string, later iter.Seq[canonical.URL]) error {
	urls, err := parseSeeds(first)
	if err != nil {
		return err
	}
	if c.began.Swap(true) {
		return errors.New("Run was called before: build a new Crawler for another crawl")
	}
	seeds := c.early.take()
	for _, u := range urls {
		seeds = append(seeds, request.Seed{URL: u})
	}
	c.pipe.Loop(loop)
	defer c.member.Leave()
	c.policies.logTo(c.cfg.Log)
	defer c.policies.close()
	defer c.named.lookups.Wait() //nolint:errcheck // there is no error
	defer c.id.resolver.Close()
	defer c.client.Close()
	if c.tracer != nil {
		c.tracer.Start()
		defer c.tracer.Close()
	}
	starting, done := c.starting(ctx)
	defer done()
	if c.renderer != nil {
		defer c.renderer.Close()
		if err := c.renderer.Start(starting); err != nil && starting.Err() == nil {
			return c.giveUp(err)
		}
	}
	switch {
	case c.fleet != nil:
		c.admitSeeds(starting, seeds)
		return c.fleet.End(c.crawl(ctx, chain(seeds, later)))
	case c.state == nil:
		c.admitSeeds(starting, seeds)
		return c.crawl(ctx, chain(seeds, later))
	}
	seeds, err = c.resume(starting, seeds, later != nil)
	if starting.Err() != nil && errors.Is(err, starting.Err()) {
		err = ctx.Err() // if ctx has not ended, the pipeline ends at once and says why
	}
	if err == nil {
		err = c.crawl(ctx, c.noteSeeded(ctx, chain(seeds, later)))
	}
	return c.state.end(err)
}

// giveUp releases what a crawl holds that cannot begin.
func (c *Crawler) giveUp(err error) error {
	switch {
	case c.fleet != nil:
		return c.fleet.End(err)
	case c.state != nil:
		return errors.Join(err, c.state.Close())
	}
	return err
}

// starting returns a context for what precedes the crawl itself. It ends with ctx, at Stop, and when MaxTime is over,
// counted from now or from Config.Began. In a fleet MaxTime does not end it, since it is counted from when the job was
// made.
func (c *Crawler) starting(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(c.stopped, cancel)
	if c.cfg.MaxTime > 0 && c.fleet == nil {
		began := c.cfg.Began
		if began.IsZero() {
			began = c.clk.Now()
		}
		c.pipe.CountFrom(began)
		go func() {
			if clock.Sleep(ctx, c.clk, c.cfg.MaxTime-c.clk.Since(began)) == nil {
				cancel()
			}
		}()
	}
	return ctx, func() { stop(); cancel() }
}

// admitSeeds adds all seeds to the scope before the first page is checked against it, and allows the private addresses
// that they name.
func (c *Crawler) admitSeeds(ctx context.Context, seeds []request.Seed) {
	urls := make([]canonical.URL, len(seeds))
	for i, s := range seeds {
		if urls[i] = s.URL; !s.Outside() {
			c.scope.AddSeed(s.URL)
		}
	}
	c.named.add(ctx, urls...)
}

func chain(first []request.Seed, later iter.Seq[canonical.URL]) iter.Seq[request.Seed] {
	return func(yield func(request.Seed) bool) {
		for _, s := range first {
			if !yield(s) {
				return
			}
		}
		if later != nil {
			later(func(u canonical.URL) bool { return yield(request.Seed{URL: u}) })
		}
	}
}

// crawl runs the pipeline and what runs beside it, and returns how the crawl ended.
func (c *Crawler) crawl(ctx context.Context, seeds iter.Seq[request.Seed]) error {
	leave, err := c.startBeside(ctx)
	if err != nil {
		return err
	}
	given := 0
	err = c.pipe.Run(ctx, func(yield func(request.Seed) bool) {
		for s := range seeds {
			if given++; !yield(s) {
				return
			}
		}
	})
	noted := c.noteEnd()
	leave()
	if err = cmp.Or(err, noted); err != nil {
		return err
	}
	switch end, reason := c.pipe.End(); end {
	case pipeline.EndBlocked, pipeline.EndUnruled:
		return fmt.Errorf("%w: %s", ErrBlocked, reason)
	case pipeline.EndDone:
		s, kept := c.pipe.Snapshot(), c.state
		switch {
		case s.Answered > 0, s.OutOfScope[scope.Excluded.String()] > 0:
		case c.fleet != nil && !c.fleet.Unanswered(): // the answer is the same for all processes
		// An earlier run had a response, or there is nothing to request.
		case kept != nil && (kept.pages > 0 || kept.resumed && kept.store.Left().Queued == 0):
		case given == 0 && (kept == nil || kept.Round() == 1): // later rounds have their seeds from the first
			return fmt.Errorf("%w: none was given", ErrSeed)
		default:
			if why := c.pipe.Trouble(); why != nil {
				return fmt.Errorf("%w: %w", ErrUnreachable, why)
			}
			return ErrUnreachable
		}
	}
	return nil
}

// Stop ends a crawl in order: nothing new is begun, and what is in flight is finished, or canceled when the Grace of
// the settings is over.
func (c *Crawler) Stop() {
	c.stop()
	c.pipe.Stop()
}

// Halted returns a channel that is closed when no more seeds are accepted.
func (c *Crawler) Halted() <-chan struct{} { return c.pipe.Halted() }

// Stopping returns a channel that is closed when the crawl is to end within the Grace of the settings.
func (c *Crawler) Stopping() <-chan struct{} { return c.pipe.Stopping() }

// Snapshot returns the state of the crawl. It may be called before, during and after the crawl.
func (c *Crawler) Snapshot() pipeline.Snapshot { return c.pipe.Snapshot() }
