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

// Parts are what the packages work with that programs link only if they import them.
type Parts struct {
	Config    *Config      // a fleet sets the bounds of its job in it before the crawl runs
	Log       *slog.Logger // never nil
	Clock     clock.Clock
	Limiter   *ratelimit.AdaptiveRateLimiter // there before a fleet is opened
	Pipeline  *pipeline.Pipeline             // there once New has returned
	State     *State                         // nil: the crawl is not kept
	Fleet     Fleet                          // nil: this process is alone
	Meter     Meter                          // nil without a console
	Tracer    Tracer                         // nil: nothing is traced
	HearSeed  func(url string, hops uint8)   // lets in what the seed of another process lets in
	SyncSinks func() func() error            // what puts the sinks on their disks; nil if none of them can; before Run alone
}

// Parts are those that the crawl has by now.
func (c *Crawler) Parts() Parts {
	return Parts{
		Config: &c.cfg, Log: c.log, Clock: c.clk, Limiter: c.limiter, Pipeline: c.pipe, State: c.state, Fleet: c.fleet,
		Meter: c.meter, Tracer: c.tracer, HearSeed: c.hearSeed, SyncSinks: func() func() error { return durableSinks(c.cfg.Sinks, c.cfg.Archives).syncer() },
	}
}

// Watching shows crawls to people and programs: package watch registers it.
var Watching = backend.New[Watch]("a console (Listen)", "console")

// Watch is what a console brings.
type Watch struct {
	Listen func(ListenConfig) (Console, error)
	Meter  func() Meter // measures nothing until it is started
}

// Meter measures a crawl.
type Meter interface {
	pipeline.Meter
	Start() // has everything measured from now on; again, it does nothing
}

// Console is where a crawl is seen and steered over HTTP. The socket is open from [Listen] on; requests are answered
// while Serve runs.
type Console interface {
	URL() string // where it is to be found from this computer, with a slash at the end
	Event(ratelimit.Event)
	Serve(ctx context.Context, c *Crawler) error
	Close() error // of one that was not served
}

// ListenConfig says where a crawl is to be seen and steered: that of the package crawl, which says what each field
// means.
type ListenConfig struct {
	Addr    string
	Token   string
	Version string
	Ready   func() error
	OnStop  func()
	Log     *slog.Logger
}

// Listen opens the socket of a console. Errors about the address and the token come before anything is opened.
func Listen(cfg ListenConfig) (Console, error) {
	w, err := Watching.Get()
	if err != nil {
		return nil, err
	}
	return w.Listen(cfg)
}

// Tracing tells a collector of OpenTelemetry what became of URLs: the package traces registers it.
var Tracing = backend.New[func(TraceConfig) (Tracer, error)]("a collector of traces (traces.endpoint)", "traces")

// Tracer traces a crawl from Start on. Close sends what is left, within a bounded time.
type Tracer interface {
	pipeline.Tracer
	Start()
	Close()
}

// TraceConfig says where traces go: that of package traces, which says what each field means.
type TraceConfig struct {
	Endpoint  string
	Header    http.Header
	Sample    float64
	Propagate bool
	Version   string
	Clock     clock.Clock
	Log       *slog.Logger
}
