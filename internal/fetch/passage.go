package fetch

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"

	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// passage is a request's way through the policies of [Config.Chain] or [Config.Repeating], perhaps several times.
type passage struct {
	req    *Request // nil if there are no policies, and no permit is missing
	busy   atomic.Bool
	sends  int       // times it came to the wire
	held   bool      // it came to the wire again and was not let through
	before *Response // what the last time brought: an answer without its body, or
	err    *Error
	cause  error // of err, as the policies have seen it
}

// refused reports whether the end of it all was that a policy sent nothing.
func (p *passage) refused() bool { return p.req != nil && (p.sends == 0 || p.held) }

// unrelated is the failure of the last sending, if the policies ended with an error that is not about it, as after a
// pause; or nil.
func (p *passage) unrelated(err error) *Error {
	if p.err == nil || p.held || errors.Is(err, p.cause) {
		return nil
	}
	return p.err
}

type sender struct{ c *Client }

// exchangeKey is where policies carry the exchange of a request, in its context.
type exchangeKey struct{}

// through sends the request through rt. The policies see a plain request; the transport gets its own form on the wire.
func (x *exchange) through(rt http.RoundTripper, req *Request, to target, h http.Header) (*http.Response, error) {
	x.passed.req = req
	ctx := context.WithValue(x.context(), exchangeKey{}, x)
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
	// Whatever a policy does next, it is not the host that is silent meanwhile.
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

// remember keeps what a sending has brought, for whoever decides on the next one.
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

// permit asks for the first permit, unless the caller of Fetch holds it.
func (r *Request) permit(ctx context.Context) error {
	if r.Permit == nil {
		return nil
	}
	if err := r.Permit(ctx); err != nil {
		return notSent{err}
	}
	return nil
}

// notSent is why a request was not sent. It is no failure of the host.
type notSent struct{ error }

var _ outcome.Classed = notSent{}

func (e notSent) Unwrap() error { return e.error }

// Class is that of what says nothing about the host, so that no policy repeats it.
func (e notSent) Class() outcome.Class { return outcome.Canceled }
