package assembly

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/observe/telemetry"
	"github.com/treadlight/crawl/internal/observe/traces"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/memory"
	"github.com/treadlight/crawl/internal/records/sink"
	"github.com/treadlight/crawl/internal/web/robots"
	"github.com/treadlight/crawl/internal/web/scope"
)

// Homepage is where operators can read what Treadlight is.
const Homepage = "https://github.com/treadlight/crawl"

// The ends of a crawl that a caller may want to tell apart.
var (
	ErrSeed        = errors.New("not a usable seed")
	ErrUnreachable = errors.New("no seed could be reached")
	ErrBlocked     = errors.New("only blocked hosts remain")
)

// Config is what a [Crawler] is built from: that of the package crawl, which says what each field
// means, and what tests need.
type Config struct {
	Settings

	OnPage   func(ctx context.Context, page *pipeline.Page) error
	OnEvent  func(ratelimit.Event)
	Sinks    []sink.Sink
	Archives []sink.Sink
	Kept     *State // nil: New makes a state if the settings name a directory
	Join     bool
	Began    time.Time
	Version  string
	Log      *slog.Logger // nil: nobody is told

	// Dial, if set, makes connections in place of the network, for tests in memory. The
	// addresses that it reaches are not checked.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Lookup, if set, finds the addresses of a host each time that it is connected to, for
	// tests with names of their own.
	Lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Settings is everything a configuration file can set.
type Settings = config.Config

// DefaultConfig is that of a polite crawl.
func DefaultConfig() Config { return Config{Settings: config.Default()} }

// Crawler is one crawl. Its methods are safe for concurrent use.
type Crawler struct {
	cfg      Config
	log      *slog.Logger // never nil
	clk      clock.Clock
	scope    *scope.Scope
	limiter  *ratelimit.AdaptiveRateLimiter
	client   *fetch.Client
	policies *policies
	pipe     *pipeline.Pipeline
	meter    *telemetry.Meter
	tracer   *traces.Exporter // nil: nothing is traced
	state    *State           // nil: the crawl is not kept
	fleet    *fleet           // nil: this process is alone
	id       *identity
	named    named
	changes  changes

	pauses  <-chan struct{}     // a host has asked for a pause that is worth saving; nil: nothing is saved
	pages   chan *pipeline.Page // for Pages; nil otherwise; set before anything is started
	began   atomic.Bool
	stopped context.Context // ends with Stop
	stop    context.CancelFunc
}

// New builds a crawl and fetches nothing. The error lists every setting that is wrong, by its
// path, with the fix; or it is a [*StateError] or a [*FleetError].
func New(cfg Config) (*Crawler, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	c := &Crawler{cfg: cfg, log: cfg.Log, clk: clock.System(), state: cfg.Kept, meter: telemetry.New()}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	c.changes.inForce = cfg.Settings
	c.named.lookups.SetLimit(maxLookups)
	c.stopped, c.stop = context.WithCancel(context.Background())
	if cfg.Listen.Addr != "" {
		c.meter.Start() // before the first request, which may come before whoever looks
	}
	if c.state == nil && cfg.State.Dir != "" { // which validation keeps apart from a fleet
		var err error
		c.state, err = NewState(StateConfig{
			Dir: cfg.State.Dir, Overwrite: cfg.Output.Overwrite, Version: cfg.Version, Log: cfg.Log,
		})
		if err != nil {
			return nil, err
		}
	}
	if c.state != nil {
		c.named.addresses.OnOpen = c.state.keepAddresses
	}
	err := c.build()
	if err != nil && c.state != nil && c.state != cfg.Kept {
		err = errors.Join(err, c.state.Close())
	}
	if err != nil {
		_ = c.fleet.close() // the first error says what matters
		return nil, err
	}
	return c, nil
}

// Close gives up the state of a Crawler whose Run was not called, or its place in a job. After
// that, and without either, it does nothing.
func (c *Crawler) Close() error {
	if c.state == nil && c.fleet == nil || c.began.Swap(true) {
		return nil
	}
	if c.fleet != nil {
		return c.fleet.end(nil)
	}
	return c.state.Close()
}

// build puts the parts together.
func (c *Crawler) build() (err error) {
	if err = c.buildLimiter(); err != nil {
		return err
	}
	if c.policies, err = newPolicies(&c.cfg); err != nil {
		return err
	}
	if c.id, err = identify(&c.cfg, c.clk, os.LookupEnv); err != nil {
		return err
	}
	if c.client, err = fetch.New(c.fetchConfig()); err != nil {
		return err
	}
	c.named.client = c.client
	sc, err := scopeConfig(&c.cfg.Settings)
	if err != nil {
		return err
	}
	if c.scope, err = scope.New(sc); err != nil {
		return err
	}
	if c.fleet != nil {
		if err := c.fleet.open(c); err != nil {
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
	c.pipe, err = pipeline.New(pc)
	return err
}

// buildLimiter makes the limiter, whose budgets are those of the whole job in a fleet.
func (c *Crawler) buildLimiter() (err error) {
	lc := limiterConfig(&c.cfg.Settings)
	lc.OnEvent = c.cfg.OnEvent
	if c.state != nil || c.cfg.RateLimit.Remember != "" {
		pauses := make(chan struct{}, 1)
		c.pauses, lc.OnEvent = pauses, memory.NotePauses(pauses, c.cfg.OnEvent)
	}
	if c.cfg.Fleet.Shared() {
		if c.fleet, err = newFleet(c, &lc); err != nil {
			return err
		}
		c.named.fleet = c.fleet
		c.named.addresses.OnOpen, c.named.addresses.Ask = c.named.shareLate, c.named.askFleet
	}
	c.limiter, err = ratelimit.New(lc)
	return err
}
