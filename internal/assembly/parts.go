package assembly

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/treadlight/crawl/internal/backend"
	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/ratelimit"
)

// Parts are the parts of a crawl that are used by packages which a program links only if it imports them.
type Parts struct {
	Config    *Config      // a fleet sets the bounds of its job in it before the crawl runs
	Log       *slog.Logger // never nil
	Clock     clock.Clock
	Limiter   *ratelimit.AdaptiveRateLimiter // set before a fleet is opened
	Pipeline  *pipeline.Pipeline             // set once New has returned
	State     *State                         // nil: the crawl keeps no state
	Fleet     Fleet                          // nil: this process is alone
	Meter     Meter                          // nil without a console
	Tracer    Tracer                         // nil: nothing is traced
	HearSeed  func(url string, hops uint8)   // admits the seed of another process to the scope
	SyncSinks func() func() error            // returns what syncs the sinks, or nil if none can; before Run only
}

// Parts returns the parts that the crawl has by now.
func (c *Crawler) Parts() Parts {
	return Parts{
		Config: &c.cfg, Log: c.log, Clock: c.clk, Limiter: c.limiter, Pipeline: c.pipe, State: c.state, Fleet: c.fleet,
		Meter: c.meter, Tracer: c.tracer, HearSeed: c.hearSeed, SyncSinks: func() func() error { return durableSinks(c.cfg.Sinks, c.cfg.Archives).syncer() },
	}
}

// Watching shows crawls to people and programs. Package watch registers it.
var Watching = backend.New[Watch]("a console (Listen)", "console")

// Watch makes the parts of a console.
type Watch struct {
	Listen func(ListenConfig) (Console, error)
	Meter  func() Meter // measures nothing until it is started
}

// Meter measures a crawl.
type Meter interface {
	pipeline.Meter
	Start() // begins to measure; in further calls it does nothing
}

// Console shows a crawl over HTTP and lets it be controlled. The socket is open from [Listen] on; requests are answered
// while Serve runs.
type Console interface {
	URL() string // the console's URL as seen from this computer, with a slash at the end
	Event(ratelimit.Event)
	Serve(ctx context.Context, c *Crawler) error
	Close() error // closes a console that was not served
}

// ListenConfig configures a console. Package crawl documents the fields.
type ListenConfig struct {
	Addr    string
	Token   string
	Version string
	Ready   func() error
	OnStop  func()
	Log     *slog.Logger
}

// Listen opens the socket of a console. The address and the token are checked before anything is opened.
func Listen(cfg ListenConfig) (Console, error) {
	w, err := Watching.Get()
	if err != nil {
		return nil, err
	}
	return w.Listen(cfg)
}

// Tracing makes a tracer, which reports to an OpenTelemetry collector what became of URLs. Package traces registers it.
var Tracing = backend.New[func(TraceConfig) (Tracer, error)]("a collector of traces (traces.endpoint)", "traces")

// Tracer traces a crawl from Start on. Close sends what is left, within a bounded time.
type Tracer interface {
	pipeline.Tracer
	Start()
	Close()
}

// TraceConfig configures a tracer. Package traces documents the fields.
type TraceConfig struct {
	Endpoint  string
	Header    http.Header
	Sample    float64
	Propagate bool
	Version   string
	Clock     clock.Clock
	Log       *slog.Logger
}
