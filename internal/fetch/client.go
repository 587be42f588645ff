package fetch

import (
	"cmp"
	"context"
	"net/http"
	"net/url"

	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// Client fetches URLs and keeps connections, so a program needs only a few Clients, usually one. It is safe for
// concurrent use.
type Client struct {
	cfg       Config // never changes after New
	base      http.Header
	secrets   http.Header // credential fields of Config.Header, for trusted hosts only
	personal  bool        // some hosts get header fields of their own
	routes    *routes
	template  *http.Request // copied for every request that net/http, a policy or a hook gets
	transport transport
	hooked    bool              // OnRequest or OnResponse is set
	chain     http.RoundTripper // policies around sender; nil if there are none
	repeating http.RoundTripper // policies for requests with an Again
	dialer    *dialer
	decoders  decoders
	buffers   buffers

	tooLong *timeoutError // cause: the request took longer than Timeout
	silent  *timeoutError // cause: no header within HeaderTimeout
	stalled *timeoutError // cause: no more of the body arrived within BodyTimeout
}

// New returns a Client, or an error that names the invalid field of cfg. It makes no connection.
func New(cfg Config) (*Client, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Client{
		cfg:      cfg,
		routes:   newRoutes(cfg),
		template: &http.Request{Method: http.MethodGet},
		tooLong:  &timeoutError{"not done", cfg.Timeout},
		silent:   &timeoutError{"no header", cfg.HeaderTimeout},
		stalled:  &timeoutError{"no more of the body", cfg.BodyTimeout},
	}
	c.base, c.secrets = headers(cfg)
	c.personal = len(c.secrets) > 0 || cfg.Access != nil || cfg.Cookies != nil
	if c.dialer, err = newDialer(cfg, c.routes); err != nil {
		return nil, err
	}
	if c.transport, err = newTransport(cfg, c.dialer, c.base); err != nil {
		return nil, err
	}
	c.hooked = cfg.OnRequest != nil || cfg.OnResponse != nil
	if cfg.Chain != nil {
		c.chain = cfg.Chain(sender{c})
	}
	if c.repeating = c.chain; cfg.Repeating != nil {
		c.repeating = cfg.Repeating(sender{c})
	}
	return c, nil
}

// Close closes idle connections, cancels those that are being made, and waits for the latter to end. With HTTP/2 it
// also ends running calls of Fetch, so cancel their contexts and call Close last. A later Fetch fails with class
// canceled.
func (c *Client) Close() {
	c.dialer.close()
	c.transport.CloseIdleConnections()
	c.dialer.closeRest()
}

// Fetch requests one URL and reads the whole response, whatever its status. An error is always an [*Error]. If it
// occurred in the body, the Response is returned with it and has what had arrived. When ctx ends, the request ends at
// once, with class canceled, or timeout after a deadline.
func (c *Client) Fetch(ctx context.Context, req Request) (*Response, error) {
	var to target
	u, err := parseURL(req.URL)
	if err == nil {
		to, err = targetOf(u)
	}
	if err != nil {
		return nil, newError(OpRequest, req.URL, err)
	}
	x := c.begin(ctx, &req)
	defer x.end()
	if req.Capture {
		x.capture = c.bound(&req) + wireSlack + c.cfg.MaxHeaderBytes
	}
	hres, err := c.send(x, &req, to)
	if err != nil {
		if before := x.passed.unrelated(err); before != nil && ctx.Err() == nil {
			return nil, before
		}
		return nil, x.failure(x.op(err), req.URL, x.explain(err))
	}
	return c.receive(x, req, hres)
}

// Settle looks up the host of a seed that [Config.Openings] knows by name, so that it is decided now which addresses
// the name opens. It waits at most until ctx ends; what is unknown then is decided at the first connection.
func (c *Client) Settle(ctx context.Context, host string, port uint16, secure bool) {
	d := c.dialer
	via, err := d.routes.of(secure, authorityOf(joinHostPort(host, port), secure))
	if err != nil || !d.looksUp(via) {
		return
	}
	if at, err := d.resolver.Lookup(ctx, host, port); err == nil && !at.Static {
		d.cfg.Openings.Decide(host, at.Addrs)
	}
}

func (c *Client) policies(req *Request) http.RoundTripper {
	if req.Again != nil {
		return c.repeating
	}
	return c.chain
}

func (c *Client) send(x *exchange, req *Request, to target) (*http.Response, error) {
	h := c.header(req, to)
	if rt := c.policies(req); rt != nil {
		return x.through(rt, req, to, h)
	}
	if req.Permit != nil {
		x.passed.req = req // so that a failure counts as not sent until there is a permit
		if err := req.permit(x.ctx); err != nil {
			return nil, err
		}
		x.passed.sends++
	}
	return c.roundTrip(x, to, h)
}

// roundTrip sends the request, and sends it again while not one byte of it has left: if a kept connection turns out to
// be closed before anything was written, the host has seen nothing, and the next connection is tried, up to a new one.
func (c *Client) roundTrip(x *exchange, to target, h http.Header) (*http.Response, error) {
	if c.hooked {
		var err error
		if to, h, err = c.outgoing(x, to, h); err != nil {
			return nil, err
		}
	}
	if err := c.relay(&to); err != nil {
		return nil, err
	}
	x.condition = len(h["If-None-Match"])+len(h["If-Modified-Since"]) > 0
	for {
		x.attempt()
		hres, err := c.transport.roundTrip(x, to, h)
		if err == nil && to.via != nil {
			err = refused(hres, to.via)
		}
		if err == nil {
			if !x.req.Anonymous {
				c.keepCookies(to, hres.Header)
			}
			return hres, nil
		}
		if !x.unsent() || x.ended() != nil || x.via != nil && x.via.Err() != nil {
			return nil, err
		}
	}
}

// relay sets the proxy that gets the request with the whole URL, if there is one.
func (c *Client) relay(to *target) error {
	if c.routes.none || to.tls {
		return nil
	}
	via, err := c.routes.of(to.tls, authorityOf(to.host, to.tls))
	if err != nil {
		return &phaseError{OpProxy, err}
	}
	if relays(via, to.tls) {
		to.via = via
	}
	return nil
}

// refused returns an error if the proxy refused the request and responded instead of the host. Otherwise it returns
// nil.
func refused(hres *http.Response, via *url.URL) error {
	if hres.StatusCode != http.StatusProxyAuthRequired {
		return nil
	}
	_ = hres.Body.Close()
	return &phaseError{OpProxy, newProxyError(via, errProxyAuth, outcome.Proxy)}
}

func (c *Client) receive(x *exchange, req Request, hres *http.Response) (*Response, error) {
	headed := since(x.start)
	if hres.StatusCode < http.StatusOK {
		_ = hres.Body.Close() // what follows is not HTTP
		if hres.StatusCode < http.StatusContinue {
			return nil, x.failure(OpHeader, req.URL, errStatus)
		}
		return nil, x.failure(OpHeader, req.URL, errUpgrade)
	}
	res := newResponse(req.URL, hres, now())
	x.head(res)
	res.Conditional = x.condition
	if x.passed.before == nil { // otherwise remember has called both already
		if req.OnHeader != nil {
			req.OnHeader(res)
		}
		c.inspect(x, hres)
	}
	op, err := c.readWanted(x, &req, hres, res)
	x.finish(res, headed)
	if err != nil {
		failed := x.failure(op, req.URL, err)
		res.Capture = x.captured(failed)
		return res, failed
	}
	res.Capture = x.captured(nil)
	return res, nil
}

// readWanted reads the body, or as much of it as is wanted, into res or into a Stream.
func (c *Client) readWanted(x *exchange, req *Request, hres *http.Response, res *Response) (Op, error) {
	if x.objection != nil {
		c.unread(x, hres)
		return OpHook, x.objection
	}
	if req.Stream != nil {
		if s := req.Stream(res); s != nil {
			x.limit, x.tooLong = cmp.Or(s.Timeout, unbounded), &timeoutError{"not done", s.Timeout}
			return c.readBody(x, hres, res, cmp.Or(s.MaxBytes, unbounded), s)
		}
	}
	if err := req.Filter.refuses(res, hres.ContentLength); err != nil {
		c.unread(x, hres)
		return OpFilter, err
	}
	return c.readBody(x, hres, res, c.bound(req), nil)
}

func (c *Client) bound(req *Request) int64 {
	if req.MaxBody > 0 {
		return req.MaxBody
	}
	return c.cfg.MaxBody
}
