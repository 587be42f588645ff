// Package console serves the HTTP endpoint of a running crawl: health checks, the [pipeline.Snapshot] as JSON, what is
// known of one host, events of the limiter as a stream, metrics for Prometheus, pages ([dashboard]), and commands such
// as "pause" or "block this host".
//
// A [Console] is built from the functions of a [Crawl]. [Console.Serve] serves it on a socket until its context ends,
// and leaves no goroutine. It keeps a bounded history for the pages. It keeps a snapshot for a tenth of a second, and
// for up to ten times as long as taking it took, so that many clients cost as much as one.
//
// Every request is checked first, by its headers alone:
//
//	Host       the listening address or a loopback name, else 421: this stops DNS rebinding
//	origin     not a page of another site, else 403
//	token      the bearer token, or the cookie of a login, else 401, and a form for a person
//	           who wants a page; health checks need none
//	admission  429: a limit of reads and commands per client. Requests that fail one of the
//	           checks above are counted apart, and a wrong token costs several requests
//	content    a command is application/json, which no form of a page can send, else 415
//
// Refusals are counted by reason and logged, except in floods; every command is logged. The console speaks no TLS and
// knows no users: whoever has the token, or can open a loopback socket if there is none, may do everything.
package console

import (
	"cmp"
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

// Crawl has the functions of the crawl that a console shows and controls. All are safe for concurrent use, and required
// unless their comment says that they may be nil.
type Crawl struct {
	Snapshot func() pipeline.Snapshot // the state of the crawl
	Host     func(name string) Host   // what the frontier and the limiter know of one host; both nil if nothing is known
	// Ready reports why the crawl cannot work at the moment, apart from the state of hosts; nil if it can.
	Ready func() error
	// Paused reports whether the crawl is paused.
	Paused func() bool
	// Pause and Resume report false if no crawl runs.
	Pause, Resume func() bool
	// Stop ends the crawl in order. It does not wait for the end.
	Stop func()
	// AddSeed adds a URL as a person types it and returns its canonical form. The error is [ErrGone] if nothing can be
	// added any more; any other error is about the URL.
	AddSeed func(url string) (string, error)
	// Block stops requests to a host, known or not, and Unblock ends that. The error is [ErrGone] as for AddSeed; any
	// other is about the host.
	Block, Unblock func(host string) error
	// SetCeiling sets the most requests per second to a host, in place of the settings; zero removes it. Errors are as
	// for Block.
	SetCeiling func(host string, rps float64) error
	// SetScope replaces the patterns of the scope. Errors are as for Block.
	SetScope func(include, exclude []string) error
	Controls func() Controls // the present controls
	// Checkpoint writes the state to disk. Nil if there is no state.
	Checkpoint func(ctx context.Context) error
	// EachHost calls see for every host in memory, one after the other.
	EachHost   func(see func(frontier.HostState, ratelimit.Brief))
	Kept       func() Kept            // figures of the state on disk; nil if there is none
	Fleet      func() Fleet           // the part of this process in a crawl of several processes; nil if it is alone
	Collectors []prometheus.Collector // further metrics; nil for none
	Recent     func() pipeline.Recent // what the crawl has done last
}

// ErrGone means that a command came before the crawl began or after it had ended.
var ErrGone = pipeline.ErrNotRunning

// Host is what is known of one host.
type Host struct {
	Host     string                    `json:"host"`
	Frontier *frontier.HostState       `json:"frontier"` // nil if the host is not in memory
	Limiter  *ratelimit.DomainSnapshot `json:"limiter"`  // nil if the host was not requested, or not for a long time
}

type (
	// Kept has the figures of a state on disk.
	Kept = frontier.Kept
	// Controls are what operators have changed while the crawl ran.
	Controls = pipeline.Controls
)

// Config configures a [Console].
type Config struct {
	Address endpoint.Address // where it listens, with the actual port. Required.
	// Token is the secret of 16 bytes or more that every request except health checks needs. Empty means none, which is
	// refused if other computers can reach Address.
	Token   string
	Version string // shown by the metrics; empty shows none
	// Clock is the clock of streams and limits. Nil means the system's.
	Clock clock.Clock
	// Log receives every command and every refusal. Nil means none.
	Log *slog.Logger
}

// Console is the endpoint of one crawl. Make it with [New]. All methods are safe for concurrent use.
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
	State  string `json:"state"` // that of the snapshot, or paused
	Paused bool   `json:"paused"`
	Fleet  *Fleet `json:"fleet,omitempty"` // nil: it is alone
}

const (
	// sharedFor is how long a snapshot serves all clients, and listedFor a list of hosts.
	sharedFor, listedFor = 100 * time.Millisecond, time.Second
	// sharedTimes is the least ratio of the time that a snapshot is shared to the time that it took. So at most a tenth
	// of the time goes into snapshots, which look at every host: one of 100,000 took a third of a second on a busy
	// machine.
	sharedTimes = 9
)

// shared is the result of one look at the crawl, for all clients of the next moments.
type shared[T any] struct {
	mu     sync.Mutex // guards what follows, and is held during a look
	value  T
	next   time.Time // when value is too old
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

// forget makes the next look a new one, unless there was one since.
func (s *shared[T]) forget(since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.looked.Before(since) {
		var none T
		s.value, s.next = none, time.Time{}
	}
}

// New builds a console and starts nothing. The error names the field and says how to mend it.
func New(cfg Config, crawl Crawl) (*Console, error) {
	if err := cfg.Address.Check(cfg.Token); err != nil {
		return nil, err
	}
	cfg.Clock = cmp.Or(cfg.Clock, clock.System())
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
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
	c.guard.denyLogin = func(w http.ResponseWriter) {
		show(c, w, http.StatusTooManyRequests, c.pages.Login, "These were too many tries. Wait a few seconds.")
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
		"GET /{$}":              c.overview,
		"GET /hosts/{host}":     c.hostPage,
		"GET /assets/{name}":    c.asset,
		"GET " + loginPath:      c.login,
		"POST " + loginPath:     c.enter,
		"POST " + logoutPath:    c.logout,
	} {
		mux.HandleFunc(pattern, h)
	}
	for _, o := range allOrders {
		mux.HandleFunc(o.pattern(), func(w http.ResponseWriter, r *http.Request) { c.carryOut(&o, w, r) })
	}
	return plainProblems(mux)
}

// ServeHTTP answers one request.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.handler.ServeHTTP(w, r) }

// Event sends an event of the limiter to the clients that listen, and keeps it for the pages. It does not block, so a
// hook may call it.
func (c *Console) Event(e ratelimit.Event) {
	c.history.event(&e)
	c.streams.send(e)
}

func (c *Console) sharedSnapshot() state {
	return c.last.get(c.cfg.Clock, sharedFor, func(time.Time) state {
		s := state{Snapshot: c.crawl.Snapshot(), Paused: c.crawl.Paused()}
		if s.State = s.Snapshot.State.String(); s.Paused && s.Snapshot.State == pipeline.EndNone {
			s.State = "paused"
		}
		if c.crawl.Fleet != nil {
			f := c.crawl.Fleet()
			s.Fleet = &f
		}
		return s
	})
}

// forget makes the next look at the crawl a new one, after a command has changed something.
func (c *Console) forget() {
	later := c.cfg.Clock.Now().Add(1)
	c.listing.forget(later)
	c.last.forget(later)
}
