package binder

import (
	"context"
	"net/http"
	"time"

	"github.com/treadlight/crawl/resilience"
	"github.com/treadlight/crawl/transport"
)

// HTTPOptions are what a document cannot say. The zero value serves every document without a fallback.
type HTTPOptions struct {
	Deps
	// Fallback makes the answer returned instead; it may read res, not return it. Nil is an error if the document has
	// the section.
	Fallback              func(req *http.Request, res *http.Response, err error) (*http.Response, error)
	Log, RateLimit, Hints transport.Middleware     // layers at their places in the default order; nil leaves them out
	MaxRetryAfter         time.Duration            // cap of what an answer may ask the retry to wait; zero means an hour
	TotalTimeout          transport.ResponsePolicy // of all attempts and pauses together, the caller's to close; nil leaves the bound to the requests' contexts
}

// Chain is a transport with the policies of a document in the default order of transport.Layers. Safe for concurrent
// use.
type Chain struct {
	Policies *Policies[*http.Response] // those of the document

	rt http.RoundTripper
}

// BindHTTP puts the policies of a document around base, which stays the caller's. The errors are Bind's.
func BindHTTP(m *Model, base http.RoundTripper, o HTTPOptions) (*Chain, error) {
	opts := Options[*http.Response]{
		Deps:      o.Deps,
		Transient: transport.TransientClassifier, Overload: transport.OverloadClassifier,
		Bind: transport.Bind, Discard: transport.Discard,
		Key:    transport.HostFrom,
		Status: func(res *http.Response) int { return res.StatusCode },
		newRetry: func(cfg resilience.RetryConfig[*http.Response]) (*resilience.Retry[*http.Response], error) {
			cfg.MaxRetryAfter = o.MaxRetryAfter
			return transport.NewRetry(cfg) //nolint:bodyclose // a policy, which obeys Retry-After, and no response
		},
	}
	if o.Fallback != nil {
		opts.Fallback = func(ctx context.Context, res *http.Response, err error) (*http.Response, error) {
			return o.Fallback(transport.RequestFrom(ctx), res, err)
		}
	}
	p, err := Bind(m, opts) //nolint:bodyclose // no request has been made yet
	if err != nil {
		return nil, err
	}
	layers := transport.Layers{
		Fallback: p.Fallback, Log: o.Log, TotalTimeout: o.TotalTimeout, Retry: p.Retry, Hedge: p.Hedge, Breaker: p.Breaker,
		Isolation: p.Isolation, Bulkhead: p.Bulkhead, RateLimit: o.RateLimit, AttemptTimeout: p.Timeout, Hints: o.Hints,
	}
	return &Chain{Policies: p, rt: layers.Chain(base)}, nil
}

// RoundTrip sends a request through the chain.
func (c *Chain) RoundTrip(req *http.Request) (*http.Response, error) { return c.rt.RoundTrip(req) }

// CloseIdleConnections closes those of the transport at the end of the chain.
func (c *Chain) CloseIdleConnections() { closeIdle(c.rt) }

// Close closes the policies. The transport stays open.
func (c *Chain) Close() error { return c.Policies.Close() }

func closeIdle(rt http.RoundTripper) {
	if idle, ok := rt.(interface{ CloseIdleConnections() }); ok {
		idle.CloseIdleConnections()
	}
}

// LiveChain is a chain that follows a source. A request stays in the chain in which it began, to the end of its body.
type LiveChain struct {
	*Live[*Chain]
	base http.RoundTripper
}

// NewLiveChain loads and binds the first document. Later ones keep the circuit of the one before if its section is the
// same.
func NewLiveChain(ctx context.Context, cfg LiveConfig, base http.RoundTripper, o HTTPOptions) (*LiveChain, error) {
	live, err := NewLive(ctx, cfg, func(m *Model) (*Chain, error) {
		chain, err := BindHTTP(m, base, o)
		if err != nil {
			return nil, err
		}
		o.carried = nil
		if core := chain.Policies.Circuit; core != nil {
			o.carried = &settled{*m.CircuitBreaker, core}
		}
		return chain, nil
	})
	if err != nil {
		return nil, err
	}
	return &LiveChain{live, base}, nil
}

// RoundTrip sends a request through the current chain. After Close it fails with [resilience.ErrClosed].
func (l *LiveChain) RoundTrip(req *http.Request) (*http.Response, error) {
	g, err := l.use()
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close() // nobody is left to be told
		}
		return nil, err
	}
	bound := false
	defer func() {
		if !bound { // also when a layer panics
			g.leave()
		}
	}()
	res, err := g.value.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	bound = true
	return transport.Bind(res, g.end), nil
}

// CloseIdleConnections closes those of the transport at the end of the chain.
func (l *LiveChain) CloseIdleConnections() { closeIdle(l.base) }
