package fetch

import (
	"context"
	"net/http"
	"sync"
)

// Client fetches URLs. It keeps connections between requests, so a program needs few
// of them, usually one. It is safe for concurrent use.
type Client struct {
	cfg       Config // never changes after New
	base      http.Header
	template  *http.Request // copied for every request that net/http or a policy sees
	transport transport
	short     bool              // it needs no *url.URL
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
	if c.transport, err = newTransport(cfg, c.dialer, c.base); err != nil {
		return nil, err
	}
	_, c.short = c.transport.(own)
	if cfg.Chain != nil {
		c.chain = cfg.Chain(sender{c})
	}
	if c.repeating = c.chain; cfg.Repeating != nil {
		c.repeating = cfg.Repeating(sender{c})
	}
	return c, nil
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
	to, err := c.target(&req)
	if err != nil {
		return nil, newError(OpRequest, req.URL, err)
	}
	x := c.begin(ctx)
	defer x.end()
	hres, err := c.send(x, &req, to)
	if err != nil {
		if before := x.passed.unrelated(err); before != nil && ctx.Err() == nil {
			return nil, before
		}
		return nil, x.failure(x.op(err), req.URL, x.explain(err))
	}
	return c.receive(x, req, hres)
}

// target reads the URL, in the short way where nobody asks for more.
func (c *Client) target(req *Request) (target, error) {
	if c.short && c.policies(req) == nil {
		if t, ok := plain(req.URL); ok {
			return t, nil
		}
	}
	u, err := parseURL(req.URL, c.cfg.Proxy != nil)
	if err != nil {
		return target{}, err
	}
	return targetOf(u)
}

// policies are those that a request goes through; nil if there are none.
func (c *Client) policies(req *Request) http.RoundTripper {
	if req.Again != nil {
		return c.repeating
	}
	return c.chain
}

// send sends the request, through the policies if there are any.
func (c *Client) send(x *exchange, req *Request, to target) (*http.Response, error) {
	h := c.header(req, to.user)
	if rt := c.policies(req); rt != nil {
		return x.through(rt, req, to, h)
	}
	if req.Permit != nil {
		x.passed.req = req // nothing is sent until it has one
		if err := req.permit(x.context()); err != nil {
			return nil, err
		}
		x.passed.sends++
	}
	return c.roundTrip(x, to, h)
}

// roundTrip sends until something has left. A kept connection that was closed before a
// byte was written is no fault of the host and costs it nothing, so the next is taken;
// this ends at the latest when a fresh one is made.
func (c *Client) roundTrip(x *exchange, to target, h http.Header) (*http.Response, error) {
	for {
		x.attempt()
		hres, err := c.transport.roundTrip(x, to, h)
		if err == nil || !x.unsent() || x.ended() != nil || x.via != nil && x.via.Err() != nil {
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
