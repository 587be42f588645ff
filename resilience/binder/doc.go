// Package binder turns a JSON document into resilience policies, and follows the document
// while it changes.
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
// # From text to policies
//
// [Load] reads the document into a [Model], which nobody changes any more. [Bind] builds
// the policies of a model for calls of any type, [BindHTTP] a chain around a transport. What
// no document can say, such as what a fallback returns, is in [Options] and [HTTPOptions].
//
// A misspelt key would be a policy that silently is not there. So unknown keys, values of
// another type, values out of range, keys that come twice, in two spellings or with nothing
// behind them, and whatever follows the document are errors. All that is wrong is reported
// at once, as [Problems] with path, line and what to write instead. A document is at most 64
// KiB.
//
// # Live reload
//
// [NewLiveChain] and [NewLivePolicy] build of the document of a [Source], a [File] or any
// function, and again when another one is there. What is current changes in one step.
// Requests under way end on the chain they began on, which is closed when the last of their
// bodies has ended; its bulkheads and those of the new one count apart until then. A document
// that is no good changes nothing and is reported. A circuit goes on if its section is as it
// was; otherwise a new one begins closed.
//
// With a registry in [Deps] circuits are shared by name, also with chains that follow no
// document. A reload that changed their settings would change them for all, so the registry
// refuses it: give the circuit another name with its new settings.
//
// No goroutine is started: [Live.Run] is its caller's. Models and whatever is bound are safe
// for concurrent use. Fields for a clock stay nil, also in a bubble of testing/synctest.
package binder
