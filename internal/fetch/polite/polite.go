// Package polite has an http.Client that asks no host faster than it likes.
package polite

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/treadlight/crawl/internal/fetch/resilience"
	"github.com/treadlight/crawl/internal/fetch/resilience/binder"
	"github.com/treadlight/crawl/internal/fetch/transport"
	"github.com/treadlight/crawl/internal/ratelimit"
)

// ErrCircuitOpen is the error of requests of a [PoliteClient] to a host whose circuit is open:
// it failed or refused so often that it is left alone for a while. It says until when.
var ErrCircuitOpen = ratelimit.ErrCircuitOpen

// ErrClientClosed is the error of requests made through a [PoliteClient] that is closed,
// and of those that were under way when it was.
var ErrClientClosed = errors.New("the client is closed")

// LimiterSnapshot is what has been learned of hosts, at one instant.
type LimiterSnapshot = ratelimit.LimiterSnapshot

// ClientConfig says how a [PoliteClient] behaves. The zero ClientConfig is usable: it
// begins with one request per second at each host and learns up to ten. Rates are requests
// per second.
type ClientConfig struct {
	// UserAgent is sent with requests that have none. Empty means Treadlight and where to
	// read about it; a program that is on its own for long should say whom to write to.
	UserAgent string

	// Strategy decides how the rate follows what a host does, as ratelimit.strategy of the
	// settings does. Empty means "steer".
	Strategy string
	// InitialRPS is the rate of a host nothing is known of. Zero means 1, or MaxRPS if that
	// is less.
	InitialRPS float64
	// MinRPS is the least the rate of a host falls to. Zero means 0.1, or InitialRPS if
	// that is less.
	MinRPS float64
	// MaxRPS is the most it rises to, up to 1e6. Zero means 10, or InitialRPS if that is more.
	MaxRPS float64
	// GlobalRPS bounds the rate of all hosts together. Zero means no such bound.
	GlobalRPS float64
	// MinDelay is the least time between two requests to one host. Zero means none.
	MinDelay time.Duration
	// MaxRetryAfter caps the wait that a host may ask for. Zero means 1h.
	MaxRetryAfter time.Duration

	// Resilience is the JSON document of the policies around each request; the sections
	// are Retry, Timeout, CircuitBreaker, Bulkhead, BulkheadIsolation, Hedging and Fallback.
	// Nil means three retries with growing pauses, and 30 s for each attempt.
	Resilience []byte
	// ResilienceFile has the document in a file, which is followed while it changes: requests
	// under way end on the policies they began on, and a document that is no good changes
	// nothing. It excludes Resilience. Empty means that there is no file.
	ResilienceFile string
	// OnReload, if set, is called after the file has changed: with nil, or with why the
	// document in it is not used. It must not close the client, whose Close waits for it. Nil
	// means that Log is told, if it is set.
	OnReload func(error)
	// Fallback makes the answer in place of one with a status of the document's Fallback
	// section, or of an error. It may read res, which is nil beside an error, and must not
	// return it. Nil is an error if the document has the section.
	Fallback func(req *http.Request, res *http.Response, err error) (*http.Response, error)

	// Limit, if set, has a limiter of the program's own beside what is learned (of package
	// limit; the type is that of the public package transport): each try takes a permit of
	// it before its turn at the host, and has it until the end of the body. The limiter
	// stays its owner's to close; one may bound several clients. Nil means none.
	Limit *transport.Policy
	// Circuits, if set, has the circuit of the document's CircuitBreaker section under its
	// name, where others can share it and health checks ask for it (ListenConfig.Ready, or
	// its Handler). A file that changes its settings is refused then. Nil has it be the
	// client's alone. The circuits of single hosts are in the [PoliteClient.Snapshot].
	Circuits *resilience.Breakers
	// Hub, if set, is told what the policies do: retries, timeouts, circuits that open and
	// close, what a bulkhead or Limit refuses, hedges and fallbacks. It stays its owner's to close.
	// Nil means that nobody is told.
	Hub *resilience.Hub

	// Timeout bounds a request from its beginning to the end of its body: redirects,
	// retries, and the waits for its turn among them. Zero leaves that to the request's
	// context.
	Timeout time.Duration
	// Transport sends the requests. It stays the caller's, who closes its connections. Nil
	// means one of the client's own, with bounds on time and size, and at most 8 connections
	// to a host; it connects to the public Internet only, see AllowPrivate.
	Transport http.RoundTripper
	// AllowPrivate lets the client's own transport connect to private and loopback addresses.
	// False means that such a request fails, and a redirect too, with an error that is a
	// transport.AddressError. It never connects to a link-local address, or one where a cloud
	// keeps secrets for its machines.
	AllowPrivate bool

	// OnEvent, if set, is called with what changes the pace of a host, by the goroutines
	// that make requests. It must not block, and not close the client. Nil means that nobody
	// wants to know.
	OnEvent func(ratelimit.Event)
	// Log has a line of each request, in which nothing secret stands, and of each reload.
	// Nil means that nothing is logged.
	Log *slog.Logger
}

// PoliteClient is an http.Client that asks no host faster than it likes. It learns that
// from every answer, waits for the turn of each request, and for as long as Retry-After or
// a used-up quota asks. Everything http.Client can do works, and the Client inside may be
// given to whatever wants one.
//
// A request that meets a host whose circuit is open fails at once. One that would have to
// wait beyond its context's deadline fails at once too, so a deadline is all there is to
// bound the waits. Requests whose method is safe are tried again; others only with an
// Idempotency-Key. A redirect is a request like any other, with a turn of its own; only what
// net/http itself sends again, after a kept connection died before an answer, has none.
//
// Close ends it. It is safe for concurrent use, and one per program is enough: a second
// one would learn anew, and ask hosts beside the first.
type PoliteClient struct {
	*http.Client

	limiter *ratelimit.AdaptiveRateLimiter
	inner   *transport.Client
	policy  *binder.LiveChain // the chain inside
	closing context.Context   // ends with Close, and with it every request
	stop    context.CancelCauseFunc
	beside  sync.WaitGroup // what runs beside the requests
	closed  atomic.Bool
}

// defaultResilience is for requests to any number of hosts: a circuit or a bulkhead of all
// of them would let one host that fails hold up the others, and each has a circuit of its
// own in the limiter.
const defaultResilience = `{"Retry": {"MaxRetries": 3}, "Timeout": {"Seconds": 30}}`

// Client builds a client that is adaptive and polite, and resilient as its configuration
// says. The error names the field that makes no sense, or what is wrong in the document.
//
// It starts a goroutine that forgets hosts not asked for long, and another one that follows
// the file if there is one; [PoliteClient.Close] ends both.
//
// # Why robots.txt is not consulted
//
// robots.txt speaks to programs that find their URLs by following links (RFC 9309, section
// 1). This client follows none: it asks for what the program names, as an API client or a
// feed reader does, and a rule meant for crawlers would break those. A program that does
// follow links wants a [Crawler], which obeys it.
func Client(cfg ClientConfig) (*PoliteClient, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	limiter, err := ratelimit.New(cfg.limiter())
	if err != nil {
		return nil, fmt.Errorf("ClientConfig: %w", err)
	}
	c := &PoliteClient{limiter: limiter}
	c.closing, c.stop = context.WithCancelCause(context.Background())
	base := transport.BaseConfig{AllowPrivate: cfg.AllowPrivate, Strict: true}
	if cfg.Transport != nil {
		base = transport.BaseConfig{}
	}
	c.inner, err = transport.NewClient(transport.ClientConfig{
		Transport: cfg.Transport, Base: base,
		Chain: func(base http.RoundTripper) (http.RoundTripper, error) { return c.chain(&cfg, base) },
	})
	if err != nil {
		c.stop(err)
		return nil, fmt.Errorf("ClientConfig: %w", err)
	}
	c.Client = &http.Client{
		Transport: &entrance{c.inner.HTTP().Transport, cfg.UserAgent, c.closing}, Timeout: cfg.Timeout,
	}
	// Both end with the context, and have no other error to tell.
	c.beside.Go(func() { _ = limiter.Run(c.closing) })
	if cfg.ResilienceFile != "" {
		c.beside.Go(func() { _ = c.policy.Run(c.closing) })
	}
	return c, nil
}

// check rejects what no part of the client would.
func (c *ClientConfig) check() error {
	switch {
	case c.Timeout < 0:
		return fmt.Errorf("ClientConfig.Timeout is %v: use a positive duration, or zero for none", c.Timeout)
	case !httpguts.ValidHeaderFieldValue(c.UserAgent):
		return fmt.Errorf("ClientConfig.UserAgent %q cannot be a header value: remove control characters", c.UserAgent)
	case c.Resilience != nil && c.ResilienceFile != "":
		return errors.New("ClientConfig.Resilience and ResilienceFile are both set: remove one of them")
	case c.Transport != nil && c.AllowPrivate:
		return errors.New("ClientConfig.AllowPrivate is set beside a Transport, which it cannot change: remove one of them")
	}
	return nil
}

// limiter is the configuration of the engine. Of three rates that have to be in order, those
// at their defaults move next to the others.
func (c *ClientConfig) limiter() ratelimit.Config {
	rc := ratelimit.DefaultConfig()
	if c.Strategy != "" {
		rc.Strategy = c.Strategy
	}
	switch {
	case c.MaxRPS != 0:
		rc.MaxRPS = c.MaxRPS
	default:
		rc.MaxRPS = max(rc.MaxRPS, c.InitialRPS, c.MinRPS)
	}
	switch {
	case c.InitialRPS != 0:
		rc.InitialRPS = c.InitialRPS
	default:
		rc.InitialRPS = max(min(rc.InitialRPS, rc.MaxRPS), c.MinRPS)
	}
	switch {
	case c.MinRPS != 0:
		rc.MinRPS = c.MinRPS
	default:
		rc.MinRPS = min(rc.MinRPS, rc.InitialRPS)
	}
	rc.GlobalRPS, rc.MinDelay, rc.OnEvent = c.GlobalRPS, c.MinDelay, c.OnEvent
	if c.MaxRetryAfter != 0 {
		rc.MaxRetryAfter = c.MaxRetryAfter
	}
	return rc
}

// chain puts policies and limiter around base.
func (c *PoliteClient) chain(cfg *ClientConfig, base http.RoundTripper) (http.RoundTripper, error) {
	polite, err := transport.Polite(transport.PoliteConfig{Limiter: c.limiter, MaxRetryAfter: cfg.MaxRetryAfter})
	if err != nil {
		return nil, err
	}
	pace := polite
	if cfg.Limit != nil {
		policy := *cfg.Limit
		if policy.Hub == nil {
			policy.Hub = cfg.Hub
		}
		limit, err := transport.RateLimit(policy)
		if err != nil {
			return nil, fmt.Errorf("limit: %w", err)
		}
		// Outside the engine, which would take a wait for the permit for a slow host.
		pace = func(next http.RoundTripper) http.RoundTripper { return limit(polite(next)) }
	}
	live := binder.LiveConfig{Source: cfg.source(), OnReload: cfg.onReload()}
	c.policy, err = binder.NewLiveChain(c.closing, live, base, binder.HTTPOptions{
		Deps:     binder.Deps{Breakers: cfg.Circuits, Hub: cfg.Hub},
		Fallback: cfg.Fallback, MaxRetryAfter: cfg.MaxRetryAfter, RateLimit: pace, Log: transport.Log(transport.LogConfig{Logger: cfg.Log}),
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cfg.sourceName(), err)
	}
	return c.policy, nil
}

// source is where the document comes from.
func (c *ClientConfig) source() binder.Source {
	if c.ResilienceFile != "" {
		return binder.File(c.ResilienceFile, nil)
	}
	document := c.Resilience
	if document == nil {
		document = []byte(defaultResilience)
	}
	return func(context.Context) ([]byte, error) { return document, nil }
}

func (c *ClientConfig) sourceName() string {
	if c.ResilienceFile != "" {
		return "ResilienceFile " + c.ResilienceFile
	}
	return "Resilience"
}

// onReload is who is told of a file that has changed.
func (c *ClientConfig) onReload() func(*binder.Model, error) {
	tell, log := c.OnReload, c.Log
	return func(_ *binder.Model, err error) {
		switch {
		case tell != nil:
			tell(err)
		case log == nil:
		case err != nil:
			log.Warn("the new policies are not used", slog.String("file", c.ResilienceFile), slog.Any("error", err))
		default:
			log.Info("new policies are in use", slog.String("file", c.ResilienceFile))
		}
	}
}

// Snapshot tells what has been learned of hosts, and why each is asked as fast as it is.
func (c *PoliteClient) Snapshot() LimiterSnapshot { return c.limiter.Snapshot() }

// Close ends the requests under way with [ErrClientClosed], those that wait for their turn
// too, and the connections of the client's own transport; a body that is being read breaks
// off as if its request was cancelled. Later requests fail. It waits for the goroutines
// that the client has started; those that make requests are their callers'. It may be
// called again.
func (c *PoliteClient) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	c.stop(ErrClientClosed)
	c.beside.Wait()
	return c.inner.Close()
}

// entrance is the way into a client: it gives requests their User-Agent, and an end when
// the client has one.
type entrance struct {
	next    http.RoundTripper
	agent   string
	closing context.Context
}

// RoundTrip implements http.RoundTripper. Copying the request costs less than one header
// takes on its way.
func (e *entrance) RoundTrip(req *http.Request) (*http.Response, error) {
	if e.closing.Err() != nil {
		if req.Body != nil {
			_ = req.Body.Close() // nobody is left to be told
		}
		return nil, ErrClientClosed
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	unhook := context.AfterFunc(e.closing, func() { cancel(ErrClientClosed) })
	end := func(error) { unhook(); cancel(nil) }
	bound := false
	defer func() {
		if !bound { // also when a layer panics
			end(nil)
		}
	}()
	req = req.WithContext(ctx)
	if _, ok := req.Header["User-Agent"]; !ok {
		req.Header = req.Header.Clone()
		if req.Header == nil {
			req.Header = make(http.Header, 1)
		}
		req.Header["User-Agent"] = []string{e.agent}
	}
	res, err := e.next.RoundTrip(req)
	if err != nil {
		if cause := context.Cause(ctx); errors.Is(cause, ErrClientClosed) && !errors.Is(err, cause) {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		return nil, err
	}
	bound = true
	if res.StatusCode == http.StatusSwitchingProtocols {
		end = e.hangUp(res, end)
	}
	return transport.Bind(res, end), nil
}

// hangUp has Close end what speaks another protocol by now, which no context does.
func (e *entrance) hangUp(res *http.Response, end func(error)) func(error) {
	body := res.Body
	unhook := context.AfterFunc(e.closing, func() {
		_ = body.Close() // its user sees it
	})
	return func(err error) { unhook(); end(err) }
}

// CloseIdleConnections closes those of the transport.
func (e *entrance) CloseIdleConnections() {
	if idle, ok := e.next.(interface{ CloseIdleConnections() }); ok {
		idle.CloseIdleConnections()
	}
}
