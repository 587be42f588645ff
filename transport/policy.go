package transport

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/treadlight/crawl/resilience"
)

// ResponsePolicy is a policy for responses. It must use [Bind] and [Discard], as those made by the New functions do.
type ResponsePolicy = resilience.Policy[*http.Response]

// Apply makes a layer of a policy that runs a call at most once. It returns nil for a nil policy. The layer does not
// close p.
func Apply(p ResponsePolicy) Middleware { return put(policyLayer{policy: p}) }

// ApplyPerRequest is Apply for a policy that needs the request, which it gets by [HostFrom] or [RequestFrom].
func ApplyPerRequest(p ResponsePolicy) Middleware { return put(policyLayer{policy: p, tells: true}) }

// Repeat makes a layer of a policy that may run a call several times, also on other goroutines. Only [Repeatable]
// requests go through the policy, each further time with a body from GetBody. Other requests are sent once, without the
// policy.
func Repeat(p ResponsePolicy) Middleware { return put(policyLayer{policy: p, repeats: true}) }

func put(glue policyLayer) Middleware {
	if glue.policy == nil {
		return nil
	}
	glue.calls = new(sync.Pool)
	glue.pools = synchronous(glue.policy)
	return func(next http.RoundTripper) http.RoundTripper {
		l := glue
		l.next = newHop(next)
		return layerFunc(l.roundTrip)
	}
}

// synchronous reports whether p is of a type that runs nothing after Execute has returned, so that its call may be
// reused.
func synchronous(p ResponsePolicy) bool {
	switch p.(type) {
	case *resilience.Timeout[*http.Response], *resilience.CircuitBreaker[*http.Response],
		*resilience.BulkheadPolicy[*http.Response], *resilience.Fallback[*http.Response], *resilience.Retry[*http.Response]:
		return true
	}
	return false
}

type policyLayer struct {
	policy  ResponsePolicy
	next    hop
	repeats bool       // the policy may run its function several times
	tells   bool       // the policy's context carries the request
	pools   bool       // whether calls are reused
	calls   *sync.Pool // of *call; all chains made with one Middleware share it
}

func (l *policyLayer) roundTrip(ctx context.Context, req *http.Request) (*http.Response, error) {
	if l.repeats && !repeatable(ctx, req) {
		return l.next.send(ctx, req)
	}
	if l.tells {
		ctx = context.WithValue(ctx, requestKey{}, req)
	}
	c, _ := l.calls.Get().(*call)
	if c == nil {
		c = &call{}
		c.fn = c.send
	}
	c.layer, c.req = l, req
	res, err := l.policy.Execute(ctx, c.fn)
	c.settle()
	if l.pools { // if Execute panicked, the call is not reused
		c.layer, c.req = nil, nil
		c.sent.Store(0)
		l.calls.Put(c)
	}
	return complete(req, res, err)
}

type requestKey struct{}

// RequestFrom returns the request for which a policy under [ApplyPerRequest] runs, or nil.
func RequestFrom(ctx context.Context) *http.Request {
	req, _ := ctx.Value(requestKey{}).(*http.Request)
	return req
}

// HostFrom returns the host of [RequestFrom] as ratelimit.Domain spells it, or the empty string.
func HostFrom(ctx context.Context) string {
	if req := RequestFrom(ctx); req != nil {
		return hostOf(req)
	}
	return ""
}

type idempotentKey struct{}

// WithIdempotent returns a context that marks requests as safe to send more than once, whatever their method.
func WithIdempotent(ctx context.Context) context.Context {
	return context.WithValue(ctx, idempotentKey{}, true)
}

// Repeatable reports whether req may be sent more than once. Its method must be safe (RFC 9110 section 9.2.1), or it
// must have an Idempotency-Key header or be marked by [WithIdempotent]; and if it has a body, GetBody must be set. PUT
// and DELETE need the mark, because not all servers keep them idempotent.
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
		if _, ok := req.Header[name]; ok { // its presence suffices, as in net/http
			return true
		}
	}
	return ctx.Value(idempotentKey{}) != nil
}

// call is one request that passes through a policy. The first send uses the original body, later ones a body from
// GetBody. It is safe for concurrent use. Calls are reused, to save a closure for each request and layer.
type call struct {
	layer *policyLayer
	req   *http.Request
	fn    func(context.Context) (*http.Response, error) // the method send
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

// settle closes the body of a request that was never sent. A send after settle counts as a further one, and uses
// GetBody.
func (c *call) settle() {
	if c.sent.CompareAndSwap(0, 1) {
		closeBody(c.req)
	}
}
