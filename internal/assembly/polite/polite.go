// Package polite combines the adaptive limiter, the policies of a document and a transport into an http.Client that
// sends requests to no host faster than the host tolerates. The package crawl offers it to programs.
package polite

import (
	"cmp"
	"context"
	"encoding/json"
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

// ErrClosed is the error of requests made through a [Client] that is closed, and of those that were in flight when it
// was closed.
var ErrClosed = errors.New("the client is closed")

// Config configures a [Client]. Package crawl documents the fields.
type Config struct {
	UserAgent      string
	Shared         *Shared      // paces the requests; nil: the client makes its own from Pace
	Pace           SharedConfig // configures the client's own limiter
	MaxRetryAfter  time.Duration
	Retries        int // for defaultPolicies, as the delays
	RetryBaseDelay time.Duration
	RetryMaxDelay  time.Duration
	MaxCrawlDelay  time.Duration // negative means that any is obeyed
	ObeyRobots     bool
	Resilience     []byte // nil without a ResilienceFile: the policies of defaultPolicies
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

// Client is an http.Client that waits for a permit of an adaptive limiter before each request. Close ends it. It is
// safe for concurrent use.
type Client struct {
	HTTP *http.Client

	shared  *Shared
	owned   bool // the client has made shared
	member  *Member
	inner   *transport.Client
	policy  *binder.LiveChain // the chain inside inner
	closing context.Context   // ends at Close, and with it every request
	stop    context.CancelCauseFunc
	beside  sync.WaitGroup // goroutines that run beside the requests
	closed  atomic.Bool
}

// New builds a client. The error names the field that is wrong, or says what is wrong in the document. It starts a
// goroutine that watches the file of policies if there is one, and those of its own limiter; Close ends them.
func New(cfg Config) (*Client, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if cfg.Resilience == nil && cfg.ResilienceFile == "" {
		cfg.Resilience = cfg.defaultPolicies()
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

// check returns an error for what no part of the client would reject.
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

// defaultPolicies are for requests to any number of hosts. They have no circuit or bulkhead, which all hosts would
// share, so that one failing host would stop the others; the limiter has a circuit for each host.
func (c *Config) defaultPolicies() []byte {
	type object = map[string]any
	document := object{"Timeout": object{"Seconds": 30}}
	if c.Retries > 0 {
		document["Retry"] = object{"MaxRetries": c.Retries, "Backoff": object{
			"BaseMs": c.RetryBaseDelay.Milliseconds(), "MaxDelayMs": c.RetryMaxDelay.Milliseconds(),
		}}
	}
	text, _ := json.Marshal(document) // of numbers and texts
	return text
}

// chain puts the policies and the limiter around base.
func (c *Client) chain(cfg *Config, base http.RoundTripper) (http.RoundTripper, error) {
	polite, err := transport.Polite(transport.PoliteConfig{Limiter: c.shared.AdaptiveRateLimiter, MaxRetryAfter: cfg.MaxRetryAfter})
	if err != nil {
		return nil, err
	}
	pace := polite
	if cfg.Limit != nil {
		policy := *cfg.Limit
		policy.Hub = cmp.Or(policy.Hub, cfg.Hub)
		limit, err := transport.RateLimit(policy)
		if err != nil {
			return nil, fmt.Errorf("limit: %w", err)
		}
		// The limit is outside the limiter, which would mistake a wait for its permit for a slow host.
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

// onReload returns the function that is called when the file of policies has changed.
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

// Snapshot returns what has been learned about hosts, and why each gets requests at its rate.
func (c *Client) Snapshot() ratelimit.LimiterSnapshot { return c.shared.Snapshot() }

// Close cancels the requests in flight with [ErrClosed], and closes the connections of the client's own transport. It
// waits for the goroutines that the client has started. It may be called again.
func (c *Client) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	c.stop(ErrClosed)
	c.beside.Wait()
	return errors.Join(c.inner.Close(), c.leave())
}

// entrance is the outermost layer of a client: it sets the User-Agent of requests, and cancels them when the client is
// closed.
type entrance struct {
	next    http.RoundTripper
	agent   string
	closing context.Context
}

// RoundTrip implements http.RoundTripper. Copying the request costs less than a layer spends on one header.
func (e *entrance) RoundTrip(req *http.Request) (*http.Response, error) {
	if e.closing.Err() != nil {
		if req.Body != nil {
			_ = req.Body.Close() // nobody could handle the error
		}
		return nil, ErrClosed
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	unhook := context.AfterFunc(e.closing, func() { cancel(ErrClosed) })
	end := func(error) { unhook(); cancel(nil) }
	bound := false
	defer func() {
		if !bound { // also if a layer panics
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
	if res.StatusCode == http.StatusSwitchingProtocols { // a context no longer ends a connection that has switched protocols
		body := res.Body
		unbody := context.AfterFunc(e.closing, func() { _ = body.Close() }) // the user of the body gets the error
		return transport.Bind(res, func(err error) { unbody(); end(err) }), nil
	}
	return transport.Bind(res, end), nil
}

// CloseIdleConnections closes the idle connections of the transport.
func (e *entrance) CloseIdleConnections() { (&http.Client{Transport: e.next}).CloseIdleConnections() }
