// Package transport has the layers between a program and an http.RoundTripper.
//
// A [Middleware] puts one layer around a transport, [Chain] puts several. The layers are glue: what they do is done
// by the policies of package resilience, the limiters of package limit and the adaptive engine, which know nothing of
// HTTP. [Layers] has a place for each and the default order, with a reason for every place:
//
//	l := transport.Layers{Retry: retry, Breaker: breaker, AttemptTimeout: timeout}
//	client := &http.Client{Transport: l.Chain(http.DefaultTransport)}
//
// The New functions make policies with what HTTP asks of them: which answers are failures, how
// long an answer lives ([Bind]) and how one is thrown away ([Discard]). A policy made elsewhere
// goes into a chain by [Apply] or, if it sends requests again, by [Repeat]. A [Client] is an
// http.Client with a helper for each verb, a [Factory] has clients by name.
//
//	layer            refuses with                 acts on
//	fallback         –                            chosen statuses, errors
//	log              –                            every request, once, with its secrets redacted
//	total timeout    resilience.TimeoutError      the time of all attempts, pauses and the body
//	retry            resilience.RetryError        408, 425, 429, 502, 503, 504, timeouts, network errors
//	hedge            resilience.HedgeError        slowness, and such failures except 429 and 503
//	breaker          resilience.OpenError         5xx, 408, 425, 429, timeouts, network errors
//	isolation        resilience.BulkheadError     requests at a host at the same time
//	bulkhead         resilience.BulkheadError     requests at the same time
//	rate limit       RejectedError                permits, and what servers order if asked to
//	polite           RejectedError                the same place, for the adaptive engine
//	attempt timeout  resilience.TimeoutError      the time of one attempt and its body
//	hints            –                            Retry-After and quotas
//
// Every layer whose effect lasts (a timeout, a place, a permit, a ticket, the context of a hedge's winner, the log)
// ends at the end of the response's body, at an error of reading it, or at Close, whichever comes first, once. So a
// body must be read to its end or closed, as net/http demands; one that is forgotten keeps its permit. A response
// without a body ends at once.
//
// # What always holds
//
//   - The rules of http.RoundTripper: no layer changes a request, each closes its body
//     also when it refuses, and the result is a response or an error.
//   - A request is sent again only if it is [Repeatable], with a body from GetBody. A body
//     that breaks off is not asked for again: its beginning has been given away.
//   - A response that nobody gets is drained, within bounds, and closed before the next
//     attempt, which can therefore use its connection, or make the only one allowed.
//   - What our own layers refuse says nothing about the host: no breaker counts it, and no
//     retry repeats it. A caller's cancellation teaches nobody anything.
//
// The layers start no goroutine but a hedge's. Everything here is safe for concurrent use,
// except a response, which is one caller's.
package transport
