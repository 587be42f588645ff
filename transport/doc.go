// Package transport has layers that go between a program and an http.RoundTripper.
//
// A [Middleware] puts one layer around a transport, [Chain] puts several. The layers are thin: the work is done by the
// policies of package resilience, the limiters of package limit and the adaptive engine, none of which depends on HTTP.
// [Layers] has a place for each and puts them in the default order, whose reasons stand in the source:
//
//	l := transport.Layers{Retry: retry, Breaker: breaker, AttemptTimeout: timeout}
//	client := &http.Client{Transport: l.Chain(http.DefaultTransport)}
//
// The New functions make policies that know HTTP: which responses are failures, how long a response lives ([Bind]) and
// how it is discarded ([Discard]). To use a policy made elsewhere, make a layer of it with [Apply], or with [Repeat] if
// it sends requests again. A [Client] is an http.Client with a helper for each method, and a [Factory] holds clients by
// name.
//
//	layer            refuses with                 acts on
//	fallback         –                            chosen statuses, errors
//	log              –                            every request, once, with its secrets redacted
//	total timeout    resilience.TimeoutError      the time of all attempts, pauses and the body
//	retry            resilience.RetryError        408, 425, 429, 502, 503, 504, timeouts, network errors
//	hedge            resilience.HedgeError        slowness, and such failures except 429 and 503
//	breaker          resilience.OpenError         5xx, 408, 425, 429, timeouts, network errors
//	isolation        resilience.BulkheadError     requests in flight to a host
//	bulkhead         resilience.BulkheadError     requests in flight
//	rate limit       RejectedError                permits, and the waits that servers ask for, if enabled
//	polite           RejectedError                the same place, for the adaptive engine
//	attempt timeout  resilience.TimeoutError      the time of one attempt and its body
//	hints            –                            Retry-After and quotas
//
// The effect of some layers lasts beyond the header of the response: a timeout, a place, a permit, a ticket of a
// breaker, the context of a hedge's winner, the log. It ends exactly once: at the end of the response's body, at an
// error of reading it, or at Close, whichever comes first. So a body must be read to its end or closed, as net/http
// demands; a body that is forgotten keeps its permit. For a response without a body the effect ends at once.
//
// # What always holds
//
//   - The rules of http.RoundTripper hold: no layer changes a request, each closes its body even if it refuses the
//     request, and the result is either a response or an error.
//   - A request is sent again only if it is [Repeatable], with a body from GetBody. If the body of a response breaks
//     off, the request is not repeated, because the caller has already got the beginning.
//   - A response that nobody gets is drained, within bounds, and closed before the next attempt, which can then use
//     its connection, even if only one is allowed.
//   - A refusal by a layer tells nothing about the host: no breaker counts it, and no retry repeats it. A cancellation
//     by the caller counts nowhere.
//
// The layers start no goroutine, except for a hedge. Everything here is safe for concurrent use, except a response,
// which belongs to one caller.
package transport
