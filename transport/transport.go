package transport

import (
	"context"
	"net/http"

	"github.com/treadlight/crawl/internal/fetch/transport"
	"github.com/treadlight/crawl/internal/ratelimit/header"
	"github.com/treadlight/crawl/resilience"
)

// NowOrNever as a Policy.AcquireTimeout refuses a request that would have to wait.
const NowOrNever = transport.NowOrNever

// AddressError says that a request, or a redirect, led to an address that is not on the public
// Internet.
type AddressError = transport.AddressError

// Base is a transport with the bounds that net/http leaves open, and with an end: after
// Close it makes no connection and keeps none.
type Base = transport.Base

// NewBase builds a transport, and connects to nothing.
func NewBase(cfg BaseConfig) (*Base, error) {
	return transport.NewBase(cfg)
}

// BaseConfig says how a Base connects.
type BaseConfig = transport.BaseConfig

// Client is an http.Client that owns what it is made of, with a helper for each verb.
type Client = transport.Client

// NewClient builds a client.
func NewClient(cfg ClientConfig) (*Client, error) {
	return transport.NewClient(cfg)
}

// ClientConfig says what a Client is made of.
type ClientConfig = transport.ClientConfig

// DecodeError says that an answer came and is not the document that was asked for.
type DecodeError = transport.DecodeError

// Factory has clients by name.
type Factory = transport.Factory

// NewFactory returns a factory that has built no client yet.
func NewFactory(cfg FactoryConfig) (*Factory, error) {
	return transport.NewFactory(cfg)
}

// FactoryConfig says which clients a Factory has.
type FactoryConfig = transport.FactoryConfig

// FallbackConfig says which answers are replaced, and by what.
type FallbackConfig = transport.FallbackConfig

// Quota is what a server says is left of one quota: of a [Hint].
type Quota = header.Quota

// Hint is what the header of one answer says about the requests to come.
type Hint = transport.Hint

// HintsConfig says who is told of hints.
type HintsConfig = transport.HintsConfig

// Layers are the parts of a chain, outermost first.
type Layers = transport.Layers

// Limiter is what RateLimit asks for permits: any limiter of package limit.
type Limiter = transport.Limiter

// LogConfig says what is logged of requests, and where.
type LogConfig = transport.LogConfig

// Middleware puts a layer around a transport.
type Middleware = transport.Middleware

// Apply puts a policy into a chain that runs what it is given once or not at all: a
// timeout, a breaker, a bulkhead.
func Apply(p ResponsePolicy) Middleware {
	return transport.Apply(p)
}

// ApplyPerRequest is Apply for a policy that has to know the request: an isolation, which
// asks for the host (HostFrom), or a fallback (RequestFrom).
func ApplyPerRequest(p ResponsePolicy) Middleware {
	return transport.ApplyPerRequest(p)
}

// Hints tells a callback what servers say of their limits: of every answer that comes
// through, so it belongs inside whatever retries.
func Hints(cfg HintsConfig) (Middleware, error) {
	return transport.Hints(cfg)
}

// Log logs every request once, when it is over: at the end of the response's body, or with
// the error that took its place.
func Log(cfg LogConfig) Middleware {
	return transport.Log(cfg)
}

// RateLimit lets requests pass by the permits of a limiter.
func RateLimit(p Policy) (Middleware, error) {
	return transport.RateLimit(p)
}

// Repeat puts a policy into a chain that may run what it is given several times, and on
// other goroutines: a retry or a hedge.
func Repeat(p ResponsePolicy) Middleware {
	return transport.Repeat(p)
}

// Policy says how RateLimit limits requests.
type Policy = transport.Policy

// RejectedError says that a request was not sent because a limit of our own forbade it: it
// is no verdict on the host, so no breaker counts it and no retry repeats it.
type RejectedError = transport.RejectedError

// ResponsePolicy is a resilience policy over responses.
type ResponsePolicy = transport.ResponsePolicy

// StatusError is an answer whose status says that the request failed.
type StatusError = transport.StatusError

// Attempts is how often the request that res answers was made by the retry, at least 1.
func Attempts(res *http.Response) int {
	return transport.Attempts(res)
}

// Bind is the resilience.Bind of responses: it calls end when the life of the body of res
// is over, with the error that a read met or nil.
func Bind(res *http.Response, end func(error)) *http.Response {
	return transport.Bind(res, end)
}

// Chain puts layers around base, the first outermost: it sees a request first and its
// response last.
func Chain(base http.RoundTripper, outerToInner ...Middleware) http.RoundTripper {
	return transport.Chain(base, outerToInner...)
}

// CheckStatus returns nil for an answer that succeeded or redirects, and leaves it as it
// is.
func CheckStatus(res *http.Response) error {
	return transport.CheckStatus(res)
}

// Discard frees a response that nobody will get: it reads the rest of its body, up to 64
// KiB and for a second, so that the connection can be used again, and closes it.
func Discard(res *http.Response) {
	transport.Discard(res)
}

// HedgeVerdict is the Classifier of NewHedge: a resilience.Failure, which starts another
// request at once and does not decide while one is under way, is what TransientVerdict
// fails except 429 and 503.
func HedgeVerdict(res *http.Response, err error) resilience.Verdict {
	return transport.HedgeVerdict(res, err)
}

// HostFrom is the key of an isolation per host: the host of RequestFrom in lower case and
// without a default port, or empty.
func HostFrom(ctx context.Context) string {
	return transport.HostFrom(ctx)
}

// NewBreaker is the policy for Layers.Breaker over a core that may be shared.
func NewBreaker(core *resilience.Breaker, cfg resilience.CircuitBreakerConfig[*http.Response]) (*resilience.CircuitBreaker[*http.Response], error) {
	return transport.NewBreaker(core, cfg) //nolint:bodyclose // a policy of responses is none
}

// NewBulkhead is the policy for Layers.Bulkhead over a core that may be shared.
func NewBulkhead(core *resilience.Bulkhead) (*resilience.BulkheadPolicy[*http.Response], error) {
	return transport.NewBulkhead(core) //nolint:bodyclose // a policy of responses is none
}

// NewFallback is the policy for Layers.Fallback.
func NewFallback(cfg FallbackConfig) (*resilience.Fallback[*http.Response], error) {
	return transport.NewFallback(cfg) //nolint:bodyclose // a policy of responses is none
}

// NewHedge is the policy for Layers.Hedge.
func NewHedge(cfg resilience.HedgeConfig[*http.Response]) (*resilience.Hedge[*http.Response], error) {
	return transport.NewHedge(cfg) //nolint:bodyclose // a policy of responses is none
}

// NewIsolation is the policy for Layers.Isolation over a core that may be shared: a
// bulkhead for each host.
func NewIsolation(core *resilience.Isolation) (*resilience.IsolationPolicy[*http.Response], error) {
	return transport.NewIsolation(core) //nolint:bodyclose // a policy of responses is none
}

// NewResponse is an answer to req that no server gave.
func NewResponse(req *http.Request, status int, h http.Header, body []byte) *http.Response {
	return transport.NewResponse(req, status, h, body)
}

// NewRetry is the policy for Layers.Retry.
func NewRetry(cfg resilience.RetryConfig[*http.Response]) (*resilience.Retry[*http.Response], error) {
	return transport.NewRetry(cfg) //nolint:bodyclose // a policy of responses is none
}

// NewTimeout is the policy for Layers.TotalTimeout and Layers.AttemptTimeout.
func NewTimeout(cfg resilience.TimeoutConfig[*http.Response]) (*resilience.Timeout[*http.Response], error) {
	return transport.NewTimeout(cfg) //nolint:bodyclose // what it makes is no response
}

// OverloadVerdict is the Classifier of NewBreaker: a resilience.Failure is a sign of a host
// in trouble, that is what TransientVerdict fails and every other 5xx.
func OverloadVerdict(res *http.Response, err error) resilience.Verdict {
	return transport.OverloadVerdict(res, err)
}

// Repeatable reports whether req may be sent more than once: its method is safe (RFC 9110
// section 9.2.1), or it is marked by an Idempotency-Key header or WithIdempotent; and its
// body, if it has one, can be had again from GetBody.
func Repeatable(req *http.Request) bool {
	return transport.Repeatable(req)
}

// RequestFrom is the request that a policy under ApplyPerRequest runs for, or nil.
func RequestFrom(ctx context.Context) *http.Request {
	return transport.RequestFrom(ctx)
}

// TransientVerdict is the Classifier of NewRetry: a resilience.Failure is what another try
// may cure, that is timeouts, network errors, 408, 425, 429, 502, 503 and 504.
func TransientVerdict(res *http.Response, err error) resilience.Verdict {
	return transport.TransientVerdict(res, err)
}

// WithIdempotent marks the requests made under ctx as ones that may be sent more than once
// to the same effect, whatever their method.
func WithIdempotent(ctx context.Context) context.Context {
	return transport.WithIdempotent(ctx)
}

// AdaptiveLimiter is what Polite asks and teaches: the adaptive engine, whose package says
// what its methods do.
type AdaptiveLimiter = transport.AdaptiveLimiter

// Polite paces requests by the adaptive engine, host by host: it waits for a permit, and
// tells the engine what became of the request, with all that the header of the answer says
// of the host's limits.
func Polite(cfg PoliteConfig) (Middleware, error) {
	return transport.Polite(cfg)
}

// PoliteConfig says by whom requests are paced.
type PoliteConfig = transport.PoliteConfig
