// Package console is the endpoint by which people and programs see and steer a crawl that runs: health for whoever
// keeps the process alive, the [pipeline.Snapshot] as JSON, what is known of one host, the events of the limiter as a
// stream, metrics for Prometheus, pages ([dashboard]), and orders such as "pause" or "block this host".
//
// A [Console] is built over the functions of a [Crawl]; [Console.Serve] serves it on a socket until its context ends,
// and leaves nothing running. It holds a bounded history for the pages, and the last snapshot for a tenth of a second
// and up to ten times of what it took, so that many who look cost what one does.
//
// Every request is checked first, by its headers alone:
//
//	Host       the listening address or a loopback name, else 421: a rebound name says itself here
//	origin     not from another site's page, else 403
//	token      the bearer token if there is one, or the cookie that its form has given, else
//	           401, and the form for a person who wants a page; not for health
//	admission  429: so many reads and orders for each client. Who fails one of the three
//	           above has an account of its own, and pays several times for a wrong token
//	content    an order is application/json, else 415, which no form of a page can send
//
// Refusals are counted by reason and, but for floods, logged; so is every order. It speaks no TLS and has
// no users: whoever has the token, or without one may open a loopback socket, may do everything.
package console

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/observe/console/dashboard"
	"github.com/treadlight/crawl/internal/observe/endpoint"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/ratelimit"
)

// Crawl is what a console shows and steers: functions of one crawl, all of them safe for
// concurrent use. Those without a "may be nil" are required.
type Crawl struct {
	Snapshot func() pipeline.Snapshot // the state of the crawl
	Host     func(name string) Host   // what the frontier and the limiter know of one host; both nil for nothing
	// Ready reports why the crawl cannot do its work just now, the hosts apart; nil if it can.
	Ready func() error
	// Paused reports whether it is paused.
	Paused func() bool
	// Pause and Resume report false if there is no crawl that could.
	Pause, Resume func() bool
	// Stop ends it in order. It returns before the end.
	Stop func()
	// AddSeed adds a URL as a person types it and returns how the crawl spells it. The
	// error is an [ErrGone] if nothing can be added any more; any other is about the URL.
	AddSeed func(url string) (string, error)
	// Block has nothing further asked of a host, Unblock ends that. The host may be one that
	// is not known. The error is an [ErrGone] as that of AddSeed; any other is about the host.
	Block, Unblock func(host string) error
	// SetCeiling bounds the requests per second to a host, in place of what the settings say;
	// zero brings those back. The errors are as those of Block.
	SetCeiling func(host string, rps float64) error
	// SetScope replaces the patterns of the scope. The errors are as those of Block.
	SetScope func(include, exclude []string) error
	Controls func() Controls // those that are in force
	// Checkpoint puts the state on the disk. It may be nil: there is none.
	Checkpoint func(ctx context.Context) error
	// EachHost calls see for every host in memory, one after the other.
	EachHost   func(see func(frontier.HostState, ratelimit.Brief))
	Kept       func() Kept            // how the state on the disk stands. It may be nil: there is none.
	Fleet      func() Fleet           // the part of this process in a crawl of several. It may be nil: it is alone.
	Collectors []prometheus.Collector // what is measured of the crawl beside its snapshot. Nil: nothing is.
	Recent     func() pipeline.Recent // what the crawl has dealt with last
}

// ErrGone means that an order came before the crawl began or after it had ended.
var ErrGone = pipeline.ErrNotRunning

// Host is what is known of one host.
type Host struct {
	Host     string                    `json:"host"`
	Frontier *frontier.HostState       `json:"frontier"` // nil: it is not among those in memory
	Limiter  *ratelimit.DomainSnapshot `json:"limiter"`  // nil: it was not asked yet, or not for long
}

// Kept is the figures of a state on the disk.
type Kept struct {
	Pending, Limit         int64 // operations not yet written, and how many of them may be
	Queued, Done           int64 // URLs, as of the last commit
	IndexMemory, IndexDisk int64 // bytes
	Failed                 bool  // nothing is written any more
}

// Controls are what operators have changed while the crawl ran.
type Controls struct {
	Blocked  []string           `json:"blocked"`  // hosts, in order
	Ceilings map[string]float64 `json:"ceilings"` // requests per second, by host
	Include  []string           `json:"include"`  // the patterns of the scope, changed or not
	Exclude  []string           `json:"exclude"`
}

// Config is what a console needs.
type Config struct {
	Address endpoint.Address // where it listens, with the port as it is in the end. Its zero is refused.
	// Token is the secret of 16 bytes or more that every request but those for health must
	// bring. Zero means none, which an Address that others can reach does not allow.
	Token   string
	Version string // told by the metrics. Zero means that it is not.
	// Clock paces what is sent, and counts requests. Zero means the system's.
	Clock clock.Clock
	// Log has every order and every refusal. Zero means no log.
	Log *slog.Logger
}

// Console is the endpoint of one crawl. Make it by [New]. All methods are safe for concurrent use.
type Console struct {
	cfg     Config // never changes after New
	crawl   Crawl
	guard   *guard
	metrics *metrics
	streams *streams
	history *history
	listing shared[listing]
	last    shared[state]
	pages   *dashboard.Pages
	handler http.Handler
}

type state struct {
	pipeline.Snapshot
	Paused bool   `json:"paused"`
	Fleet  *Fleet `json:"fleet,omitempty"` // nil: it is alone
}

const (
	// sharedFor is for how long one snapshot serves all who ask, less than a person notices, and listedFor one list.
	sharedFor, listedFor = 100 * time.Millisecond, time.Second
	// sharedTimes is how many times as long as it took either does so at least, so that however
	// many look, a tenth of the time goes into it at most: a snapshot looks at every host, and
	// one of 100 000 was seen to take a third of a second where the processors had other work.
	sharedTimes = 9
)

// shared is what one look at the crawl has brought, for all who look a few moments later.
type shared[T any] struct {
	mu     sync.Mutex // guards what follows, and is held while the crawl is looked at
	value  T
	next   time.Time // when value serves no longer
	looked time.Time
}

func (s *shared[T]) get(clk clock.Clock, least time.Duration, look func(now time.Time) T) T {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looked = clk.Now()
	if !s.looked.Before(s.next) {
		s.value = look(s.looked)
		end := clk.Now()
		s.next = end.Add(max(least, sharedTimes*end.Sub(s.looked)))
	}
	return s.value
}

// forget has the next look be a fresh one, if nobody has looked since then.
func (s *shared[T]) forget(since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.looked.Before(since) {
		var none T
		s.value, s.next = none, time.Time{}
	}
}

// New builds a console and starts nothing. The error names the field and the fix.
func New(cfg Config, crawl Crawl) (*Console, error) {
	if err := cfg.Address.Check(cfg.Token); err != nil {
		return nil, err
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.System()
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	c := &Console{cfg: cfg, crawl: crawl, streams: newStreams(), history: newHistory()}
	var err error
	if c.pages, err = dashboard.New(); err != nil {
		return nil, err
	}
	if c.metrics, err = newMetrics(c); err != nil {
		return nil, err
	}
	if c.guard, err = newGuard(&c.cfg, c.metrics); err != nil {
		return nil, err
	}
	c.handler = c.guard.wrap(c.routes())
	return c, nil
}

func (c *Console) routes() http.Handler {
	mux := http.NewServeMux()
	for pattern, h := range map[string]http.HandlerFunc{
		"GET /healthz":          c.healthz,
		"GET /readyz":           c.readyz,
		"GET /api/snapshot":     c.snapshot,
		"GET /api/hosts/{host}": c.host,
		"GET /api/events":       c.events,
		"GET /metrics":          c.metrics.handler.ServeHTTP,
		"GET /api/controls":     c.showControls,
		"POST /api/{order}":     c.order,

		"POST /api/hosts/{host}/{order}": c.order,
		"GET /{$}":                       c.overview,
		"GET /hosts/{host}":              c.hostPage,
		"GET /assets/{name}":             c.asset,
		"GET " + loginPath:               c.login,
		"POST " + loginPath:              c.enter,
		"POST " + logoutPath:             c.logout,
	} {
		mux.HandleFunc(pattern, h)
	}
	return plainProblems(mux)
}

// ServeHTTP answers one request.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.handler.ServeHTTP(w, r) }

// Event sends an event of the limiter to those who listen, and keeps it for the pages. It
// never waits, so it may be called by a hook.
func (c *Console) Event(e ratelimit.Event) {
	c.history.event(&e)
	c.streams.send(e)
}

func (c *Console) sharedSnapshot() state {
	return c.last.get(c.cfg.Clock, sharedFor, func(time.Time) state {
		s := state{Snapshot: c.crawl.Snapshot(), Paused: c.crawl.Paused()}
		if c.crawl.Fleet != nil {
			f := c.crawl.Fleet()
			s.Fleet = &f
		}
		return s
	})
}

// forget has the next look be a fresh one, after an order has changed something.
func (c *Console) forget() {
	later := c.cfg.Clock.Now().Add(1)
	c.listing.forget(later)
	c.last.forget(later)
}
