// Package binder builds resilience policies of a JSON document, and follows the document
// while it changes:
//
//	{"Resilience": {
//	    "Retry":             {"MaxRetries": 3, "RetryForever": false,
//	                          "Backoff": {"Type": "exponential", "BaseMs": 200, "MaxDelayMs": 30000, "UseJitter": true}},
//	    "Timeout":           {"Seconds": 10},
//	    "CircuitBreaker":    {"CircuitName": "api", "FailureThreshold": 5, "SuccessThreshold": 1, "BreakSeconds": 30},
//	    "Bulkhead":          {"MaxConcurrency": 20, "MaxQueueDepth": 100, "QueueTimeoutSeconds": 10},
//	    "BulkheadIsolation": {"MaxConcurrentRequests": 10, "MaxQueueSize": 100, "QueueTimeoutSeconds": 10},
//	    "Hedging":           {"HedgeAfterMs": 300, "MaxHedgedAttempts": 2},
//	    "Fallback":          {"StatusCodes": [500, 502, 503, 504]}
//	}}
//
// A section that is missing is a policy that is absent, and an empty one has the defaults.
// [Load] reads and checks a document; all that is wrong with it is told at once, as
// [Problems] with their paths and lines. [Bind] builds policies for calls of any type,
// [BindHTTP] a chain around a transport, and [NewLivePolicy] and [NewLiveChain] do so
// again whenever the document of a [Source], such as a [File], is another one. What no
// document can say, as what a fallback returns, is in [Options] and [HTTPOptions].
//
// The types are aliases of those of [internal/fetch/resilience/binder].
// Fields, with units, ranges and what zero means, and methods are told there:
//
//	go doc github.com/treadlight/crawl/internal/fetch/resilience/binder.HTTPOptions
//
// [internal/fetch/resilience/binder]: https://pkg.go.dev/github.com/treadlight/crawl/internal/fetch/resilience/binder
package binder
