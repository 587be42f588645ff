// Package resilience runs calls that may fail, hang or come too often, for programs of any
// kind: a call is a function of a context, and its value is of any type. Package transport
// puts the same policies around HTTP requests, and crawl.Client has them ready made.
//
// [Retry] makes a call again while it fails, [Timeout] bounds its time, [CircuitBreaker]
// spares a callee that is down, [BulkheadPolicy] bounds how many go on at a time,
// [IsolationPolicy] does so for each key, [Hedge] starts a second call beside a slow first,
// and [Fallback] replaces what is no use. [Wrap] makes one [Policy] of several, outermost
// first, and its Close closes them all. Package binder builds them of a JSON document.
//
// A [Registry] has policies by name. [Breakers] has circuit breakers by name, whose state
// callers share, and answers health checks. A [Hub] tells whoever subscribes what policies
// do: retries, circuits that open and close, timeouts, refusals, hedges, fallbacks. It costs
// nothing where nobody listens, and a listener can neither delay nor break a call.
//
// Everything is safe for concurrent use. Programs test what they build of it in a bubble of
// testing/synctest, in which the policies go by its time; fields for a clock stay nil.
//
// The types are aliases of those of [internal/fetch/resilience].
// Fields, with units, ranges and what zero means, and methods are told there:
//
//	go doc github.com/treadlight/crawl/internal/fetch/resilience.RetryConfig
//
// [internal/fetch/resilience]: https://pkg.go.dev/github.com/treadlight/crawl/internal/fetch/resilience
package resilience
