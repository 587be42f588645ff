package binder

import (
	"context"
	"net/http"
	"time"

	"github.com/treadlight/crawl/resilience"
	"github.com/treadlight/crawl/transport"
)

// HTTPOptions has what a document cannot say. The zero value is enough for every document without a fallback.
type HTTPOptions struct {
	Deps
	// Fallback returns the response to return instead. It may read res but must not return it. Nil is an error if the
	// document has the section Fallback.
	Fallback              func(req *http.Request, res *http.Response, err error) (*http.Response, error)
	Log, RateLimit, Hints transport.Middleware     // layers for their places in the default order; nil leaves them out
	MaxRetryAfter         time.Duration            // bound of the wait that a response may ask of the retry; zero means an hour
	TotalTimeout          transport.ResponsePolicy // bounds all attempts and pauses together; the caller closes it; nil means that only the requests' contexts bound them
}

// Chain is a transport with the policies of a document in the default order of transport.Layers. It is safe for
// concurrent use.
type Chain struct {
	Policies *Policies[*http.Response] // of the document

	rt http.RoundTripper
}

// BindHTTP builds a chain with the policies of a document around base, which the caller keeps and closes. Errors are
// those of Bind.
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

// CloseIdleConnections closes the idle connections of the transport at the end of the chain.
func (c *Chain) CloseIdleConnections() { closeIdle(c.rt) }

// Close closes the policies. It does not close the transport.
func (c *Chain) Close() error { return c.Policies.Close() }

func closeIdle(rt http.RoundTripper) { (&http.Client{Transport: rt}).CloseIdleConnections() }
