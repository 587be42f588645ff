// Package polite puts the adaptive limiter, the policies of a document and a transport together as
// an http.Client that asks no host faster than it likes. The package crawl shows it to programs.
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
	Shared         *Shared      // paces the requests; nil: one of the client's own is made of Pace
	Pace           SharedConfig // of a limiter of the client's own
	MaxRetryAfter  time.Duration
	MaxCrawlDelay  time.Duration // negative: any
	ObeyRobots     bool
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

	shared  *Shared
	owned   bool // the client made it
	member  *Member
	inner   *transport.Client
	policy  *binder.LiveChain // the chain inside
	closing context.Context   // ends with Close, and with it every request
	stop    context.CancelCauseFunc
	beside  sync.WaitGroup // what runs beside the requests
	closed  atomic.Bool
}

// New builds a client. The error names the field that makes no sense, or what is wrong in the
// document. It starts a goroutine that follows the file if there is one, and those of a limiter of its own; Close ends
// them.
func New(cfg Config) (*Client, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	c := &Client{shared: cfg.Shared}
	if c.shared == nil {
		var err error
		if c.shared, err = NewShared(cfg.Pace); err != nil {
			return nil, fmt.Errorf("ClientConfig: %w", err)
		}
		c.owned = true
	}
	c.member = c.shared.Join(MemberConfig{MaxCrawlDelay: cfg.MaxCrawlDelay, OnEvent: cfg.OnEvent})
	c.closing, c.stop = context.WithCancelCause(context.Background())
	base := transport.BaseConfig{AllowPrivate: cfg.AllowPrivate, Strict: true}
	if cfg.Transport != nil {
		base = transport.BaseConfig{}
	}
	var err error
	c.inner, err = transport.NewClient(transport.ClientConfig{
		Transport: cfg.Transport, Base: base,
		Chain: func(base http.RoundTripper) (http.RoundTripper, error) { return c.chain(&cfg, base) },
	})
	if err != nil {
		c.stop(err)
		return nil, fmt.Errorf("ClientConfig: %w", errors.Join(err, c.leave()))
	}
	c.HTTP = &http.Client{
		Transport: &entrance{c.inner.HTTP().Transport, cfg.UserAgent, c.closing}, Timeout: cfg.Timeout,
	}
	if cfg.ResilienceFile != "" {
		c.beside.Go(func() { _ = c.policy.Run(c.closing) }) // it ends with the context, and has no other error
	}
	return c, nil
}

func (c *Client) leave() error {
	c.member.Leave()
	if c.owned {
		return c.shared.Close()
	}
	return nil
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

// chain puts policies and limiter around base.
func (c *Client) chain(cfg *Config, base http.RoundTripper) (http.RoundTripper, error) {
	polite, err := transport.Polite(transport.PoliteConfig{Limiter: c.shared.AdaptiveRateLimiter, MaxRetryAfter: cfg.MaxRetryAfter})
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
		source, name = func(context.Context) ([]byte, error) { return cfg.Resilience, nil }, "Resilience"
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
	if cfg.ObeyRobots {
		return newGate(c.policy, cfg.UserAgent, c.member)
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
func (c *Client) Snapshot() ratelimit.LimiterSnapshot { return c.shared.Snapshot() }

// Close ends the requests under way with [ErrClosed], and the connections of the client's own
// transport. It waits for the goroutines that the client has started, and may be called again.
func (c *Client) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	c.stop(ErrClosed)
	c.beside.Wait()
	return errors.Join(c.inner.Close(), c.leave())
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
