package transport

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
)

type idempotentKey struct{}

// WithIdempotent marks the requests made under ctx as ones that may be sent more than
// once to the same effect, whatever their method.
func WithIdempotent(ctx context.Context) context.Context {
	return context.WithValue(ctx, idempotentKey{}, true)
}

// Repeatable reports whether req may be sent more than once: its method is safe (RFC
// 9110 section 9.2.1), or it is marked by an Idempotency-Key header or [WithIdempotent];
// and its body, if it has one, can be had again from GetBody. PUT and DELETE are
// idempotent by their definition but not always by their server's, so they need the mark.
func Repeatable(req *http.Request) bool { return repeatable(req.Context(), req) }

func repeatable(ctx context.Context, req *http.Request) bool {
	if hasBody(req) && req.GetBody == nil {
		return false
	}
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	for _, name := range [...]string{"Idempotency-Key", "X-Idempotency-Key"} {
		if _, ok := req.Header[name]; ok { // the name is the mark, as for net/http
			return true
		}
	}
	return ctx.Value(idempotentKey{}) != nil
}

// call is one request on its way through a policy, which may send it any number of times.
// The first time goes with the body it came with, every other with one from GetBody. It
// is safe for concurrent use. Using it again saves a closure per request and layer.
type call struct {
	layer *policyLayer
	req   *http.Request
	fn    func(context.Context) (*http.Response, error) // send
	sent  atomic.Int32
}

func (c *call) send(ctx context.Context) (*http.Response, error) {
	if c.sent.Add(1) == 1 {
		return c.layer.next.send(ctx, c.req)
	}
	req := c.req
	if hasBody(req) {
		body, err := req.GetBody()
		if err != nil {
			return nil, fmt.Errorf("transport: get the request body again: %w", err)
		}
		req = req.WithContext(ctx)
		req.Body = body
	}
	return c.layer.next.send(ctx, req)
}

// settle closes the body of a request that was never sent: nobody else will. A send that
// comes later all the same, from a goroutine that its policy did not wait for, counts as
// a further one.
func (c *call) settle() {
	if c.sent.CompareAndSwap(0, 1) {
		closeBody(c.req)
	}
}
