package fetch

import (
	"context"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/treadlight/crawl/internal/fetch/http1"
)

// Client fetches URLs. It keeps connections between requests, so a program needs few
// of them, usually one. It is safe for concurrent use.
type Client struct {
	cfg       Config // never changes after New
	base      http.Header
	template  *http.Request // copied for every try
	transport transport
	replays   bool              // the transport would send a plain request again by itself
	chain     http.RoundTripper // around sender; nil if there are no policies
	repeating http.RoundTripper // for requests that may be sent again
	dialer    *dialer
	decoders  decoders
	buffers   buffers
	exchanges sync.Pool

	tooLong *timeoutError // cause: the whole took longer than Timeout
	silent  *timeoutError // cause: no header within HeaderTimeout
	stalled *timeoutError // cause: the body was silent for BodyTimeout
}

// New returns a Client, or an error that names the field of cfg that makes no sense.
// It connects to nothing.
func New(cfg Config) (*Client, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Client{
		cfg:  cfg,
		base: baseHeader(cfg),

		template: &http.Request{Method: http.MethodGet},
		dialer:   newDialer(cfg),
		tooLong:  &timeoutError{"not done", cfg.Timeout},
		silent:   &timeoutError{"no header", cfg.HeaderTimeout},
		stalled:  &timeoutError{"no more of the body", cfg.BodyTimeout},
	}
	c.transport, c.replays = newTransport(cfg, c.dialer)
	if cfg.Chain != nil {
		c.chain = cfg.Chain(sender{c})
	}
	if c.repeating = c.chain; cfg.Repeating != nil {
		c.repeating = cfg.Repeating(sender{c})
	}
	return c, nil
}

// pingAfter and pingTimeout find HTTP/2 connections that died without a word, which
// would otherwise swallow every request to their host until TCP gives up.
const pingAfter, pingTimeout = 15 * time.Second, 15 * time.Second

// transport is what requests leave by.
type transport interface {
	http.RoundTripper
	CloseIdleConnections()
}

// newTransport is our own where it can be, since it takes a third less CPU time of a page,
// and net/http's for proxies and HTTP/2, which would be all we know of them.
func newTransport(cfg Config, d *dialer) (t transport, replays bool) {
	if cfg.HTTP2 || cfg.Proxy != nil {
		return standard(cfg, d), !cfg.HTTP2
	}
	return http1.New(http1.Config{
		Dial: d.dial, DialTLS: d.dialTLS, MaxHeaderBytes: cfg.MaxHeaderBytes,
		MaxPerHost: cfg.MaxConnsPerHost, MaxIdle: cfg.MaxIdle, IdleTimeout: cfg.IdleConnTimeout,
	}), false
}

// standard is net/http's transport.
func standard(cfg Config, d *dialer) *http.Transport {
	t := &http.Transport{
		DialContext:            d.dial,
		DialTLSContext:         d.dialTLS,
		TLSClientConfig:        d.tls.Clone(), // for hosts behind a proxy
		TLSHandshakeTimeout:    cfg.TLSTimeout,
		MaxResponseHeaderBytes: cfg.MaxHeaderBytes,
		MaxConnsPerHost:        cfg.MaxConnsPerHost,
		MaxIdleConnsPerHost:    cfg.MaxConnsPerHost,
		MaxIdleConns:           cfg.MaxIdle,
		IdleConnTimeout:        cfg.IdleConnTimeout,
		DisableCompression:     true, // decoding is ours, with a bound
		Protocols:              new(http.Protocols),
	}
	t.Protocols.SetHTTP1(true)
	if cfg.HTTP2 {
		t.Protocols.SetHTTP2(true)
		t.HTTP2 = &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout}
	}
	if cfg.Proxy != nil {
		t.Proxy = http.ProxyURL(cfg.Proxy)
	}
	return t
}

// Close ends the connections that are kept and those in the making, and waits for the
// latter. It does not end a Fetch under way: cancel its context, and call Close after
// the last one has returned. A Fetch after Close fails with class canceled.
func (c *Client) Close() {
	c.dialer.close()
	c.transport.CloseIdleConnections()
}

// Fetch asks for one URL and reads the whole answer. Any status is an answer, not an
// error. An error is always an [*Error]; if it came while the body was read, the
// Response is returned beside it and has what had arrived. The end of ctx ends the
// request at once, with class canceled, or timeout if ctx had a deadline.
func (c *Client) Fetch(ctx context.Context, req Request) (*Response, error) {
	u, err := parseURL(req.URL, c.cfg.Proxy != nil)
	if err != nil {
		return nil, newError(OpRequest, req.URL, err)
	}
	x := c.begin(ctx)
	defer x.end()
	hres, err := c.send(x, &req, u, c.header(req, u.User))
	if err != nil {
		if before := x.passed.unrelated(err); before != nil && ctx.Err() == nil {
			return nil, before
		}
		return nil, x.failure(x.op(err), req.URL, x.explain(err))
	}
	return c.receive(x, req, hres)
}

// send sends the request, through the policies if there are any.
func (c *Client) send(x *exchange, req *Request, u *url.URL, h http.Header) (*http.Response, error) {
	rt := c.chain
	if req.Again != nil {
		rt = c.repeating
	}
	if rt != nil {
		return x.through(rt, req, u, h)
	}
	if req.Permit != nil {
		x.passed.req = req // nothing is sent until it has one
		if err := req.permit(x.ctx); err != nil {
			return nil, err
		}
		x.passed.sends++
	}
	return c.roundTrip(x.ctx, x, u, h)
}

// roundTrip sends until something has left. A kept connection that was closed before a
// byte was written is no fault of the host and costs it nothing, so the next is taken;
// this ends at the latest when a fresh one is made.
func (c *Client) roundTrip(ctx context.Context, x *exchange, u *url.URL, h http.Header) (*http.Response, error) {
	for {
		x.attempt()
		hres, err := c.transport.RoundTrip(c.newRequest(ctx, u, h))
		if err == nil || !x.unsent() || ctx.Err() != nil {
			return hres, err
		}
	}
}

// receive turns a header into a Response and reads the body.
func (c *Client) receive(x *exchange, req Request, hres *http.Response) (*Response, error) {
	headed := c.cfg.Clock.Since(x.start)
	if hres.StatusCode < http.StatusOK {
		_ = hres.Body.Close() // whatever is spoken there is not HTTP
		return nil, x.failure(OpHeader, req.URL, errUpgrade)
	}
	res := newResponse(req.URL, hres, c.cfg.Clock.Now())
	x.head(res)
	if req.OnHeader != nil && x.passed.before == nil { // which it has been called for
		req.OnHeader(res)
	}
	bound := c.cfg.MaxBody
	if req.MaxBody > 0 {
		bound = req.MaxBody
	}
	op, err := c.readBody(x, hres, res, bound)
	x.finish(res, headed)
	if err != nil {
		return res, x.failure(op, req.URL, err)
	}
	return res, nil
}
