// Package polite puts the adaptive limiter, the policies of a document and a transport together as
// an http.Client that asks no host faster than it likes. The package crawl shows it to programs.
package polite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/resilience"
	"github.com/treadlight/crawl/resilience/binder"
	"github.com/treadlight/crawl/transport"
)

// ErrClosed is the error of requests made through a [Client] that is closed,
// and of those that were under way when it was.
var ErrClosed = errors.New("the client is closed")

// Config says how a [Client] behaves: that of the package crawl, which says what each field means.
type Config struct {
	UserAgent      string
	Strategy       string
	InitialRPS     float64
	MinRPS         float64
	MaxRPS         float64
	GlobalRPS      float64
	MinDelay       time.Duration
	MaxRetryAfter  time.Duration
	Resilience     []byte
	ResilienceFile string
	OnReload       func(error)
	Fallback       func(req *http.Request, res *http.Response, err error) (*http.Response, error)
	Limit          *transport.Policy
	Circuits       *resilience.Breakers
	Hub            *resilience.Hub
	Timeout        time.Duration
	Transport      http.RoundTripper
	AllowPrivate   bool
	OnEvent        func(ratelimit.Event)
	Log            *slog.Logger
}

// Client is an http.Client that takes the turn of each request from an adaptive limiter. Close
// ends it. It is safe for concurrent use.
type Client struct {
	HTTP *http.Client

	limiter *ratelimit.AdaptiveRateLimiter
	inner   *transport.Client
	policy  *binder.LiveChain // the chain inside
	closing context.Context   // ends with Close, and with it every request
	stop    context.CancelCauseFunc
	beside  sync.WaitGroup // what runs beside the requests
	closed  atomic.Bool
}

// defaultResilience is for requests to any number of hosts: a circuit or a bulkhead of all of them would let one host
// that fails hold up the others, and each has a circuit of its own in the limiter.
const defaultResilience = `{"Retry": {"MaxRetries": 3}, "Timeout": {"Seconds": 30}}`

// New builds a client. The error names the field that makes no sense, or what is wrong in the
// document. It starts a goroutine that forgets hosts not asked for long, and another one that
// follows the file if there is one; Close ends both.
func New(cfg Config) (*Client, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	limiter, err := ratelimit.New(cfg.limiter())
	if err != nil {
		return nil, fmt.Errorf("ClientConfig: %w", err)
	}
	c := &Client{limiter: limiter}
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
	c.HTTP = &http.Client{
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
func (c *Config) check() error {
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
func (c *Config) limiter() ratelimit.Config {
	rc := ratelimit.DefaultConfig()
	rc.Strategy = cmp.Or(c.Strategy, rc.Strategy)
	rc.MaxRPS = cmp.Or(c.MaxRPS, max(rc.MaxRPS, c.InitialRPS, c.MinRPS))
	rc.InitialRPS = cmp.Or(c.InitialRPS, max(min(rc.InitialRPS, rc.MaxRPS), c.MinRPS))
	rc.MinRPS = cmp.Or(c.MinRPS, min(rc.MinRPS, rc.InitialRPS))
	rc.GlobalRPS, rc.MinDelay, rc.OnEvent = c.GlobalRPS, c.MinDelay, c.OnEvent
	rc.MaxRetryAfter = cmp.Or(c.MaxRetryAfter, rc.MaxRetryAfter)
	return rc
}

// chain puts policies and limiter around base.
func (c *Client) chain(cfg *Config, base http.RoundTripper) (http.RoundTripper, error) {
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
	source, name := binder.File(cfg.ResilienceFile), "ResilienceFile "+cfg.ResilienceFile
	if cfg.ResilienceFile == "" {
		document := cfg.Resilience
		if document == nil {
			document = []byte(defaultResilience)
		}
		source, name = func(context.Context) ([]byte, error) { return document, nil }, "Resilience"
	}
	live := binder.LiveConfig{Source: source, OnReload: cfg.onReload()}
	c.policy, err = binder.NewLiveChain(c.closing, live, base, binder.HTTPOptions{
		Deps:     binder.Deps{Breakers: cfg.Circuits, Hub: cfg.Hub},
		Fallback: cfg.Fallback, MaxRetryAfter: cfg.MaxRetryAfter, RateLimit: pace,
		Log: transport.Log(transport.LogConfig{Logger: cfg.Log}),
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return c.policy, nil
}

// onReload is who is told of a file that has changed.
func (c *Config) onReload() func(*binder.Model, error) {
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
func (c *Client) Snapshot() ratelimit.LimiterSnapshot { return c.limiter.Snapshot() }

// Close ends the requests under way with [ErrClosed], and the connections of the client's own
// transport. It waits for the goroutines that the client has started, and may be called again.
func (c *Client) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	c.stop(ErrClosed)
	c.beside.Wait()
	return c.inner.Close()
}

// entrance is the way into a client: it gives requests their User-Agent, and an end when the client has one.
type entrance struct {
	next    http.RoundTripper
	agent   string
	closing context.Context
}

// RoundTrip implements http.RoundTripper. Copying the request costs less than one header takes on its way.
func (e *entrance) RoundTrip(req *http.Request) (*http.Response, error) {
	if e.closing.Err() != nil {
		if req.Body != nil {
			_ = req.Body.Close() // nobody is left to be told
		}
		return nil, ErrClosed
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	unhook := context.AfterFunc(e.closing, func() { cancel(ErrClosed) })
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
		if cause := context.Cause(ctx); errors.Is(cause, ErrClosed) && !errors.Is(err, cause) {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		return nil, err
	}
	bound = true
	if res.StatusCode == http.StatusSwitchingProtocols { // no context ends what speaks another protocol by now
		body := res.Body
		unbody := context.AfterFunc(e.closing, func() { _ = body.Close() }) // its user sees it
		return transport.Bind(res, func(err error) { unbody(); end(err) }), nil
	}
	return transport.Bind(res, end), nil
}

// CloseIdleConnections closes those of the transport.
func (e *entrance) CloseIdleConnections() {
	if idle, ok := e.next.(interface{ CloseIdleConnections() }); ok {
		idle.CloseIdleConnections()
	}
}
