package transport

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/treadlight/crawl/internal/ratelimit/header"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/resilience"
)

// NewRetry returns the policy for [Layers.Retry]. By default the failures are those of [TransientClassifier], and their
// Retry-After is obeyed. Responses that are retried are drained and closed before the delay. The last one is returned
// unchanged, and [Attempts] returns the number of its attempt. Errors are those of resilience.NewRetry.
func NewRetry(cfg resilience.RetryConfig[*http.Response]) (*resilience.Retry[*http.Response], error) {
	if cfg.Classify == nil && cfg.When == nil {
		cfg.Classify = TransientClassifier
	}
	if cfg.RetryAfter == nil {
		cfg.RetryAfter = retryAfter
	}
	if cfg.Describe == nil {
		cfg.Describe = func(res *http.Response) error { return errors.New("HTTP " + res.Status) }
	}
	cfg.Discard = Discard
	return resilience.NewRetry(cfg) //nolint:bodyclose // a policy over responses, not one
}

func retryAfter(res *http.Response, err error) time.Duration {
	if err != nil || res == nil {
		return rejectedFor(err)
	}
	if outcome.RetryAfter(res.StatusCode) == outcome.WaitsNone {
		return 0
	}
	d, _ := header.RetryAfterOf(res.Header, now(), 0) // zero if it is malformed
	return d
}

// rejectedFor returns the time to wait in a refusal by a layer, which counts only with classifiers that retry refusals.
func rejectedFor(err error) time.Duration {
	if open, ok := errors.AsType[*resilience.OpenError](err); ok {
		return open.RetryAfter
	}
	if rejected, ok := errors.AsType[*RejectedError](err); ok {
		return rejected.RetryAfter
	}
	return 0
}

// NewTimeout returns the policy for [Layers.TotalTimeout] and [Layers.AttemptTimeout]. Its time includes the body:
// reading it then fails with a TimeoutError. A connection whose protocol was switched by a 101 is not cut off.
func NewTimeout(cfg resilience.TimeoutConfig[*http.Response]) (*resilience.Timeout[*http.Response], error) {
	cfg.Bind, cfg.Discard = Bind, Discard
	return resilience.NewTimeout(cfg) //nolint:bodyclose // a policy over responses, not one
}

// NewBreaker returns the policy for [Layers.Breaker] with a core that may be shared. By default the failures are those
// of [OverloadClassifier]. A success is counted at the end of its body.
func NewBreaker(core *resilience.Breaker, cfg resilience.CircuitBreakerConfig[*http.Response]) (*resilience.CircuitBreaker[*http.Response], error) {
	if cfg.Classify == nil {
		cfg.Classify = OverloadClassifier
	}
	cfg.Bind = Bind
	return resilience.NewCircuitBreaker(core, cfg) //nolint:bodyclose // a policy over responses, not one
}

// NewBulkhead returns the policy for [Layers.Bulkhead] with a core that may be shared. A request holds its place until
// the end of the body.
func NewBulkhead(core *resilience.Bulkhead) (*resilience.BulkheadPolicy[*http.Response], error) {
	return resilience.NewBulkheadPolicy(core, Bind) //nolint:bodyclose // a policy over responses, not one
}

// NewIsolation returns the policy for [Layers.Isolation] with a core that may be shared. Its key is the host.
func NewIsolation(core *resilience.Isolation) (*resilience.BulkheadPolicy[*http.Response], error) {
	return resilience.NewIsolationPolicy(core, HostFrom, Bind) //nolint:bodyclose // a policy over responses, not one
}

// NewHedge returns the policy for [Layers.Hedge]. By default the failures of [HedgeClassifier] start another request at
// once. Responses that lose are drained and closed; the winner's context lives until the end of its body. Errors are
// those of resilience.NewHedge.
func NewHedge(cfg resilience.HedgeConfig[*http.Response]) (*resilience.Hedge[*http.Response], error) {
	if cfg.Classify == nil {
		cfg.Classify = HedgeClassifier
	}
	cfg.Bind, cfg.Discard = Bind, Discard
	return resilience.NewHedge(cfg) //nolint:bodyclose // a policy over responses, not one
}

// NewFallback returns the policy for [Layers.Fallback]. Its Action may get the request by [RequestFrom] and make a
// response by [NewResponse]. A replaced response is drained and closed. Errors are those of resilience.NewFallback.
func NewFallback(cfg resilience.FallbackConfig[*http.Response]) (*resilience.Fallback[*http.Response], error) {
	cfg.Discard = Discard
	return resilience.NewFallback(cfg) //nolint:bodyclose // a policy over responses, not one
}

// NewResponse returns a response to req that no server gave. h may be nil and is not copied.
func NewResponse(req *http.Request, status int, h http.Header, body []byte) *http.Response {
	if h == nil {
		h = http.Header{}
	}
	return &http.Response{
		Status: fmt.Sprintf("%d %s", status, http.StatusText(status)), StatusCode: status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: req,
	}
}

// RejectedError says that a limiter of this process refused a request, which was not sent. No breaker counts it and no
// retry repeats it.
type RejectedError struct {
	Host       string        // host of the request
	RetryAfter time.Duration // how long to wait before another attempt; zero if it is not known
	Err        error         // the error of the limiter
}

var _ outcome.Classed = (*RejectedError)(nil)

// Error returns the host, the reason, and when to try again.
func (e *RejectedError) Error() string {
	text := fmt.Sprintf("request to %s not sent: %v", e.Host, e.Err)
	if e.RetryAfter > 0 {
		text += fmt.Sprintf(" (again in %v)", e.RetryAfter)
	}
	return text
}

// Unwrap returns the limiter's error.
func (e *RejectedError) Unwrap() error { return e.Err }

// Class returns canceled, because the host was not involved.
func (e *RejectedError) Class() outcome.Class { return outcome.Canceled }
