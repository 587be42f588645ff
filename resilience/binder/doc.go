// Package binder turns a JSON document into resilience policies, and follows the document while it changes.
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
// The root may be left out. A section that is missing is a policy that is absent, and an
// empty one has the defaults, which stand at the fields of [Model]. Each key may also be
// written as YAML files have it, max_retries for MaxRetries.
//
// [Load] reads the document into a [Model], which nobody changes any more. [Bind] builds
// the policies of a model for calls of any type, [BindHTTP] a chain around a transport. What
// no document can say, such as what a fallback returns, is in [Options] and [HTTPOptions].
//
// A misspelt key would be a policy that silently is not there. So unknown keys, wrong types,
// values out of range and keys that come twice are errors. All that is wrong is reported at
// once, as [Problems] with path, line and what to write instead. A document is at most 64 KiB.
//
// [NewLiveChain] builds of the document of a [Source], a [File] or any function, and again when another one is there.
// Requests under way end on the chain they began on; a document that is no good changes nothing and is reported. A
// circuit goes on if its section is as it was. With a registry in [Deps] circuits are shared by name; a reload that
// changes their settings is refused then.
//
// No goroutine is started: [Live.Run] is its caller's. Models and whatever is bound are safe for concurrent use.
package binder
