package transport

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/treadlight/crawl/resilience"
)

// ResponsePolicy is a policy over responses. Its Bind and Discard must be [Bind] and [Discard], as those of the New
// functions are.
type ResponsePolicy = resilience.Policy[*http.Response]

// Apply makes a layer of a policy that runs a call at most once. A nil policy is no layer. Its owner closes p.
func Apply(p ResponsePolicy) Middleware { return put(policyLayer{policy: p}) }

// ApplyPerRequest is Apply for a policy that needs the request, by [HostFrom] or [RequestFrom].
func ApplyPerRequest(p ResponsePolicy) Middleware { return put(policyLayer{policy: p, tells: true}) }

// Repeat makes a layer of a policy that may run a call several times, also on other goroutines. Only [Repeatable]
// requests go through it, each time with a body from GetBody; others are sent once.
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

// synchronous reports policies known to run nothing after Execute has returned, so that their call may be reused.
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
	pools   bool       // calls are used again
	calls   *sync.Pool // of *call; all chains made with one Middleware share it
}

func (l *policyLayer) roundTrip(ctx context.Context, req *http.Request) (*http.Response, error) {
	if l.repeats && !repeatable(ctx, req) {
		return l.next.send(ctx, req)
	}
	if l.tells {
		ctx = &requestContext{ctx, req}
	}
	c, _ := l.calls.Get().(*call)
	if c == nil {
		c = &call{}
		c.fn = c.send
	}
	c.layer, c.req = l, req
	res, err := l.policy.Execute(ctx, c.fn)
	c.settle()
	if l.pools { // a call in which Execute panicked is left to the collector
		c.layer, c.req = nil, nil
		c.sent.Store(0)
		l.calls.Put(c)
	}
	return complete(req, res, err)
}

type requestContext struct {
	context.Context
	req *http.Request
}

type requestKey struct{}

// Value answers with the context itself, which costs no allocation.
func (c *requestContext) Value(key any) any {
	if key == (requestKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// RequestFrom is the request that a policy under [ApplyPerRequest] runs for, or nil.
func RequestFrom(ctx context.Context) *http.Request {
	if c, ok := ctx.Value(requestKey{}).(*requestContext); ok {
		return c.req
	}
	return nil
}

// HostFrom is the host of [RequestFrom] in the form of ratelimit.Domain, or empty.
func HostFrom(ctx context.Context) string {
	if req := RequestFrom(ctx); req != nil {
		return hostOf(req)
	}
	return ""
}

type idempotentKey struct{}

// WithIdempotent marks requests under ctx as safe to send more than once, whatever their method.
func WithIdempotent(ctx context.Context) context.Context {
	return context.WithValue(ctx, idempotentKey{}, true)
}

// Repeatable reports whether req may be sent more than once: its method is safe (RFC 9110 section 9.2.1), or it has an
// Idempotency-Key header or [WithIdempotent]; and its body, if any, comes from GetBody. PUT and DELETE need the mark,
// as not all servers keep them idempotent.
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

// call is one request in a policy. The first send has the original body, others one from GetBody. Safe for concurrent
// use, and reused to save a closure per request and layer.
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

// settle closes the body of a request that was never sent. A send that comes later counts as a further one.
func (c *call) settle() {
	if c.sent.CompareAndSwap(0, 1) {
		closeBody(c.req)
	}
}
