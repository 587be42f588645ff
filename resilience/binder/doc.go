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
// The group "Resilience" may be left out, with its sections at the top. If a section is missing, its policy is absent;
// an empty section has the defaults, which [Model] lists at its fields. Each key may also be written as in YAML files,
// max_retries for MaxRetries.
//
// [Load] reads the document into a [Model], which does not change afterwards. [Bind] builds the policies of a model for
// calls of any type, [BindHTTP] a chain around a transport. What no document can say, such as what a fallback returns,
// is in [Options] and [HTTPOptions].
//
// A misspelt key would silently leave out a policy. So unknown keys, wrong types, values out of range and repeated keys
// are errors. All of them are reported at once, as [Problems] with path, line and what to write instead. A document is
// at most 64 KiB.
//
// [NewLiveChain] builds a chain from the document of a [Source], which is a [File] or any function, and builds it again
// when the document has changed. A request stays on the chain on which it began. A document with errors changes nothing
// and is reported. A circuit stays as it is if its section is unchanged. With a registry in [Deps], circuits are shared
// by name; a reload that changes their settings is then refused.
//
// The package starts no goroutine: the caller runs [LiveChain.Run]. Models and everything built from them are safe for
// concurrent use.
package binder
