package fetch

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"

	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// passage is the way of a request through the policies of [Config.Chain] or [Config.Repeating], which may pass it
// several times.
type passage struct {
	req    *Request // nil if there are no policies and the caller holds the permit
	busy   atomic.Bool
	sends  int       // how often the request was passed to the transport
	held   bool      // the request was passed again and got no permit
	before *Response // the response of the last time, without its body; nil if it failed
	err    *Error    // the failure of the last time; nil if there was a response
	cause  error     // the cause of err, as the policies have seen it
}

// refused reports whether the request ended because nothing was sent: a policy stopped it, or there was no permit.
func (p *passage) refused() bool { return p.req != nil && (p.sends == 0 || p.held) }

// unrelated returns the failure of the last sending, if the policies ended with an error that does not come from it,
// such as the end of a pause. Otherwise it returns nil.
func (p *passage) unrelated(err error) *Error {
	if p.err == nil || p.held || errors.Is(err, p.cause) {
		return nil
	}
	return p.err
}

type sender struct{ c *Client }

// exchangeKey is the context key under which policies carry the exchange of a request.
type exchangeKey struct{}

// through sends the request through rt. The policies see an ordinary request; the transport builds its own form of it.
func (x *exchange) through(rt http.RoundTripper, req *Request, to target, h http.Header) (*http.Response, error) {
	x.passed.req = req
	ctx := context.WithValue(x.ctx, exchangeKey{}, x)
	return rt.RoundTrip(x.newRequest(ctx, to.url, h))
}

var (
	errForeign    = errors.New("not a request of this client's Fetch")
	errConcurrent = errors.New("a policy has sent a request while it was under way: one at a time is what a crawler may send")
)

func (s sender) RoundTrip(req *http.Request) (*http.Response, error) {
	x, ok := req.Context().Value(exchangeKey{}).(*exchange)
	if !ok {
		return nil, errForeign
	}
	p := &x.passed
	if p.busy.Swap(true) {
		return nil, errConcurrent
	}
	defer p.busy.Store(false)
	if err := p.permit(req.Context()); err != nil {
		return nil, err
	}
	p.sends++
	x.via = req.Context()
	hres, err := s.send(x, req)
	// Whatever a policy does next, the host is not waited for meanwhile.
	x.arm(s.c.cfg.Timeout, s.c.tooLong)
	if p.req.Again != nil {
		p.remember(x, hres, err)
	}
	return hres, err
}

func (s sender) send(x *exchange, req *http.Request) (*http.Response, error) {
	to, err := targetOf(req.URL)
	if err != nil {
		return nil, err
	}
	hres, err := s.c.roundTrip(x, to, req.Header)
	if hres != nil {
		hres.Request = req
	}
	return hres, err
}

// remember keeps the result of a sending for Again, which decides on the next one.
func (p *passage) remember(x *exchange, hres *http.Response, err error) {
	if p.before, p.err, p.cause = nil, nil, err; err != nil {
		p.err = x.failure(x.op(err), p.req.URL, x.explain(err))
		return
	}
	p.before = newResponse(p.req.URL, hres, now())
	x.head(p.before)
	if hres.StatusCode < http.StatusOK {
		return
	}
	if p.req.OnHeader != nil {
		p.req.OnHeader(p.before)
	}
	x.c.inspect(x, hres)
}

func (p *passage) permit(ctx context.Context) error {
	if p.sends == 0 {
		return p.req.permit(ctx)
	}
	p.held = true
	if p.req.Again == nil {
		return notSent{errors.New("the request may be sent once only")}
	}
	var failed error
	if p.err != nil {
		failed = p.err
	}
	if err := p.req.Again(ctx, p.before, failed); err != nil {
		return notSent{err}
	}
	p.held = false
	return nil
}

// permit takes the first permit, unless the caller of Fetch holds it.
func (r *Request) permit(ctx context.Context) error {
	if r.Permit == nil {
		return nil
	}
	if err := r.Permit(ctx); err != nil {
		return notSent{err}
	}
	return nil
}

// notSent is the error of a request that got no permit. It is no failure of the host.
type notSent struct{ error }

var _ outcome.Classed = notSent{}

func (e notSent) Unwrap() error { return e.error }

// Class returns the class of errors that say nothing about the host, so that no policy repeats the request.
func (e notSent) Class() outcome.Class { return outcome.Canceled }
