package assembly

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	tokens "github.com/treadlight/crawl/internal/admission/redis"
	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/fetch/reach"
	"github.com/treadlight/crawl/internal/observe/telemetry"
	"github.com/treadlight/crawl/internal/observe/traces"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/records/sink"
	"github.com/treadlight/crawl/internal/web/robots"
	"github.com/treadlight/crawl/internal/web/scope"
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
	// Sinks receive every record. They are flushed as the crawl goes, and not closed. Those
	// of a crawl with a state should be [Durable]; all of one that is resumed have been cut
	// back to their [State.Position].
	Sinks []Sink
	// Archives receive every record before Sinks do, with its Exchange if there was an answer,
	// and that of each robots.txt; see [OpenArchive]. For the rest they are as Sinks are. Nil
	// has the bytes of exchanges forgotten.
	Archives []Sink
	// Kept is where the crawl is kept as it goes, new or to be resumed. The Crawler takes it
	// over if New does not fail. Nil: New makes a state if the settings name a directory
	// (state.dir), and without one the crawl ends with the process.
	Kept *State
	// Join has [New] fail with [ErrNoJob] unless the job of the settings (fleet.job) is there
	// already: for a process that brings no seeds. False makes one that is not.
	Join bool
	// Began is when the run began, if that was before [Crawler.Run], as when a large state had
	// to be opened first: MaxTime counts from it. Zero means when Run is called.
	Began time.Time
	// Version is what the User-Agent says after "Treadlight/". Empty leaves it out.
	Version string
	// Log receives what a person may want to know. Nil means nobody does.
	Log *slog.Logger

	// Dial, if set, makes connections in place of the network, for tests in memory. The
	// addresses that it reaches are not checked.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Lookup, if set, finds the addresses of a host each time that it is connected to, for
	// tests with names of their own.
	Lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)
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
	meter   *telemetry.Meter
	tracer  *traces.Exporter // nil: nothing is traced
	began   atomic.Bool
	pages   chan *Page         // for Pages; nil otherwise; set before anything is started
	state   *State             // nil: the crawl is not kept
	fleet   *fleet             // nil: this process is alone
	tokens  *tokens.Repository // of budgets that processes share; nil: there are none
	owed    <-chan struct{}    // a host has ordered to wait, and that is to be kept
	stopped atomic.Bool
	start   context.Context // of the run; ends with Stop, and when it is over
	halt    context.CancelFunc
	id      *identity
	trust   trust

	openings reach.Openings // what the seeds of the user have opened
	closed   atomic.Int64   // names of seeds that opened nothing, which a fleet was told
	settling errgroup.Group // lookups of seeds that came while the crawl ran

	steering steering

	reloading sync.Mutex // guards what follows; locked after that of steering
	inForce   Settings   // cfg.Settings, with what Reload changed
}

// Homepage is where operators can read what Treadlight is.
const Homepage = "https://github.com/treadlight/crawl"

// New builds a crawl and fetches nothing. The error lists every setting that is wrong, by
// its path, with the fix; or it is a [*StateError]. A Crawler with a state of which Run is
// not called must be closed.
func New(cfg Config) (*Crawler, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	c := &Crawler{cfg: cfg, clk: clock.System(), inForce: cfg.Settings, state: cfg.Kept, meter: telemetry.New()}
	c.settling.SetLimit(lookups)
	c.start, c.halt = context.WithCancel(context.Background())
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
	switch {
	case c.state != nil:
		c.openings.OnOpen = c.state.opened
	case cfg.Fleet.Shared():
		c.openings.OnOpen, c.openings.Ask = c.openLate, c.askFleet
	}
	err := c.build()
	if err != nil && c.state != nil && c.state != cfg.Kept {
		err = errors.Join(err, c.state.Close())
	}
	if err != nil && c.fleet != nil {
		_ = c.fleet.store.Close() // the first error says what matters
	}
	if err != nil {
		c.closeTokens()
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
		defer c.closeTokens()
		return c.fleet.end(nil)
	}
	return c.state.Close()
}

// build puts the parts together.
func (c *Crawler) build() (err error) {
	cfg := &c.cfg
	lc := limiterConfig(&cfg.Settings)
	lc.OnEvent = cfg.OnEvent
	if c.state != nil || cfg.RateLimit.Remember != "" {
		owed := make(chan struct{}, 1)
		c.owed, lc.OnEvent = owed, watched(owed, cfg.OnEvent)
	}
	if err = c.shareRates(&lc); err != nil {
		return err
	}
	if c.limiter, err = ratelimit.New(lc); err != nil {
		return err
	}
	if c.chain, err = newChain(cfg); err != nil {
		return err
	}
	if c.id, err = identify(cfg, c.clk, os.LookupEnv); err != nil {
		return err
	}
	if c.client, err = fetch.New(c.fetchConfig()); err != nil {
		return err
	}
	sc, err := scopeConfig(&cfg.Settings)
	if err != nil {
		return err
	}
	if c.scope, err = scope.New(sc); err != nil {
		return err
	}
	if err := c.joinFleet(); err != nil {
		return err
	}
	pc, err := c.pipelineConfig()
	if err != nil {
		return err
	}
	if c.tracer, err = c.newTracer(); err != nil {
		return err
	}
	if c.tracer != nil {
		pc.Tracer = c.tracer
	}
	if cfg.Robots.Enabled {
		if pc.Robots, err = robots.New(robotsConfig(&cfg.Settings)); err != nil {
			return err
		}
	}
	if err = c.recallSteering(&pc); err != nil {
		return err
	}
	c.pipe, err = pipeline.New(pc)
	return err
}
